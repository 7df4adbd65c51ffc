package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/klauspost/compress/gzip"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/sse"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/wire"
)

// maxWholeBody bounds a body that is not an event stream: a whole completion of the longest outputs served today.
const maxWholeBody = 64 << 20

// maxGaps bounds the gaps of an answer beyond what was asked of it, at 24 bytes each. The longest answers that are
// served today have 131,072 tokens. A server that never ends an answer would fill the memory.
const maxGaps = 1 << 17

// response turns the bytes of one response into a record. It belongs to one receiver, which passes in what it read
// and the instant of the read. All events of one read have that instant.
type response struct {
	backend api.Backend
	stream  bool             // the request asks for a stream
	secrets *redact.Redactor // hides credentials in what the server answers
	names   *instanceNames

	head   http1.Response
	events sse.Scanner
	delta  api.Delta
	rec    *record.Record
	gaps   []int64 // between token chunks of a choice, ns; for the collector if the request ends ok
	spans  []choiceSpan
	whole  []byte // a body that is not an event stream
	form   bodyForm

	large  *largeBuffers  // lends memory for what is large
	loans  borrower       // of large
	chunks chunkLines     // of the chunk log
	answer history.Answer // for later turns
	forced forcedTokens   // of the tokens that the server was told
	readNS int64          // the instant after the read
	// how much earlier than its instant a part of what was read may have come; 0 of a read in time
	slackNS int64
	// events that the read found at one instant, the last token chunk among them; 0 if nothing followed a chunk
	together int64
	entry    int                   // the gap before them; -1 = none
	moved    []metrics.LateReadGap // gaps that late reads may have changed
	noted    int                   // the number of gaps when the latest was added to moved

	waitedNS           int64 // how long the server can have waited for room in the receive buffer during the answer
	roomNS, lastWaitNS int64 // the instant of the first bytes after the latest such wait, and how long that was

	bytesIn     int64
	emptyFinish uint64 // the choices of the event below
	// when a finish chunk with empty text came, or one before any token. It is a token if usage counts one more than
	// the chunks, or no chunk came
	emptyFinishNS int64
	leading       int64 // token chunks before the first text
	usageTokens   int64
	thought       int64 // tokens of usageTokens that are reasoning
	reasoned      bool  // some reasoning came
	marks         bool  // answers of this API have a mark when they are finished
	finished      bool  // a finish reason or [DONE] was seen

	finish, finishLabel string // the latest finish reason, and how records name it: the next answer may say the same

	streamError bool
	reusable    bool // the connection may carry another request

	firstNS atomic.Int64 // first_token_ns for other goroutines; record.None before it came
}

type bodyForm uint8

const (
	undecided bodyForm = iota
	eventStream
	wholeBody
)

// begin makes p ready for the response to rec's request.
func (p *response) begin(rec *record.Record) {
	p.head.Reset()
	p.events.Reset()
	p.rec = rec
	p.form = undecided
	p.gaps = p.gaps[:0]
	p.moved = p.moved[:0]
	p.whole = sse.Reuse(p.events.Memory, p.whole)
	p.spans, p.together, p.noted = p.spans[:0], 0, 0
	p.bytesIn = 0
	p.delta.Reset()
	p.emptyFinishNS = record.None
	p.leading = 0
	p.usageTokens = record.None
	p.thought = 0
	p.reasoned = false
	p.finished = false
	p.streamError = false
	p.reusable = false
	p.answer.Reset()
}

// feed processes what one read returned. If ended, the record's outcome is set and the response is over. If the body
// is compressed, feed returns its first piece, and what follows it in b, for readInflated.
func (p *response) feed(b []byte, nowNS int64) (ended bool, compressed *inflateSource) {
	defer p.spread()
	p.bytesIn += int64(len(b))
	for {
		headWasDone := p.head.HeadDone()
		body, n, err := p.head.Scan(b)
		if p.head.HeadDone() && !headWasDone {
			p.rec.HeadersNS, p.rec.Status = nowNS, int64(p.head.Status)
			p.rec.Instance = p.names.of(&p.head)
			if name := p.head.Kept(p.names.headers + len(gatewayHeaders()) + 1); len(name) > 0 {
				p.rec.PrefillInstance = p.names.intern(name)
			}
			p.gatewayShare()
		}
		if err != nil {
			return p.fail(record.BadResponse, err.Error()), nil
		}
		if len(body) > 0 {
			if p.head.Gzip {
				return false, &inflateSource{
					response: p,
					body:     body,
					pending:  b[n:],
					nowNS:    nowNS,
				}
			}
			if err := p.onBody(body, nowNS); err != nil {
				return p.fail(record.BadResponse, err.Error()), nil
			}
		}
		b = b[n:]
		if p.head.Done() {
			p.reusable = p.head.KeepAlive && len(b) == 0
			return p.end(nowNS), nil
		}
		if len(b) == 0 {
			return false, nil
		}
	}
}

