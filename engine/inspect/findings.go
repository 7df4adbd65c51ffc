package inspect

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// findings lists what people should know, the worst first.
func findings(r *Report, lint *trace.Lint, o Options) []Finding {
	all := []Finding{}
	add := func(s Severity, text string) { all = append(all, Finding{s, text}) }
	for _, f := range lint.Refusals {
		add(Refusal, placed(f))
	}
	badRows(lint, o.Read, add)
	corrected := *lint
	corrected.Dropped, corrected.Faults = 0, nil // are listed above
	for _, note := range corrected.Notes() {
		add(Note, note)
	}
	if b := r.Blocks; b != nil {
		if b.TwoLengths > 0 {
			add(Note, fmt.Sprintf("%s for different numbers of tokens in different places: a shorter block counts as the beginning of the longer one",
				number(b.TwoLengths, "id stands", "ids stand")))
		}
		if b.ManyBefore > 0 {
			add(Note, fmt.Sprintf("%s different ids: the ids name contents, not prefixes, and a block hits only behind the same blocks", number(b.ManyBefore, "id follows", "ids follow")))
		}
	}
	if o.Instances > 0 && r.Blocks == nil {
		add(Note, "no block ids, so routers cannot be compared")
	}
	if c := r.Context; c != nil && c.RowsOver > 0 {
		add(Note, fmt.Sprintf("%s more than %s tokens of input and output, the first is row %d (from 0): a server with that --max-model-len refuses such requests",
			number(c.RowsOver, "row needs", "rows need"), format.Count(c.MaxModelLen), *c.FirstRow))
	}
	return all
}

// badRows lists the rows that were left out, and how to go on without them.
func badRows(lint *trace.Lint, o trace.Options, add func(Severity, string)) {
	if lint.Dropped == 0 {
		return
	}
	severity, text := Refusal, "%s be replayed; correct the file, or leave out with --bad-rows drop what is left out here"
	if o.Lenient {
		severity, text = Note, "%s be replayed; left out"
	}
	add(severity, fmt.Sprintf(text, number(int64(lint.Dropped), "bad row cannot", "bad rows cannot")))
	for _, f := range lint.Faults {
		add(BadRow, placed(f))
	}
	if more := lint.Dropped - len(lint.Faults); more > 0 {
		add(BadRow, fmt.Sprintf("… and %s more", format.Count(int64(more))))
	}
}

// placed is a fault without the file's name, which stands above.
func placed(f trace.Fault) string {
	text := f.What
	if f.Line > 0 {
		text = fmt.Sprintf("line %d: %s", f.Line, text)
	}
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return text
}

func number(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return format.Count(n) + " " + many
}
