package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
)

// numbered returns the i-th record of these tests, with a line of varying
// length.
func numbered(i int64) *record.Record {
	r := new(record.Record)
	r.Clear()
	r.Row, r.Outcome, r.Error = i, record.HTTPError, strings.Repeat("é", int(i*i%97))
	return r
}

// readBack returns how many records a results file holds. They must be the numbered ones from 0 on, each once and
// whole, with nothing behind them.
func readBack(t *testing.T, data []byte) (n int64) {
	t.Helper()
	in := must.Have(record.NewReader(bytes.NewReader(data), "results"))(t)
	defer in.Close()
	for ; ; n++ {
		var r record.Record
		switch err := in.Next(&r); {
		case err == io.EOF:
			return n
		case err != nil:
			t.Fatalf("after %d records: %v", n, err)
		case r != *numbered(n):
			t.Fatalf("record %d is %+v, want %+v", n, r, *numbered(n))
		}
	}
}

func TestWriter(t *testing.T) {
	for _, compress := range []bool{false, true} {
		dir := t.TempDir()
		w := must.Have(NewWriter(dir, WriterOptions{Compress: compress, OnState: func(err error) { t.Errorf("state: %v", err) }}))(t)
		name := filepath.Join(dir, map[bool]string{false: "requests.jsonl", true: "requests.jsonl.zst"}[compress])
		rng := rand.New(rand.NewPCG(1, 1))
		appended := int64(0)
		for round := range 30 {
			for range rng.IntN(40) * min(round, 1) { // at first nothing
				w.Append(numbered(appended))
				appended++
			}
			if err := w.Flush(); err != nil || w.err != nil || w.Pending() != 0 {
				t.Fatal(err, w.err, w.Pending())
			}
			data := must.Have(os.ReadFile(name))(t)
			must.Equal(t, readBack(t, data), appended, "compress %v: records on disk", compress) // whole after each flush, not only at the end
		}
		for range 5 {
			w.Append(numbered(appended))
			appended++
		}
		expect.Equal(t, w.Pending(), 5, "pending")
		unwritten, err := w.Close()
		data, readErr := os.ReadFile(name)
		if err != nil || readErr != nil || unwritten != 0 || readBack(t, data) != appended {
			t.Errorf("compress %v: close: %d unwritten, %v, %v", compress, unwritten, err, readErr)
		}
		if _, err := NewWriter(dir, WriterOptions{Compress: compress}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second writer: %v, want it refused", err)
		}
	}
}

// disk is a file on a disk with room for so many bytes.
type disk struct {
	data       []byte
	room       int
	noTruncate bool // cutting off fails too
	broken     error
	closed     bool
}

func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	if d.broken != nil {
		return 0, d.broken
	}
	n := max(0, min(len(p), d.room-int(at)))
	d.data = append(d.data[:at], p[:n]...)
	if n < len(p) {
		return n, &fs.PathError{Op: "write", Path: "requests.jsonl", Err: syscall.ENOSPC}
	}
	return n, nil
}

func (d *disk) Truncate(size int64) error {
	if d.noTruncate {
		return syscall.EIO
	}
	d.data = d.data[:size]
	return nil
}

func (d *disk) Sync() error  { return nil }
func (d *disk) Close() error { d.closed = true; return nil }

// TestWriterOnAFullDisk plays random games with the room on a disk. After
// each flush the file must hold whole records only, in order and once each,
// and the rest must be pending.
func TestWriterOnAFullDisk(t *testing.T) {
	turns := 0
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := &disk{room: rng.IntN(3000)}
		failing := false
		w, err := newWriter(d, WriterOptions{Compress: seed%2 == 1, OnState: func(err error) {
			if (err != nil) == failing {
				t.Fatalf("seed %d: told %v twice", seed, err)
			}
			if failing = err != nil; failing && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("seed %d: told %v, want ENOSPC", seed, err)
			}
			turns++
		}})
		must.Do(t, err)
		appended := int64(0)
		for range 40 {
			for range rng.IntN(6) {
				w.Append(numbered(appended))
				appended++
			}
			if rng.IntN(3) == 0 {
				d.room += rng.IntN(11000)
			}
			err := w.Flush()
			onDisk := readBack(t, d.data)
			if onDisk+w.Pending() != appended || (err != nil) != failing || (w.err != nil) != failing {
				t.Fatalf("seed %d: %d on disk, %d pending, %d appended; %v, told %v", seed, onDisk, w.Pending(), appended, err, failing)
			}
			if err == nil && w.Pending() != 0 {
				t.Fatalf("seed %d: no error, but %d pending", seed, w.Pending())
			}
		}
		if seed%3 > 0 {
			d.room = 1 << 20
		}
		unwritten, err := w.Close()
		if onDisk := readBack(t, d.data); onDisk+unwritten != appended || (unwritten > 0) != (err != nil) || !d.closed {
			t.Fatalf("seed %d: closed with %d on disk, %d unwritten, %d appended, %v", seed, onDisk, unwritten, appended, err)
		}
		if d.room == 1<<20 && unwritten != 0 {
			t.Errorf("seed %d: room came, but %d records were not written", seed, unwritten)
		}
	}
	if turns < 30 {
		t.Errorf("the disk filled and emptied only %d times", turns)
	}
}

