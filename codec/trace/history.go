package trace

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Carried is where request i's messages hold the answer to an earlier request.
type Carried struct {
	// Of is that request: the nearest turn before with whose messages those of request i begin. NoTurn = none.
	Of int32
	// From and To are the place of the answer in the request's Verbatim.Content, with the comma before it. Equal: the
	// file has no answer there, and From is where it belongs.
	From, To int32
	// Fixed: no other answer can replace it. What follows is about this one because it calls a tool, or the messages do
	// not show where an answer belongs.
	Fixed bool
}

// mostBack is how many turns back the one is looked for that a turn goes on from: agents of one session take turns.
const mostBack = 16

// Carries finds, for each of the trace's first len(before) requests, the answer that it holds and earlier requests do
// not. All other answers in its messages have the places that they have in the request Of. before is the turn before
// each request, NoTurn = none; all of them come earlier in the trace.
func (t *Trace) Carries(before []int32) []Carried {
	all := make([]Carried, len(before))
	for i := range all {
		all[i].Of = NoTurn
		if t.Verbatim(i).Kind != VerbatimMessages {
			continue
		}
		j := before[i]
		for range mostBack {
			if j == NoTurn {
				break
			}
			c, ok := t.goesOnFrom(i, int(j))
			if ok {
				all[i] = c
				break
			}
			j = before[j]
		}
	}
	return all
}

// goesOnFrom reports whether request i's messages begin with those of request j and go on, and where j's answer stands
// then.
func (t *Trace) goesOnFrom(i, j int) (Carried, bool) {
	content := t.Verbatim(i).Content
	said := t.Verbatim(j)
	head := bytes.TrimRight(said.Content, " \t\r\n")
	if said.Kind != VerbatimMessages || !bytes.HasPrefix(content, head) {
		return Carried{}, false
	}
	more := content[len(head):]
	comma := bytes.IndexByte(more, ',')
	if comma < 0 || len(bytes.TrimSpace(more[:comma])) > 0 {
		return Carried{}, false // no more, or another message that only begins alike
	}
	behind := bytes.TrimLeft(more[comma+1:], " \t\r\n")
	place := Carried{
		Of:   int32(j),
		From: int32(len(head)),
		To:   int32(len(head)),
	}
	var b newlySaid
	s := rows.Scan(append(append([]byte{'['}, behind...), ']'))
	switch err := s.List(b.take); {
	case err == nil && b.answers():
		place.To = int32(len(content) - len(behind) + b.size)
	case err != nil || slices.Contains(b.roles, "assistant"):
		place.Fixed = true
	}
	return place, true
}

// newlySaid is what a turn's messages have beyond those of the turn that it goes on from.
type newlySaid struct {
	roles []string
	size  int  // of the first of them in bytes
	calls bool // that one calls a tool
}

func (b *newlySaid) take(i int, value []byte) error {
	var err error
	o := rows.ObjectOf(value, &err)
	role := o.Value("role")
	if err != nil {
		return err
	}
	if role == nil || role[0] != '"' {
		return errors.New("a message without a role")
	}
	b.roles = append(b.roles, string(rows.Unquoted(role)))
	if i == 0 {
		b.size = len(value)
		b.calls = o.Value("tool_calls", "function_call") != nil
	}
	return nil
}

// answers reports whether it begins with an answer in words, and something else comes behind that.
func (b *newlySaid) answers() bool {
	if len(b.roles) < 2 || b.roles[0] != "assistant" || b.calls {
		return false
	}
	return b.roles[1] != "tool" && b.roles[1] != "function" // those are about a call, whatever form it has
}

// AppendAnswer appends a message with the text of an answer, the inside of a JSON string, behind others.
func AppendAnswer(dst, text []byte) []byte {
	return append(append(append(dst, `,{"role":"assistant","content":"`...), text...), `"}`...)
}

// Answer returns the recorded answer to request i, the inside of a JSON string; nil if the file has none. The slice
// aliases the trace and must not be changed.
func (t *Trace) Answer(i int) []byte {
	if t.answers == nil || t.answers.Size(i) == 0 {
		return nil
	}
	return t.answers.Row(i)
}

// Uncounted is how many requests have a recorded answer but no number of output tokens: those of which
// [Trace.CountAnswers] counts it.
func (t *Trace) Uncounted() int {
	n := 0
	for i := range t.Len() {
		if t.uncounted(i) {
			n++
		}
	}
	return n
}

func (t *Trace) uncounted(i int) bool {
	return t.OutputTokens[i] == 0 && t.Answer(i) != nil
}

// CountAnswers returns the trace with OutputTokens from the recorded answers if the file has no such numbers. They are
// what count returns for an answer's text, at least 1. Count is called by as many goroutines as Go runs at once, and
// must not keep the text; its first error ends the counting.
func (t *Trace) CountAnswers(count func(text []byte) (int, error)) (*Trace, error) {
	out := *t
	out.OutputTokens = slices.Clone(t.OutputTokens)
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
				scratch = rows.AppendUnquoted(scratch[:0], t.Answer(int(i)))
				n, err := count(scratch)
				if err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(t.Len()))
					return
				}
				out.OutputTokens[i] = int32(min(max(n, 1), rows.MaxTokens))
			}
		})
	}
	group.Wait()
	if failed != nil {
		return nil, failed
	}
	return &out, nil
}
