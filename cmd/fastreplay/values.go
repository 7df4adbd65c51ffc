package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/mockllm"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/sched"
)

// value is a flag whose text is parsed into *to as soon as it is given. It prints as it was given.
type value[T any] struct {
	to    *T
	parse func(string) (T, error)
	text  string // as given, or the default
	kind  string // what help calls it, unless the usage does
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to, v.text = parsed, text
	}
	return err
}

func (v *value[T]) String() string { return v.text }

func (v *value[T]) Type() string { return cmp.Or(v.kind, "string") }

// wordFlag is a flag of one of several words.
type wordFlag struct {
	set   func(word string)
	words []string
	text  string // as given, or the default
}

// addWords adds a flag of one of words; usual is the default, which may be none of them.
func addWords[T ~string](f *pflag.FlagSet, to *T, name string, usual T, usage string, words ...T) {
	*to = usual
	w := &wordFlag{set: func(word string) { *to = T(word) }, text: string(usual)}
	for _, word := range words {
		w.words = append(w.words, string(word))
	}
	f.Var(w, name, usage)
}

func (w *wordFlag) Set(text string) error {
	last := len(w.words) - 1
	if !slices.Contains(w.words, text) {
		err := fmt.Errorf("want %s or %s", strings.Join(w.words[:last], ", "), w.words[last])
		if near := nearest(text, w.words); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, near[0])
		}
		return err
	}
	w.set(text)
	w.text = text
	return nil
}

func (w *wordFlag) String() string { return w.text }

func (*wordFlag) Type() string { return "string" }

// seconds is a flag of a time. A number without a unit is seconds.
type seconds struct{ to *time.Duration }

func addSeconds(f *pflag.FlagSet, to *time.Duration, name, short string, usual time.Duration, usage string) {
	*to = usual
	f.VarP(seconds{to}, name, short, usage)
}

func (s seconds) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("want a time of 0 or more")
	}
	if err == nil {
		*s.to = d
	}
	return err
}

func (s seconds) String() string { return s.to.String() }

func (seconds) Type() string { return "TIME" }

// countFlag is a flag of how many, at least one.
func countFlag(to *int, usual string) *value[int] {
	return &value[int]{to: to, text: usual, kind: "N", parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, errors.New("want a whole number of at least 1")
		}
		return n, nil
	}}
}

// completeValues lets the shell complete what stands behind flags and commands.
func completeValues(root *cobra.Command) {
	traces := []string{"jsonl", "json", "csv", "gz", "zst"}
	files := map[string][]string{"trace": traces, "config": {"yaml", "yml", "json"}, "ca-cert": {"pem", "crt"}, "html": {"html"}}
	for _, c := range append(root.Commands(), root) {
		values := map[string][]string{ // beside others; those of a wordFlag are its own
			"api": api.Names(), "export": export.Names(), "time-unit": {"ns", "us", "ms", "s"}, "rate": {rateMax}, "fault": mockllm.FaultNames(),
			"arrival": {string(sched.Constant), string(sched.Poisson), string(sched.Gamma) + ":"}, "sessions": sessionWords(),
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if w, ok := f.Value.(*wordFlag); ok {
				values[f.Name] = w.words
			}
			if words := values[f.Name]; words != nil {
				must(c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
			}
		})
		for name, ends := range files {
			if c.Flags().Lookup(name) != nil {
				must(c.MarkFlagFilename(name, ends...))
			}
		}
		if c.Flags().Lookup("tokenizer") != nil { // a built-in one, or a path
			must(c.RegisterFlagCompletionFunc("tokenizer", cobra.FixedCompletions([]string{tokenizer.CL100K, tokenizer.O200K}, cobra.ShellCompDirectiveDefault)))
		}
		if c.Flags().Lookup("goodput") != nil && c.Flags().Lookup("output") != nil {
			must(c.MarkFlagDirname("output"))
		}
		switch c.Name() {
		case "fastreplay": // its commands, and files
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		case "inspect", "convert":
			c.ValidArgsFunction = cobra.FixedCompletions(traces, cobra.ShellCompDirectiveFilterFileExt)
		case "report", "compare":
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		}
	}
}

// must is for what can only fail by a mistake of ours.
func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}
