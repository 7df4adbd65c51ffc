package history

import (
	"math"
	"math/bits"
	"sync"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/sched"
)

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
	t.bytes, t.from, t.live, t.lack = request, int32(from), s.live, s.lack
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
	s.head = h.builder.AppendHead(s.head[:0], h.work, i, math.MaxInt32)
	request = append(h.buffers.get(len(s.head)+size), s.head...)
	request = h.builder.Backend.AppendVerbatim(request, l, int(h.work.Trace.OutputTokens[i]))
	longest := len(s.head)
	s.head = h.builder.AppendHead(s.head[:0], h.work, i, len(request)-longest)
	from = longest - len(s.head)
	copy(request[from:], s.head)
	return request, from
}

// assemble puts request i's messages together.
func (h *History) assemble(s *historyScratch, i int32) {
	s.chain, s.messages, s.live, s.lack = append(s.chain[:0], i), s.messages[:0], 0, answered
	h.each(i, func(j int32) { s.chain = append(s.chain, j) })
	content, at := h.work.Trace.Verbatim(int(i)).Content, int32(0)
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

// warm makes n slices with room for size bytes, and touches their memory, so that the kernel has provided it. The kernel
// takes a millisecond to clear 2 MiB, one huge page.
func (p *bufferPool) warm(size, n int) {
	for range n {
		b := make([]byte, 0, 1<<bits.Len(uint(max(1, size)-1)))
		for i := 0; i < cap(b); i += pageBytes {
			b[:cap(b)][i] = 0
		}
		p.put(b)
	}
}
