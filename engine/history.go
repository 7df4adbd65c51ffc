package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/sched"
)

// History puts what servers answer in a run into the turns that follow, in place of the recorded answers. The image of such a
// turn is made when the turn before has ended, by whoever ended it, and lies on the heap; if the turn leaves first, it leaves as
// recorded. A History is for one run; its methods may be called by any goroutine, and by a lane those that say so.
type History struct {
	recipe *Recipe
	work   *Work
	before []int32       // the turn before each request
	turns  []historyTurn // by request
	rooms  rooms         // of images

	mu    sync.Mutex
	desks []*historyDesk        // that nobody sits at
	took  *metrics.Distribution // making an image, ns
}

// historyTurn is a request as one that is answered, and as one that has the answers to others in it.
type historyTurn struct {
	place       trace.Carried
	first, next int32 // the turns that go on from this one, as a list: the first is first, behind j comes turns[j].next

	answer atomic.Pointer[[]byte] // its text, inside of a JSON string, as long as somebody needs it
	needed atomic.Int32           // turns that have not ended and have the answer in their messages
	fate   atomic.Uint32          // of the answer

	form atomic.Uint32
	room []byte // where its image is, made of live answers, once form says so …
	from int32  // … from here on
	live int32  // how many are in it …
	lack uint32 // … and why the latest of the others is not; toldFate = there are no others
}

// What became of an answer.
const (
	openFate   uint32 = iota // the request has not ended
	toldFate                 // there is a text
	failedFate               // the request failed
	mutedFate                // it has no text
	toolFate                 // it calls a tool, or the recorded one does
	apartFate                // no turn before is what the messages begin with
)

// What a turn is sent as.
const (
	formOpen     uint32 = iota
	formRecorded        // it has left, or is leaving
	formLive
)

// historyDesk is room to put an image together.
type historyDesk struct {
	chain    []int32 // the turn and those that it goes on from, latest first
	messages []byte
	live     int32
	lack     uint32
	head     []byte
}

// ErrNoHistory is wrapped by NewHistory's error.
var ErrNoHistory = errors.New("no request carries the answer to an earlier one")

// NewHistory prepares the work's turns. ErrNoHistory: there is none of which that could be said.
func NewHistory(r *Recipe, w *Work) (*History, error) {
	h := &History{recipe: r, work: w, turns: make([]historyTurn, w.Requests()), took: metrics.NewDistribution()}
	for i := range h.turns {
		h.turns[i].place.Of, h.turns[i].first, h.turns[i].next = noTurn, noTurn, noTurn
	}
	h.before = TurnsBefore(w.Trace, w.Requests())
	places := w.Trace.Carries(h.before)
	for i := len(places) - 1; i >= 0; i-- { // so that lists are in order
		t := &h.turns[i]
		t.place = places[i]
		if of := t.place.Of; of != noTurn {
			t.next, h.turns[of].first = h.turns[of].first, int32(i)
		}
	}
	for i := range places {
		h.each(int32(i), func(j int32) { h.turns[j].needed.Add(1) })
	}
	if h.Turns() == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoHistory, h.whyNone())
	}
	h.warm()
	return h, nil
}

const (
	// warmImages bounds the memory that is got ready for images, in bytes.
	warmImages = 64 << 20
	// warmDesks is for as many receivers as end turns at once.
	warmDesks = 2
)

// warm gets memory ready, so that the run need not wait for it.
func (h *History) warm() {
	largest := 1
	for i := range h.turns {
		if h.turns[i].place.Of != noTurn {
			largest = max(largest, int(h.work.Images.Size(i)))
		}
	}
	h.rooms.warm(largest, max(1, min(h.Turns(), warmImages/largest)))
	for range warmDesks {
		d := &historyDesk{messages: make([]byte, 2*largest)}
		clear(d.messages)
		h.desks = append(h.desks, d)
	}
}

// desk returns one to sit at, until leave.
func (h *History) desk() *historyDesk {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := len(h.desks) - 1
	if last < 0 {
		return new(historyDesk)
	}
	d := h.desks[last]
	h.desks = h.desks[:last]
	return d
}

func (h *History) leave(d *historyDesk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.desks = append(h.desks, d)
}

// whyNone says what keeps every turn from going on from another.
func (h *History) whyNone() string {
	why := "none follows another in a conversation"
	for i, j := range h.before {
		if j == noTurn {
			continue
		}
		if h.turns[i].place.Of != noTurn {
			return "those that follow another are about the calls of tools in its recorded answer"
		}
		switch h.work.Trace.Literal(i).Kind {
		case trace.PayloadLiteral:
			return "whole bodies are sent as they stand"
		case trace.NoLiteral:
			return "prompts that are made of numbers of tokens have none"
		}
		why = "the messages of none begin with those of a turn before"
	}
	return why
}

// Turns is how many requests have a place for a live answer to the turn that they go on from.
func (h *History) Turns() (n int) {
	for i := range h.turns {
		if p := &h.turns[i].place; p.Of != noTurn && !p.Fixed {
			n++
		}
	}
	return n
}

