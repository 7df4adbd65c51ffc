package compat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Made begins a --trace that is no file but a description of one: gen:KEY=VALUE,… with the flags of `fastreplay gen` as
// keys.
const Made = "gen:"

// namesTrace reports whether a flag names a trace.
func (l *Line) namesTrace(file []Setting) bool {
	return l.Flags.Changed("trace") || slices.ContainsFunc(slices.Concat(l.given, file), func(s Setting) bool {
		return s.Name == "trace" || l.names[s.Name].Flag == "trace"
	})
}

// makes reports whether requests are to be made, as those tools do unless they are given a file.
func (l *Line) makes(file []Setting) bool {
	return l.Profile || l.dataset == "random" ||
		slices.ContainsFunc(slices.Concat(l.given, file), func(s Setting) bool {
			part := l.names[s.Name].part
			return part != "" && part != "nothing"
		})
}

// describes reports whether a name says something about requests that are made.
func (n *Name) describes() bool {
	return n.Flag == "" && (n.part != "" || strings.HasPrefix(n.Note, "it describes requests"))
}

// describe takes a name that describes the requests to be made.
func (l *Line) describe(n Name, text string) error {
	number, err := strconv.ParseFloat(text, 64)
	valid := err == nil && number >= 0 && !math.IsInf(number, 0)
	want := "a number of 0 or more"
	if slices.Contains([]string{"input", "output", "turns", "sessions"}, n.part) {
		valid = valid && number >= 1 && number == math.Trunc(number)
		want = "a whole number of at least 1"
	}
	switch {
	case n.part == "", n.part == "one" && number > 1, n.part == "zero" && number > 0:
		return fmt.Errorf("--%s %s: requests are not made so; write a trace with fastreplay gen", n.Name, text)
	case n.part == "nothing": // each request has a prompt of its own
		return nil
	case !valid:
		return fmt.Errorf("--%s %q: want %s", n.Name, text, want)
	}
	l.parts[n.part] = number
	return nil
}

// synthesize describes the trace to be made in --trace.
func (l *Line) synthesize() error {
	if l.parts == nil && l.dataset == "random" {
		return errors.New("--dataset-name random makes its requests; leave out the trace")
	}
	if l.parts == nil {
		return nil
	}
	p := l.parts
	turns := max(1, p["turns"])
	concurrency, _ := strconv.ParseFloat(l.text("concurrency"), 64)
	rows := max(10, 2*concurrency)
	switch limit, _ := strconv.ParseFloat(l.text("limit"), 64); {
	case limit > 0:
		rows = limit
	case p["sessions"] > 0:
		rows = p["sessions"] * turns
	case l.Flags.Changed("duration"):
		rows = 10_000
		l.note("%.0f requests are made, or as many as are sent within --duration; --request-count makes more", rows)
	}
	if p["input"] == 0 {
		p["input"] = map[bool]float64{
			true:  1024,
			false: 550,
		}[l.dataset == "random"]
	}
	if p["output"] == 0 {
		l.note("answers of 128 tokens are asked for, since nothing says their length")
		p["output"] = 128
	}
	made := []string{
		fmt.Sprintf("rows=%.0f", rows),
		"input-tokens=" + l.lengths("input", turns > 1),
		"output-tokens=" + l.lengths("output", false),
	}
	if turns > 1 {
		made = append(made, fmt.Sprintf("turns=%.0f,turn-tokens=%.0f,active=1", turns, p["input"]))
	}
	if turns > 1 || p["prefix"] > 0 { // less than a block: conversations begin with nothing in common
		made = append(made, fmt.Sprintf("reuse=1,system-tokens=%.0f", max(1, p["prefix"])))
	}
	if p["delay"] > 0 {
		made = append(made, fmt.Sprintf("turn-delay=%vms", p["delay"]))
	}
	spec := Made + strings.Join(append(made, "block-tokens=16"), ",")
	l.note("no trace is given, so one is made: --trace %s", spec)
	return l.Flags.Set("trace", spec)
}

// lengths describes numbers of tokens for gen. Prompts get the prefix in addition; if they grow, they have no bound.
func (l *Line) lengths(part string, grows bool) string {
	mean := l.parts[part]
	spread := l.parts[part+"-stddev"]
	ratio := l.parts["ratio"]
	prefix := 0.0
	if part == "input" {
		prefix = l.parts["prefix"]
	}
	switch {
	case ratio > 0:
		return fmt.Sprintf("%.0f:%.0f", prefix+max(1, math.Floor(mean*(1-ratio))), prefix+math.Ceil(mean*(1+ratio)))
	case spread > 0 || grows:
		return fmt.Sprintf("lognormal:%.0f:%v", prefix+mean, spread)
	}
	return fmt.Sprintf("%.0f", prefix+mean)
}
