package host

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/sched"
)

func TestParseCPULine(t *testing.T) {
	for _, tt := range []struct {
		text             string
		capacity, stolen int64 // ticks
		ok               bool
	}{
		// Captured: a virtual machine of two processors (Linux 6.18); the same with guests of its own (user holds
		// them).
		{"cpu  1062283 318 321724 831832 3896 0 56274 42025 0 0\ncpu0 524439 175 160901 423931 1131 0 28040 21066 0 0\n", 2318352, 42025, true},
		{"cpu  100 0 0 0 0 0 0 7 60 5\ncpu0 100 0 0 0 0 0 0 7 60 5\n", 107, 7, true},
		{"cpu  1 2 3 4 5 6 7 8\n", 36, 8, true}, // Linux 2.6.11 to 2.6.23: no guests
		{"cpu  0 0 0 0 0 0 0 0 0 0\n", 0, 0, true},
		// Malformed.
		{"cpu  1 2 3 4 5 6 7\n", 0, 0, false}, // no stolen time, Linux 2.6.10
		{"", 0, 0, false},
		{"\n", 0, 0, false},
		{"cpu0 1 2 3 4 5 6 7 8 9 10\n", 0, 0, false},
		{"cpu  1 2 3 4 5 6 7 8 9 10", 0, 0, false}, // cut off
		{"cpu  1 2 3 4 5 6 7 8x 9 10\n", 0, 0, false},
		{"cpu  1 2 3 -4 5 6 7 8 9 10\n", 0, 0, false},
		{"cpu  1 2 3 4.5 5 6 7 8 9 10\n", 0, 0, false},
		{"cpu  1 2 3 9223372036854775807 5 6 7 8 9 10\n", 0, 0, false},
		{"cpu  1 2 3 99999999999999999999 5 6 7 8 9 10\n", 0, 0, false},
	} {
		capacity, stolen, ok := parseCPULine([]byte(tt.text))
		if ok != tt.ok || ok && (capacity != tt.capacity || stolen != tt.stolen) {
			t.Errorf("%q: got %d, %d, %v, want %d, %d ticks, %v", tt.text, capacity, stolen, ok, tt.capacity, tt.stolen, tt.ok)
		}
	}
}

