package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Words says what a failure was, without how many there were.
func (f *Failure) Words() string {
	text := f.Outcome
	if f.Outcome == record.HTTPError.String() {
		text = fmt.Sprintf("HTTP %d", f.Status)
	}
	if f.Example != "" {
		text += " " + format.Quote(f.Example)
	}
	return text
}

// The phases in which a request can fail.
const (
	PhaseConnect = "connect" // not a byte of it was sent
	PhaseHeaders = "headers" // sent, until the head of an answer that was refused, or that never came
	PhaseStream  = "stream"  // after the head of an answer with status 200
)

// kindOf is what a request that is not ok has in common with those that are counted with it.
func kindOf(r *record.Record) Failure {
	k := Failure{
		Outcome: r.Outcome.String(),
		Phase:   PhaseStream,
		Status:  int(max(0, r.Status)),
	}
	switch {
	case r.SentNS == record.None:
		k.Phase = PhaseConnect
	case r.HeadersNS == record.None || r.Outcome == record.HTTPError:
		k.Phase = PhaseHeaders
	}
	return k
}

// FailureKinds counts failures by kind. A server can send 500 statuses at most, so it is bounded.
type FailureKinds map[Failure]*Failure

// Add counts a request that is not ok.
func (f FailureKinds) Add(r *record.Record) { f.count(kindOf(r), 1, r.Error) }

func (f FailureKinds) count(k Failure, n int64, text string) {
	of := f[k]
	if of == nil {
		of = new(k)
		f[k] = of
	}
	of.Count += n
	of.Example = cmp.Or(of.Example, text)
}

// List has them, the most frequent first. If the run was over before its requests, those that it ended did not fail.
func (f FailureKinds) List(over bool) []Failure {
	out := []Failure{}
	for _, of := range f {
		if !over ||
			of.Outcome != record.Cancelled.String() &&
				of.Outcome != record.NotSent.String() {
			out = append(out, *of)
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome),
			cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Status, b.Status))
	})
	return out
}

// Merge adds all that is in o.
func (f FailureKinds) Merge(o FailureKinds) {
	for kind, of := range o {
		f.count(kind, of.Count, of.Example)
	}
}

// Failure is requests that failed alike.
type Failure struct {
	Outcome string `json:"outcome"` // http_error, reset, …
	// how far they came: connect (not a byte was sent), headers (until the head of an answer was read) or stream
	Phase   string `json:"phase"`
	Status  int    `json:"status"`  // HTTP status; 0 if no answer has one
	Count   int64  `json:"count"`   // requests
	Example string `json:"example"` // the first message of one; empty if none has any
}
