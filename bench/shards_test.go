package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// machines are the prefixes of command lines on so many machines, and on that of the servers with its address: network
// namespaces behind one bridge, or where these cannot be made, this machine.
func machines(t *testing.T, n int) (shards [][]string, servers []string, host string) {
	t.Helper()
	name := fmt.Sprintf("fr%d", os.Getpid())
	ip := func(args string) bool {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			t.Logf("all on this machine: ip %s: %v: %s", args, err, out)
		}
		return err == nil
	}
	t.Cleanup(func() { // devices in a namespace go with it
		for k := range n + 1 {
			_ = exec.Command("ip", "netns", "del", fmt.Sprint(name, "-", k)).Run()
		}
	})
	hub := name + "-0"
	ok := ip("netns add "+hub) && ip("-n "+hub+" link add bridge type bridge") && ip("-n "+hub+" addr add 10.77.0.1/24 dev bridge") && ip("-n "+hub+" link set bridge up") && ip("-n "+hub+" link set lo up")
	shards = make([][]string, n)
	for k := 1; k <= n && ok; k++ {
		own := fmt.Sprint(name, "-", k)
		ok = ip("netns add "+own) && ip(fmt.Sprintf("-n %s link add eth0 type veth peer name shard%d netns %s", own, k, hub)) && ip(fmt.Sprintf("-n %s link set shard%d master bridge up", hub, k)) &&
			ip(fmt.Sprintf("-n %s addr add 10.77.0.%d/24 dev eth0", own, k+1)) && ip("-n "+own+" link set eth0 up") && ip("-n "+own+" link set lo up")
		shards[k-1] = []string{"ip", "netns", "exec", own}
	}
	if !ok {
		return make([][]string, n), nil, "127.0.0.1"
	}
	return shards, []string{"ip", "netns", "exec", hub}, "10.77.0.1"
}

// startShards starts a shard on each machine. They meet in a directory.
func startShards(t *testing.T, machines [][]string, load ...string) (all []*process, dir string) {
	t.Helper()
	dir = t.TempDir()
	for k, prefix := range machines {
		all = append(all, startShard(t, prefix, dir, k, len(machines), load...))
	}
	return all, dir
}

func startShard(t *testing.T, prefix []string, dir string, k, of int, load ...string) *process {
	t.Helper()
	return start(t, prefix, with(load, "--start-barrier", filepath.Join(dir, "barrier"), "--shard", fmt.Sprintf("%d/%d", k, of), "--output", shardDir(dir, k))...)
}

func shardDir(dir string, k int) string { return filepath.Join(dir, fmt.Sprint("shard-", k)) }

// allStarted waits for processes that have a start in common. It returns what was said by one that was refused because
// it was not ready then. It fails if one ends with another code than these.
func allStarted(t *testing.T, all []*process, codes ...int) (tooSlow string) {
	t.Helper()
	for _, p := range all {
		if p.wait(t) == 2 && tooSlow == "" {
			tooSlow = lateFor(p.stderr.String())
		}
	}
	for k, p := range all {
		if code := p.wait(t); tooSlow == "" && !slices.Contains(codes, code) {
			t.Fatalf("process %d: exit %d\n%s", k, code, p.stderr.String())
		}
	}
	return tooSlow
}

// mergeShards merges what shards have left in a directory.
func mergeShards(t *testing.T, dir string) (r *results, code int, said string) {
	t.Helper()
	out := filepath.Join(dir, "all")
	merge := start(t, nil, "merge", dir, "--output", out)
	code = merge.wait(t)
	return readResults(t, out), code, merge.stderr.String()
}

