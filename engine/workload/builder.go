package workload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// method is that of every request: all inference APIs post.
const method = "POST"

// Builder is how the requests of a work are made.
type Builder struct {
	Backend api.Backend
	Source  prompt.Source
	Headers []http1.Header // besides Host, Content-Length and X-Request-Id
	ByOwner []Owned        // by the trace's Owners: in place of Backend and Headers; nil = all are alike
	RunID   string         // first part of every request id
	// for tests and measurements: blocks that prompts share are held once, whatever that saves
	AlwaysShare bool
}

// Owned is how requests of one Owner are made.
type Owned struct {
	Backend api.Backend
	Headers []http1.Header
}

// Layout finds where each request of w goes, and with that the exact memory needed, without building any. A
// VerbatimError is the first row that the backend cannot send.
func (r *Builder) Layout(ctx context.Context, w *Work) (*Requests, error) {
	n := w.Requests()
	m := &Requests{
		Builder: r,
		work:    w,
		arena:   &arena{},
		offsets: make([]int64, n+1),
		heads:   make([]int32, n),
		late:    newLateTargets(w),
	}
	if err := m.checkVerbatims(); err != nil {
		return nil, err
	}
	sizes := make([]int, n)
	err := parallel(ctx, n, func(from, to int) {
		var head []byte
		for i := from; i < to; i++ {
			body := m.sizeBody(i)
			head = m.AppendHead(head[:0], i, body)
			m.heads[i] = int32(len(head))
			sizes[i] = len(head) + body
		}
	})
	for i, size := range sizes {
		m.largest = max(m.largest, size)
		m.offsets[i+1] = m.offsets[i] + int64(size)
	}
	if err != nil || !r.AlwaysShare && !m.mayBeWorth() {
		return m, err
	}
	s := m.share(ctx)
	if s != nil && (r.AlwaysShare || s.worth(m.Bytes())) {
		m.sharing = s
	}
	return m, ctx.Err()
}

// ShareFor makes requests that were laid out whole lists of pieces, if they then take at most limit bytes.
func (m *Requests) ShareFor(ctx context.Context, limit int64) {
	if m.sharing != nil {
		return
	}
	s := m.share(ctx)
	if s != nil && s.bytes <= limit && s.coarse(m.Bytes()) {
		m.sharing = s
	}
}

// Fill builds every request where Layout put it and computes the workload's fingerprint. built counts finished bytes.
func (m *Requests) Fill(ctx context.Context, built *atomic.Int64) error {
	w := m.work
	var err error
	m.arena, err = newArena(m.Held())
	if err != nil {
		return err
	}
	m.digests = make([]digest, w.Requests())
	if m.sharing != nil {
		err = m.fillShared(ctx, built)
	} else {
		err = m.fill(ctx, 0, w.Requests(), built)
	}
	if err != nil {
		_ = m.Free()
	}
	return err
}

// fill builds the requests from from up to to, on all processors.
func (m *Requests) fill(ctx context.Context, from, to int, built *atomic.Int64) error {
	err := parallel(ctx, to-from, func(a, b int) {
		a += from
		b += from
		for i := a; i < b; i++ {
			m.digests[i] = m.build(i, m.At(i))
		}
		built.Add(m.offsets[b] - m.offsets[a])
	})
	if err == nil {
		m.built.Store(int64(to))
	}
	return err
}

// build writes request i into dst and returns its digest.
func (m *Requests) build(i int, dst []byte) digest {
	size := m.bodySize(i)
	b := m.AppendHead(dst[:0], i, size)
	b = m.appendBody(b, i)
	if len(b) != len(dst) || &b[0] != &dst[0] {
		panic(fmt.Sprintf("BUG: request %d has %d bytes, %d were laid out", i, len(b), len(dst)))
	}
	body := gather.Of(b[len(b)-size:])
	return m.digest(i, body)
}

// digest is that of request i.
func (m *Requests) digest(i int, body gather.List) digest {
	path := m.work.builtFor(i).Path
	if m.work.Played && m.work.Made(i) {
		body = gather.Of(m.appendOutline(nil, i))
	}
	return m.digestOf(path, body)
}

