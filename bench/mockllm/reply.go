package mockllm

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
)

// phase is what a reply sends next.
type phase uint8

const (
	phaseOpen   phase = iota // what comes before the first token, such as the role chunk of a chat stream
	phaseTokens              // tokens, and what comes between the parts of an answer
	phaseTail                // what comes after the last token, such as usage and [DONE]
	phaseBody                // the whole of an answer that is not streamed
	phaseEnd
)

// reply is the answer to the one generation request in flight on a connection. One goroutine owns it at a time: the
// connection's reader until it starts, then the pacer or a goroutine of its own until end.
type reply struct {
	c   *conn
	srv *Server
	cfg *Config

	// The request.
	proto        *protocol
	p            params
	id           []byte
	createdS     int64 // Unix time, s
	arrivalNS    int64 // CLOCK_MONOTONIC when the first byte was read
	arrivedNS    int64 // … and the last
	promptTokens int
	chain        uint64 // of the prompt's tokens …
	left         int    // … and how many complete its last block
	lease        *lease
	fault        fault.Fault // Kind "" = none
	keepAlive    bool
	http10       bool
	compress     bool
	body         []byte // for Config.LogAll
	headers      []byte // likewise, those whose names begin with X-, as an object

	// The answer.
	cachedTokens         int
	hostTokens           int // of them, those that the second tier had
	total                int // tokens
	reasoning, tool      int // the tokens before are reasoning, those from on are arguments of a tool call
	sent                 int
	part                 part   // which is open in the stream
	step                 int    // in the list of events that the protocol has at this point
	sequence             int    // events numbered so far
	finish               string // "length" or "stop"
	hideUsage            bool
	noFinish             bool   // no finish reason, usage and [DONE]
	voice                uint64 // what the words are drawn from
	draw                 rng
	phase                phase
	framing              framing
	headSent             bool
	due                  int64   // when the next event is due
	firstDue             int64   // when the first token is
	firstNS, lastTokenNS int64   // 0 = not yet
	tokenNS              []int64 // of each event with tokens, just before its write; for Config.LogAll
	doneNS               int64
	status               int
	begun                bool  // it has a slot
	beginNS              int64 // since then
	adapterNS            int64 // of its TTFT, what its LoRA adapter took to load
	prefiller            int64 // the number of the instance that prefilled, from 1; 0 = this one did
	released             bool  // it has given the slot back
	ending               ending

	// Of the event that is composed.
	of       part
	from, to int   // its tokens
	now      int64 // CLOCK_MONOTONIC

	// For the pacer, under its lock.
	pacer *pacer
	tick  int64 // when it is due
	place int   // among all that are to come, from 1; 0 = it is not

	gone    atomic.Bool // the client is: whoever owns the reply ends it
	pending []byte      // bytes of an event that the socket did not take
}

// framing is how a body's end is marked.
type framing uint8

const (
	framingChunked framing = iota
	framingLength
	framingClose
)

// eventBuffer is the scratch space of a goroutine that composes events.
type eventBuffer struct {
	event []byte // one event, not framed
	out   []byte // what is written
}

// start gives r a slot at the instant now and decides when its prefill ends: r.due. The scheduler calls it under its
// lock.
func (r *reply) start(now int64, cachedTokens, hostTokens int) {
	cfg := r.cfg
	r.begun = true
	r.beginNS = now
	r.cachedTokens = cachedTokens
	r.hostTokens = hostTokens
	uncached := time.Duration(r.promptTokens - cachedTokens)
	loading := time.Duration(hostTokens) * cfg.HostLoadPerToken
	ttft := float64(cfg.TTFT+uncached*cfg.PrefillPerToken+loading) * r.draw.spread(cfg.Spread)
	r.due = now + r.adapterNS + int64(ttft)
}

