// Package compat translates the flags of AIPerf, GenAI-Perf, trace-replayer and vllm bench into fastreplay's.
//
// Names of other tools are lines of one table (names.txt). A Line registers them beside fastreplay's own flags. After
// the command line was parsed, Translate sets fastreplay's flags to what the others mean, and collects notes to print.
// Adapt decides what hangs on the trace. The package reads and sets flags: no command. It is for one goroutine.
//
// The package is not an API: any release may change it.
package compat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
)

// A Line is a command line that may have names of other tools.
type Line struct {
	Flags *pflag.FlagSet // ours and theirs
	// the command is AIPerf's or GenAI-Perf's: names have their meaning, and defaults are AIPerf's
	Profile  bool
	Notes    []string       // what to print, in order
	FromFile []string       // our flags that a file set, sorted
	FileTime bool           // --from and --to are times of the file
	Results  []export.Named // files to write besides those of --export

	names map[string]Name
	given []Setting         // names of other tools, in order
	typed map[string]string // by our flag, the name under which it was given

	parts map[string]float64 // of requests to be made; nil if a trace is given

	dataset string // vLLM's --dataset-name on the command line; "" = not given
}

// A Setting is a flag with its values, from the command line or from a file.
type Setting struct {
	Name   string
	Values []string
	Place  string // FILE:LINE; "" = the command line
}

// NewLine adds the names of other tools to flags that have ours already; none of them shows in the usage.
func NewLine(flags *pflag.FlagSet, profile bool) *Line {
	l := &Line{
		Flags:   flags,
		Profile: profile,
		names:   byName(profile),
		typed:   map[string]string{},
	}
	for _, name := range slices.Sorted(maps.Keys(l.names)) {
		n := l.names[name]
		add := flags.FuncP
		if flags.ShorthandLookup(n.Short) != nil {
			n.Short = "" // Expand finds it by its value
		}
		if n.takes == noValue {
			add = flags.BoolFuncP
		}
		add(name, n.Short, "", func(text string) error {
			l.give(name, text)
			return nil
		})
		flags.Lookup(name).Hidden = true
	}
	return l
}

// BenchServe is a switch that stands for the words "vllm bench serve".
const BenchServe = "vllm-bench-serve"