// appendOutline appends what the body of request i is made of. That is the blocks by their ids, and all that stands
// before and behind them. The first block is there as it is, too, and tells how ids become tokens.
func (m *Requests) appendOutline(dst []byte, i int) []byte {
	all := m.work.specOf(i)
	first := all
	first.Tokens = min(all.Tokens, max(1, all.BlockTokens))
	dst = m.backend(i).AppendPrefix(dst)
	dst = m.Source.Append(dst, first)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(all.Tokens))
	dst, _ = binary.Append(dst, binary.LittleEndian, m.sharedSpec(i).Blocks)
	dst = m.Source.AppendUnique(dst, all)
	return m.appendSuffix(dst, i)
}

// digestOf is SHA-256 over method, path and body, each after its length. The cache salt, new in every run, is left out:
// it stands in the body's last piece.
func (m *Requests) digestOf(path string, body gather.List) digest {
	h, ok := m.hashers.Get().(*hasher)
	if !ok {
		h = &hasher{Hash: sha256.New()}
	}
	defer m.hashers.Put(h)
	h.Reset()
	b := h.bytes[:0]
	for _, part := range []string{method, path} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	end := body.Pieces() - 1
	last := body.Piece(end)
	size := int(body.Len())
	saltFrom, saltTo := m.Backend.SaltSpan(last)
	if saltTo > 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(size-len(last)+saltFrom))
	} else { // nothing stands before it, and all behind it
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
	}
	h.Write(b)
	for k := range end {
		h.Write(body.Piece(k))
	}
	if saltTo > 0 {
		h.Write(last[:saltFrom])
		h.Write(binary.LittleEndian.AppendUint64(b[:0], uint64(len(last)-saltTo)))
	}
	h.Write(last[saltTo:])
	h.bytes = h.Sum(b[:0])
	return digest(h.bytes)
}

// hasher is used again: what it hashes would be garbage for each of the requests that are built during a run.
type hasher struct {
	hash.Hash
	bytes []byte
}

// appendDigest appends what the fingerprint has of request i.
func (m *Requests) appendDigest(b []byte, i int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(m.work.plannedNS(i)))
	return append(b, m.digests[i][:]...)
}

// plannedNS is the planned instant of request i, 0 in a closed loop.
func (w *Work) plannedNS(i int) int64 {
	if !w.Plan.Open() {
		return 0
	}
	return w.Plan.ReleaseNS[i]
}

// AppendHead appends request i's head for a body of so many bytes.
func (m *Requests) AppendHead(dst []byte, i, bodyBytes int) []byte {
	w := m.work
	t := w.builtFor(i)
	dst = http1.AppendRequestStart(dst, method, t.Path+t.Query, t.Host)
	dst = http1.AppendHeaders(dst, m.Owned(i).Headers)
	dst = append(dst, "\r\nX-Request-Id: "...)
	dst = appendRequestID(dst, m.RunID, w.Number(i))
	return http1.AppendHeadEnd(dst, bodyBytes)
}

// checkVerbatims is the VerbatimError of the first row that the backend cannot send.
func (m *Requests) checkVerbatims() error {
	w := m.work
	for i := range w.Requests() {
		if err := m.checkVerbatim(i); err != nil {
			return &VerbatimError{int(w.Trace.Row[i]), err}
		}
	}
	return nil
}

// checkVerbatim is why the backend cannot send request i; nil if it can.
func (m *Requests) checkVerbatim(i int) error {
	w := m.work
	l, _ := w.VerbatimOf(i)
	free := w.Trace.OutputTokens[i] <= 0 && l.Form != api.Payload
	sized := m.Backend.Traits().Sized
	_, told := w.AnswerOf(i)
	switch {
	case free && sized && !m.Backend.OwnLength(l.Extra):
		return errors.New("it has no output length, which this API must be given; use --extra-inputs max_tokens:N")
	case told && m.backend(i).AnswerEnd() == 0:
		return errors.New("it has an answer's tokens among its extra members, and --force-answers tells others")
	}
	return m.Backend.Takes(l)
}

// backend makes the body of a request of which the prompt is made.
func (m *Requests) backend(i int) api.Backend {
	backend := m.Owned(i).Backend
	extra := m.work.Trace.Verbatim(i).Extra
	if extra != nil {
		return backend.With(extra)
	}
	return backend
}

// Owned is how request i is made.
func (m *Requests) Owned(i int) Owned {
	t := m.work.Trace
	if m.ByOwner == nil || t.Owner == nil || t.Owner[i] == agents.None {
		return Owned{Backend: m.Backend, Headers: m.Headers}
	}
	return m.ByOwner[t.Owner[i]]
}

// bodySize is the size of request i's body in bytes.
func (m *Requests) bodySize(i int) int { return int(m.Size(i)) - int(m.heads[i]) }