// begin sets r going, which has been started.
func (r *reply) begin() {
	if r.gone.Load() {
		r.end(endGone)
		return
	}
	if !r.p.stream || r.p.single { // all at once, when the last token would come
		size := r.cfg.TokensPerChunk
		if size < r.total {
			r.due += r.prefiller * int64(r.cfg.KVTransfer)
		}
		for k := 0; k+size < r.total; k += size {
			r.due += r.gap(size)
		}
	}
	r.firstDue = r.due
	switch {
	case !r.p.stream:
		r.phase = phaseBody
	case len(r.proto.open) == 0:
		r.phase = phaseTokens
	case r.proto.early:
		r.phase = phaseOpen
		r.due = r.beginNS
	default:
		r.phase = phaseOpen
	}
	if r.c.blocking || r.compress || r.fault.Blocking() {
		go r.drive()
		return
	}
	if r.due > r.beginNS || r.advance(&r.c.buffer) {
		r.pacer.add(r)
	}
}

// gap draws the time between a chunk and the next one of count tokens.
func (r *reply) gap(count int) int64 {
	return int64(float64(r.cfg.ITL) * float64(count) * r.draw.spread(r.cfg.Spread))
}

// advance writes all events that are due and reports whether there is more to come. Otherwise the reply has ended, or
// a goroutine of its own goes on with it.
func (r *reply) advance(buf *eventBuffer) bool {
	for {
		now := r.srv.clock.now()
		if r.due > now {
			return true
		}
		if r.gone.Load() {
			r.end(endGone)
			return false
		}
		buf.out = r.appendDue(buf, buf.out[:0], now)
		r.releaseAtEnd()
		n, err := r.c.tryWrite(buf.out)
		switch {
		case err != nil:
			r.end(endGone)
			return false
		case n < len(buf.out):
			r.pending = append(r.pending[:0], buf.out[n:]...)
			r.srv.stats.blockedWrites.Add(1)
			go r.drive()
			return false
		case r.phase == phaseEnd:
			r.end(endDone)
			return false
		}
	}
}

// appendDue appends, framed, the next event, or all that are due when they are to share a write.
func (r *reply) appendDue(buf *eventBuffer, dst []byte, now int64) []byte {
	for {
		buf.event = r.appendEvent(buf.event[:0], now)
		dst = r.frame(dst, buf.event, r.phase == phaseEnd)
		if !r.cfg.Coalesce || r.phase == phaseEnd || r.due > now {
			return dst
		}
	}
}

// appendEvent appends the next event without framing and moves on. At the end there may be none.
func (r *reply) appendEvent(dst []byte, now int64) []byte {
	for begin := len(dst); len(dst) == begin && r.phase != phaseEnd; {
		dst = r.appendPhase(dst, now)
	}
	return dst
}

// appendPhase appends the next event, or nothing where the protocol has none at this point.
func (r *reply) appendPhase(dst []byte, now int64) []byte {
	more := false
	r.now = now
	switch r.phase {
	case phaseOpen:
		if dst, more = r.appendNext(dst, r.proto.open); !more {
			r.phase = phaseTokens
			r.due = r.firstDue
		}
	case phaseTokens:
		if next := r.partAt(r.sent); next != r.part {
			return r.appendTurn(dst, next)
		}
		return r.appendTokens(dst)
	case phaseTail:
		return r.appendTail(dst)
	case phaseBody:
		r.phase = phaseEnd
		r.doneNS = now
		r.sent = r.total
		r.of = partText
		r.from = 0
		r.to = r.total
		r.count(r.total)
		return r.proto.whole.append(r, dst)
	default:
		panic("BUG: event after the end of a reply")
	}
	return dst
}

// appendNext appends the next event of a list that the answer has, if any, and reports whether it has one more.
func (r *reply) appendNext(dst []byte, list []event) (out []byte, more bool) {
	for appended := false; r.step < len(list); r.step++ {
		e := &list[r.step]
		switch {
		case e.when != "" && !r.is(e.when):
		case appended:
			return dst, true
		default:
			dst = r.append(dst, e)
			appended = true
		}
	}
	r.step = 0
	return dst, false
}

