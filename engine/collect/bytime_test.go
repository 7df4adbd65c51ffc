package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// timed is a request and the number of its target; below 0: none.
type timed struct {
	r      *record.Record
	target int
}

func randomTimed(rng *rand.Rand, span int64) timed {
	o := record.Outcome(rng.IntN(record.Outcomes) * rng.IntN(2))
	r := sentAt(rng.Int64N(span), o, rng.Int64N(3*s))
	r.PlannedNS -= rng.Int64N(20 * ms)
	if o == record.OK {
		r.CompletionTokens, r.Chunks, r.PromptTokens = rng.Int64N(200), 9, rng.Int64N(5000)
		r.LastTokenNS += rng.Int64N(9 * s)
		r.DoneNS = r.LastTokenNS
		if rng.IntN(3) == 0 {
			r.CachedTokens = rng.Int64N(50)
		}
	}
	if rng.IntN(3) > 0 {
		r.Instance = fmt.Sprintf("pod-%d", rng.IntN(3))
	}
	return timed{r, rng.IntN(3) - 1} // some have no target
}

// allSteps are the steps of everybody: all requests, each target, those without one, each instance.
func allSteps(l *Timeline) (out [][]metrics.Step) {
	keep := func(steps []metrics.Step) { out = append(out, slices.Clone(steps)) }
	keep(l.All())
	for steps := range l.Targets() {
		keep(steps)
	}
	for steps := range l.Instances() {
		keep(steps)
	}
	return out
}

// TestTimeline counts again request by request, token by token and step by step.
func TestTimeline(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 3))
		urls := []string{"http://a", "http://b"}
		var list []timed
		end := int64(0)
		for span := int64(1+rng.IntN(400)) * s; len(list) < 500; {
			x := randomTimed(rng, span)
			list = append(list, x)
			end = max(end, x.r.PlannedNS, x.r.SentNS, x.r.LastTokenNS)
		}
		c, again := NewCollector(urls), NewCollector(urls)
		for _, x := range list {
			c.Add(x.r, x.target)
		}
		for _, i := range rng.Perm(len(list)) {
			again.Add(list[i].r, list[i].target)
		}
		got, repeated := allSteps(c.Timeline()), allSteps(again.Timeline())
		for i := range repeated { // but for the order of adding up
			for k := range repeated[i] {
				if math.Abs(repeated[i][k].InFlight-got[i][k].InFlight) < 1e-9 {
					repeated[i][k].InFlight = got[i][k].InFlight
				}
			}
		}
		if !reflect.DeepEqual(got, repeated) {
			t.Fatalf("seed %d: another order of requests gives other steps", seed)
		}
		width := int64(got[0][0].ToS * 1e9)
		if steps := end/width + 1; int64(len(got[0])) != steps || steps > mostSteps || steps < mostSteps/3 {
			t.Fatalf("seed %d: %d steps of %d ns for %d", seed, len(got[0]), width, end)
		}
		owners := []struct {
			target, instance string
			owns             func(timed) bool
		}{
			{"", "", func(timed) bool { return true }},
			{urls[0], "", func(x timed) bool { return x.target == 0 }},
			{urls[1], "", func(x timed) bool { return x.target == 1 }},
			{"", "", func(x timed) bool { return x.target < 0 }},
			{"", "pod-0", func(x timed) bool { return x.r.Instance == "pod-0" }},
			{"", "pod-1", func(x timed) bool { return x.r.Instance == "pod-1" }},
			{"", "pod-2", func(x timed) bool { return x.r.Instance == "pod-2" }},
		}
		must.Equal(t, len(got), len(owners), "seed %d: steps", seed)
		for i, o := range owners {
			var own []*record.Record
			for _, x := range list {
				if o.owns(x) {
					own = append(own, x.r)
				}
			}
			for k, step := range got[i] {
				from, to := int64(k)*width, int64(k+1)*width
				want := recount(own, from, to)
				want.Target, want.Instance = o.target, o.instance
				expect.Near(t, step.InFlight, want.InFlight, 1e-9, "seed %d, %d, step %d in flight", seed, i, k)
				step.InFlight = want.InFlight
				if !reflect.DeepEqual(step, want) {
					t.Fatalf("seed %d, %d, step %d:\ngot  %+v\nwant %+v", seed, i, k, step, want)
				}
			}
		}
	}
}

