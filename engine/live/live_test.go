package live

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

var update = flag.Bool("update", false, "write the golden files")

// completed makes a record of a request that was planned for at, and ended ok.
func completed(at, lateNS, ttftNS, tokens, tpotNS int64) *record.Record {
	var r record.Record
	r.Clear()
	r.PlannedNS, r.SentNS, r.FirstTokenNS = at, at+lateNS, at+lateNS+ttftNS
	r.LastTokenNS = r.FirstTokenNS + (tokens-1)*tpotNS
	r.DoneNS, r.CompletionTokens, r.Chunks, r.TokensFrom = r.LastTokenNS, tokens, tokens, record.TokensFromUsage
	r.PromptTokens, r.CachedTokens = 1000, 540
	r.Status, r.Outcome = 200, record.OK
	return &r
}

func failed(at int64, o record.Outcome, status int64) *record.Record {
	r := completed(at, 1000, 1, 1, 1)
	r.Outcome, r.Status = o, status
	return r
}

func sampled(url string, running, waiting, kv float64) *scrape.Sample {
	s := &scrape.Sample{Target: url}
	s.Running, s.Waiting, s.KVUsage = &running, &waiting, &kv
	return s
}

// steady is a meter of a run with 12 requests a second to some targets, after so many
// seconds. The second target fails from 20 s on.
func steady(targets, seconds int, closed bool) (*Meter, Counts) {
	const rate, requests = 12, 900
	plan := Plan{Title: "mooncake.jsonl → gpu1:8000", Version: "1.0", ByClock: true, UntilNS: math.MaxInt64, Requests: requests, MaxDriftNS: 5e6,
		TimeoutNS: 600e9, DrainNS: 30e9, Quits: true}
	for i := range targets {
		plan.Targets = append(plan.Targets, fmt.Sprintf("http://gpu%d:8000", i+1))
	}
	for i := range int64(requests) {
		plan.ReleaseNS = append(plan.ReleaseNS, i*1e9/rate)
	}
	if closed {
		plan.ReleaseNS, plan.ByClock = nil, false
	}
	m := NewMeter(plan)
	c := Counts{Left: requests}
	for i := range int64(seconds * rate) {
		at := i * 1e9 / rate
		c.NowNS, c.Sent, c.InFlight = at, i+5, 4+i%3
		to := int(i) % targets
		r := completed(at, 50_000+i%7*1000, 25e6+i%11*1e5, 64, 5e6+i%5*1e4)
		if to == 1 && at > 20e9 {
			r = failed(at, record.ConnectError, record.None)
			if i%9 == 0 {
				r = failed(at, record.HTTPError, 503)
			}
		}
		m.Add(at, r, to)
		if r.Outcome == record.OK {
			c.OK++
		}
		c.Left--
		if i%rate == 0 {
			m.Sample(to, sampled(plan.Targets[to], 4, 1, 0.41))
		}
		if i%rate == 0 {
			m.Observe(c)
		}
	}
	c.NowNS = int64(seconds) * 1e9
	return m, c
}

