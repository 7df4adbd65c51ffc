package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hbollon/go-edlib"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/metrics"
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
		*v.to = parsed
		v.text = text
	}
	return err
}

func (v *value[T]) String() string { return v.text }

func (v *value[T]) Type() string { return cmp.Or(v.kind, "string") }

// addValue adds a flag that parse reads, with the text of its default. kind is what help calls its value, unless the
// usage does.
func addValue[T any](f *pflag.FlagSet, to *T, parse func(string) (T, error), kind, usual, name, usage string) {
	f.Var(&value[T]{to: to, parse: parse, kind: kind, text: usual}, name, usage)
}

// addWords adds a flag of one of words. What it has before is the default, which may be none of them.
func addWords[T ~string](f *pflag.FlagSet, to *T, name, usage string, words ...T) {
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	f.Var(
		&value[T]{
			to:    to,
			parse: func(text string) (T, error) { return T(text), among(all, text) },
			text:  string(*to),
			words: all,
		},
		name, usage,
	)
}

// addDefault is addWords for a flag whose value stays empty unless it is given: what its default means is decided
// later.
func addDefault[T ~string](f *pflag.FlagSet, to *T, usual T, name, usage string, words ...T) {
	*to = usual
	addWords(f, to, name, usage, words...)
	*to = ""
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

// suggestName adds the nearest known name to why an unknown one is refused.
func suggestName(err error) error {
	if unknown := (*metrics.UnknownName)(nil); errors.As(err, &unknown) {
		return suggest(err, unknown.Name, unknown.Names)
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

// noBug is for what can only fail by a mistake of ours.
func noBug(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}

// someTraces refuses a command line without a trace.
func someTraces(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no trace; give one or more, as `%s`", c.Example[2:strings.Index(c.Example, "\n")])
	}
	return nil
}

// nearest returns those of names that are near to a mistyped one, the nearest first.
func nearest(typed string, names []string) []string {
	plain := strings.NewReplacer("_", "-")
	typed = strings.ToLower(plain.Replace(typed))
	far := func(name string) int { return edlib.OSADamerauLevenshteinDistance(typed, plain.Replace(name)) }
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return far(name) > max(1, (len(typed)+1)/3) && (len(typed) < 3 || !strings.HasPrefix(name, typed))
	})
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	return slices.Compact(near)
}

// checkNotEmpty refuses a list of texts with commas between them if one is empty, or is a flag.
func checkNotEmpty(flag, list string) error {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			return fmt.Errorf("--%s is empty; is a variable of the shell not set?", flag)
		}
		if strings.HasPrefix(text, "--") {
			return fmt.Errorf("--%s takes %s as its value; is a variable of the shell not set?", flag, text)
		}
	}
	return nil
}
