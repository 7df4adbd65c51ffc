package trace

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Answer is the recorded answer to request i: the inside of a JSON string, as it stands in the file; nil where the file has none.
// The slice aliases the trace and must not be changed.
func (t *Trace) Answer(i int) []byte {
	if t.answers == nil || t.answers.rows[i].n == 0 {
		return nil
	}
	return t.answers.row(i)
}

// Uncounted is how many requests have a recorded answer but no number of output tokens: those of which [Trace.CountAnswers] counts it.
func (t *Trace) Uncounted() int {
	n := 0
	for i := range t.Len() {
		if t.uncounted(i) {
			n++
		}
	}
	return n
}

func (t *Trace) uncounted(i int) bool { return t.OutputTokens[i] == 0 && t.Answer(i) != nil }

// CountAnswers is the trace with OutputTokens from the recorded answers where the file does not say how many they are: what
// count says of an answer's text, at least 1. Count is called by as many goroutines as Go runs at once, and must not keep the
// text; its first error ends the counting.
func (t *Trace) CountAnswers(count func(text []byte) (int, error)) (*Trace, error) {
	out := *t
	out.OutputTokens = append([]int32(nil), t.OutputTokens...)
	var next atomic.Int64
	var failed error
	var once sync.Once
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			var scratch []byte
			for i := next.Add(1) - 1; i < int64(t.Len()); i = next.Add(1) - 1 {
				if !t.uncounted(int(i)) {
					continue
				}
				scratch = appendUnquoted(scratch[:0], t.Answer(int(i)))
				n, err := count(scratch)
				if err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(t.Len()))
					return
				}
				out.OutputTokens[i] = int32(min(max(n, 1), maxTokens))
			}
		})
	}
	group.Wait()
	if failed != nil {
		return nil, failed
	}
	return &out, nil
}

// keepAnswer appends to the recorded answers, if there are any.
func (l *loader) keepAnswer(r *row) {
	if l.answers == nil {
		if r.answer == nil {
			return
		}
		l.answers = &textStore{}
		for range l.timeNS {
			l.answers.add(nil)
		}
	}
	l.answers.add(r.answer)
}

// chosenAnswers is the answers of the rows in order; nil stays nil.
func chosenAnswers(s *textStore, order []int32) *textStore {
	if s == nil {
		return nil
	}
	out := s.chosen(order, func(row int32) int { return int(s.rows[row].n) })
	return &out
}