// TestScreens compares screens with the golden file, which -update writes, and no line may be too long.
func TestScreens(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		name             string
		targets, seconds int
		closed, stopping bool
	}{
		{"one target", 1, 32, false, false}, {"begin", 1, 0, false, false}, {"two targets, one down", 2, 40, false, false},
		{"draining", 8, 75, false, false}, {"closed loop of 32 targets", 32, 30, true, false}, {"stopping", 1, 10, false, true},
	} {
		m, counts := steady(c.targets, c.seconds, c.closed)
		counts.Stopping = c.stopping
		s := m.Snapshot(counts)
		for _, width := range []int{20, 60, 80, 120, 160} {
			coloured := Screen(s, width, 24)
			text := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(coloured, "")
			fmt.Fprintf(&out, "%s, %d columns:\n%s\n\n", c.name, width, text)
			for line := range strings.Lines(text) {
				if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: %d of %d columns: %s", c.name, n, width, line)
				}
			}
			if n := strings.Count(text, "\n") + 1; n > 16 || width < Wide && n > 5 {
				t.Errorf("%s, %d columns: %d lines", c.name, width, n)
			}
			if coloured == text {
				t.Errorf("%s: no colours:\n%s", c.name, text)
			}
		}
		fmt.Fprintf(&out, "%s, line:\n%s\n\n", c.name, Line(s))
	}
	const golden = "testdata/screens.txt"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != out.String() {
		t.Errorf("%s differs (%v); see what -update makes of it:\n%s", golden, err, out.String())
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestScreenObeysNobody: what came from outside moves no cursor.
func TestScreenObeysNobody(t *testing.T) {
	m := NewMeter(Plan{Title: "a\x1b[2Jb\n", Targets: []string{"http://x\x1b]0;y\x07"}, UntilNS: math.MaxInt64, Requests: 1})
	for _, width := range []int{60, 120} {
		if text := colours.ReplaceAllString(Screen(m.Snapshot(Counts{Left: 1}), width, 24), ""); strings.ContainsAny(text, "\x1b\x07\r") {
			t.Errorf("%q", text)
		}
	}
}

// TestSteadyNumbers: in a steady run the rates are those of the run, at any moment.
func TestSteadyNumbers(t *testing.T) {
	for _, seconds := range []int{6, 7, 20, 61, 70} {
		m, c := steady(1, seconds, false)
		s := m.Snapshot(c)
		near := func(name string, got, want float64) {
			if math.IsNaN(got) || math.Abs(got-want) > 0.1*want {
				t.Errorf("%d s: %s is %g, want %g", seconds, name, got, want)
			}
		}
		near("tokens/s", s.TokensPerS.Now, 12*64)
		near("sent/s", s.SentPerS.Now, 12)
		near("planned/s", s.DuePerS, 12)
		near("TTFT now", s.Latencies[metrics.TTFT].Now, 25.5e6)
		near("left", float64(s.LeftNS), 899e9/12-float64(seconds)*1e9)
		near("cached", s.Targets[0].Hits, 0.54)
		if n := min(seconds, 60); len(s.Flying.Past) != n || len(s.Latencies[metrics.E2E].Past) != n {
			t.Errorf("%d s: %d seconds", seconds, len(s.Flying.Past))
		}
	}
	m, c := steady(1, 30, true) // a closed loop has no times: what is left is known from the pace
	if s := m.Snapshot(c); s.LeftNS < 43e9 || s.LeftNS > 47e9 || !math.IsNaN(s.DuePerS) {
		t.Errorf("closed loop: %d ns left, %g planned", s.LeftNS, s.DuePerS)
	}
}

// TestSlowRequests: a rate is made of a minute if few requests end.
func TestSlowRequests(t *testing.T) {
	m := NewMeter(Plan{Targets: []string{"a"}, UntilNS: math.MaxInt64, Requests: 100})
	for i := range int64(100) {
		if i%10 == 0 {
			m.Add(i*1e9, completed(i*1e9, 1, 1e6, 600, 1e6), 0)
		}
		m.Observe(Counts{NowNS: i * 1e9})
	}
	for now := int64(95e9); now < 100e9; now += 1e9 {
		if s := m.Snapshot(Counts{NowNS: now, Left: 90}); math.Abs(s.TokensPerS.Now-60) > 6 {
			t.Errorf("at %d: %g tokens/s, want 60", now, s.TokensPerS.Now)
		}
	}
}

func TestFailuresByKind(t *testing.T) {
	m, c := steady(2, 40, false)
	s := m.Snapshot(c)
	down, refused, busy := s.Targets[1], Kind{Outcome: record.ConnectError}, Kind{record.HTTPError, 503}
	if kinds := s.All.kinds(); !slices.Equal(kinds, []Kind{refused, busy}) || s.All.Errors[refused]+s.All.Errors[busy] != s.Failed || down.Failed != s.Failed {
		t.Errorf("%+v of %d", s.All.Errors, s.Failed)
	}
	if !strings.HasPrefix(down.down(), "DOWN 20s") || s.Targets[0].down() != "" {
		t.Errorf("%+v", down)
	}
	var out record.Record
	out.Clear()
	out.Error = record.LeftOutWords
	m.Add(0, &out, -1)
	m.Add(0, failed(0, record.NotSent, record.None), -1)
	c.Stopping, c.Left = true, 0
	got := m.Snapshot(c)
	if got.All.Errors[Kind{Outcome: record.NotSent}] != 1 || got.Failed != s.Failed || got.Share != float64(c.OK+s.Failed)/900 || strings.Contains(Line(got)+Screen(got, 160, 24), "not sent") {
		t.Errorf("with a request that the stop left unsent: %d failed, %g: %+v", got.Failed, got.Share, got.All.Errors)
	}
}

// TestWaits: how long answers have been waited for counts from the last sending, and anew from the stop.
func TestWaits(t *testing.T) {
	m, c := steady(1, 70, false)
	for _, x := range []struct {
		atS, left, inFlight int64
		stopping            bool
		want                string
	}{
		{71, 48, 0, false, "left=4s"}, {80, 15, 15, false, "in_flight=15 waited=0s most=10m0s"}, {114, 9, 9, false, "in_flight=9 waited=34s most=10m0s"},
		{120, 9, 9, true, "in_flight=9 waited=0s most=30s"}, {123, 8, 8, true, "in_flight=8 waited=3s most=30s"},
	} {
		c.NowNS, c.Left, c.InFlight, c.Stopping = x.atS*1e9, x.left, x.inFlight, x.stopping
		m.Observe(c)
		c.NowNS += 1e8
		if got := Line(m.Snapshot(c)); !strings.HasSuffix(got, " "+x.want) {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	m, _ := steady(2, 40, false)
	r, bad := completed(41e9, 1, 1e6, 10, 1e6), failed(41e9, record.HTTPError, 503)
	expect.Equal(t, testing.AllocsPerRun(1000, func() { m.Add(41e9, r, 0); m.Add(42e9, bad, 1) }), 0, "allocations")
}

func BenchmarkAdd(b *testing.B) {
	m, _ := steady(2, 40, false)
	r := completed(41e9, 1, 1e6, 10, 1e6)
	b.ReportAllocs()
	for b.Loop() {
		m.Add(41e9, r, 0)
	}
}

func BenchmarkScreen(b *testing.B) {
	for _, targets := range []int{1, 32} {
		b.Run(fmt.Sprint(targets), func(b *testing.B) {
			m, c := steady(targets, 60, false)
			b.ReportAllocs()
			for b.Loop() {
				Screen(m.Snapshot(c), 160, 40)
			}
		})
	}
}