func TestParseSchedstat(t *testing.T) {
	for text, want := range map[string]int64{
		"1226333 1000074 2\n": 1000074, "0 0 0\n": 0, "1 9223372036854775807 3\n": math.MaxInt64,
		"": -1, "\n": -1, "12": -1, "12 \n": -1, "12 34": -1, "12 x 3\n": -1, "1 -2 3\n": -1,
		"1  2 3\n": -1, "1 9223372036854775808 3\n": -1,
	} {
		if got, ok := parseSchedstat([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
}

func TestParseThrottled(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64 // ns; -1 = unknown
	}{
		// Captured: a limited group of version 2, the root of version 2, a limited group of version 1.
		{"usage_usec 1403277\nuser_usec 1020187\nsystem_usec 383090\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 63\nnr_throttled 60\nthrottled_usec 4870114\nnr_bursts 0\nburst_usec 0\n", 4_870_114_000},
		{"usage_usec 1403277\nuser_usec 1020187\nsystem_usec 383090\n", -1},
		{"nr_periods 71\nnr_throttled 64\nthrottled_time 5290031249\nnr_bursts 0\nburst_time 0\n", 5_290_031_249},
		{"nr_throttled 0\nthrottled_usec 0\n", 0},
		{"", -1},
		{"\nthrottled_usec 12", -1}, // cut off
		{"\nthrottled_usec \n", -1},
		{"\nthrottled_usec 1 2\n", -1},
		{"\nthrottled_usec -1\n", -1},
		{"\nthrottled_usec 9007199254740991\n", 9007199254740991000},
		{"\nthrottled_usec 9007199254740992\n", -1}, // in ns too large by far
		{"\nthrottled_time 9223372036854775807\n", math.MaxInt64},
		{"\nthrottled_time 9223372036854775808\n", -1},
		{"\nxthrottled_time 1\n", -1},
	} {
		if got, ok := parseThrottled([]byte(tt.text)); ok != (tt.want >= 0) || ok && got != tt.want {
			t.Errorf("%q: got %d, %v, want %d", tt.text, got, ok, tt.want)
		}
	}
}

// FuzzMachineTexts compares the parsers with others that allocate: whatever both understand, they read alike, and what
// the kernel cannot have written is refused.
func FuzzMachineTexts(f *testing.F) {
	for _, seed := range []string{"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0", "12 34 5\n", "nr_throttled 64\nthrottled_usec 5290\n", "nr 1\nthrottled_time 7\n", "cpu \n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := strings.SplitAfter(string(text), "\n")
		if capacity, stolen, ok := parseCPULine(text); ok {
			var want, last int64
			for _, field := range strings.Fields(strings.TrimSuffix(lines[0], "\n"))[1:9] {
				n, _ := strconv.ParseInt(strings.TrimRight(field, "\t\r\v\f"), 10, 64)
				want, last = want+n, n
			}
			if capacity != want || stolen != last || stolen < 0 || capacity < stolen {
				t.Errorf("%q: got %d, %d, want %d, %d", text, capacity, stolen, want, last)
			}
		}
		if waited, ok := parseSchedstat(text); ok {
			want, err := strconv.ParseUint(strings.Split(string(text), " ")[1], 10, 63)
			if err != nil || uint64(waited) != want {
				t.Errorf("%q: got %d, want %d, %v", text, waited, want, err)
			}
		}
		if ns, ok := parseThrottled(text); ok {
			one := func(name string, unit uint64) bool {
				return slices.ContainsFunc(lines[1:], func(line string) bool {
					value, named := strings.CutPrefix(line, name+" ")
					n, err := strconv.ParseUint(strings.TrimSuffix(value, "\n"), 10, 63)
					return named && err == nil && n*unit == uint64(ns)
				})
			}
			if ns < 0 || !one("throttled_usec", 1000) && !one("throttled_time", 1) {
				t.Errorf("%q: got %d, which no line says", text, ns)
			}
		}
	})
}

// TestMachineOfFiles: the result is the growth between two samples, over all groups with a limit and all sending
// threads. What no file contains is null.
func TestMachineOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	w := &Watch{clock: sched.NewMonotonic(), capacity: newMeter(write("none", "")), stolen: newMeter(""), othersNS: unknown}
	described := func() string {
		text := must.Have(json.Marshal(w.Machine()))(t)
		return string(text)
	}
	w.sample(true)
	const nothing = `{"stolen_s":null,"stolen_share":null,"stolen_share_worst_second":null,"throttled_s":null,"run_queue_delay_s":null,"sender_run_queue_delay_s":null}`
	expect.Equal(t, described(), nothing, "without files")
	w.othersNS = 2e9
	w.capacity = newMeter(write("stat", "cpu  100 1 1 1 1 1 1 30 0 0\n"))
	w.throttled = []meter{newMeter(write("group", "nr 1\nthrottled_usec 2000000\n")), newMeter(write("root", "usage_usec 1\n")),
		newMeter(write("parent", "nr 1\nthrottled_time 3000000000\n"))}
	w.waited = []meter{newMeter(write("sender", "5 6000000000 7\n")), newMeter(write("ended", "1 20 1\n")), newMeter(dir + "/gone")}
	w.sample(false)
	write("stat", "cpu  170 1 1 1 1 1 1 60 0 0\n")
	write("group", "nr 1\nthrottled_usec 3500000\n")
	write("parent", "nr 1\nthrottled_time 3250000000\n")
	write("sender", "5 6500000000 9\n")
	write("ended", "gone")
	w.sample(true)
	const want = `{"stolen_s":0.3,"stolen_share":0.3,"stolen_share_worst_second":`
	const rest = `,"throttled_s":1.75,"run_queue_delay_s":2.5,"sender_run_queue_delay_s":0.5}`
	if got := described(); !strings.HasPrefix(got, want) || !strings.Contains(got, `"stolen_by_time":{"step_s":`) || !strings.HasSuffix(got, rest) {
		t.Errorf("got  %s\nwant %s…%s", got, want, rest)
	}
	w.close()
}

func TestWorstSecond(t *testing.T) {
	type reading struct{ atMS, stolen, capacity int64 } // since the reading before: ticks
	for _, tt := range []struct {
		name     string
		beginMS  int64
		readings []reading
		want     float64
	}{
		{"nothing", 0, nil, 0},
		{"no capacity known", 0, []reading{{1000, 50, 0}}, 0},
		{"one second of two cores", 0, []reading{{500, 100, 1000}, {1000, 300, 1000}}, 0.2},
		{"the second of two", 0, []reading{{1000, 100, 2000}, {1500, 500, 1000}, {2000, 500, 1000}}, 0.5},
		{"a rest counts as a second", 0, []reading{{1000, 100, 2000}, {1100, 100, 200}}, 0.05},
		{"a rest that is worse even so", 0, []reading{{1000, 100, 2000}, {1500, 800, 1000}}, 0.4},
		{"an interval longer than a second", 0, []reading{{100, 0, 200}, {4100, 800, 8000}}, 800.0 / 8200},
		{"begun before zero", -500, []reading{{500, 1000, 2000}, {1500, 20, 2000}}, 0.5},
		{"nothing stolen", 0, []reading{{1000, 0, 2000}}, 0},
	} {
		s := worstSecond{fromNS: tt.beginMS * 1e6}
		var stolen, capacity int64
		for i, r := range tt.readings {
			stolen, capacity = stolen+r.stolen, capacity+r.capacity
			s.add(r.atMS*1e6, capacity, stolen, i == len(tt.readings)-1)
		}
		expect.Near(t, s.share, tt.want, 1e-9, tt.name)
	}
}