// onBody processes decompressed body bytes.
func (p *response) onBody(body []byte, nowNS int64) error {
	if p.form == undecided {
		body = p.decideForm(body)
	}
	switch p.form {
	case eventStream:
		return p.onEvents(body, nowNS)
	case wholeBody:
		if p.rec.Status != 200 { // what exceeds redact.MaxErrorRead is read and dropped
			body = body[:min(len(body), redact.MaxErrorRead-len(p.whole))]
		}
		if len(p.whole)+len(body) > maxWholeBody {
			return fmt.Errorf("body larger than %d MiB", maxWholeBody>>20)
		}
		p.whole = sse.Append(p.events.Memory, p.whole, body)
	}
	return nil
}

// Grow implements sse.Memory.
func (p *response) Grow(b []byte, n int) []byte {
	p.loans.lent = true
	return p.large.grow(b, n)
}

// Free implements sse.Memory.
func (p *response) Free(b []byte) { p.large.put(b) }

// freeBuffers gives back the lent memory, when the response has ended.
func (p *response) freeBuffers() {
	if !p.loans.lent {
		return
	}
	p.events.Reset()
	p.whole = sse.Reuse(p.events.Memory, p.whole)
	p.loans.lent = false
	p.large.end(&p.loans)
}

// decideForm sets the form by the status, the request and the first byte, not by the Content-Type. Some servers
// stream as text/plain, and some answer a stream request with one JSON object. It returns body without leading white
// space.
func (p *response) decideForm(body []byte) []byte {
	if p.head.Status != 200 || !p.stream {
		p.form = wholeBody
		return body
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(body) == 0:
	case bytes.IndexByte([]byte("{[<"), body[0]) >= 0: // JSON, or a page of somebody between
		p.form = wholeBody
	default:
		p.form = eventStream
	}
	return body
}