// TestWriterWhenCuttingFails: if even Truncate fails, half a record stays on
// disk for the time being, and the next attempt writes over it.
func TestWriterWhenCuttingFails(t *testing.T) {
	for _, compress := range []bool{false, true} {
		d := &disk{room: 700, noTruncate: true}
		w := must.Have(newWriter(d, WriterOptions{Compress: compress}))(t)
		for i := range int64(50) {
			w.Append(numbered(int64(i)))
			if i%7 == 6 {
				_ = w.Flush()
				d.room += 100
			}
		}
		d.room = 1 << 20
		if n, err := w.Close(); n != 0 || err != nil {
			t.Errorf("close: %d, %v", n, err)
		}
		expect.Equal(t, readBack(t, d.data), 50, "compress %v: records", compress)
	}
}

// TestWriterHasALimit: memory is not filled without end; what is given up is
// counted.
func TestWriterHasALimit(t *testing.T) {
	for _, compress := range []bool{false, true} {
		d := &disk{broken: syscall.EIO}
		w := must.Have(newWriter(d, WriterOptions{Compress: compress}))(t)
		w.limit = 4000
		for i := range int64(1000) {
			w.Append(numbered(int64(i)))
			if held := len(w.pending) + len(w.lines); held > 6000 {
				t.Fatalf("%d bytes held", held)
			}
		}
		kept := w.Pending()
		d.broken, d.room = nil, 1<<20
		unwritten, err := w.Close()
		if err != nil || kept == 0 || unwritten != 1000-kept || readBack(t, d.data) != kept {
			t.Errorf("compress %v: kept %d, unwritten %d, %v", compress, kept, unwritten, err)
		}
	}
}

func TestWriterSaysWhereAndHowMuch(t *testing.T) {
	d := &disk{}
	w := must.Have(newWriter(d, WriterOptions{}))(t)
	for i := range int64(3) {
		w.Append(numbered(int64(i)))
	}
	want := "3 records wait in memory: write requests.jsonl: no space left on device"
	if err := w.Flush(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	d := &disk{room: 1 << 30}
	w := must.Have(newWriter(d, WriterOptions{}))(t)
	r := numbered(5)
	for range 5000 {
		w.Append(r)
	}
	must.Do(t, w.Flush())
	expect.Equal(t, testing.AllocsPerRun(1000, func() { w.Append(r) }), 0, "allocations for each record")
}

func BenchmarkWriter(b *testing.B) {
	for _, compress := range []bool{false, true} {
		b.Run(fmt.Sprint("compress=", compress), func(b *testing.B) {
			w := must.Have(NewWriter(b.TempDir(), WriterOptions{Compress: compress}))(b)
			r, n := numbered(17), 0
			b.SetBytes(int64(len(r.AppendJSON(nil))))
			b.ReportAllocs()
			for b.Loop() {
				w.Append(r)
				if n++; n%2000 == 0 { // as many as in a second
					must.Do(b, w.Flush())
				}
			}
			if lost, err := w.Close(); lost != 0 || err != nil {
				b.Fatal(lost, err)
			}
		})
	}
}

// TestWriterRemoved: a file that is removed with its directory in mid-run is made anew with all its records. One that
// is replaced is not touched, and that is an error.
func TestWriterRemoved(t *testing.T) {
	for _, compress := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		must.Do(t, os.MkdirAll(dir, 0o755))
		var removed []string
		w := must.Have(NewWriter(dir, WriterOptions{Compress: compress, OnRemoved: func(name string) { removed = append(removed, name) }}))(t)
		for i := range 10 {
			w.Append(numbered(int64(i)))
			if i == 9 {
				break // Close writes it
			}
			must.Do(t, errors.Join(w.Flush(), os.RemoveAll(filepath.Dir(dir)), w.Flush()))
		}
		n, err := w.Close()
		seen := 0
		if failed := EachRecord(dir, func(r *record.Record) {
			must.Equal(t, r.Row, numbered(int64(seen)).Row, "record %d is of row", seen)
			seen++
		}); failed != nil || err != nil || n != 0 || seen != 10 || len(removed) != 9 {
			t.Errorf("compress %v: %d records, %d unwritten, removed %v, %v, %v", compress, seen, n, removed, err, failed)
		}
	}
	dir := t.TempDir()
	w := must.Have(NewWriter(dir, WriterOptions{}))(t)
	name := filepath.Join(dir, RequestsName)
	must.Do(t, errors.Join(os.Remove(name), os.WriteFile(name, []byte("mine"), 0o600)))
	w.Append(numbered(0))
	_, err := w.Close()
	if text, _ := os.ReadFile(name); err == nil || !strings.Contains(err.Error(), "was replaced by another file") || string(text) != "mine" {
		t.Errorf("replaced: %v, it holds %q", err, text)
	}
}
