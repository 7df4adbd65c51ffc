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

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/sched"
)

// value is a flag whose text is parsed into *to as soon as it is given. It prints as it was given.
type value[T any] struct {
	to    *T
	parse func(string) (T, error)
	text  string   // as given, or the default
	kind  string   // what help calls it, unless the usage does
	words []string // the only ones that it takes, for the shell; nil = others
}

func (v *value[T]) choices() []string { return v.words }

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to, v.text = parsed, text
	}
	return err
}

func (v *value[T]) String() string { return v.text }

func (v *value[T]) Type() string { return cmp.Or(v.kind, "string") }

// addWords adds a flag of one of words; usual is the default, which may be none of them.
func addWords[T ~string](f *pflag.FlagSet, to *T, name string, usual T, usage string, words ...T) {
	*to = usual
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	f.Var(&value[T]{to: to, parse: func(text string) (T, error) { return T(text), among(all, text) }, text: string(usual), words: all}, name, usage)
}

// among refuses a text that is none of the words.
func among(words []string, text string) error {
	if slices.Contains(words, text) {
		return nil
	}
	last := len(words) - 1
	return suggest(fmt.Errorf("want %s or %s", strings.Join(words[:last], ", "), words[last]), text, words)
}

// suggest adds to an error the name that is nearest to what was typed, if one is near.
func suggest(err error, typed string, names []string) error {
	if near := nearest(typed, names); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, near[0])
	}
	return err
}

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
		values := map[string][]string{ // beside those that flags list
			"api": api.Names(), "export": export.Names(), "time-unit": {"ns", "us", "ms", "s"}, "rate": {rateMax}, "fault": fault.Names(),
			"arrival": {string(sched.Constant), string(sched.Poisson), string(sched.Gamma) + ":"}, "sessions": sessionWords(),
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			words := values[f.Name]
			if v, ok := f.Value.(interface{ choices() []string }); ok && v.choices() != nil {
				words = v.choices()
			}
			if words != nil {
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