// append appends an event, after a comment if the server sends some.
func (r *reply) append(dst []byte, e *event) []byte {
	if r.cfg.Comments {
		dst = r.endEvent(append(dst, ": ping"...))
	}
	if e.name != "" {
		dst = append(append(append(dst, "event: "...), e.name...), r.srv.eol...)
	}
	return r.endEvent(e.data.append(r, append(dst, r.proto.data...)))
}

// endEvent ends an event's last line.
func (r *reply) endEvent(dst []byte) []byte {
	return append(append(dst, r.srv.eol...), r.srv.eol...)
}

// appendTurn leaves the part that is open, or else enters another one.
func (r *reply) appendTurn(dst []byte, next part) []byte {
	list := r.proto.leave[r.part]
	r.of = r.part
	if r.part == partNone {
		list = r.proto.enter[next]
		r.of = next
	} else {
		next = partNone
	}
	dst, more := r.appendNext(dst, list)
	if !more {
		r.part = next
	}
	return dst
}

func (r *reply) appendTokens(dst []byte) []byte {
	if r.firstNS == 0 {
		r.firstNS = r.now
	}
	r.lastTokenNS = r.now
	count := r.chunkAt(r.sent)
	r.of = r.part
	r.from = r.sent
	r.to = r.sent + count
	if r.proto.cumulative && !r.cfg.Incremental {
		r.from = 0
	}
	r.sent += count
	r.count(count)
	dst = r.append(dst, &r.proto.token[r.part])
	if r.sent < r.total {
		r.due += r.gap(r.chunkAt(r.sent))
		if r.sent == count {
			r.due += r.prefiller * int64(r.cfg.KVTransfer)
		}
	} else {
		r.phase = phaseTail
	}
	return dst
}

// count notes that tokens are sent.
func (r *reply) count(tokens int) {
	r.srv.stats.tokens.Add(int64(tokens))
	if r.cfg.LogAll {
		r.tokenNS = append(r.tokenNS, r.now)
	}
}

func (r *reply) appendTail(dst []byte) []byte {
	more := false
	if !r.noFinish {
		if r.part != partNone {
			return r.appendTurn(dst, partNone)
		}
		if dst, more = r.appendNext(dst, r.proto.finish); !more && r.proto.done {
			dst = r.appendDone(dst)
		}
	}
	if !more {
		r.phase = phaseEnd
		r.doneNS = r.now
	}
	return dst
}

// appendDone appends the event with which most protocols end a stream.
func (r *reply) appendDone(dst []byte) []byte { return r.endEvent(append(dst, "data: [DONE]"...)) }

// atEnd reports whether the event at hand, or the whole answer, has the finish reason.
func (r *reply) atEnd() bool { return r.sent == r.total && !(r.noFinish && r.p.stream) }

// releaseAtEnd gives the slot and the blocks back when the last event is composed, before it is written, as an engine
// does. So a client that has seen the end finds them free.
func (r *reply) releaseAtEnd() {
	if r.phase == phaseEnd {
		r.release(r.doneNS)
	}
}

// release gives back what r got from the scheduler, once.
func (r *reply) release(now int64) {
	if r.begun && !r.released {
		r.released = true
		if r.srv.sched.release(r.lease, now, r.sent) {
			go r.srv.sched.catchUp()
		}
	}
}

// frame appends the head, if it is still to be sent, and the event in the body's framing.
func (r *reply) frame(dst, event []byte, last bool) []byte {
	if !r.headSent {
		r.headSent = true
		dst = r.appendHead(dst, len(event))
	}
	if r.framing != framingChunked {
		return append(dst, event...)
	}
	if len(event) > 0 {
		dst = append(strconv.AppendInt(dst, int64(len(event)), 16), "\r\n"...)
		dst = append(append(dst, event...), "\r\n"...)
	}
	if last {
		dst = append(dst, "0\r\n\r\n"...)
	}
	return dst
}

