package workload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/engine/internal/gather"
)

// method is that of every request: all inference APIs post.
const method = "POST"

// Builder is how the requests of a work are made.
type Builder struct {
	Backend api.Backend
	Source  prompt.Source
	Headers []http1.Header // besides Host, Content-Length and X-Request-Id
	RunID   string         // first part of every request id
	Sharing Sharing
}

// Layout finds where each request of w goes, and with that the exact memory needed, without building any. A
// VerbatimError is the first row that the backend cannot send.
func (r *Builder) Layout(ctx context.Context, w *Work) (*Requests, error) {
	if err := r.checkVerbatims(w); err != nil {
		return nil, err
	}
	n := w.Requests()
	m := &Requests{
		builder: r,
		arena:   &arena{},
		offsets: make([]int64, n+1),
		late:    newLateTargets(w),
	}
	err := parallel(ctx, n, func(from, to int) {
		var head []byte
		for i := from; i < to; i++ {
			body := r.bodySize(w, i)
			head = r.AppendHead(head[:0], w, i, body)
			m.offsets[i+1] = int64(len(head) + body)
		}
	})
	for i := range n {
		m.largest = max(m.largest, int(m.offsets[i+1]))
		m.offsets[i+1] += m.offsets[i]
	}
	if err == nil && (r.Sharing == ShareAlways || r.Sharing == ShareIfWorth && r.mayBeWorth(w, m.Bytes())) {
		if m.sharing = r.share(ctx, w, m); r.Sharing == ShareIfWorth && m.sharing != nil &&
			!m.sharing.worth(m.Bytes()) {
			m.sharing = nil
		}
		err = ctx.Err()
	}
	return m, err
}

// ShareFor makes requests that were laid out whole lists of pieces, if they then take at most limit bytes.
func (r *Builder) ShareFor(ctx context.Context, w *Work, m *Requests, limit int64) {
	if m.sharing == nil && r.Sharing != ShareNever {
		if s := r.share(ctx, w, m); s != nil && s.bytes <= limit && s.coarse(m.Bytes()) {
			m.sharing = s
		}
	}
}

// Fill builds every request where Layout put it and computes the workload's fingerprint. built counts finished bytes.
func (r *Builder) Fill(ctx context.Context, w *Work, m *Requests, built *atomic.Int64) error {
	var err error
	if m.arena, err = newArena(m.Held()); err != nil {
		return err
	}
	m.digests = make([][sha256.Size]byte, w.Requests())
	if m.sharing != nil {
		err = r.fillShared(ctx, w, m, built)
	} else {
		err = r.fill(ctx, w, m, 0, w.Requests(), built)
	}
	if err != nil {
		_ = m.Free()
	}
	return err
}

// fill builds the requests from from up to to, on all processors.
func (r *Builder) fill(ctx context.Context, w *Work, m *Requests, from, to int, built *atomic.Int64) error {
	err := parallel(ctx, to-from, func(a, b int) {
		for i := from + a; i < from+b; i++ {
			m.digests[i] = r.build(w, i, m.At(i))
		}
		built.Add(m.offsets[from+b] - m.offsets[from+a])
	})
	if err == nil {
		m.built.Store(int64(to))
	}
	return err
}

// build writes request i into dst and returns its digest.
func (r *Builder) build(w *Work, i int, dst []byte) [sha256.Size]byte {
	b := r.AppendHead(dst[:0], w, i, r.bodySize(w, i))
	bodyAt := len(b)
	b = r.appendBody(b, w, i)
	if len(b) != len(dst) || &b[0] != &dst[0] {
		panic(fmt.Sprintf("BUG: request %d has %d bytes, %d were laid out", i, len(b), len(dst)))
	}
	return r.digest(w.builtFor(i).Path, gather.Of(b[bodyAt:]))
}

// digest is SHA-256 over method, path and body, each after its length. The cache salt, new in every run, is left out:
// it stands in the body's last piece.
func (r *Builder) digest(path string, body gather.List) (d [sha256.Size]byte) {
	h := sha256.New()
	begin := func(size int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(size))
		h.Write(b[:])
	}
	for _, part := range []string{method, path} {
		begin(len(part))
		_, _ = io.WriteString(h, part)
	}
	last := body.Piece(body.Pieces() - 1)
	size, behind := int(body.Len()), len(last) // behind the salt; all where there is none
	saltFrom, saltTo := r.Backend.SaltSpan(last)
	if saltTo > 0 {
		behind -= saltTo
		begin(size - len(last) + saltFrom)
	} else {
		begin(0)
		begin(size)
	}
	for k := range body.Pieces() - 1 {
		h.Write(body.Piece(k))
	}
	if saltTo > 0 {
		h.Write(last[:saltFrom])
		begin(behind)
	}
	h.Write(last[len(last)-behind:])
	h.Sum(d[:0])
	return d
}