// each calls f for the turns that request i goes on from.
func (h *History) each(i int32, f func(j int32)) {
	for j := h.turns[i].place.Of; j != noTurn; j = h.turns[j].place.Of {
		f(j)
	}
}

// follows tells whether a turn goes on from request i, so that its answer is to be kept.
func (h *History) follows(i int32) bool { return h != nil && h.turns[i].first != noTurn }

// image is what is sent for request i in place of its recorded form; nil: the recorded form it is, also from now on. A lane calls it.
func (h *History) image(i int32) []byte {
	if h == nil {
		return nil
	}
	t := &h.turns[i]
	if t.place.Of == noTurn || t.form.CompareAndSwap(formOpen, formRecorded) || t.form.Load() == formRecorded {
		return nil
	}
	return t.room[t.from:]
}

// answered is told of a reply that has ended.
func (h *History) answered(i int32, rec *record.Record, a *answerText) {
	if !h.follows(i) {
		return
	}
	t := &h.turns[i]
	switch {
	case rec.Outcome != record.OK:
		t.fate.Store(failedFate)
	case a.tool:
		t.fate.Store(toolFate)
	case len(a.text) == 0:
		t.fate.Store(mutedFate)
	default:
		text := api.Repair(bytes.Clone(a.text))
		t.answer.Store(&text)
		t.fate.Store(toldFate)
	}
}

// ended makes the images of the turns that go on from request i, which has ended, and gives back what only that needed.
func (h *History) ended(clock sched.Clock, i int32) {
	if h == nil {
		return
	}
	t := &h.turns[i]
	t.fate.CompareAndSwap(openFate, failedFate)
	for j := t.first; j != noTurn; j = h.turns[j].next {
		h.make(clock, j)
	}
	if t.needed.Load() == 0 {
		t.answer.Store(nil) // all who go on from it have left before it came
	}
	h.forget(i)
}

// make makes the image of request i of the answers that there are, unless it has left.
func (h *History) make(clock sched.Clock, i int32) {
	t := &h.turns[i]
	if t.form.Load() != formOpen {
		return
	}
	began := clock.Now()
	d := h.desk()
	defer h.leave(d)
	if h.assemble(d, i); d.live == 0 {
		return
	}
	room, from := h.build(d, int(i))
	t.room, t.from, t.live, t.lack = room, int32(from), d.live, d.lack
	took := clock.Now() - began
	if !t.form.CompareAndSwap(formOpen, formLive) {
		h.rooms.put(room)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took.Add(took)
}

// forget is told that request i is over: neither its image nor what only that had in it is needed any more.
func (h *History) forget(i int32) {
	t := &h.turns[i]
	if !t.form.CompareAndSwap(formOpen, formRecorded) && t.form.Load() == formLive {
		h.rooms.put(t.room)
		t.room = nil
	}
	h.each(i, func(j int32) {
		if h.turns[j].needed.Add(-1) == 0 {
			h.turns[j].answer.Store(nil)
		}
	})
}

// build makes the image of request i with the messages on the desk, as room[from:]: how long the head is shows when the body is there.
func (h *History) build(d *historyDesk, i int) (room []byte, from int) {
	l, _ := h.work.literal(i)
	size := int(h.work.Images.Size(i)) - len(l.Content) + len(d.messages)
	l.Content = d.messages
	d.head = h.recipe.appendHead(d.head[:0], h.work, i, math.MaxInt32)
	room = append(h.rooms.take(len(d.head)+size), d.head...)
	room = h.recipe.Backend.AppendLiteral(room, l, int(h.work.Trace.OutputTokens[i]))
	longest := len(d.head)
	d.head = h.recipe.appendHead(d.head[:0], h.work, i, len(room)-longest)
	from = longest - len(d.head)
	copy(room[from:], d.head)
	return room, from
}

// assemble puts request i's messages together.
func (h *History) assemble(d *historyDesk, i int32) {
	d.chain, d.messages, d.live, d.lack = append(d.chain[:0], i), d.messages[:0], 0, toldFate
	h.each(i, func(j int32) { d.chain = append(d.chain, j) })
	content, at := h.work.Trace.Literal(int(i)).Content, int32(0)
	for k := len(d.chain) - 2; k >= 0; k-- {
		p := &h.turns[d.chain[k]].place
		text, fate := h.answerAt(p)
		if fate != toldFate {
			d.lack = fate
			continue
		}
		d.messages = trace.AppendAnswer(append(d.messages, content[at:p.From]...), text)
		at = p.To
		d.live++
	}
	d.messages = append(d.messages, content[at:]...)
}

// answerAt is the answer that belongs to a place, or why there is none.
func (h *History) answerAt(p *trace.Carried) (text []byte, fate uint32) {
	if p.Fixed {
		return nil, toolFate
	}
	t := &h.turns[p.Of]
	if fate = t.fate.Load(); fate != toldFate {
		return nil, fate
	}
	if answer := t.answer.Load(); answer != nil {
		return *answer, toldFate
	}
	return nil, openFate // whoever asks has left meanwhile
}
