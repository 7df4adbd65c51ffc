package workload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
)

// method is that of every request: all inference APIs post.
const method = "POST"

// Recipe is how the request images of a work are made.
type Recipe struct {
	Backend api.Backend
	Source  prompt.Source
	Headers []http1.Header // besides Host, Content-Length and X-Request-Id
	RunID   string         // first part of every request id
}

// Images are the bytes of every request of a run, head and body, in one arena outside the Go heap. Free them after the run.
type Images struct {
	arena   *arena
	offsets []int64 // image i is offsets[i+1]-offsets[i] bytes long and begins at offsets[i] of all, see place
	largest int
	window  *window // where not all of them fit into memory; nil = they do
	digests [][sha256.Size]byte
	aims    *aims        // where requests are told their targets when they leave; nil = the images name them
	built   atomic.Int64 // images before this one have been built
}

// At is the image of request i, valid until Free, or with a window until it was written. It must not be written to.
func (m *Images) At(i int) []byte {
	from, to := m.Offset(i), m.Offset(i)+m.Size(i)
	if m.aims != nil {
		from += int64(m.aims.gaps[i])
	}
	return m.arena.bytes[from:to:to]
}

// Offset is where image i begins in the arena.
func (m *Images) Offset(i int) int64 {
	if m.window != nil {
		return m.window.places[i]
	}
	return m.offsets[i]
}

// Size is the size of image i in bytes.
func (m *Images) Size(i int) int64 { return m.offsets[i+1] - m.offsets[i] }

// Ready tells whether image i stands in the arena.
func (m *Images) Ready(i int) bool { return m.window == nil || m.built.Load() > int64(i) }

// Bytes is the size of all images.
func (m *Images) Bytes() int64 { return m.offsets[len(m.offsets)-1] }

// Fingerprint of the workload, "sha256:…"; "" as long as an image was not built.
func (m *Images) Fingerprint(w *Work) string {
	if m.built.Load() < int64(w.Requests()) {
		return ""
	}
	return fingerprint(w, m.digests)
}

// MappedBytes is how many bytes of memory the images have: those of a window, or of all of them.
func (m *Images) MappedBytes() int64 { return int64(len(m.arena.bytes)) }

// File is the images' memory for another process to map; nil where the system has none such.
func (m *Images) File() *os.File { return m.arena.file }

// Largest is the size of the largest image in bytes.
func (m *Images) Largest() int { return m.largest }

// Free gives the memory back; no image may be used afterwards.
func (m *Images) Free() error { return m.arena.free() }

// Layout finds where each image of w goes, and with that the exact memory needed, without building any. A LiteralError is the
// first row that the backend cannot send.
func (r *Recipe) Layout(ctx context.Context, w *Work) (*Images, error) {
	if err := r.checkLiterals(w); err != nil {
		return nil, err
	}
	n := w.Requests()
	m := &Images{arena: &arena{}, offsets: make([]int64, n+1), aims: newAims(w)}
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
	return m, err
}

// Fill builds every image where Layout put it and computes the workload's fingerprint. built counts finished bytes.
func (r *Recipe) Fill(ctx context.Context, w *Work, m *Images, built *atomic.Int64) error {
	var err error
	if m.arena, err = newArena(m.Bytes()); err != nil {
		return err
	}
	m.digests = make([][sha256.Size]byte, w.Requests())
	if err := r.fill(ctx, w, m, 0, w.Requests(), built); err != nil {
		_ = m.Free()
		return err
	}
	return nil
}

// fill builds the images of the requests from from up to to, on all processors.
func (r *Recipe) fill(ctx context.Context, w *Work, m *Images, from, to int, built *atomic.Int64) error {
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

// build writes image i into dst and returns the digest of what it asks.
func (r *Recipe) build(w *Work, i int, dst []byte) [sha256.Size]byte {
	b := r.AppendHead(dst[:0], w, i, r.bodySize(w, i))
	bodyAt := len(b)
	b = r.appendBody(b, w, i)
	if len(b) != len(dst) || &b[0] != &dst[0] {
		panic(fmt.Sprintf("BUG: image %d has %d bytes, %d were laid out", i, len(b), len(dst)))
	}
	return r.digest(w.drawnFor(i).Path, b[bodyAt:])
}

// digest is SHA-256 over method, path and body, each after its length. The cache salt, new in every run, is left out.
func (r *Recipe) digest(path string, body []byte) (d [sha256.Size]byte) {
	h := sha256.New()
	saltFrom, saltTo := r.Backend.SaltSpan(body)
	for _, part := range [][]byte{[]byte(method), []byte(path), body[:saltFrom], body[saltTo:]} {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	h.Sum(d[:0])
	return d
}

// fingerprint is SHA-256 over (planned_ns, digest) in plan order; a closed loop plans no instants.
func fingerprint(w *Work, digests [][sha256.Size]byte) string {
	h := sha256.New()
	for i := range digests {
		var at [8]byte
		if w.Plan.Open() {
			binary.LittleEndian.PutUint64(at[:], uint64(w.Plan.ReleaseNS[i]))
		}
		h.Write(at[:])
		h.Write(digests[i][:])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (r *Recipe) spec(w *Work, i int) prompt.Spec {
	return prompt.Spec{
		Blocks:      w.Trace.Blocks(i),
		BlockTokens: w.Trace.BlockTokens,
		Tokens:      w.PromptTokens(i),
		Unique:      w.Trace.Unique(i),
	}
}

// AppendHead appends request i's head for a body of so many bytes.
func (r *Recipe) AppendHead(dst []byte, w *Work, i, bodyBytes int) []byte {
	t := w.drawnFor(i)
	var own [16]http1.Header
	headers := append(own[:0], r.Headers...)
	headers = append(headers, http1.Header{Name: "X-Request-Id", Value: requestID(r.RunID, i)})
	return http1.AppendRequestHead(dst, method, t.Path+t.Query, t.Host, headers, bodyBytes)
}
