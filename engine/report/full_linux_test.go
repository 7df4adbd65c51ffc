package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// smallDisk mounts a file system with room for 64 kB. It needs root.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a tmpfs needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// TestRealFullDisk fills a real file system, frees it again, and fills it for
// good.
func TestRealFullDisk(t *testing.T) {
	for _, compress := range []bool{false, true} {
		dir := smallDisk(t)
		ballast := filepath.Join(dir, "ballast")
		must.Do(t, os.WriteFile(ballast, make([]byte, 40<<10), 0o600))
		var states []error
		w := must.Have(NewWriter(dir, WriterOptions{Compress: compress, OnState: func(err error) { states = append(states, err) }}))(t)
		t.Cleanup(func() { _ = w.file.Close() }) // so that the disk can be unmounted whatever happens
		onDisk := func() int64 {
			data := must.Have(os.ReadFile(w.file.(*keptFile).File.Name()))(t)
			return readBack(t, data)
		}
		appended := int64(0)
		fill := func(until func() bool) {
			for !until() {
				if appended > 200_000 {
					t.Fatal("the disk never fills")
				}
				for range 20 {
					w.Append(numbered(appended))
					appended++
				}
				if err := w.Flush(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if n := onDisk(); n+w.Pending() != appended {
				t.Fatalf("%d on disk, %d pending, %d appended", n, w.Pending(), appended)
			}
		}
		fill(func() bool { return w.err != nil })
		if len(states) != 1 || !errors.Is(states[0], syscall.ENOSPC) || onDisk() == 0 {
			t.Fatalf("compress %v: told %v, %d records on disk", compress, states, onDisk())
		}
		fill(func() bool { return w.Pending() > 25 })

		must.Do(t, os.Remove(ballast))
		if err := w.Flush(); err != nil || w.Pending() != 0 || onDisk() != appended {
			t.Fatalf("compress %v: with room again: %v, %d pending", compress, err, w.Pending())
		}
		if len(states) != 2 || states[1] != nil {
			t.Fatalf("told %v, want that it works again", states)
		}

		fill(func() bool { return w.Pending() > 25 })
		unwritten, err := w.Close()
		if !errors.Is(err, syscall.ENOSPC) || unwritten == 0 || onDisk()+unwritten != appended {
			t.Errorf("compress %v: closed with %d unwritten, %d on disk, %d appended, %v", compress, unwritten, onDisk(), appended, err)
		}
	}
}

// TestRealFullDiskSummary: files that do not fit leave nothing behind.
func TestRealFullDiskSummary(t *testing.T) {
	dir := smallDisk(t)
	for err := error(nil); err == nil; {
		var f *os.File
		if f, err = os.OpenFile(filepath.Join(dir, "ballast"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(bytes.Repeat([]byte("x"), 4096))
		_ = f.Close()
	}
	c := collect.NewCollector([]string{"http://a:1"})
	c.AddGaps(0, []int64{1, 2, 3})
	for _, err := range []error{
		WriteSummary(dir, c.Summary(metrics.Summary{}, collect.Probed{})), WriteHistograms(dir, c, time.Unix(1, 0), time.Unix(2, 0)),
	} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want ENOSPC", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
