// Package history puts what servers answer during a run into the turns that follow, in place of the recorded answers.
//
// It owns the answers that later turns need and the request bytes that are made of them. It does not decide when a turn
// is sent, and it reads no response. Receivers collect an Answer, and the run reports each end of a request.
//
// Any goroutine may call a History during a run. Bytes is called by the senders: it takes no lock and allocates
// nothing. Ended, called by whoever ends a request, builds request bytes on the Go heap, from buffers that are used
// again.
//
// The package is not an API: any release may change it.
package history

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/json"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/sse"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// History puts what servers answer in a run into the turns that follow, in place of the recorded answers. The bytes of
// such a turn are made on the heap when the turn before has ended, by whoever ended it. If the turn is sent before
// that, it is sent as recorded. A History is for one run; its methods may be called by any goroutine, and Bytes by a
// sender.
type History struct {
	work    *workload.Work
	before  []int32       // the turn before each request
	turns   []historyTurn // by request
	buffers bufferPool

	mu   sync.Mutex
	free []*historyScratch   // that nobody uses
	took *stats.Distribution // making a request, ns
}

// historyTurn is a request as one that is answered, and as one that has the answers to others in it.
type historyTurn struct {
	place       trace.Carried
	first, next int32 // the turns that go on from this one, as a list: the first is first, behind j comes turns[j].next

	answer atomic.Pointer[[]byte] // its text, inside of a JSON string, as long as somebody needs it
	needed atomic.Int32           // turns that have not ended and have the answer in their messages
	state  atomic.Uint32          // an answerState

	form  atomic.Uint32 // a sentForm
	bytes []byte        // made of live answers, once form says so …
	from  int32         // … from here on
	live  int32         // how many are in it …
	lack  answerState   // … and why the latest of the others is not; answered = there are no others
}

// answerState is what became of an answer.
type answerState = uint32

const (
	unanswered answerState = iota // the request has not ended
	answered                      // there is a text
	failed                        // the request failed
	noText                        // the answer has none
	toolCall                      // it calls a tool, or the recorded one does
	apart                         // no turn before is what the messages begin with
)

// sentForm is what a turn is sent as.
type sentForm = uint32

const (
	formOpen     sentForm = iota
	formRecorded          // it has left, or is leaving
	formLive
)

// ErrNone is wrapped by New's error.
var ErrNone = errors.New("no request carries the answer to an earlier one")

// New prepares the work's turns. It returns ErrNone if no request carries the answer to an earlier one.
func New(w *workload.Work) (*History, error) {
	h := &History{
		work:  w,
		turns: make([]historyTurn, w.Requests()),
		took:  stats.NewHistogram(),
	}
	for i := range h.turns {
		h.turns[i].place.Of = trace.NoTurn
		h.turns[i].first = trace.NoTurn
		h.turns[i].next = trace.NoTurn
	}
	h.before = w.Trace.TurnsBefore(w.Requests())
	places := w.Trace.Carries(h.before)
	for i := len(places) - 1; i >= 0; i-- { // so that lists are in order
		t := &h.turns[i]
		t.place = places[i]
		if of := t.place.Of; of != trace.NoTurn {
			t.next = h.turns[of].first
			h.turns[of].first = int32(i)
		}
	}
	for i := range places {
		h.each(int32(i), func(j int32) {
			h.turns[j].needed.Add(1)
		})
	}
	if h.Turns() == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNone, h.whyNone())
	}
	h.warm()
	return h, nil
}

// whyNone is why no turn continues another.
func (h *History) whyNone() string {
	why := "none follows another in a conversation"
	for i, j := range h.before {
		if j == trace.NoTurn {
			continue
		}
		if h.turns[i].place.Of != trace.NoTurn {
			return "those that follow another are about the calls of tools in its recorded answer"
		}
		switch h.work.Trace.Verbatim(i).Kind {
		case trace.VerbatimPayload:
			return "whole bodies are sent as they stand"
		case trace.NoVerbatim:
			return "prompts that are made of numbers of tokens have none"
		}
		why = "the messages of none begin with those of a turn before"
	}
	return why
}

// Turns is how many requests have a place for a live answer to the turn that they go on from.
func (h *History) Turns() (n int) {
	for i := range h.turns {
		p := &h.turns[i].place
		if p.Of != trace.NoTurn && !p.Fixed {
			n++
		}
	}
	return n
}

// each calls f for the turns that request i goes on from.
func (h *History) each(i int32, f func(j int32)) {
	for j := h.turns[i].place.Of; j != trace.NoTurn; j = h.turns[j].place.Of {
		f(j)
	}
}

// Follows reports whether a turn goes on from request i, so that its answer is to be kept.
func (h *History) Follows(i int32) bool {
	return h != nil && h.turns[i].first != trace.NoTurn
}