func (p *response) onEvents(body []byte, nowNS int64) error {
	for len(body) > 0 {
		data, n, ok, err := p.events.Next(body)
		if err != nil {
			return err
		}
		body = body[n:]
		if ok {
			if err := p.onEvent(data, nowNS); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *response) onEvent(data []byte, nowNS int64) error {
	d := &p.delta
	if d.Done { // clients read no further, so what follows is no part of the answer
		return nil
	}
	if err := p.parseEvent(data); err != nil {
		return err
	}
	if p.slackNS > 0 && p.rec.LastTokenNS == nowNS {
		p.followed()
	}
	p.answer.Add(d)
	p.forced.take(d.IDs, p.rec)
	if d.Token {
		p.chunks.add(p.rec, nowNS, p.readNS, data)
		p.onToken(d.Text, d.Reasoning, d.Choices, nowNS)
	}
	if d.EmptyFinish || d.Finish != "" && p.rec.Chunks == 0 {
		p.emptyFinish = d.Choices
		p.emptyFinishNS = nowNS
	}
	p.onDelta(d)
	p.names.in(data, d, p.rec)
	return p.endless()
}

// parseEvent fills the delta from an event. One that the stream calls an error is one, whatever it says.
func (p *response) parseEvent(data []byte) error {
	err := p.backend.ParseEvent(data, &p.delta)
	if p.events.Failed() {
		p.delta.Fail(data)
		return nil
	}
	return err
}

// endless refuses an answer that goes on far beyond what was asked. Its chunks may have more than a token, and several
// choices.
func (p *response) endless() error {
	switch most := maxGaps + 8*int(p.rec.OutputTokens); {
	case len(p.gaps) > most:
		return fmt.Errorf("the answer does not end: over %d token chunks", most)
	case len(p.answer.Text) > maxWholeBody:
		return fmt.Errorf("the answer does not end: over %d MiB of text", maxWholeBody>>20)
	}
	return nil
}

// followed notes that more was found after the last token chunk in a late read: the chunk may have come before its
// instant.
func (p *response) followed() {
	rec := p.rec
	if rec.FirstTokenNS == rec.LastTokenNS {
		rec.FirstSlackNS = p.slackNS + p.waitedNS
	}
	if rec.FirstOutputNS == rec.LastTokenNS {
		rec.OutputSlackNS = p.slackNS + p.waitedNS
	}
	if p.together == 0 {
		p.together = 1
		p.entry = len(p.gaps) - 1
	}
	p.together++
	rec.LastSlackNS = p.slackNS + p.waitedNS
}

// spread notes what the gaps are if all that the last read found together had come evenly within its slack. It is
// called after each read.
func (p *response) spread() {
	if p.together == 0 {
		return
	}
	each := p.slackNS / p.together
	if p.entry >= 0 && p.noted <= p.entry {
		gap := p.gaps[p.entry]
		p.moved = append(p.moved, metrics.LateReadGap{NS: gap, LikelyNS: max(0, gap-p.slackNS) + each})
	}
	for range p.gaps[p.entry+1:] {
		p.moved = append(p.moved, metrics.LateReadGap{LikelyNS: each})
	}
	p.together = 0
}

// choiceSpan is when the first and the last token chunk of a choice came, ns.
type choiceSpan struct{ first, last int64 }

// onToken counts a token chunk, of the choices that have a bit each; 0 is the first. text: some text is in it;
// reasoning: nothing else is.
func (p *response) onToken(text, reasoning bool, choices uint64, nowNS int64) {
	rec := p.rec
	if rec.FirstTokenNS == record.None {
		rec.FirstTokenNS = nowNS
		rec.FirstSlackNS = p.waitedNS
		p.firstNS.Store(nowNS)
		if cap(p.gaps) < int(rec.OutputTokens) {
			p.gaps = make([]int64, 0, rec.OutputTokens) // once per connection and size
		}
	}
	for choices = max(choices, 1); choices != 0; choices &= choices - 1 {
		i := bits.TrailingZeros64(choices)
		for len(p.spans) <= i { // takes memory once per connection and number
			p.spans = append(p.spans, choiceSpan{record.None, record.None})
		}
		c := &p.spans[i]
		if c.first == record.None {
			c.first = nowNS
		} else {
			p.addGap(c.last, nowNS)
		}
		c.last = nowNS
	}
	p.noteOutput(text, reasoning, nowNS)
	if rec.FirstTextNS == record.None {
		if text {
			rec.FirstTextNS = nowNS
		} else {
			p.leading++
		}
	}
	rec.LastTokenNS = nowNS
	rec.LastSlackNS = p.waitedNS
	rec.Chunks++
}

// noteOutput notes when the answer itself began. A chunk without text may begin it if no text came before. But if
// reasoning is the first text, such chunks were none of the answer.
func (p *response) noteOutput(text, reasoning bool, nowNS int64) {
	rec := p.rec
	p.reasoned = p.reasoned || reasoning
	textless := rec.FirstTextNS == record.None
	switch {
	case reasoning && textless:
		rec.FirstOutputNS = record.None
	case !reasoning && rec.FirstOutputNS == record.None && (text || textless):
		rec.FirstOutputNS = nowNS
		rec.OutputSlackNS = p.waitedNS
	}
}

// addGap counts the gap between two token chunks of a choice. The server may have waited for room in it.
func (p *response) addGap(lastNS, nowNS int64) {
	gap := nowNS - lastNS
	p.gaps = append(p.gaps, gap)
	if lastNS < p.roomNS {
		p.moved = append(p.moved, metrics.LateReadGap{NS: gap, LikelyNS: max(0, gap-p.lastWaitNS)})
		p.noted = len(p.gaps)
	}
}

// onDelta notes what an event or a whole body has besides its tokens.
func (p *response) onDelta(d *api.Delta) {
	rec := p.rec
	if d.Finish != "" {
		if d.Finish != p.finish {
			p.finish = d.Finish
			p.finishLabel = p.secrets.Label(d.Finish)
		}
		rec.FinishReason = p.finishLabel
		p.finished = true
	}
	if d.Done {
		p.finished = true
	}
	if d.HasUsage() {
		keepCount(&p.usageTokens, d.CompletionTokens)
		if d.MoreTokens >= 0 {
			p.usageTokens = max(0, p.usageTokens) + int64(d.MoreTokens)
		}
		keepCount(&p.thought, d.ReasoningTokens)
		keepCount(&rec.PromptTokens, d.PromptTokens)
		keepCount(&rec.CachedTokens, d.CachedTokens)
	}
	keepCount(&rec.CachedDeviceTokens, d.Tiers.Device)
	keepCount(&rec.CachedHostTokens, d.Tiers.Host)
	keepCount(&rec.CachedExternalTokens, d.Tiers.External)
	if d.IsError && !p.streamError {
		p.streamError = true
		if rec.Error = p.secrets.FromJSON(d.Error); rec.Error == "" {
			rec.Error = "an error without a message"
		}
	}
}

// countedInHead notes the length of the prompt from the header in which some APIs report it with a whole answer.
func (p *response) countedInHead() {
	count := p.head.Kept(p.names.headers + len(gatewayHeaders()))
	if len(count) == 0 || p.rec.PromptTokens != record.None {
		return
	}
	if n, err := strconv.ParseUint(string(count), 10, 31); err == nil {
		p.rec.PromptTokens = int64(n)
	}
}

func keepCount(into *int64, count int) {
	if count >= 0 {
		*into = int64(count)
	}
}

// end sets the outcome of a response that is complete as HTTP.
func (p *response) end(nowNS int64) bool {
	rec := p.rec
	rec.DoneNS = nowNS
	if p.form == eventStream {
		if data, ok := p.events.Finish(); ok {
			if err := p.onEvent(data, nowNS); err != nil {
				return p.fail(record.Truncated, "the stream ended inside an event")
			}
		}
		p.endStream()
		return true
	}
	p.judgeWholeBody(nowNS)
	return true
}

// dropEmptyFirst takes the chunks before the first text for no tokens, if the server counts none for them. Some servers
// begin an answer with an empty chunk, long before its first token.
func (p *response) dropEmptyFirst() {
	rec := p.rec
	tokens := rec.Chunks - p.leading
	if p.leading == 0 || p.usageTokens < 1 || p.usageTokens > tokens || tokens == 0 || len(p.spans) > 1 {
		return
	}
	if rec.FirstOutputNS == rec.FirstTokenNS {
		rec.FirstOutputNS = rec.FirstTextNS
	}
	rec.FirstTokenNS = rec.FirstTextNS
	rec.Chunks = tokens
	p.gaps = slices.Delete(p.gaps, 0, int(p.leading))
}

func (p *response) endStream() {
	rec := p.rec
	p.dropEmptyFirst()
	// llama.cpp's chat sends no chunk of an answer that is half a character.
	unseen := p.usageTokens - rec.Chunks
	atEnd := p.emptyFinishNS != record.None && p.emptyFinishNS >= rec.LastTokenNS
	if atEnd && (unseen == 1 || unseen > 1 && rec.Chunks == 0) {
		p.onToken(false, false, p.emptyFinish, p.emptyFinishNS)
	}
	p.countTokens()
	p.countHidden()
	p.countChoices()
	if rec.Instance+rec.PrefillInstance != "" && len(p.gaps) > 0 && len(p.spans) == 1 {
		rec.SecondGapNS = p.gaps[0]
	}
	switch {
	case p.takeErrorIn200():
	case !p.finished && p.marks:
		rec.Outcome = record.Truncated
		rec.Error = "the stream ended without a finish reason or [DONE]"
	case rec.Chunks == 0:
		rec.Outcome = record.BadResponse
		rec.Error = "the stream carried no token chunk"
	case p.marks && rec.FinishReason == "" && p.usageTokens == record.None: // as of a proxy that lost the server
		rec.Outcome = record.Truncated
		rec.Error = "the stream ended with neither a finish reason nor a count of tokens"
	default:
		rec.Outcome = record.OK
		p.forced.end(rec)
	}
}

// judgeWholeBody reads a body that came in one piece. It has no first token; its last token comes with the body.
func (p *response) judgeWholeBody(nowNS int64) {
	rec := p.rec
	err := p.backend.ParseBody(p.whole, &p.delta)
	if rec.Status != 200 {
		rec.Outcome, rec.Error = record.HTTPError, p.serverMessage(err)
		return
	}
	if err != nil {
		switch whole := bytes.TrimSpace(p.whole); {
		case len(whole) == 0:
			err = errors.New("the response has no body")
		case whole[0] == '<':
			err = errors.New("a page (HTML or XML) came in place of an answer")
		}
		rec.Outcome, rec.Error = record.BadResponse, p.secrets.Line(err.Error())
		return
	}
	p.answer.Add(&p.delta)
	p.forced.take(p.delta.IDs, rec)
	p.onDelta(&p.delta)
	p.countedInHead()
	p.names.in(p.whole, &p.delta, rec)
	p.countTokens()
	rec.Choices = int64(bits.OnesCount64(p.delta.Choices))
	switch {
	case p.takeErrorIn200():
	case !p.finished && (p.marks || !p.delta.Token):
		rec.Outcome = record.BadResponse
		rec.Error = "the response carries no answer that is finished"
	default:
		rec.Outcome = record.OK
		rec.LastTokenNS = nowNS
		p.forced.end(rec)
	}
}

// takeErrorIn200 reports whether the answer itself reports a failure, and sets the outcome then.
func (p *response) takeErrorIn200() bool {
	rec := p.rec
	switch {
	case p.streamError:
	case rec.FinishReason == "abort" || rec.FinishReason == "error": // vLLM's, when it is shut down
		rec.Error = "the server gave the request up: finish reason " + rec.FinishReason
	default:
		return false
	}
	rec.Outcome = record.StreamError
	return true
}

// serverMessage returns the message of an error response, in whatever form it is.
func (p *response) serverMessage(parseErr error) string {
	text := p.secrets.Line(string(p.whole[:min(len(p.whole), redact.MaxErrorRead)]))
	if parseErr == nil && len(p.delta.Error) > 0 {
		text = p.secrets.FromJSON(p.delta.Error)
	}
	if text == "" {
		text = fmt.Sprintf("HTTP %d without a message", p.rec.Status)
	}
	return text
}

// countChoices notes how many choices a stream had, and how long they took together, if there are several.
func (p *response) countChoices() {
	n, took := int64(0), int64(0)
	for _, c := range p.spans {
		if c.first != record.None {
			n++
			took += c.last - c.first
		}
	}
	if n > 1 {
		p.rec.Choices = n
		p.rec.DecodeNS = took
	}
}

// countTokens notes the server's count of tokens, or else that of the chunks, and which of them it is.
func (p *response) countTokens() {
	switch {
	case p.usageTokens != record.None:
		p.rec.CompletionTokens = p.usageTokens
		p.rec.TokensFrom = record.TokensFromUsage
	case p.rec.Chunks > 0:
		p.rec.CompletionTokens = p.rec.Chunks
		p.rec.TokensFrom = record.TokensFromChunks
	}
}

// countHidden notes reasoning that was counted and did not come. If it came, then as reasoning, or in more chunks than
// the rest of the answer has tokens; the first chunk may be none.
func (p *response) countHidden() {
	rec := p.rec
	sent := p.usageTokens - p.thought
	if p.thought > 0 && !p.reasoned && sent > 0 && rec.Chunks-1 <= sent {
		rec.HiddenTokens = p.thought
	}
}

// broken ends the response of a connection that failed or was closed with err.
func (p *response) broken(err error, nowNS int64) {
	if closed := errors.Is(err, io.EOF); closed || errors.Is(err, io.ErrUnexpectedEOF) { // the latter of TLS
		if cause := p.head.EOF(); cause != nil {
			err = cause
		} else if closed { // a body that ends with the connection
			p.end(nowNS)
			return
		}
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, http1.ErrNoResponse):
		p.fail(record.Reset, "the server closed the connection before it answered")
	case errors.Is(err, http1.ErrTruncated) || errors.Is(err, io.ErrUnexpectedEOF):
		p.fail(record.Truncated, err.Error())
	case wire.IsReset(err):
		p.fail(record.Reset, "connection reset by the server")
	case errors.As(err, &errno): // ETIMEDOUT, EHOSTUNREACH and their like: the network lost the connection
		p.fail(record.Reset, "connection lost: "+errno.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		panic("BUG: a deadline reached the response; the receiver handles deadlines")
	default:
		p.fail(record.BadResponse, err.Error())
	}
}

// fail ends the response with outcome o, unless the server itself has reported a failure. The connection is not used
// again.
func (p *response) fail(o record.Outcome, why string) bool {
	p.reusable = false
	p.countTokens()
	if !p.takeServerError() {
		p.rec.Outcome, p.rec.Error = o, p.secrets.Line(why)
	}
	return true
}

// takeServerError reports whether the server of a broken response has reported an error, and sets the outcome then.
// The error is in the status or in the part of the body that came.
func (p *response) takeServerError() bool {
	switch {
	case !p.head.HeadDone():
		return false
	case p.rec.Status != 200:
		p.rec.Outcome, p.rec.Error = record.HTTPError, p.serverMessage(p.backend.ParseBody(p.whole, &p.delta))
		return true
	case p.form == eventStream:
		if data, ok := p.events.Finish(); ok && p.parseEvent(data) == nil && p.delta.IsError {
			p.onDelta(&p.delta) // without the blank line after it
		}
	case len(p.whole) > 0 && p.backend.ParseBody(p.whole, &p.delta) == nil && p.delta.IsError:
		p.onDelta(&p.delta)
	}
	return p.takeErrorIn200()
}

// reader does one read of a receiver and returns the bytes and their instant.
type reader func() (b []byte, nowNS int64, err error)

// readInflated reads the rest of a compressed response and ends it. It returns the instant of the last read. The
// error is the connection's, or errResponseEnded. Compressed responses are rare, since no request accepts them, so
// this path may allocate.
func (p *response) readInflated(src *inflateSource, next reader) (nowNS int64, err error) {
	src.next = next
	if err = p.inflate(src); err != nil {
		return src.nowNS, err
	}
	for !p.head.Done() { // the framing after the last compressed byte
		if src.advance(); src.err != nil {
			return src.nowNS, src.err
		}
	}
	p.reusable = p.head.KeepAlive && len(src.pending) == 0
	p.end(src.nowNS)
	return src.nowNS, nil
}

// inflate passes decompressed bytes to onBody. The error is the connection's, or errResponseEnded after a failure of
// the response.
func (p *response) inflate(src *inflateSource) error {
	z, err := gzip.NewReader(src)
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = z.Read(buf)
		if n > 0 {
			if bad := p.onBody(buf[:n], src.nowNS); bad != nil {
				p.fail(record.BadResponse, bad.Error())
				return errResponseEnded
			}
		}
	}
	switch {
	case src.err != nil:
		return src.err
	case errors.Is(err, io.EOF): // of the gzip stream
		return nil
	default:
		p.fail(record.BadResponse, "gzip body: "+err.Error())
		return errResponseEnded
	}
}

// errResponseEnded means that the response has ended, and not by the connection's end.
var errResponseEnded = errors.New("response ended")

// inflateSource is the compressed body as an io.Reader.
type inflateSource struct {
	response *response
	pending  []byte // read but not scanned
	body     []byte // scanned but not returned
	nowNS    int64
	next     reader
	err      error
}

func (s *inflateSource) Read(dst []byte) (int, error) {
	for len(s.body) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.response.head.Done() {
			return 0, io.EOF
		}
		s.advance()
	}
	n := copy(dst, s.body)
	s.body = s.body[n:]
	return n, nil
}