// TestStolenSteps: whenever steps become longer, each has what was read within it.
func TestStolenSteps(t *testing.T) {
	for _, readings := range []int{1, 2, 100, 1500, 40_000} {
		const from, tick = int64(7e9), int64(100e6)
		s := stolenSteps{fromNS: from}
		var capacity, stolen int64
		var at, all, taken []int64
		for i := range int64(readings) {
			at, all, taken = append(at, from+i*tick+i%7*1e6), append(all, 20), append(taken, i%5)
			capacity, stolen = capacity+20, stolen+i%5
			s.add(at[i], capacity, stolen)
		}
		got := s.shares()
		if n := len(got.Shares); n > 120 || readings == 40_000 && n < 60 {
			t.Errorf("%d readings: %d steps", readings, n)
		}
		for step, share := range got.Shares {
			var both [2]int64
			for i := range at {
				if (at[i]-from)/int64(got.StepS*1e9) == int64(step) {
					both[0], both[1] = both[0]+taken[i], both[1]+all[i]
				}
			}
			must.Equal(t, share, float64(both[0])/float64(max(1, both[1])), "%d readings, step %d of %g s", readings, step, got.StepS)
		}
	}
}

// waitsByHand is how long each thread of this process has waited for a core.
func waitsByHand(t *testing.T) map[string]int64 {
	t.Helper()
	waits := map[string]int64{}
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range files {
		text, err := os.ReadFile(name)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) != 3 {
			continue
		}
		ns := must.Have(strconv.ParseInt(fields[1], 10, 64))(t)
		waits[name] = ns
	}
	if len(waits) == 0 {
		t.Skip("this kernel has no schedstat")
	}
	return waits
}

// burn keeps n threads busy until the returned function is called, and returns the id of one of them.
func burn(n int) (thread int, end func()) {
	procs := runtime.GOMAXPROCS(n + 4)
	var stop atomic.Bool
	var all sync.WaitGroup
	ids := make(chan int, n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ids <- unix.Gettid()
			for !stop.Load() {
			}
		})
	}
	for range n {
		thread = <-ids
	}
	return thread, func() {
		stop.Store(true)
		all.Wait()
		runtime.GOMAXPROCS(procs)
	}
}

// TestTaskWaits: what is added up lies between two readings by hand.
func TestTaskWaits(t *testing.T) {
	_, end := burn(2 * runtime.NumCPU())
	defer end()
	before := waitsByHand(t)
	began := threadWaits()
	after := waitsByHand(t)
	time.Sleep(200 * time.Millisecond)
	least, most := int64(0), int64(0)
	for name, ns := range waitsByHand(t) {
		if began, ok := after[name]; ok {
			least += ns - began
		}
	}
	got := waitedSince(began, threadWaits(), nil)
	for name, ns := range waitsByHand(t) {
		most += ns - before[name]
	}
	if got < least || got > most || least == 0 {
		t.Errorf("%d ns, want %d to %d and more than none", got, least, most)
	}
}

// TestWatchSeesThatCoresAreShort: if there are more busy threads than cores, each waits. A thread runs when it does not
// wait, and all together cannot run longer than the cores.
func TestWatchSeesThatCoresAreShort(t *testing.T) {
	waitsByHand(t)
	cores := runtime.NumCPU()
	busy := 4 * cores
	thread, end := burn(busy)
	defer end()
	clock := sched.NewMonotonic()
	began := clock.Now()
	w := NewWatch(clock, []int{thread})
	halt, gone := make(chan struct{}), make(chan struct{})
	go func() { defer close(gone); w.Run(halt) }()
	time.Sleep(time.Second)
	close(halt)
	<-gone
	wall := clock.Now() - began
	c := w.Machine()
	if c.RunQueueS == nil || c.SenderRunQueueS == nil {
		t.Fatalf("waits are unknown: %+v", c)
	}
	if least := float64(busy-cores) * float64(wall) / 1e9 / 2; *c.RunQueueS < least {
		t.Errorf("%d threads on %d cores waited %g s in %g s, want at least half of what they must have, %g s", busy, cores, *c.RunQueueS, float64(wall)/1e9, least)
	}
	if s := *c.SenderRunQueueS; s <= 0 || s > float64(wall)/1e9 || s > *c.RunQueueS {
		t.Errorf("one of them waited %g s, in %g s, of %g s", s, float64(wall)/1e9, *c.RunQueueS)
	}
}

func TestWatchAllocatesNothing(t *testing.T) {
	w := NewWatch(sched.NewMonotonic(), []int{unix.Gettid()})
	defer w.close()
	expect.Equal(t, testing.AllocsPerRun(100, func() { w.sample(false) }), 0, "allocations a sample")
}

func BenchmarkWatch(b *testing.B) {
	w := NewWatch(sched.NewMonotonic(), []int{unix.Gettid()})
	defer w.close()
	b.Run("sample", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.sample(false)
		}
	})
	b.Run("threads", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			threadWaits()
		}
		b.ReportMetric(float64(len(w.began)), "threads")
	})
}
