package report

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/klauspost/compress/zstd"
)

// MaxPendingBytes is how much a Writer keeps in memory while the disk refuses
// it: more than a million records. Beyond that, records are lost and counted.
const MaxPendingBytes = 1 << 30

// zstdWindow bounds the compressor's memory; a second of records is about as
// long (2,000 of 0.7 kB).
const zstdWindow = 1 << 20

// blockBytes is how much gathers in memory before it is written. Such blocks stay in a core's cache, while a second of
// a closed loop has 50 MB.
const blockBytes = 256 << 10

// WriterOptions is how records are written. The zero value writes plain
// lines.
type WriterOptions struct {
	// Compress writes requests.jsonl.zst. Each Flush is a zstd frame of its
	// own, so that the file is whole after each.
	Compress bool
	// OnRemoved is called from Flush or Close with the file's name when somebody had removed it and it was made anew,
	// with all its records. May be nil.
	OnRemoved func(name string)
	// OnState is called from Flush or Close when writing begins to fail (with
	// the error) and when it works again (with nil). May be nil.
	OnState func(error)
}

// Writer writes one line for each record. Lines gather in memory until Flush, or until they are a block. If the disk
// refuses them, they stay there and the next Flush tries again. What is on disk always ends with a whole line (or
// frame).
type Writer struct {
	file    file
	restore func() error // makes the file anew if it was removed
	onState func(error)
	encoder *zstd.Encoder // nil: plain

	lines   []byte // appended since the last Flush, when compressing
	records int64  // how many these are
	pending []byte // ready for the disk
	cuts    []cut  // where pending may be cut
	offset  int64  // of pending in the file
	limit   int    // of pending, in bytes
	lost    int64  // records given up
	kept    record.Lines
	err     error // why the last write failed; nil when it did not
}

// file is what a Writer needs of an *os.File.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// cut is a position in pending behind which whole records, and no part of
// another one, are complete.
type cut struct {
	end     int   // bytes of pending before it
	records int64 // records since the cut before
}

// NewWriter creates requests.jsonl in dir, which must not have one.
func NewWriter(dir string, o WriterOptions) (*Writer, error) {
	name := filepath.Join(dir, RequestsName)
	if o.Compress {
		name += ".zst"
	}
	f, err := newKeptFile(name, 0, o.OnRemoved)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(f, o)
	w.restore = f.restore
	return w, err
}

func newWriter(f file, o WriterOptions) (*Writer, error) {
	w := &Writer{
		file:    f,
		onState: o.OnState,
		limit:   MaxPendingBytes,
	}
	if !o.Compress {
		return w, nil
	}
	var err error
	w.encoder, err = zstd.NewWriter(
		nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(zstdWindow),
	)
	return w, err
}

// Append adds one record to what the next Flush writes. r is not kept.
func (w *Writer) Append(r *record.Record) {
	if len(w.pending)+len(w.lines) >= w.limit {
		w.lost++
		return
	}
	if w.encoder != nil {
		w.lines = w.line(w.lines, r)
		w.records++
		return
	}
	w.pending = w.line(w.pending, r)
	w.cuts = append(w.cuts, cut{
		end:     len(w.pending),
		records: 1,
	})
	if len(w.pending) >= blockBytes && w.err == nil {
		_ = w.Flush() // which the next one repeats
	}
}

// line appends a record to others.
func (w *Writer) line(to []byte, r *record.Record) []byte {
	before := len(to)
	to = r.AppendJSON(to)
	w.kept.Add(to[before : len(to)-1])
	return to
}

// Flush writes what has been appended. On error nothing is lost: the file
// ends with a whole record, and the next Flush goes on from there.
func (w *Writer) Flush() error {
	if len(w.lines) > 0 { // which wait for their frame
		w.pending = w.encoder.EncodeAll(w.lines, w.pending)
		w.cuts = append(w.cuts, cut{
			end:     len(w.pending),
			records: w.records,
		})
		w.lines = w.lines[:0]
		w.records = 0
	}
	var err error
	if w.restore != nil {
		err = w.restore()
	}
	if len(w.pending) == 0 {
		w.setState(err)
		return err
	}
	if err == nil {
		err = w.write(len(w.cuts))
	}
	// An os.File that could write only a part reports that it wrote nothing, so
	// what fits is found by halves.
	for n := len(w.cuts) / 2; err != nil && n > 0; n /= 2 {
		for len(w.cuts) >= n && w.write(n) == nil {
		}
	}
	if len(w.cuts) == 0 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%d records wait in memory: %w", w.Pending(), err)
	}
	w.setState(err)
	return err
}

// write writes pending up to its n-th cut, and forgets what is on disk.
func (w *Writer) write(n int) error {
	piece := w.pending[:w.cuts[n-1].end]
	wrote, err := w.file.WriteAt(piece, w.offset)
	if err == nil && wrote < len(piece) {
		err = io.ErrShortWrite
	}
	w.advance(wrote)
	if err != nil {
		// Half a record may be on disk. Cutting it off needs no room; if even
		// that fails, the next attempt writes the same bytes over it.
		_ = w.file.Truncate(w.offset)
	}
	return err
}

// advance forgets the whole records within the first n bytes of pending.
func (w *Writer) advance(n int) {
	done := 0
	for done < len(w.cuts) && w.cuts[done].end <= n {
		done++
	}
	if done == 0 {
		return
	}
	end := w.cuts[done-1].end
	w.offset += int64(end)
	w.pending = w.pending[:copy(w.pending, w.pending[end:])]
	w.cuts = w.cuts[:copy(w.cuts, w.cuts[done:])]
	for i := range w.cuts {
		w.cuts[i].end -= end
	}
}

// setState notes the outcome of a write and reports a change of state.
func (w *Writer) setState(err error) {
	changed := (err == nil) != (w.err == nil)
	w.err = err
	if changed && w.onState != nil {
		w.onState(err)
	}
}

// Pending returns the number of records that are not on disk.
func (w *Writer) Pending() int64 {
	n := w.records
	for _, c := range w.cuts {
		n += c.records
	}
	return n
}

// Lines are those of the file after Close; nil if some that were appended are not on disk.
func (w *Writer) Lines() *record.Lines {
	if w.Pending()+w.lost > 0 {
		return nil
	}
	return &w.kept
}

// Close writes what is left, once more if it must, and closes the file. It
// returns the number of records that are not on disk; with an error that is
// about them, or about closing.
func (w *Writer) Close() (unwritten int64, err error) {
	err = w.Flush()
	if w.encoder != nil {
		_ = w.encoder.Close()
	}
	err = cmp.Or(err, w.file.Sync(), w.file.Close())
	return w.Pending() + w.lost, err
}
