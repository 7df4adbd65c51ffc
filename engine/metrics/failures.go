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

// failureKind is what failures have in common that are counted together.
type failureKind struct {
	outcome record.Outcome
	phase   string
	status  int
}

// kindOf is the kind of a request that is not ok.
func kindOf(r *record.Record) failureKind {
	k := failureKind{r.Outcome, PhaseStream, int(max(0, r.Status))}
	switch {
	case r.SentNS == record.None:
		k.phase = PhaseConnect
	case r.HeadersNS == record.None || r.Outcome == record.HTTPError:
		k.phase = PhaseHeaders
	}
	return k
}

// failureKinds counts failures by kind. A server can send 500 statuses at most, so it is bounded.
type failureKinds map[failureKind]*Failure

func (f failureKinds) add(k failureKind, n int64, text string) {
	of := f[k]
	if of == nil {
		of = &Failure{Outcome: k.outcome.String(), Phase: k.phase, Status: k.status}
		f[k] = of
	}
	of.Count += n
	of.Example = cmp.Or(of.Example, text)
}

// list has those that keep returns true of, the most frequent first.
func (f failureKinds) list(keep func(record.Outcome) bool) []Failure {
	out := []Failure{}
	for k, of := range f {
		if keep(k.outcome) {
			out = append(out, *of)
		}
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Status, b.Status))
	})
	return out
}
