package shard

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

// quick are times for tests.
func quick() times {
	return times{look: 10 * time.Millisecond, lead: time.Second, patience: 2 * time.Minute, remind: time.Hour,
		sample: 50 * time.Millisecond, silence: 30 * time.Second, linger: 2 * time.Second}
}

// member is one shard of a test, and what became of it.
type member struct {
	hello Config
	load  string
	about map[string]string
	times times
	shift time.Duration
	after time.Duration // it comes so much later
	waits chan struct{} // if set, it comes once this is closed
	runs  time.Duration // how long its run takes
	fails error         // before it is ready
	gone  bool          // it dies before it is ready: it neither fails nor leaves

	prepares        time.Duration // from joining to being ready
	joined, started func()        // called then, if set

	at    time.Time
	ahead time.Duration
	clock []Offset
	err   error

	name string
}

func (m *member) run(ctx context.Context, t *testing.T) {
	time.Sleep(m.after)
	if m.waits != nil {
		<-m.waits
	}
	g, ctx, err := join(ctx, m.hello, m.times, int64(m.shift))
	if err != nil {
		m.err = err
		return
	}
	m.name = g.Name()
	if m.joined != nil {
		m.joined()
	}
	select {
	case <-ctx.Done():
	case <-time.After(m.prepares):
	}
	switch {
	case m.gone:
		time.Sleep(5 * m.times.look) // so that it is known
		g.close()
		return
	case m.fails != nil:
		m.err = m.fails
	default:
		if m.at, m.ahead, m.err = g.Ready(ctx, m.load, m.about); m.err == nil {
			if m.started != nil {
				m.started()
			}
			time.Sleep(m.runs)
			m.clock = g.End()
		}
	}
	g.Leave(m.err)
}

func group(where string, count int) (list []*member) {
	for i := range count {
		list = append(list, &member{hello: Config{sched.Part{Index: i, Count: count}, where, "v1", LateFail, func(string) {}}, load: "sha256:1", times: quick(), runs: 200 * time.Millisecond})
	}
	return list
}

// runAll lets shards run. One that does not end fails the test.
func runAll(t *testing.T, list []*member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range list {
		all.Go(func() { m.run(ctx, t) })
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	select {
	case <-done:
	case <-time.After(4 * time.Minute):
		t.Error("a shard does not end")
	}
}

// runWell is runAll, after which no shard has an error, and each has the start of the first.
func runWell(t *testing.T, list []*member) {
	t.Helper()
	runAll(t, list)
	allWell(t, list)
}

// allWell fails the test if a shard has an error, or another start than the first.
func allWell(t *testing.T, list []*member) {
	t.Helper()
	for i, m := range list {
		if m.err != nil || !m.at.Equal(list[0].at) {
			t.Errorf("shard %d: %v, start %v", i, m.err, m.at)
		}
	}
}

func freeURL(t *testing.T) string {
	ln := must.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	return "tcp://" + ln.Addr().String()
}

// TestBarrier: shards whose clocks differ agree on one start, find by how much they differ within the error that they
// report, and each sets its own instant 0 so that all are at the same time.
func TestBarrier(t *testing.T) {
	t.Parallel()
	shifts := []time.Duration{-3 * time.Millisecond, 50 * time.Microsecond, -50 * time.Microsecond, 400 * time.Microsecond, 5 * time.Millisecond}
	for name, where := range map[string]string{"directory": filepath.Join(t.TempDir(), "new"), "url": freeURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := group(where, len(shifts))
			for i, m := range list {
				m.shift, m.after = shifts[i], time.Duration(len(list)-i)*20*time.Millisecond // shard 0 comes last
			}
			runAll(t, list)
			zero := list[0]
			for i, m := range list {
				want := int64(m.shift - zero.shift)
				if m.err != nil || !m.at.Equal(zero.at) || m.name != zero.name || len(m.clock) < 2 && i > 0 {
					t.Fatalf("shard %d: %v, start %v of %v, %d samples", i, m.err, m.at, zero.at, len(m.clock))
				}
				last := int64(math.MinInt64)
				for _, o := range m.clock {
					if off := o.OffsetNS - want; max(off, -off) > o.ErrorNS || o.AtNS < last {
						t.Errorf("shard %d: %+v, and it is %d ahead", i, o, want)
					}
					last = o.AtNS
				}
				// By the machine's clock, which is ours without the shift, all begin when shard 0 does.
				if apart := m.at.Add(m.ahead - m.shift).Sub(zero.at.Add(-zero.shift)); int64(apart.Abs()) > m.clock[0].ErrorNS {
					t.Errorf("shard %d begins %v after shard 0, error %d ns", i, apart, m.clock[0].ErrorNS)
				}
			}
		})
	}
}