// Translate sets our flags to what other tools' names mean. Then it sets those that a file has and the command line
// does not give. Last it sets the defaults of the tool whose command line it is. If traced, the command line names a
// trace without a flag.
func (l *Line) Translate(file []Setting, traced bool) error {
	named := traced || l.namesTrace(file)
	l.dataset = l.last("dataset-name")
	if l.Given(BenchServe) && !named {
		l.dataset = cmp.Or(l.dataset, "random")
	}
	if l.dataset != "" { // the command is no AIPerf's
		l.Profile = false
		l.names = byName(false)
	}
	if !named && l.makes(file) {
		l.parts = map[string]float64{}
	}
	for _, s := range l.given {
		if err := l.take(l.names[s.Name], s.Values[0]); err != nil {
			return err
		}
	}
	if err := l.takeFile(file, traced); err != nil {
		return err
	}
	for _, step := range []func() error{
		l.join,
		l.vllmDefaults,
		l.spaceRandomly,
		l.readOffsets,
		l.findAPI,
		l.scenario,
		l.aiperfDefaults,
		l.synthesize,
		l.nameResults,
		l.noteReplayer,
		l.dropTokenizer,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// give notes what a name of another tool was given.
func (l *Line) give(name, text string) {
	s := Setting{Name: name, Values: []string{text}}
	l.given = append(l.given, s)
}

// Given reports whether a name of another tool was given.
func (l *Line) Given(name string) bool {
	return slices.ContainsFunc(l.given, func(s Setting) bool {
		return s.Name == name
	})
}

// last is the value that a name of another tool was given last; "" if it was not.
func (l *Line) last(name string) (text string) {
	for _, s := range l.given {
		if s.Name == name {
			text = s.Values[0]
		}
	}
	return text
}

// text returns the value of one of our flags.
func (l *Line) text(flag string) string {
	return l.Flags.Lookup(flag).Value.String()
}

// on reports whether one of our switches is on.
func (l *Line) on(flag string) bool {
	return l.text(flag) == "true"
}

// rated reports whether requests leave at a rate, which may be max.
func (l *Line) rated() bool {
	return l.text("rate") != "" || l.text("ramp") != ""
}

func (l *Line) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// take gives our flag what a name of another tool was given.
func (l *Line) take(n Name, text string) error {
	if l.parts != nil && n.describes() {
		return l.describe(n, text)
	}
	if n.Refused != "" {
		return fmt.Errorf("--%s: %s", n.Name, n.Refused)
	}
	if n.Note != "" && (l.parts == nil || n.Name != "dataset-name") {
		l.note("--%s: %s", n.Name, n.Note)
	}
	if n.Flag == "" || n.value == later {
		return nil
	}
	if n.Name == "timed-trace-sec-multiplier" { // two flags
		return l.readMultiplier(text)
	}
	ours, err := n.convert(text)
	if err != nil {
		return fmt.Errorf("--%s %q: %w", n.Name, text, err)
	}
	if ours == "" && n.value != "" {
		return nil
	}
	if n.Name == "served-model-name" { // --model then names the tokenizer
		l.typed["model"] = "--served-model-name"
		return l.Flags.Set("model", ours)
	}
	return l.set(n.Name, n.Flag, ours)
}

// set gives a flag of ours what theirs means. It refuses two names of one flag with different values.
func (l *Line) set(theirs, flag, text string) error {
	own := l.Flags.Lookup(flag)
	before := list(own)
	typed := cmp.Or(l.typed[flag], "--"+flag)
	// several names may give these different values
	adds := slices.Contains([]string{"extra-inputs", "header", "goodput", "fields"}, flag)
	first := !own.Changed || adds || typed == "--"+theirs
	same := slices.Equal(before, []string{text})
	if flag == "arrival" { // a shape is added to gamma, before or behind it
		first = first || before[0] == "gamma"
		same = same || text == "gamma" && strings.HasPrefix(before[0], "gamma:")
	}
	if !first && same {
		return nil
	}
	if err := l.Flags.Set(flag, text); err != nil {
		return fmt.Errorf("--%s %q: %w", theirs, text, Plain(err))
	}
	if !first && !slices.Equal(before, list(own)) {
		return fmt.Errorf("%s and --%s are two names of one flag and differ; give one of them", typed, theirs)
	}
	if !adds {
		l.typed[flag] = "--" + theirs
	}
	return nil
}

// list returns the values that a flag has.
func list(f *pflag.Flag) []string {
	if s, ok := f.Value.(pflag.SliceValue); ok {
		return s.GetSlice()
	}
	return []string{f.Value.String()}
}

// Plain returns why a flag does not take a value, without pflag's and strconv's words about it.
func Plain(err error) error {
	bad := (*pflag.InvalidValueError)(nil)
	if errors.As(err, &bad) {
		err = bad.Unwrap()
	}
	number := (*strconv.NumError)(nil)
	if errors.As(err, &number) {
		what := map[string]string{"ParseFloat": "a number", "ParseBool": "true or false",
			"ParseUint": "a whole number of 0 or more"}[number.Func]
		return fmt.Errorf("want %s", cmp.Or(what, "a whole number"))
	}
	if strings.HasPrefix(err.Error(), "time: ") {
		return errors.New("want a time with its unit, such as 60s or 5ms")
	}
	return err
}

// takeFile sets the flags that a file names and that the command line does not give.
func (l *Line) takeFile(file []Setting, traced bool) error {
	onLine := map[string]bool{
		"trace": traced,
		"url":   l.Given("host") || l.Given("port") || strings.Contains(l.text("endpoint"), "://"),
	}
	l.Flags.Visit(func(f *pflag.Flag) {
		onLine[f.Name] = true
	})
	foreign := func(s Setting) int {
		return min(1, len(l.names[s.Name].Name))
	}
	// ours first: theirs must agree
	slices.SortStableFunc(file, func(a, b Setting) int {
		return foreign(a) - foreign(b)
	})
	for _, s := range file {
		n := l.names[s.Name]
		flag := cmp.Or(n.Flag, s.Name)
		if onLine[flag] || onLine[s.Name] {
			continue
		}
		if err := l.takeSetting(s, n, l.Flags.Lookup(flag)); err != nil {
			return fmt.Errorf("%s: %w", s.Place, err)
		}
		if n.Name == "" || n.Flag != "" {
			l.FromFile = append(l.FromFile, flag)
		}
	}
	slices.Sort(l.FromFile)
	l.FromFile = slices.Compact(l.FromFile)
	return nil
}

// takeSetting sets a flag, ours or n, to the values that a file has for it.
func (l *Line) takeSetting(s Setting, n Name, ours *pflag.Flag) error {
	_, several := ours.Value.(pflag.SliceValue)
	if len(s.Values) != 1 && !several && ours.Value.Type() != "stringToString" && (n.Name == "" || n.Flag != "") {
		return fmt.Errorf("%s takes one value, not a list", s.Name)
	}
	for _, text := range s.Values {
		if n.Name == "" {
			if err := l.Flags.Set(s.Name, text); err != nil {
				return fmt.Errorf("%s: %w", s.Name, Plain(err))
			}
			continue
		}
		l.give(s.Name, text)
		if err := l.take(n, text); err != nil {
			return err
		}
	}
	return nil
}

// Explain adds to an error about our flags the names under which they were given.
func (l *Line) Explain(err error) error {
	if err == nil {
		return nil
	}
	words := strings.FieldsFunc(err.Error(), func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z')
	})
	var names []string
	for own, typed := range l.typed {
		if slices.Contains(words, "--"+own) && !slices.Contains(words, typed) {
			names = append(names, typed)
		}
	}
	if names == nil {
		return err
	}
	slices.Sort(names)
	return fmt.Errorf("%w (given as %s)", err, strings.Join(names, " and "))
}

// Expand repeats a flag's name before each of several values that follow it, as pflag needs it: --extra-inputs a:1 b:2
// becomes --extra-inputs a:1 --extra-inputs b:2. Before the main command's trace only a text with : or = that is no
// file is another value. It also writes out trace-replayer's -d and -o, if their values show that they are not ours: -d
// bailian, -o client.jsonl.
func Expand(args []string, flags *pflag.FlagSet, profile bool) []string {
	several := map[string]takes{}
	for _, name := range []string{"extra-inputs", "header", "goodput", "url"} {
		several["--"+name] = values
		several["-"+flags.Lookup(name).Shorthand] = values
	}
	delete(several, "-")
	for name, n := range byName(profile) {
		if n.takes == values || n.takes == anyValue {
			several["--"+name] = n.takes
		}
	}
	another := func(text string) bool {
		_, err := os.Stat(text)
		return !strings.HasPrefix(text, "-") && (profile || strings.ContainsAny(text, ":=") && err != nil)
	}
	var out []string
	for len(args) > 0 && args[0] != "--" {
		flag := args[0]
		args = args[1:]
		n := 0
		switch {
		case len(args) == 0:
		case flag == "-d" && slices.Contains([]string{"bailian", "mooncake", "azure"}, args[0]):
			flag = "--dataset"
		case flag == "-o" && strings.HasSuffix(args[0], ".jsonl"):
			flag = "--output-path"
		}
		if several[flag] == values {
			n = min(1, len(args)) // the first, whatever it looks like
		}
		for several[flag] != "" && n < len(args) && another(args[n]) {
			n++
		}
		switch {
		case n == 0 && several[flag] == anyValue:
			out = append(out, flag+"=")
		case n == 0:
			out = append(out, flag)
		}
		for _, value := range args[:n] {
			out = append(out, flag, value)
		}
		args = args[n:]
	}
	return append(out, args...)
}
