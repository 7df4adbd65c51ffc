package trace

import (
	"errors"
	"fmt"
	"strings"
)

// maxFaults is how many faults are kept and shown; the rest is counted.
const maxFaults = 10

// Fault is one thing wrong with a trace.
type Fault struct {
	File string
	Line int    // from 1; 0 = the file as a whole
	What string // what is wrong
	Fix  string // what to do about it; may be empty
}

// String is "file:line: what; what to do".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": " + f.What)
	if f.Fix != "" {
		b.WriteString("; " + f.Fix)
	}
	return b.String()
}

// LintError says that a trace was refused, and why.
type LintError struct {
	Faults []Fault // the first ten
	More   int     // faults beyond them
	Good   int     // rows without a fault; 0 where the file as a whole is refused
}

// Error has a line for each fault, and one on how to go on without the bad rows.
func (e *LintError) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.More))
	}
	if e.Good > 0 {
		bad := len(e.Faults) + e.More
		lines = append(lines, fmt.Sprintf("%d of %d rows cannot be replayed; mend them, or leave them out with --lenient", bad, bad+e.Good))
	}
	return strings.Join(lines, "\n")
}

// refuse is the error for a fault of the file as a whole.
func refuse(file, what, fix string) error {
	return &LintError{Faults: []Fault{{File: file, What: what, Fix: fix}}}
}

// collect keeps a refusal for whoever only looks at the trace (Options.Collect); otherwise it stays the error.
func (l *loader) collect(err error) error {
	var refusal *LintError
	if !l.o.Collect || !errors.As(err, &refusal) {
		return err
	}
	l.lint.Refusals = append(l.lint.Refusals, refusal.Faults...)
	return nil
}

// Lint counts what was wrong with a trace that was taken nevertheless. It is about the whole file, not the selection.
type Lint struct {
	Repaired int      // rows that were repaired
	Dropped  int      // rows that were dropped (Options.Lenient, Options.Collect)
	Faults   []Fault  // the first ten of the dropped rows
	Refusals []Fault  // why the file as a whole would be refused; only with Options.Collect
	Unsent   []string // keys of bodies beside a prompt word for word, which the format skips, in the first rows of a file

	MissingIDs int // repaired: fewer hash ids than blocks; the rest of the prompt is unique to the row
	SurplusIDs int // repaired: more hash ids than blocks; the surplus is ignored
	Failed     int // left out: requests that failed when they were recorded
	Unanswered int // left out: conversations in which nothing that was asked has an answer
	Delayed    int // rows without a timestamp, planned their delay after the turn before
	SameSecond int // rows at the same instant as another, where timestamps are whole seconds
	NoOutput   int // repaired: output_length 0, taken as 1
	Unsorted   int // rows earlier than the row before them; the trace was sorted
	SameChat   int // rows whose chat id an earlier row has already; parents mean the earlier one
}

// Refused tells whether a replay with the same options but for Collect would refuse the trace.
func (l *Lint) Refused(o Options) bool {
	return len(l.Refusals) > 0 || l.Dropped > 0 && !o.Lenient
}

// Notes has a line for people on each thing that was repaired, dropped or sorted; nothing for a clean trace.
func (l *Lint) Notes() []string {
	var notes []string
	add := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, n, plural(n)))
		}
	}
	add(l.MissingIDs, "%d row%s repaired: fewer hash ids than blocks, the missing blocks are unique to the row")
	add(l.SurplusIDs, "%d row%s repaired: more hash ids than blocks, the surplus is ignored")
	add(l.NoOutput, "%d row%s repaired: output_length 0, replayed as 1")
	if len(l.Unsent) > 0 {
		notes = append(notes, fmt.Sprintf("%s of the rows: not sent, since the format has no such key; put them into extra, or say --format raw_payload if the rows are bodies", strings.Join(l.Unsent, ", ")))
	}
	add(l.Failed, "%d row%s left out: requests that failed when they were recorded, with 0 response tokens")
	add(l.Unanswered, "%d conversation%s left out: nothing in them was asked and answered")
	add(l.Delayed, "%d row%s without a timestamp, planned the recorded delay after the turn before")
	add(l.SameSecond, "%d row%s at the same instant as another: timestamps are whole seconds, and what came in one of them is sent at once")
	add(l.Unsorted, "%d row%s out of time order: the trace was sorted, equal instants keep file order")
	add(l.SameChat, "%d row%s repeating a chat_id: parents refer to its first row")
	add(l.Dropped, "%d bad row%s dropped")
	for _, f := range l.Faults {
		notes = append(notes, "dropped "+f.String())
	}
	if more := l.Dropped - len(l.Faults); more > 0 {
		notes = append(notes, fmt.Sprintf("… and %d more", more))
	}
	return notes
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
