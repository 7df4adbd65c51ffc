package bench

import (
	"fmt"
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
	// Each takes at least the time to its first token, so those that left within it were in flight together: all, unless the machine
	// was too busy to send them so fast.
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

// whole is wanted if FASTREPLAY_WHOLE is set: proofs then replay all 12,031 requests of the conversation trace, 145 million tokens.
func whole(requests int) int {
	if os.Getenv("FASTREPLAY_WHOLE") != "" {
		return 12_031
	}
	return requests
}

// TestMooncake replays the published trace, an hour in 20 s, in each form of prompts.
func TestMooncake(t *testing.T) {
	path := mooncake(t)
	t.Parallel()
	for _, c := range []struct {
		name  string
		lines int
		mock  []string
		args  []string
	}{
		{"token ids", whole(1_500), nil, nil},
		{"text", 300, nil, []string{"--prompt", "text"}},
		{"chat", 300, []string{"--template-tokens", "14,5"}, []string{"--api", "chat"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startMock(t, append(c.mock, "--ttft", "20ms", "--itl", "0.2ms", "--tokens-per-chunk", "10")...)
			r := run(t, append(c.args, "--trace", path, "--url", m.url, "--scale", "180", "--limit", fmt.Sprint(c.lines))...)
			r.sound(t, m)
			if len(r.lines) != c.lines {
				t.Errorf("%d lines, want %d", len(r.lines), c.lines)
			}
			s := &r.summary
			t.Logf("load %.1f s, build %.1f s, %d MB of requests, %d MB memory, %.1f s CPU, fingerprint %s", s.Client.LoadS, s.Client.PrebuildS,
				s.Client.WireBytes/1e6, s.Client.MaxRSSBytes/1e6, s.Client.CPUS, s.Workload.Fingerprint)
			t.Logf("drift µs %+v; %+v; %+v; hits %.4f of ideal %.4f", s.DriftUS, s.Connections, s.Writes, ratio(s.PrefixCache.ReportedHitRatio), ratio(s.PrefixCache.ExpectedHitRatio))
		})
	}
}

func ratio(r *float64) float64 {
	if r == nil {
		return 0
	}
	return *r
}
