package report

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

// crashDir names the directory that a copy of this test, run as a process of
// its own, writes to until it is killed.
const crashDir = "FASTREPLAY_TEST_CRASH_DIR"

const flushed, appendedLater = 1500, 700

// TestCrashHelper is that process: it flushes some records, appends more, and
// waits for its end.
func TestCrashHelper(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("a part of TestKilledWriter")
	}
	w, err := NewWriter(dir, WriterOptions{Compress: strings.HasSuffix(dir, "zst")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(flushed) {
		w.Append(numbered(i))
		if i%100 == 99 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range int64(appendedLater) {
		w.Append(numbered(flushed + i))
	}
	fmt.Println("ready to die")
	select {} // the parent kills us
}

// TestKilledWriter: SIGKILL loses what came after the last Flush, and nothing
// else; the file needs no repair, and a summary can be made of it.
func TestKilledWriter(t *testing.T) {
	for _, kind := range []string{"plain", "zst"} {
		dir := t.TempDir() + "/" + kind
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestCrashHelper$", "-test.v")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		ready := false
		for !ready && lines.Scan() {
			ready = strings.Contains(lines.Text(), "ready to die")
		}
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := child.Wait(); !ready || err == nil {
			t.Fatalf("%s: ready %v, %v", kind, ready, err)
		}

		next := int64(0)
		n, err := EachRecord(dir, func(r *record.Record) {
			if *r != *numbered(next) {
				t.Fatalf("%s: record %d is %+v", kind, next, r)
			}
			next++
		})
		if err != nil || n != flushed {
			t.Errorf("%s: %d records survived, want %d; %v", kind, n, flushed, err)
		}
		s, err := Load(dir)
		if err != nil || s.Requests.Planned != flushed || s.Requests.ByOutcome["http_error"] != flushed || !s.Run.Partial || s.Verdict.Valid {
			t.Errorf("%s: rebuilt %+v, %v", kind, s, err)
		}
	}
}