// appendHead appends the response head. bodyBytes matters only where the length is sent.
func (r *reply) appendHead(dst []byte, bodyBytes int) []byte {
	dst = append(dst, "HTTP/1.1 200 OK\r\nServer: mockllm\r\n"...)
	dst = appendHeaders(dst, r.cfg.Headers)
	if r.prefiller > 0 {
		dst = fmt.Appendf(dst, "prefill-target-pod: prefill-%d\r\n", r.prefiller)
	}
	dst = r.proto.headers.append(r, dst)
	if r.p.stream {
		dst = append(dst, "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"...)
	} else {
		dst = append(dst, "Content-Type: application/json\r\n"...)
	}
	if r.compress {
		dst = append(dst, "Content-Encoding: gzip\r\n"...)
	}
	switch r.framing {
	case framingChunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case framingLength:
		dst = fmt.Appendf(dst, "Content-Length: %d\r\n", bodyBytes)
	}
	if !r.keepAlive {
		dst = append(dst, "Connection: close\r\n"...)
	} else if r.http10 {
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func appendHeaders(dst []byte, lines []string) []byte {
	for _, line := range lines {
		dst = append(append(dst, line...), "\r\n"...)
	}
	return dst
}

// ending is how a reply ended, for the log.
type ending string

const (
	endDone     ending = "done"     // all of it was written
	endFault    ending = "fault"    // a fault cut it off
	endGone     ending = "gone"     // the client went away
	endError    ending = "error"    // it was refused with an error response
	endShutdown ending = "shutdown" // the server was closed
)

// end settles the accounts of a reply and gives the connection back to its reader. The owner calls it once and does
// not touch the reply afterwards.
func (r *reply) end(how ending) {
	srv := r.srv
	if how == endGone && srv.closing.Load() {
		how = endShutdown
	}
	if r.begun {
		r.release(srv.clock.now())
	} else {
		srv.sched.put(r.lease)
	}
	if how != endError && !r.headSent {
		r.status = 0
	}
	srv.stats.end(r, how)
	if srv.log != nil {
		srv.log.add(r, how)
	}
	c := r.c
	if (how == endDone || how == endError) && r.keepAlive {
		c.idle(r.fault)
	} else {
		c.over = true
		c.nc.Close()
	}
	c.done <- struct{}{}
}

// part is a stretch of an answer's tokens. They come in this order, and any may be missing.
type part uint8

const (
	partNone part = iota // before the first token and after the last
	partReasoning
	partText
	partTool // the arguments of a tool call
	parts    // how many there are
)

// divide decides which tokens of the answer are of which part.
func (r *reply) divide() {
	r.reasoning = 0
	r.tool = r.total
	if r.proto.conversation {
		r.reasoning = min(r.cfg.ReasoningTokens, r.total)
		r.tool = max(r.total-r.cfg.ToolTokens, r.reasoning)
	}
}

// partAt returns the part of token k.
func (r *reply) partAt(k int) part {
	for p := partReasoning; p <= partTool; p++ {
		if _, end := r.span(p); k < end {
			return p
		}
	}
	return partNone
}

// span returns the tokens of a part.
func (r *reply) span(p part) (from, to int) {
	if p == partNone {
		return 0, 0
	}
	bounds := [...]int{0, r.reasoning, r.tool, r.total}
	return bounds[p-1], bounds[p]
}

// has reports whether the answer has a part.
func (r *reply) has(p part) bool {
	from, to := r.span(p)
	return from < to
}

// parts lists the parts that the answer has.
func (r *reply) parts(yield func(part) bool) {
	for of := partReasoning; of <= partTool; of++ {
		if r.has(of) && !yield(of) {
			return
		}
	}
}

// partIndex counts the parts of the answer before p.
func (r *reply) partIndex(p part) (n int) {
	for q := partReasoning; q < p; q++ {
		if r.has(q) {
			n++
		}
	}
	return n
}

// chunkAt returns how many tokens the chunk that begins with token k has.
func (r *reply) chunkAt(k int) int {
	_, end := r.span(r.partAt(k))
	if r.p.single {
		return end - k
	}
	return min(r.cfg.TokensPerChunk, end-k)
}
