package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// memoryGroup makes a control group of so many bytes, of version 2 or 1, whichever the machine has. It returns a prefix
// that starts a program in it, and what it used at most.
func memoryGroup(t *testing.T, limit int64) (in []string, peak func() int64) {
	t.Helper()
	asRoot(t)
	own, _ := os.ReadFile("/proc/self/cgroup")
	path := func(controllers string) string {
		for line := range strings.Lines(string(own)) {
			if _, after, ok := strings.Cut(strings.TrimSpace(line), ":"+controllers+":"); ok {
				return after
			}
		}
		return "/"
	}
	why := errors.New("no controller of memory")
	for _, v := range []struct{ root, limit, peak string }{
		{"/sys/fs/cgroup" + path(""), "memory.max", "memory.peak"}, {"/sys/fs/cgroup", "memory.max", "memory.peak"},
		{"/sys/fs/cgroup/memory" + path("memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
	} {
		var dir string
		if dir, why = os.MkdirTemp(v.root, "fastreplay-proof-"); why != nil {
			continue
		}
		var f *os.File
		if f, why = os.OpenFile(filepath.Join(dir, v.limit), os.O_WRONLY, 0); why == nil { // the kernel makes it, or nobody
			_, why = fmt.Fprint(f, limit)
			_ = f.Close()
		}
		if why != nil {
			_ = os.Remove(dir)
			continue
		}
		t.Cleanup(func() {
			until(t, "the group is empty", func() bool { return os.Remove(dir) == nil })
		})
		return []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}, func() int64 {
			text, _ := os.ReadFile(filepath.Join(dir, v.peak)) // version 2 tells since Linux 5.19
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
			return n
		}
	}
	t.Skip("no group with a memory limit can be made here: ", why)
	return nil, nil
}

// TestSmallGroups: where the memory of a container does not hold the requests, they are built during the run, and all
// are recorded.
func TestSmallGroups(t *testing.T) {
	t.Parallel()
	path := mooncake(t)
	for mib, requests := range map[int64]int{128: 1_500, 384: 300} { // they take twice the smaller group
		requests = whole(requests)
		t.Run(fmt.Sprint(mib), func(t *testing.T) {
			t.Parallel()
			in, peak := memoryGroup(t, mib<<20)
			m := startMock(t, "--ttft", "20ms", "--itl", "1ms", "--tokens-per-chunk", "16")
			r := startReplayIn(t, in, "--trace", path, "--url", m.url, "--scale", "60", "--limit", strconv.Itoa(requests)).finish(t)
			r.prove(t)
			r.only(t, "ok")
			r.join(t, m.stop(t))
			r.verdict(t)
			if len(r.lines) != requests || !strings.Contains(r.stderr, "what the memory limit of the control group") {
				t.Errorf("%d lines, want %d; it said\n%s", len(r.lines), requests, r.stderr)
			}
			if inAll := r.summary.Client.WireBytes; inAll > mib<<19 != strings.Contains(r.stderr, "built during the run") {
				t.Errorf("%d bytes of requests in %d MiB:\n%s", inAll, mib, r.stderr)
			}
			t.Logf("%d records, %d MB of requests in %d MiB, at most %.1f MiB used, valid %t", len(r.lines), r.summary.Client.WireBytes/1e6, mib, float64(peak())/(1<<20), r.summary.Verdict.Valid)
		})
	}
}

// TestNoRoomIsSaidBeforeTheStart: what cannot fit is refused, and what bounds it is named.
func TestNoRoomIsSaidBeforeTheStart(t *testing.T) {
	t.Parallel()
	load := steady(t, 10, 100, 3)
	t.Run("group", func(t *testing.T) {
		t.Parallel()
		in, _ := memoryGroup(t, 64<<20)
		tooSmall(t, in, load, "of what the memory limit of the control group ")
	})
	t.Run("ulimit", func(t *testing.T) {
		t.Parallel()
		if len(raceFlag()) > 0 {
			t.Skip("the race detector reserves far more addresses")
		}
		tooSmall(t, []string{"sh", "-c", `ulimit -v 2300000 && exec "$0" "$@"`}, load, "of what `ulimit -v` leaves")
	})
}

func tooSmall(t *testing.T, in []string, load, want string) {
	t.Helper()
	r := startReplayIn(t, in, "--trace", load, "--url", "127.0.0.1:9", "--model", "m", "--no-probe")
	r.isRefused(t, want, "no memory for the requests")
}

// TestKilledLeavesWhatHasEnded: a process that gets no chance to end, as one out of memory, has left the records of
// what had.
func TestKilledLeavesWhatHasEnded(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--compress"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			t.Parallel()
			const ended = 50
			text := new(bytes.Buffer)
			for i := range 2 * ended { // the second half in an hour
				fmt.Fprintf(text, `{"timestamp":%d,"input_length":100,"output_length":3,"hash_ids":[%d]}`+"\n", i/ended*3_600_000+i, i)
			}
			m := startMock(t)
			r := startReplay(t, append(flags, "--trace", newFile(t, "load.jsonl", text.Bytes()), "--url", m.url)...)
			until(t, "what has ended is on disk", func() bool { return r.onDisk() == ended })
			r.signal(t, syscall.SIGKILL)
			<-r.gone
			expect.Equal(t, len(readLines[line](t, requestsFile(r.dir))), ended, "whole lines")
		})
	}
}

// onDisk counts the lines that are whole on disk this moment.
func (r *replay) onDisk() int {
	text, _ := os.ReadFile(requestsFile(r.dir))
	if z, _ := zstd.NewReader(nil); strings.HasSuffix(requestsFile(r.dir), ".zst") {
		text, _ = z.DecodeAll(text, nil)
	}
	return bytes.Count(text, []byte("\n"))
}