// recount is the step from one instant to another of these requests.
func recount(list []*record.Record, from, to int64) metrics.Step {
	want := metrics.Step{FromS: float64(from) / 1e9, ToS: float64(to) / 1e9}
	var drift, ttft, tpot, e2e []int64
	within := func(ns int64) bool { return ns >= from && ns < to }
	for _, r := range list {
		if within(max(0, r.PlannedNS)) && r.PlannedNS >= 0 {
			want.Planned++
		}
		at := r.PlannedNS
		if r.SentNS != record.None {
			at = r.SentNS
			want.InFlight += float64(max(0, min(to, max(at, r.LastTokenNS))-max(from, at))) / float64(to-from)
		}
		for i := range r.CompletionTokens { // token by token
			ns := r.FirstTokenNS
			if i > 0 { // rounded up: before the end of a step is before it
				ns += (i*(r.LastTokenNS-r.FirstTokenNS) + r.CompletionTokens - 2) / (r.CompletionTokens - 1)
			}
			if within(ns) {
				want.OutputTokens++
			}
		}
		if !within(max(0, at)) {
			continue
		}
		want.Requests++
		if r.SentNS != record.None {
			drift = append(drift, r.SentNS-r.PlannedNS)
		}
		if r.Outcome != record.OK {
			want.Failed++
			continue
		}
		want.OK++
		want.PromptTokens += r.PromptTokens
		if r.CachedTokens != record.None {
			if want.CachedTokens == nil {
				want.CachedTokens = new(int64)
			}
			*want.CachedTokens += r.CachedTokens
		}
		ttft, e2e = append(ttft, r.FirstTokenNS-at), append(e2e, r.LastTokenNS-at)
		if r.CompletionTokens >= 2 {
			tpot = append(tpot, int64(math.Round(float64(r.LastTokenNS-r.FirstTokenNS)/float64(r.CompletionTokens-1))))
		}
	}
	want.DriftP99 = byRank(drift, 99, 1e3)
	want.TTFTP50, want.TTFTP99 = byRank(ttft, 50, 1e6), byRank(ttft, 99, 1e6)
	want.TPOTP50, want.TPOTP99 = byRank(tpot, 50, 1e6), byRank(tpot, 99, 1e6)
	want.E2EP50, want.E2EP99 = byRank(e2e, 50, 1e6), byRank(e2e, 99, 1e6)
	return want
}

// byRank is a percentile by nearest rank of a sorted slice; nil of nothing.
func byRank(list []int64, percent int, unit float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return new(float64(list[int(math.Ceil(float64(len(list)*percent)/100))-1]) / unit)
}

func TestStepWidth(t *testing.T) {
	for _, c := range []struct{ endNS, want int64 }{
		{0, ms}, {119 * ms, ms}, {120 * ms, 2 * ms}, {2300 * ms, 20 * ms}, {58 * s, 500 * ms}, {60 * s, s}, {119 * s, s}, {120 * s, 2 * s}, {600 * s, 10 * s},
		{3600 * s, 60 * s}, {86400 * s, 900 * s}, {432_000 * s, 7200 * s}, {2_000_000 * s, 18000 * s},
	} {
		expect.Equal(t, stepNS(c.endNS, mostSteps), c.want, "%d ns: steps", c.endNS)
	}
}

// TestTimelineOfNothing: a run without a record, and one with more targets than there can be rows of each step.
func TestTimelineOfNothing(t *testing.T) {
	c := NewCollector([]string{"http://a"})
	if got := c.Timeline().All(); len(got) != 1 || got[0].Requests != 0 || got[0].TTFTP50 != nil || got[0].CachedTokens != nil {
		t.Errorf("%+v", got)
	}
	c = &Collector{urls: slices.Repeat([]string{"http://a"}, 20_000)}
	c.timings.add(sentAt(100*s, record.OK, s), 0)
	rows := 0
	for steps := range c.Timeline().Targets() {
		rows += len(steps)
	}
	if rows > 2*mostRows || rows < 20_000 {
		t.Errorf("%d rows of 20,000 targets", rows)
	}
}