func (s *inflateSource) advance() {
	if len(s.pending) == 0 {
		if s.pending, s.nowNS, s.err = s.next(); s.err != nil {
			return
		}
		s.response.bytesIn += int64(len(s.pending))
	}
	var n int
	s.body, n, s.err = s.response.head.Scan(s.pending)
	s.pending = s.pending[n:]
}

// gatewayShare notes the gateway's own time and the server's, as the gateway reports them. Of two gateways, the one
// next to the server counts.
func (p *response) gatewayShare() {
	at := p.names.headers
	all := msToNS(p.head.Kept(at))
	own := msToNS(p.head.Kept(at + 1))
	p.rec.GatewayNS, p.rec.UpstreamNS = own, msToNS(p.head.Kept(at+2))
	if own != record.None && all >= own {
		p.rec.UpstreamNS = all - own
	}
}

// msToNS reads a decimal number of ms, to the ns and at most a day; record.None for anything else. It allocates
// nothing.
func msToNS(text []byte) int64 {
	const day = 24 * 3600 * 1_000_000_000
	ns := int64(0)
	scale := int64(1_000_000)
	point := false
	for _, c := range text {
		switch {
		case c == '.' && !point:
			point = true
		case c < '0' || c > '9':
			return record.None
		case !point:
			ns = ns*10 + int64(c-'0')*scale
		default:
			scale /= 10
			ns += int64(c-'0') * scale
		}
		if ns > day {
			return record.None
		}
	}
	if len(text) == 0 {
		return record.None
	}
	return ns
}
