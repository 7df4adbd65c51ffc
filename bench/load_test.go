package bench

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestManyStreams keeps 10,000 answers open at once.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const streams, ttft = 10_000, 6 * time.Second
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < streams+1_000 {
		t.Skipf("a process may open %d files here (%v)", limit.Max, err)
	}
	load := generate(t, "--rows", "10000", "--rate", "4000", "--arrival", "constant", "--input-tokens", "32", "--output-tokens", "3")
	m := startMock(t, "--ttft", ttft.String(), "--itl", "100ms", "--spread", "0")
	r := run(t, "--trace", load, "--url", m.url, "--no-probe", "--cold", "off")
	r.sound(t, m)
	// Each takes at least the time to its first token, so those that left within it were in flight together: all,
	// unless the machine was too busy to send them so fast.
	sent := make([]int64, 0, streams)
	for _, l := range r.lines {
		sent = append(sent, l.Sent)
	}
	slices.Sort(sent)
	most := 0
	for first, last := 0, 0; last < len(sent); last++ {
		for sent[last]-sent[first] >= int64(ttft) {
			first++
		}
		most = max(most, last-first+1)
	}
	if peak := r.peak(); peak < most {
		t.Errorf("%d requests were in flight at once, and %d of %d left within %v", peak, most, streams, ttft)
	}
	s := &r.summary
	t.Logf("drift µs %+v; TTFT ms %+v; %+v; %.1f s CPU, %d MB", s.DriftUS, s.TTFTMS, s.Connections, s.Client.CPUS, s.Client.MaxRSSBytes>>20)
}

// mooncake is the published conversation trace, where this machine has it.
func mooncake(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		t.Skip("FASTREPLAY_TRACES names no directory with mooncake-conversation.jsonl.zst")
	}
	return filepath.Join(dir, "mooncake-conversation.jsonl.zst")
}

// whole is wanted if FASTREPLAY_WHOLE is set: proofs then replay all 12,031 requests of the conversation trace, 145
// million tokens.
func whole(requests int) int {
	if os.Getenv("FASTREPLAY_WHOLE") != "" {
		return 12_031
	}
	return requests
}

func ratio(r *float64) float64 {
	if r == nil {
		return 0
	}
	return *r
}
