package worlds

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestChangeIsWhatPairsShow: the changes that pairs of runs show lie about the true one.
func TestChangeIsWhatPairsShow(t *testing.T) {
	const n, pairs, seed, change = 600, 25, 3, 1.05
	stats := []Stat{{TTFT, 0.5}, {TTFT, 0.95}, {TPOT, Mean}, {E2E, 0.5}}
	for _, w := range Worlds() {
		seen := map[Stat][]float64{}
		for i := range uint64(pairs) {
			a, b := w.Run(seed, 2*i, n, 1), w.Run(seed, 2*i+1, n, change)
			for _, s := range stats {
				seen[s] = append(seen[s], math.Log(statOf(b, s)/statOf(a, s)))
			}
		}
		for _, s := range stats {
			mean, sd := moments(seen[s])
			want := math.Log(1 + w.Between(seed, n, change, s))
			if math.Abs(mean-want) > 4.5*sd/math.Sqrt(pairs)+0.001 {
				t.Errorf("%s, %v: pairs show %+.4f on average, the truth is %+.4f", w.Name, s, mean, want)
			}
		}
	}
}

// TestWithinKnowsRuns: within two runs, the change holds what each drew once; a run does not change against itself.
func TestWithinKnowsRuns(t *testing.T) {
	w := World{Name: "runs", Once: []Effect{WholeRun(0.05)}}
	a, b := w.Run(1, 0, 10, 1), w.Run(1, 1, 10, 1.1)
	for _, of := range []float64{Mean, 0.5, 0.99, Pairs} {
		want := b[0].TPOT/a[0].TPOT - 1
		if got := w.Within(1, 0, 1, 10, 1.1, Stat{TPOT, of}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: got %+.4f, want %+.4f", of, got, want)
		}
		expect.Equal(t, w.Within(1, 0, 0, 10, 1, Stat{TPOT, of}), 0, "%v: a run against itself", of)
	}
}

// TestQueue: the mean wait before one slot is that of Pollaczek and Khinchine.
func TestQueue(t *testing.T) {
	w := World{Slots: 1, Busy: 0.7}
	run := w.Run(1, 0, 400_000, 1)
	var wait, service, square float64
	for _, q := range run {
		lone := 50 + 0.1*float64(q.Prompt-q.Cached) + q.TPOT*float64(q.Output-1)
		wait += q.E2E - lone
		service += lone
		square += lone * lone
	}
	n := float64(len(run))
	want := 0.7 / (service / n) * (square / n) / (2 * (1 - 0.7))
	if got := wait / n; math.Abs(got/want-1) > 0.05 {
		t.Errorf("mean wait %.0f ms, want %.0f ms", got, want)
	}
}

// TestEffects: each effect has the size that it says.
func TestEffects(t *testing.T) {
	const n = 100_000
	factors := func(e Effect, n int) []float64 {
		run := make([]Request, n)
		for i := range run {
			run[i] = Request{At: float64(i) / 10, Conversation: i / 10, OK: true, TTFT: 1, TPOT: 1}
		}
		e(rand.New(rand.NewPCG(1, 1)), run)
		out := make([]float64, n)
		for i := range run {
			out[i] = run[i].TTFT
		}
		return out
	}
	mean := func(e Effect) float64 { m, _ := moments(factors(e, n)); return m }
	correlation := func(e Effect, lag int) float64 {
		x := factors(e, n)
		m, sd := moments(x)
		sum := 0.0
		for i := range n - lag {
			sum += (x[i] - m) * (x[i+lag] - m)
		}
		return sum / float64(n-lag) / (sd * sd)
	}
	// spread is that of the last factor over many short runs.
	spread := func(e Effect) float64 {
		r := rand.New(rand.NewPCG(1, 1))
		var ends []float64
		for range 2000 {
			run := make([]Request, 100)
			for i := range run {
				run[i].TTFT = 1
			}
			e(r, run)
			ends = append(ends, run[99].TTFT)
		}
		_, sd := moments(ends)
		return sd
	}
	for _, c := range []struct {
		what            string
		got, want, give float64
	}{
		{"log-normal: mean", mean(LogNormal(0.3)), 1, 0.01},
		{"Pareto: mean", mean(Pareto(2.5)), 1, 0.02},
		{"Pareto: p99", digestOf(factors(Pareto(2.5), n)).permilles[990], 0.6 * math.Pow(0.01, -0.4), 0.1},
		{"outliers: mean", mean(Outliers(0.02, 10)), 1 + 0.02*9, 0.02},
		{"conversations: neighbours", correlation(PerConversation(0.1), 1), 0.9, 0.02},
		{"conversations: a conversation on", correlation(PerConversation(0.1), 10), 0, 0.05},
		{"correlated: at the length", correlation(Correlated(0.001, 0.1), n/1000), math.Exp(-1), 0.1},
		{"correlated: mean", mean(Correlated(0.001, 0.1)), 1, 0.01},
		{"drift: mean", mean(Drift(1.3)), 1.15, 0.001},
		{"step: mean", mean(Step(0.5, 1.3)), 1.15, 0.001},
		{"warm-up: mean", mean(WarmUp(0.1, 2)), 1.1, 0.001},
		{"stalls: mean", mean(Stalls(30, 1)), 1 + 1000.0/30/2, 2},
		{"gc: mean", mean(Stalls(10, 0.3)), 1 + 1000*0.3*0.3/10/2, 2},
		{"cron: mean", mean(Cron(60, 5, 1.5)), 1 + 0.5*5/60, 0.001},
		{"restarts: mean", mean(Restarts(80, 2, 8, 1.5)), 1 + 0.5*10/80, 0.001},
		{"warms: mean", mean(Warms(1000, 3)), 1 + 2*1000/10_000.0, 0.001},
		{"starve: mean", mean(Starve(20, 0.5)), 1 + 1000*0.5*0.5/20/2, 2},
		{"leak: mean", mean(Leak(0.01)), 1 + 0.01*10_000/60/2, 0.001},
		{"walk: spread", spread(Walk(0.02)), 0.02, 0.001},
		{"whole runs: spread", spread(WholeRun(0.005)), 0.005, 0.0003},
		{"modes: spread", spread(Modes(0.5, 1.02)), 0.01, 0.0005},
		{"wave: mean square", spread(Wave(1, 0.05)), 0.05 / math.Sqrt2, 0.001},
		{"ticks: mean", mean(Ticks(25)), 25, 1e-9},
		{"burst: mean", mean(Burst(n/100, 5)), 1.04, 0.001},
		{"neighbour: share of the runs slow at their end", spread(Neighbour(1, 2)), 0.5, 0.02},
	} {
		if math.Abs(c.got-c.want) > c.give {
			t.Errorf("%s: got %.4f, want %.4f", c.what, c.got, c.want)
		}
	}
}

func statOf(run []Request, s Stat) float64 {
	var values []float64
	for _, q := range run {
		if q.OK {
			values = append(values, s.Metric.Of(q))
		}
	}
	d := digestOf(values)
	if s.Of == Mean {
		return d.mean
	}
	return d.permilles[int(math.Round(1000*s.Of))]
}

func moments(x []float64) (mean, sd float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / n
	}
	return mean, math.Sqrt(sd)
}