// TestRefused: if a shard differs, fails or is missing, no shard starts, and each says which it was and why.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(list []*member)
		want   string // in what all shards but the guilty one say
		own    string // in what shard 2 says; "" = the same
	}{
		"version": {func(l []*member) { l[2].hello.Version = "v2" }, "has version v2 of fastreplay, and shard 0 v1; nothing was sent", ""},
		"count":   {func(l []*member) { l[2].hello.Count = 4 }, "has a count of 4 shards, and shard 0 of 3", ""},
		"flag": {func(l []*member) {
			for i, m := range l {
				m.about = map[string]string{"trace": "a", "--extra-inputs": fmt.Sprint("user:KEY", i/2)}
			}
			l[2].load = "sha256:2"
		}, "has another load than shard 0: it differs in --extra-inputs;", ""},
		"trace": {func(l []*member) { l[2].load = "sha256:2" }, "has another load than shard 0: it differs in the content of its trace", ""},
		"fails": {func(l []*member) { l[2].fails = fmt.Errorf("no server; nothing was sent") }, "failed before the start: no server; nothing was sent", "no server"},
		"missing": {func(l []*member) {
			there := make(chan struct{})
			l[1].joined, l[0].joined = func() { close(there) }, func() { <-there }
			l[2].after, l[0].times.patience = 3*time.Second, 200*time.Millisecond
		}, "shards are missing 200ms after shard 0 was ready; not there: shard 2", ""},
		"dead": {func(l []*member) { l[2].gone = true }, ") ended before the start; nothing was sent", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := group(t.TempDir(), 3)
			c.change(list)
			runAll(t, list)
			for i, m := range list {
				want := c.want
				if i == 2 && c.own != "" {
					want = c.own
				}
				if want != "-" {
					expect.Error(t, m.err, want, "shard %d", i)
				}
				if m.err != nil && (i < 2 && !strings.Contains(m.err.Error(), "shard 2") || strings.Contains(m.err.Error(), "KEY")) {
					t.Errorf("shard %d: %v does not name shard 2, or says what a flag was", i, m.err)
				}
			}
		})
	}
}

// TestPlaces: what is neither a directory nor an address is refused before anybody waits.
func TestPlaces(t *testing.T) {
	for where, want := range map[string]string{
		"shard-0:7000": "Then give tcp://shard-0:7000; else ./shard-0:7000", "tcp://:7000": "where HOST is", "tcp://shard-0": "where HOST is", "tcp://a:1/b": "where HOST is",
	} {
		_, _, err := Join(t.Context(), Config{Part: sched.Part{Index: 0, Count: 2}, Where: where})
		expect.Error(t, err, want, where)
	}
}

// TestOnce: a barrier serves one start.
func TestOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runAll(t, group(dir, 2))
	list := group(dir, 2)
	runAll(t, list)
	expect.Error(t, list[0].err, "give each run a directory of its own")
	expect.Error(t, list[1].err, "this barrier is over: its run has ended; give each run a directory of its own")
	files, err := os.ReadDir(dir)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if want := []string{"begin"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %q, want %q", err, names, want)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "begin"), []byte(`{"Addresses":["127.0.0.1:1"]}`), 0o644))
	list = group(dir, 1)
	list[0].times.patience = time.Hour
	runAll(t, list)
	expect.Error(t, list[0].err, "give each run a directory of its own")
}

// TestJoin: with --late-start join shard 0 does not wait for ever, and who is missing joins later.
func TestJoin(t *testing.T) {
	t.Parallel()
	list := group(t.TempDir(), 3)
	list[0].hello.Late, list[0].times.patience = LateJoin, 100*time.Millisecond
	begun, joined := make(chan struct{}), make(chan struct{})
	list[0].started = func() {
		time.Sleep(time.Until(list[0].at))
		close(begun)
		<-joined
	}
	list[2].waits, list[2].started = begun, func() { close(joined) }
	runWell(t, list)
	if first := list[2].clock; len(first) == 0 || first[0].AtNS < 0 {
		t.Errorf("the late one compared its clock at %+v", first)
	}
}