// fingerprint is SHA-256 over (planned_ns, digest) in plan order; a closed loop plans no instants.
func fingerprint(w *Work, digests [][sha256.Size]byte) string {
	h := sha256.New()
	var b [8 + sha256.Size]byte
	for i := range digests {
		h.Write(appendDigest(b[:0], w, i, &digests[i]))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// appendDigest appends what the fingerprint has of request i.
func appendDigest(b []byte, w *Work, i int, digest *[sha256.Size]byte) []byte {
	at := int64(0)
	if w.Plan.Open() {
		at = w.Plan.ReleaseNS[i]
	}
	return append(binary.LittleEndian.AppendUint64(b, uint64(at)), digest[:]...)
}

// AppendHead appends request i's head for a body of so many bytes.
func (r *Builder) AppendHead(dst []byte, w *Work, i, bodyBytes int) []byte {
	t := w.builtFor(i)
	var own [16]http1.Header
	headers := append(own[:0], r.Headers...)
	headers = append(headers, http1.Header{Name: "X-Request-Id", Value: requestID(r.RunID, w.Number(i))})
	return http1.AppendRequestHead(dst, method, t.Path+t.Query, t.Host, headers, bodyBytes)
}

// checkVerbatims is the VerbatimError of the first row that the backend cannot send.
func (r *Builder) checkVerbatims(w *Work) error {
	traits := r.Backend.Traits()
	for i := range w.Requests() {
		l, _ := w.VerbatimOf(i)
		if traits.Sized && w.Trace.OutputTokens[i] <= 0 && l.Form != api.Payload && !r.Backend.OwnLength(l.Extra) {
			return &VerbatimError{int(w.Trace.Row[i]),
				errors.New("it has no output length, which this API must be given; use --extra-inputs max_tokens:N")}
		}
		if _, told := w.AnswerOf(i); told && r.backend(w, i).AnswerEnd() == 0 {
			return &VerbatimError{int(w.Trace.Row[i]),
				errors.New("it has an answer's tokens among its extra members, and --force-answers tells others")}
		}
		if err := r.Backend.Takes(l); err != nil {
			return &VerbatimError{int(w.Trace.Row[i]), err}
		}
	}
	return nil
}

// backend makes the body of a request of which the prompt is made.
func (r *Builder) backend(w *Work, i int) api.Backend {
	if extra := w.Trace.Verbatim(i).Extra; extra != nil {
		return r.Backend.With(extra)
	}
	return r.Backend
}

// bodySize is the exact size of request i's body in bytes.
func (r *Builder) bodySize(w *Work, i int) int {
	output := int(w.Trace.OutputTokens[i])
	if l, ok := w.VerbatimOf(i); ok {
		return r.Backend.VerbatimSize(l, output)
	}
	size := r.backend(w, i).Size(r.Source.Size(w.specOf(i)), output)
	if a, told := w.AnswerOf(i); told {
		size += w.Answers.source.AnswerSize(a)
	}
	return size
}

func (r *Builder) appendBody(dst []byte, w *Work, i int) []byte {
	if l, ok := w.VerbatimOf(i); ok {
		return r.Backend.AppendVerbatim(dst, l, int(w.Trace.OutputTokens[i]))
	}
	dst = r.Source.Append(r.backend(w, i).AppendPrefix(dst), w.specOf(i))
	return r.appendSuffix(dst, w, i)
}

// appendSuffix appends what follows the prompt in request i's body, the answer's tokens among it where they are told.
func (r *Builder) appendSuffix(dst []byte, w *Work, i int) []byte {
	backend := r.backend(w, i)
	dst = backend.AppendSuffix(dst, int(w.Trace.OutputTokens[i]))
	if a, told := w.AnswerOf(i); told {
		at := len(dst) - backend.AnswerEnd()
		end := string(dst[at:])
		dst = append(w.Answers.source.AppendAnswer(dst[:at], a), end...)
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
func (r *Builder) Verify(
	ctx context.Context, w *Work, n int, count func(prompt []byte) (int, error),
) (counted int, err error) {
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
			raw := w.Prebuilt.Whole(w, i)
			spec := w.specOf(i)
			size := r.Source.Size(spec)
			body := r.bodySize(w, i)
			before := len(r.backend(w, i).AppendPrefix(nil))
			text := raw[len(raw)-body+before:][:size]
			if got, err := count(text); got != spec.Tokens || err != nil {
				mu.Lock()
				wrong = append(wrong, &PromptError{
					Row:  int(w.Trace.Row[i]),
					Want: spec.Tokens,
					Got:  got,
					Why:  err,
				})
				mu.Unlock()
			}
		}
	})
	if err != nil || len(wrong) == 0 {
		return int(made.Load()), err
	}
	return int(made.Load()), slices.MinFunc(wrong, func(a, b *PromptError) int { return a.Row - b.Row })
}

// rowsAtOnce is how many rows a builder claims at a time: enough to make claiming cheap, few enough to share the end.
const rowsAtOnce = 32

// parallel calls f for all of 0..n-1 in ranges, on as many workers as there are processors. It stops early, with ctx's
// error, when ctx ends.
func parallel(ctx context.Context, n int, f func(from, to int)) error {
	var claimed atomic.Int64
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for ctx.Err() == nil {
				from := int(claimed.Add(rowsAtOnce)) - rowsAtOnce
				if from >= n {
					return
				}
				f(from, min(from+rowsAtOnce, n))
			}
		})
	}
	workers.Wait()
	return ctx.Err()
}