// Bytes is what is sent for request i in place of its recorded form; nil: the recorded form it is, also from now on. A
// sender calls it.
func (h *History) Bytes(i int32) []byte {
	if h == nil {
		return nil
	}
	t := &h.turns[i]
	if t.place.Of == trace.NoTurn || t.form.CompareAndSwap(formOpen, formRecorded) || t.form.Load() == formRecorded {
		return nil
	}
	return t.bytes[t.from:]
}

// Answered keeps what a response that has ended had, if a later turn needs it.
func (h *History) Answered(i int32, rec *record.Record, a *Answer) {
	if !h.Follows(i) {
		return
	}
	t := &h.turns[i]
	switch {
	case rec.Outcome != record.OK:
		t.state.Store(failed)
	case a.tool:
		t.state.Store(toolCall)
	case len(a.Text) == 0:
		t.state.Store(noText)
	default:
		text := json.Repair(bytes.Clone(a.Text))
		t.answer.Store(&text)
		t.state.Store(answered)
	}
}

// Ended makes the requests of the turns that go on from request i, which has ended, and gives back what only that
// needed.
func (h *History) Ended(clock sched.Clock, i int32) {
	if h == nil {
		return
	}
	t := &h.turns[i]
	t.state.CompareAndSwap(unanswered, failed)
	for j := t.first; j != trace.NoTurn; j = h.turns[j].next {
		h.make(clock, j)
	}
	if t.needed.Load() == 0 {
		t.answer.Store(nil) // all who go on from it have left before it came
	}
	if !t.form.CompareAndSwap(formOpen, formRecorded) && t.form.Load() == formLive {
		h.buffers.put(t.bytes)
		t.bytes = nil
	}
	h.each(i, func(j int32) {
		if h.turns[j].needed.Add(-1) == 0 {
			h.turns[j].answer.Store(nil)
		}
	})
}

// Answer gathers the text of a response, if a later turn needs it. It grows once per connection and size.
type Answer struct {
	Wanted bool
	Text   []byte // inside of a JSON string
	tool   bool   // the response calls one
}

// Reset forgets the answer and keeps its memory.
func (a *Answer) Reset() {
	*a = Answer{Text: sse.Reuse(nil, a.Text)}
}

// Add takes the text of an event or of a whole body.
func (a *Answer) Add(d *api.Delta) {
	if a.Wanted {
		a.Text = append(a.Text, d.Content...)
		a.tool = a.tool || d.Tool
	}
}

// Counts is what follow-up turns were sent with, by the records of a run that is over; nil where all is sent as
// recorded.
func (h *History) Counts(records []record.Record) *metrics.History {
	if h == nil {
		return nil
	}
	found := metrics.History{MakeUS: h.took.Percentiles(1e3)}
	for i, before := range h.before {
		if before == trace.NoTurn || records[i].SentNS == record.None {
			continue
		}
		found.Turns++
		live, lack := h.sentWith(int32(i))
		found.Answers += int64(live)
		switch sentAs(live, lack) {
		case sentLive:
			found.Live++
			continue
		case sentPartly:
			found.Partly++
		case sentRecorded:
			found.Recorded++
		}
		why := &found.Why
		*[...]*int64{
			unanswered: &why.Late,
			failed:     &why.Failed,
			noText:     &why.NoText,
			toolCall:   &why.Tools,
			apart:      &why.Apart,
		}[lack]++
	}
	return &found
}

// Note completes the record of request i, which has ended.
func (h *History) Note(i int32, rec *record.Record) {
	if h == nil || h.before[i] == trace.NoTurn || rec.SentNS == record.None {
		return
	}
	rec.History = sentAs(h.sentWith(i))
}

// The values of a record's history.
const (
	sentLive     = "live"     // all answers in it are
	sentPartly   = "partly"   // some are
	sentRecorded = "recorded" // none is
)

// sentAs is the record's value for what sentWith returned.
func sentAs(live int32, lack answerState) string {
	switch {
	case lack == answered:
		return sentLive
	case live > 0:
		return sentPartly
	}
	return sentRecorded
}

// sentWith returns how many live answers request i was sent with. lack is why the latest of the others was not live;
// answered = there were no others.
func (h *History) sentWith(i int32) (live int32, lack answerState) {
	t := &h.turns[i]
	switch {
	case t.place.Of == trace.NoTurn:
		return 0, apart
	case t.form.Load() == formLive:
		return t.live, t.lack
	case t.place.Fixed:
		return 0, toolCall
	}
	lack = h.turns[t.place.Of].state.Load()
	if lack == answered {
		lack = unanswered // it came too late
	}
	return 0, lack
}

// historyScratch is what putting a request together takes.
type historyScratch struct {
	chain    []int32 // the turn and those that it goes on from, latest first
	messages []byte
	live     int32
	lack     answerState
	head     []byte
}

const (
	// warmBytes bounds the memory that is got ready for requests, in bytes.
	warmBytes = 64 << 20
	// warmScratch is for as many receivers as end turns at once.
	warmScratch = 2
)