// sizeBody finds that size.
func (m *Requests) sizeBody(i int) int {
	w := m.work
	output := int(w.Trace.OutputTokens[i])
	l, ok := w.VerbatimOf(i)
	if ok {
		return m.Owned(i).Backend.VerbatimSize(l, output)
	}
	prompt := m.Source.Size(w.specOf(i))
	size := m.backend(i).Size(prompt, output)
	a, told := w.AnswerOf(i)
	if told {
		size += w.Answers.source.AnswerSize(a)
	}
	return size
}

func (m *Requests) appendBody(dst []byte, i int) []byte {
	w := m.work
	l, ok := w.VerbatimOf(i)
	if ok {
		return m.Owned(i).Backend.AppendVerbatim(dst, l, int(w.Trace.OutputTokens[i]))
	}
	dst = m.backend(i).AppendPrefix(dst)
	dst = m.Source.Append(dst, w.specOf(i))
	return m.appendSuffix(dst, i)
}

// appendSuffix appends what follows the prompt in request i's body, the answer's tokens among it where they are told.
func (m *Requests) appendSuffix(dst []byte, i int) []byte {
	w := m.work
	backend := m.backend(i)
	dst = backend.AppendSuffix(dst, int(w.Trace.OutputTokens[i]))
	a, told := w.AnswerOf(i)
	if told {
		at := len(dst) - backend.AnswerEnd()
		end := string(dst[at:])
		dst = w.Answers.source.AppendAnswer(dst[:at], a)
		dst = append(dst, end...)
	}
	return dst
}

// PromptError is a built prompt that has not the number of tokens that it should.
type PromptError struct {
	Row       int // in the trace file, from 0
	Want, Got int // tokens
	Why       error
}

// Error names row, want and got.
func (e *PromptError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("row %d: want %d tokens: %v", e.Row, e.Want, e.Why)
	}
	return fmt.Sprintf("row %d: want %d tokens, got %d", e.Row, e.Want, e.Got)
}

// Verify counts the tokens of n built prompts again, in parallel. It chooses them evenly: all if n is negative or too
// large, and no verbatim ones. Many goroutines call count, with a prompt as it stands in the request's body. Verify
// returns how many were counted. The error is the PromptError of the first row that differs.
func (m *Requests) Verify(
	ctx context.Context, n int, count func(prompt []byte) (int, error),
) (counted int, err error) {
	w := m.work
	if n < 0 || n > w.Requests() {
		n = w.Requests()
	}
	var mu sync.Mutex
	var made atomic.Int64
	var wrong []*PromptError
	err = parallel(ctx, n, func(from, to int) {
		for k := from; k < to; k++ {
			i := k * w.Requests() / n
			if !w.Made(i) {
				continue
			}
			made.Add(1)
			want := w.specOf(i).Tokens
			got, err := count(m.promptIn(i))
			if got != want || err != nil {
				mu.Lock()
				wrong = append(wrong, &PromptError{int(w.Trace.Row[i]), want, got, err})
				mu.Unlock()
			}
		}
	})
	counted = int(made.Load())
	if err != nil || len(wrong) == 0 {
		return counted, err
	}
	return counted, slices.MinFunc(wrong, func(a, b *PromptError) int {
		return a.Row - b.Row
	})
}

// promptIn is the prompt as it stands in the body of request i.
func (m *Requests) promptIn(i int) []byte {
	w := m.work
	raw := m.Whole(i)
	body := raw[len(raw)-m.bodySize(i):]
	before := m.backend(i).AppendPrefix(nil)
	size := m.Source.Size(w.specOf(i))
	return body[len(before):][:size]
}

// rowsAtOnce is how many rows a builder claims at a time: enough to make claiming cheap, few enough to share the end.
const rowsAtOnce = 32

// parallel calls f for all of 0..n-1 in ranges, on as many workers as there are processors. It stops early, with ctx's
// error, when ctx ends.
func parallel(ctx context.Context, n int, f func(from, to int)) error {
	var claimed atomic.Int64
	var workers sync.WaitGroup
	work := func() {
		for ctx.Err() == nil {
			from := int(claimed.Add(rowsAtOnce)) - rowsAtOnce
			if from >= n {
				return
			}
			f(from, min(from+rowsAtOnce, n))
		}
	}
	for range min(runtime.NumCPU(), n/rowsAtOnce) - 1 {
		workers.Go(work)
	}
	work() // on the caller's own, which waits for the others
	workers.Wait()
	return ctx.Err()
}
