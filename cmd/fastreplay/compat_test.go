package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// typed parses a command line of a replay with other tools' names, as the main command or, if the first word is
// profile, as that.
func typed(args ...string) (*options, *compat.Line, error) {
	var o options
	f := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	o.addFlags(f)
	profile := len(args) > 0 && args[0] == "profile"
	if profile {
		args = args[1:]
	}
	o.line = compat.NewLine(f, profile)
	if err := f.Parse(compat.Expand(args, f, profile)); err != nil {
		return &o, o.line, err
	}
	return &o, o.line, o.line.Explain(o.translate(f.Args()))
}

// settings are our own flags that say something, in order of their names.
func settings(flags *pflag.FlagSet) string {
	var all []string
	flags.Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		if f.Name == "fields" { // in no order
			all := strings.Split(strings.Trim(text, "[]"), ",")
			slices.Sort(all)
			text = "[" + strings.Join(all, ",") + "]"
		}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			text = strings.Join(s.GetSlice(), ",")
		}
		if text != "" {
			all = append(all, "--"+f.Name+" "+text)
		}
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestForeignNames: what command lines with other tools' names set, note and refuse, each as testdata/compat.txt has
// it; with -update the file is written. A line after $ is a command line; below it are our flags, the notes and the
// error.
func TestForeignNames(t *testing.T) {
	const file = "testdata/compat.txt"
	want, err := os.ReadFile(file)
	must.Do(t, err)
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		o, l, err := typed(strings.Fields(line)...)
		fmt.Fprintf(&got, "$ %s\n  %s\n", line, settings(l.Flags))
		for _, note := range l.Notes {
			fmt.Fprintf(&got, "  note: %s\n", note)
		}
		if err != nil {
			fmt.Fprintf(&got, "  error: %v\n", err)
		}
		if err == nil && o.Read.FileTime != strings.Contains(line, "-offset") {
			t.Errorf("%s: FileTime is %t", line, o.Read.FileTime)
		}
	}
	if *update && got.String() != string(want) {
		err = os.WriteFile(file, []byte(got.String()), 0o644)
	}
	if err != nil || !*update && got.String() != string(want) {
		t.Errorf("%v; %s differs, got\n%s", err, file, differing(got.String(), string(want)))
	}
	for _, n := range compat.Names() {
		tried := func(flag string) bool {
			return flag != "-" && regexp.MustCompile(`(?m)^\$.* -?`+flag+`([ =]|$)`).Match(want)
		}
		if n.Flag != "" && !tried("-"+n.Name) && !tried("-"+n.Short) {
			t.Errorf("%s does not try --%s", file, n.Name)
		}
	}
}

// differing lists the lines of got that want does not have.
func differing(got, want string) string {
	lines := strings.SplitAfter(got, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(want, line) }), "")
}

// TestNames: each name sets a flag of ours, or is taken with its note or refused, in the main command and in profile.
func TestNames(t *testing.T) {
	var o options
	ours := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	o.addFlags(ours)
	seen := map[string]bool{}
	for _, n := range compat.Names() {
		if seen[n.Name+n.Tool] || n.Name != n.Flag && ours.Lookup(n.Name) != nil || n.Tool == "all" && n.Flag != "" {
			t.Errorf("--%s is there twice, or in the wrong section", n.Name)
		}
		seen[n.Name+n.Tool] = true
		switch {
		case n.Refused != "" && (n.Flag != "" || n.Note != ""), n.Refused+n.Flag+n.Note+n.Doc == "":
			t.Errorf("--%s must have a flag, a note, a refusal or a meaning: %+v", n.Name, n)
		case n.Flag != "" && ours.Lookup(n.Flag) == nil:
			t.Errorf("--%s: there is no --%s", n.Name, n.Flag)
		}
		for _, command := range []string{"", "profile "} {
			if n.Flag != "" || command == "" && n.Tool == "profile" {
				continue
			}
			line := strings.Fields(command + "--trace x.jsonl --" + n.Name)
			_, l, err := typed(line...)
			if err != nil && strings.Contains(err.Error(), "needs an argument") {
				_, l, err = typed(append(line, "3")...)
			}
			if n.Refused != "" && (err == nil || err.Error() != "--"+n.Name+": "+n.Refused) {
				t.Errorf("%s--%s: %v", command, n.Name, err)
			}
			if n.Note != "" && n.Tool != "others" && (err != nil || !slices.Contains(l.Notes, "--"+n.Name+": "+n.Note)) {
				t.Errorf("%s--%s: %v, notes %q", command, n.Name, err, l.Notes)
			}
		}
	}
}