// warm gets memory ready, so that the run need not wait for it.
func (h *History) warm() {
	largest := 1
	for i := range h.turns {
		if h.turns[i].place.Of != trace.NoTurn {
			largest = max(largest, int(h.work.Prebuilt.Size(i)))
		}
	}
	h.buffers.warm(largest, max(1, min(h.Turns(), warmBytes/largest)))
	for range warmScratch {
		s := &historyScratch{messages: make([]byte, 2*largest)}
		clear(s.messages)
		h.free = append(h.free, s)
	}
}

// scratch returns what nobody else uses, until release.
func (h *History) scratch() *historyScratch {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.free) - 1
	if last < 0 {
		return new(historyScratch)
	}
	s := h.free[last]
	h.free = h.free[:last]
	return s
}

func (h *History) release(s *historyScratch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = append(h.free, s)
}

// make makes the bytes of request i of the answers that there are, unless it has left.
func (h *History) make(clock sched.Clock, i int32) {
	t := &h.turns[i]
	if t.form.Load() != formOpen {
		return
	}
	began := clock.Now()
	s := h.scratch()
	defer h.release(s)
	if h.assemble(s, i); s.live == 0 {
		return
	}
	request, from := h.build(s, int(i))
	t.bytes = request
	t.from = int32(from)
	t.live = s.live
	t.lack = s.lack
	took := clock.Now() - began
	if !t.form.CompareAndSwap(formOpen, formLive) { // it has left as recorded in the meantime
		t.bytes = nil
		h.buffers.put(request)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took.Add(took)
}

// build makes the bytes of request i with the messages in scratch, as request[from:]. The length of the head is known
// only when the body is built.
func (h *History) build(s *historyScratch, i int) (request []byte, from int) {
	l, _ := h.work.VerbatimOf(i)
	size := int(h.work.Prebuilt.Size(i)) - len(l.Content) + len(s.messages)
	l.Content = s.messages
	s.head = h.work.Prebuilt.AppendHead(s.head[:0], i, math.MaxInt32)
	request = append(h.buffers.get(len(s.head)+size), s.head...)
	request = h.work.Prebuilt.Owned(i).Backend.AppendVerbatim(request, l, int(h.work.Trace.OutputTokens[i]))
	longest := len(s.head)
	s.head = h.work.Prebuilt.AppendHead(s.head[:0], i, len(request)-longest)
	from = longest - len(s.head)
	copy(request[from:], s.head)
	return request, from
}

// assemble puts request i's messages together.
func (h *History) assemble(s *historyScratch, i int32) {
	s.chain = append(s.chain[:0], i)
	s.messages = s.messages[:0]
	s.live = 0
	s.lack = answered
	h.each(i, func(j int32) { s.chain = append(s.chain, j) })
	content := h.work.Trace.Verbatim(int(i)).Content
	at := int32(0)
	for k := len(s.chain) - 2; k >= 0; k-- {
		p := &h.turns[s.chain[k]].place
		text, state := h.answerAt(p)
		if state != answered {
			s.lack = state
			continue
		}
		s.messages = trace.AppendAnswer(append(s.messages, content[at:p.From]...), text)
		at = p.To
		s.live++
	}
	s.messages = append(s.messages, content[at:]...)
}

// answerAt is the answer that belongs to a place, or why there is none.
func (h *History) answerAt(p *trace.Carried) (text []byte, state answerState) {
	if p.Fixed {
		return nil, toolCall
	}
	t := &h.turns[p.Of]
	if state = t.state.Load(); state != answered {
		return nil, state
	}
	if answer := t.answer.Load(); answer != nil {
		return *answer, answered
	}
	return nil, unanswered // all turns that needed it have left meanwhile
}

// bufferPool has slices that are used again. The capacity of each is a power of two. Any goroutine may use it.
type bufferPool struct {
	mu   sync.Mutex
	free [bits.UintSize][][]byte // by the power
}

// get returns an empty slice with room for n bytes.
func (p *bufferPool) get(n int) []byte {
	class := bits.Len(uint(max(1, n) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := class; c < len(p.free); c++ {
		if last := len(p.free[c]) - 1; last >= 0 {
			b := p.free[c][last]
			p.free[c] = p.free[c][:last]
			return b
		}
	}
	return make([]byte, 0, 1<<class)
}

// put takes back a slice that get returned. If append has made it grow, it serves for its new capacity.
func (p *bufferPool) put(b []byte) {
	if cap(b) == 0 {
		return
	}
	class := bits.Len(uint(cap(b))) - 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[class] = append(p.free[class], b[:0])
}

// pageBytes is how far apart memory is touched; larger pages are touched more than once.
const pageBytes = 4 << 10

// warm makes n slices with room for size bytes, and touches their memory, so that the kernel has provided it. The
// kernel takes a millisecond to clear 2 MiB, one huge page.
func (p *bufferPool) warm(size, n int) {
	for range n {
		b := make([]byte, 0, 1<<bits.Len(uint(max(1, size)-1)))
		for i := 0; i < cap(b); i += pageBytes {
			b[:cap(b)][i] = 0
		}
		p.put(b)
	}
}