// TestShards: machines of their own that meet at a barrier send together what one machine would, and the merge is what
// an independent count of all records says. With FASTREPLAY_SHARDS_PROOF=1 16 machines replay the published
// conversation trace 60 times as fast against four servers.
func TestShards(t *testing.T) {
	t.Parallel()
	count, mocks := 4, 2
	trace := []string{"--trace", generate(t, "--format", "bailian", "--rows", "400", "--rate", "200", "--turns", "1:5", "--turn-tokens", "20:90", "--system-tokens", "600", "--reuse", "0.7",
		"--input-tokens", "100:2000", "--output-tokens", "2:40")}
	if dir := os.Getenv("FASTREPLAY_TRACES"); dir != "" && os.Getenv("FASTREPLAY_SHARDS_PROOF") != "" {
		count, mocks = 16, 4
		trace = []string{"--trace", filepath.Join(dir, "mooncake-conversation.jsonl.zst"), "--scale", "60"}
	}
	prefixes, servers, host := machines(t, count)
	load := append(trace, "--model", "mock", "--route", "session", "--cold", "off", "--max-drift", "1h", "--max-receive-lag", "1h")
	if count == 16 {
		load[slices.Index(load, "session")] = "random" // that trace has no conversations
	}
	for k := range mocks {
		m := startMockIn(t, servers, filepath.Join(t.TempDir(), fmt.Sprint("mock-", k)), "--listen", host+":0", "--ttft", "0s", "--itl", "0s", "--tokens-per-chunk", "20")
		load = append(load, "--url", m.url)
	}
	single := start(t, prefixes[0], append(load, "--dry-run", "--json", "--no-probe")...)
	single.ends(t, 0)
	var plan report.Plan
	must.Do(t, json.Unmarshal([]byte(single.stdout.String()), &plan))
	var dir string
	quickEnough(t, func() (tooSlow string) {
		var all []*process
		all, dir = startShards(t, prefixes, append(load, "--max-memory", "500MB")...)
		return allStarted(t, all, 0)
	})
	r, code, said := mergeShards(t, dir)
	must.Equal(t, code, 0, said)
	if line := fmt.Sprintf("  shards       %d   p99 ", count); !strings.Contains(said, line) || !strings.Contains(said, "clocks up to ") {
		t.Errorf("no line %q:\n%s", line, said)
	}
	s := &r.summary
	if s.Workload.Fingerprint != plan.Workload.Fingerprint || plan.Workload.Fingerprint == "" {
		t.Errorf("the shards sent %s, one machine sends %s", s.Workload.Fingerprint, plan.Workload.Fingerprint)
	}
	if a, b := s.Workload, plan.Workload; a.Requests != b.Requests || a.InputTokens != b.InputTokens || a.OutputTokens != b.OutputTokens || a.Rows != b.Rows {
		t.Errorf("workload %+v, of one machine %+v", a, b)
	}
	r.prove(t)
	whose := map[float64]int{}
	for k := range count {
		for _, l := range readLines[map[string]any](t, requestsFile(shardDir(dir, k))) {
			if session, has := l["session"].(float64); has {
				if other, known := whose[session]; known && other != k {
					t.Fatalf("conversation %v is in shards %d and %d", session, other, k)
				}
				whose[session] = k
			}
		}
	}
	must.Equal(t, len(s.Shards), count, "shards")
	for i, shard := range s.Shards {
		if shard.State != metrics.ShardWhole || shard.Requests == 0 || i > 0 && (shard.ClockUS == nil || math.Abs(*shard.ClockUS) > *shard.ClockWithinUS+50) { // all have one clock
			t.Errorf("shard %d: %+v, clock %v within %v µs", i, shard, deref(shard.ClockUS), deref(shard.ClockWithinUS))
		}
	}
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// TestShardDies: a shard that is killed during its run is named, and what it did not send has records.
func TestShardDies(t *testing.T) {
	t.Parallel()
	const rows = 300
	m := startMock(t)
	load := []string{"--trace", steady(t, rows, 100, 3), "--url", m.url, "--cold", "off"}
	quickEnough(t, func() (tooSlow string) {
		all, dir := startShards(t, make([][]string, 2), load...)
		until(t, "the shard sends", func() bool {
			info, err := os.Stat(requestsFile(shardDir(dir, 1)))
			return err == nil && info.Size() > 0 || all[1].ended()
		})
		killed := all[1].Process.Kill()
		if tooSlow = allStarted(t, all, 0, 1, -1); tooSlow != "" || killed != nil {
			return cmp.Or(tooSlow, "the shard's run was over before it was killed")
		}
		r, code, said := mergeShards(t, dir)
		n := r.summary.Requests.ByOutcome["not_sent"]
		if n == 0 {
			return "the shard had sent all when it was killed"
		}
		if code != 1 || !strings.Contains(said, "shard 1 ended before its run did") {
			t.Errorf("exit %d:\n%s", code, said)
		}
		if len(r.lines) != rows || n > rows/2 {
			t.Errorf("%d records, %d not sent", len(r.lines), n)
		}
		return ""
	})
}

// TestShardsCount: what servers count of a merged run are its requests, and no probes of a shard that came later than
// shard 0 had looked first.
func TestShardsCount(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	load := []string{"--trace", steady(t, 60, 40, 3), "--url", m.url, "--api", "chat", "--cold", "off", "--scrape", "on", "--scrape-interval", "200ms"}
	quickEnough(t, func() (tooSlow string) {
		dir := t.TempDir()
		zero := startShard(t, nil, dir, 0, 2, load...)
		until(t, "shard 0 has looked at the metrics", func() bool {
			_, err := os.Stat(filepath.Join(shardDir(dir, 0), report.ServerMetricsName))
			return err == nil || zero.ended()
		})
		if tooSlow = allStarted(t, []*process{zero, startShard(t, nil, dir, 1, 2, load...)}, 0, 1); tooSlow != "" {
			return tooSlow
		}
		r, _, said := mergeShards(t, dir)
		s := r.summary
		if tooSlow = r.slowPages(); tooSlow != "" {
			return tooSlow
		}
		if s.Servers == nil || s.Servers.All.GenerationTokens == nil {
			t.Fatalf("no metrics:\n%s", said)
		}
		requests, tokens, prompt := int64(*s.Servers.All.Requests), int64(*s.Servers.All.GenerationTokens), int64(*s.Servers.All.PromptTokens)
		t.Logf("the servers counted %d requests, %d prompt and %d made tokens; %+v; %q", requests, prompt, tokens, s.Tokens, s.Servers.Apart)
		early := strings.Contains(s.Servers.Apart, "requests of other shards ended until")
		if s.Requests.OK != 60 || requests > 60 || tokens > s.Tokens.Completion || prompt > s.Tokens.Prompt || !early && (s.Servers.Apart != "" || requests != 60 || tokens != s.Tokens.Completion) {
			t.Errorf("of %+v, %+v they counted %d requests, %d prompt and %d made tokens; %q", s.Requests, s.Tokens, requests, prompt, tokens, s.Servers.Apart)
		}
		return ""
	})
}

// TestShardLost: if shard 1 is killed or shard 0 frozen before the start, the other ends with its name, and one that wakes
// up again ends, too. An interrupt ends each that still waits.
func TestShardLost(t *testing.T) {
	t.Parallel()
	load := []string{"--trace", steady(t, 30, 100, 3), "--url", startMock(t).url, "--cold", "off"}
	for _, c := range []struct {
		lost int
		by   os.Signal
		want string // of the one that is left
	}{
		{1, syscall.SIGKILL, "shard 1 ("}, {0, syscall.SIGSTOP, "shard 0 gave no sign of life"},
	} {
		t.Run(fmt.Sprint(c.lost, " ", c.by), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			all := []*process{startShard(t, nil, dir, 0, 3, load...), startShard(t, nil, dir, 1, 3, load...)} // of three: they wait
			for _, p := range all {
				p.untilSaid(t, "waiting for the other shards")
			}
			all[c.lost].signal(t, c.by)
			all[1-c.lost].ends(t, 2, c.want, "nothing was sent")
			if c.by == syscall.SIGSTOP {
				all[c.lost].signal(t, syscall.SIGCONT)
				all[c.lost].ends(t, 2)
			}
		})
	}
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		zero, one := startShard(t, nil, dir, 0, 3, load...), startShard(t, nil, dir, 1, 3, load...)
		one.untilSaid(t, "waiting for the other shards")
		one.signal(t, syscall.SIGSTOP)
		zero.signal(t, os.Interrupt)
		zero.ends(t, 130)
		one.signal(t, syscall.SIGCONT)
		one.ends(t, 2, "shard 0 ")
	})
}
