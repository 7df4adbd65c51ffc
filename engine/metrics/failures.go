package metrics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/record"
)

// Words says what a failure was, without how many there were.
func (f *Failure) Words() string {
	text := f.Outcome
	if f.Outcome == record.HTTPError.String() {
		text = fmt.Sprintf("HTTP %d", f.Status)
	}
	if f.Example != "" {
		text += " " + quote(f.Example)
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
	k := Failure{Outcome: r.Outcome.String(), Phase: PhaseStream, Status: int(max(0, r.Status))}
	switch {
	case r.SentNS == record.None:
		k.Phase = PhaseConnect
	case r.HeadersNS == record.None || r.Outcome == record.HTTPError:
		k.Phase = PhaseHeaders
	}
	return k
}

// failureKinds counts failures by kind. A server can send 500 statuses at most, so it is bounded.
type failureKinds map[Failure]*Failure

func (f failureKinds) add(k Failure, n int64, text string) {
	of := f[k]
	if of == nil {
		of = new(k)
		f[k] = of
	}
	of.Count += n
	of.Example = cmp.Or(of.Example, text)
}

// list has them, the most frequent first. If the run was over before its requests, those that it ended did not fail.
func (f failureKinds) list(over bool) []Failure {
	out := []Failure{}
	for _, of := range f {
		if !over || of.Outcome != record.Cancelled.String() && of.Outcome != record.NotSent.String() {
			out = append(out, *of)
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Status, b.Status))
	})
	return out
}