// TestProfileDecides: unless told otherwise, profile keeps a trace's times. If it keeps none, turns wait for answers.
func TestProfileDecides(t *testing.T) {
	rows := func(format string, untimed bool, parent ...int64) *trace.Trace {
		arrivals := make([]int64, max(2, len(parent)))
		if !untimed {
			arrivals[1] = 5
		}
		return &trace.Trace{Format: format, ArrivalNS: arrivals, Untimed: untimed, Parent: parent, Chat: []int64{0, 1, 2}[:len(parent)]}
	}
	timed, untimed, single := rows("mooncake", false), rows("mooncake", true), rows("single_turn", false)
	turns, bailian, apart := rows("multi_turn", true, -1, 0, 1), rows("bailian", true, -1, 0, 1), rows("multi_turn", true, -1, -1, -1)
	for _, c := range []struct {
		line  string
		trace *trace.Trace
		want  string // fixed, concurrency, sessions, history
		notes int
	}{
		{"", timed, "false 0 strict recorded", 0},
		{"--concurrency 2", timed, "true 2 strict recorded", 1},
		{"--concurrency 2 --no-fixed-schedule", timed, "false 2 strict recorded", 0},
		{"--concurrency 2 --fixed-schedule", timed, "true 2 strict recorded", 0},
		{"--request-rate 2", timed, "false 0 strict recorded", 1},
		{"--request-rate 2", untimed, "false 0 strict recorded", 0},
		{"", untimed, "false 1 strict recorded", 1},
		{"--concurrency 2", untimed, "false 2 strict recorded", 0},
		{"--concurrency 2", single, "false 2 strict recorded", 0},
		{"", single, "false 1 strict recorded", 1},
		{"--concurrency 4", turns, "false 4 think live", 2},
		{"--request-rate 4", turns, "false 0 think live", 2},
		{"--concurrency 4", bailian, "false 4 think recorded", 1},
		{"--concurrency 4", apart, "false 4 strict recorded", 0},
		{"--concurrency 4 --request-rate 4", turns, "false 4 strict recorded", 0},
		{"--fixed-schedule", turns, "true 0 strict recorded", 0},
		{"--concurrency 4 --sessions gated", turns, "false 4 gated recorded", 0},
		{"--concurrency 4 --sessions strict", turns, "false 4 strict recorded", 0},
		{"--concurrency 4 --history recorded", turns, "false 4 think recorded", 1},
		{"--concurrency 4 --endpoint-type completions", turns, "false 4 think recorded", 1},
		{"--concurrency 4 --route least-inflight", turns, "false 4 think recorded", 1},
		{"--concurrency 4 --sender process", turns, "false 4 think recorded", 1},
	} {
		o, _, err := typed(strings.Fields("profile --trace x " + c.line)...)
		must.Do(t, err)
		notes := must.Have(o.line.Adapt(c.trace, &o.Options))(t)
		got := fmt.Sprintf("%t %d %s %s", o.pace.fixed, o.Pacing.Concurrency, o.SessionsText(), o.Sessions.History)
		if got != c.want || len(notes) != c.notes {
			t.Errorf("%q on %+v: %s, notes %q; want %+v", c.line, c.trace, got, notes, c)
		}
		if c.trace == single && slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "the trace has no times") }) {
			t.Errorf("%q: %q of a trace with times", c.line, notes)
		}
		if given := resolvedFlags(o); given["fixed-schedule"] != nil != o.pace.fixed || given["concurrency"] != nil != (o.Pacing.Concurrency > 0) {
			t.Errorf("%q on %+v: the results say %v", c.line, c.trace, given)
		}
	}
}

// TestAnswerLengths: a length for answers is refused where the trace leaves any open.
func TestAnswerLengths(t *testing.T) {
	recorded := &trace.Trace{OutputTokens: []int32{1, 2}, Row: []int32{0, 1}, ArrivalNS: []int64{0, 0}}
	open := &trace.Trace{OutputTokens: []int32{1, 0}, Row: []int32{0, 7}, ArrivalNS: []int64{0, 0}}
	for _, line := range []string{"", "--osl 64", "--output-tokens-mean 64", "--prompt-output-tokens-mean 64"} {
		o, l, err := typed(strings.Fields("profile --trace x " + line)...)
		must.Do(t, err, line)
		must.Have(l.Adapt(recorded, &o.Options))(t)
		flag, _, _ := strings.Cut(line, " ")
		if _, err := l.Adapt(open, &o.Options); line == "" {
			must.Do(t, err)
		} else {
			expect.Error(t, err, flag+": row 7 says no length of its answer")
		}
	}
}

// TestSecretsAreNotOptions: the results say that there was a key, a header, a query, and not which; errors do not say
// it either.
func TestSecretsAreNotOptions(t *testing.T) {
	o, l, err := typed(strings.Fields("profile --trace x --api-key s3cr3t -H X:s3cr3t -u http://h:1/?key=s3cr3t --endpoint /v1/x?key=s3cr3t --otel-url http://s3cr3t@h")...)
	if said := fmt.Sprint(err, resolvedFlags(o), l.Notes); err != nil || strings.Contains(said, "s3cr3t") {
		t.Error(said)
	}
	for name := range resolvedFlags(o) {
		if l.Flags.Lookup(name).Hidden && !slices.Contains(strings.Fields(hiddenFlags), name) {
			t.Errorf("%s is no flag of ours", name)
		}
	}
	_, _, err = typed(strings.Fields("--trace x --url a:1?key=s3cr3t --endpoint http://b/?k=s3cr3t")...)
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
}
