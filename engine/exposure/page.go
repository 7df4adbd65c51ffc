package exposure

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// widest is the room for a remedy in its line.
const widest = 20

// Page says for people what a stranger could learn.
func (r *Report) Page() string {
	var b strings.Builder
	line := func(label, text string, args ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", label, fmt.Sprintf(text, args...))
	}
	line("sessions", "%s in %s", format.Count(r.Sessions), format.Many(r.Rows, "row"))
	if r.Nameless > 0 {
		line("", "%s without a session, each counted as one", format.Many(r.Nameless, "row"))
	}
	line("blocks", "%s ids, %s of them in one session only", format.Count(r.IDs), percent(r.Alone, r.IDs))
	if r.Least > 0 {
		line("", "%s ids in 2 to %d sessions; the rarest shared one is in %d", format.Count(r.RareIDs),
			r.Fewest-1, r.Least)
	}
	line("lengths", "%s of prompts and %s of answers have a length that", percent(r.RareInputs, r.Rows),
		percent(r.RareOutputs, r.Rows))
	line("", "fewer than %d sessions have", r.Fewest)
	for i, job := range r.Longest {
		label := ""
		if i == 0 {
			label = "longest"
		}
		span := format.Span(float64(job.SpanNS) / 1e9)
		line(label, "%s, %s, %s   %.80s", format.Many(job.Turns, "turn"), span, format.Many(job.Tokens, "token"),
			cmp.Or(format.Visible(job.Name), fmt.Sprint("from row ", job.Row)))
	}
	line("values", "%s of owners and parameters, %s in fewer than %d sessions", format.Count(r.Values),
		format.Count(r.RareValues), r.Fewest)
	return b.String()
}

// Costs says for people what each of some remedies does to the trace of the report.
func (r *Report) Costs(t *trace.Trace, remedies []Remedies) string {
	var b strings.Builder
	line := func(what string, of *Report) {
		hits := format.Share(float64(of.Hits) / float64(of.Tokens))
		more := float64(of.Tokens+of.Generated)/float64(r.Tokens+r.Generated) - 1
		if len(what) > widest {
			fmt.Fprintf(&b, "  %s\n", what)
			what = ""
		}
		fmt.Fprintf(&b, "  %-*s %-10s %6d %12d %12d   %+.1f %%\n", widest, what, hits, of.Least, of.RareInputs,
			of.RareOutputs, 100*more)
	}
	head := []any{widest, "", "ideal hits", "fewest", "rare prompts", "rare answers", "tokens"}
	fmt.Fprintf(&b, "  %-*s %-10s %6s %12s %12s   %s\n", head...)
	line("as it is", r)
	for _, m := range remedies {
		line(m.String(), Look(m.Apply(t), r.Fewest))
	}
	return b.String()
}

// String is the remedies as they are given.
func (m Remedies) String() string {
	var all []string
	if m.DropRare > 0 {
		all = append(all, fmt.Sprintf("--drop-rare %d", m.DropRare))
	}
	if m.RoundLengths > 0 {
		all = append(all, fmt.Sprintf("--round-lengths %d", m.RoundLengths))
	}
	if m.Jitter > 0 {
		all = append(all, fmt.Sprintf("--jitter %v", m.Jitter))
	}
	return strings.Join(all, " ")
}

// Usual are remedies that are tried where none is asked for, each by itself.
func Usual(fewest int) []Remedies {
	return []Remedies{{DropRare: fewest}, {RoundLengths: 64}, {Jitter: 100 * time.Millisecond}}
}

func percent(n, of int) string { return format.Percent(float64(n) / float64(max(1, of))) }
