package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// queued is a request at a server with few slots, first come, first served.
type queued struct {
	at, service, ttft float64 // s
	free              bool
}

// serve sets the TTFTs of those requests that are sent.
func serve(all []queued, slots int, sent func(*queued) bool) {
	free := make([]float64, slots)
	for i := range all {
		q := &all[i]
		if !sent(q) {
			continue
		}
		slot := slices.Index(free, slices.Min(free))
		begin := max(q.at, free[slot])
		free[slot] = begin + q.service
		q.ttft = free[slot] - q.at
	}
}

// sideOf is a side of three runs of those requests, whose server adds noise of 3 %, and 2 % from run to run.
func sideOf(t *testing.T, name, without string, all []queued, sent func(*queued) bool, noise *rand.Rand) *Side {
	t.Helper()
	side := new(Side)
	for k := range 3 {
		side.addRun(t, fmt.Sprint(name, k), without, all, sent, noise)
	}
	return side
}

func (side *Side) addRun(t *testing.T, name, without string, all []queued, sent func(*queued) bool, noise *rand.Rand) {
	t.Helper()
	scale := math.Exp(0.02 * noise.NormFloat64())
	s := new(metrics.Summary)
	s.Run.Targets = []string{"http://queue"}
	s.Workload = metrics.Workload{Trace: "day.jsonl", Rows: int64(len(all)), Fingerprint: "of" + without}
	s.Run.Options = map[string]any{}
	if without != "" {
		s.Run.Options["without"] = without
	}
	err := side.Add(name, s, func(yield func(*record.Record, error) bool) {
		index := 0
		for row, q := range all {
			var r record.Record
			r.Clear()
			r.Row, r.RequestID, r.PlannedNS = int64(row), fmt.Sprint(name, "-", index), int64(q.at*1e9)
			if !sent(&q) { // as a run writes them, behind the others
				r.RequestID, r.Error = fmt.Sprint(name, "-", len(all)+row), record.WithoutWords
			} else {
				index++
				r.SentNS, r.Outcome = r.PlannedNS, record.OK
				r.FirstTokenNS = r.SentNS + int64(q.ttft*scale*math.Exp(0.03*noise.NormFloat64())*1e9)
				r.LastTokenNS, r.DoneNS = r.FirstTokenNS+1e6, r.FirstTokenNS+1e6
				r.CompletionTokens, r.PromptTokens = 2, 100
			}
			if !yield(&r, nil) {
				return
			}
		}
	})
	must.Do(t, err)
}

// TestCostOfAClass: what a class costs the others in a queue is found by runs with and without it in ten of ten
// worlds, and where it costs nothing nothing is found. The truth is the queue's without noise.
func TestCostOfAClass(t *testing.T) {
	for _, slots := range []int{4, 1000} {
		found := 0
		for seed := range uint64(10) {
			chance := rand.New(rand.NewPCG(seed, 3))
			var all []queued
			for at := 0.0; at < 100; at += chance.ExpFloat64() / 34 {
				all = append(all, queued{at: at, service: 0.05 + 0.1*chance.Float64(), free: chance.Float64() < 0.4})
			}
			gold := func(q *queued) bool { return !q.free }
			every := func(*queued) bool { return true }
			p95 := func() float64 {
				var ttft []float64
				for i := range all {
					if !all[i].free {
						ttft = append(ttft, all[i].ttft)
					}
				}
				slices.Sort(ttft)
				return ttft[len(ttft)*95/100]
			}
			serve(all, slots, gold)
			alone := p95()
			a := sideOf(t, "alone", "class=free", all, gold, chance)
			serve(all, slots, every)
			truth := p95()/alone - 1
			b := sideOf(t, "both", "", all, every, chance)
			r := must.Have(Compare(a, b, false))(t)
			m := r.Metrics[slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == "ttft.p95" })]
			if m.Low == nil {
				t.Fatalf("seed %d: %+v", seed, m)
			}
			expect.Equal(t, r.Paired, true, "paired")
			expect.Contains(t, strings.Join(r.Notes, "\n"), "A was sent without class=free: the difference of the others is what class=free costs them")
			const rounding = 0.02 // noise of 3 % makes percentiles larger
			if truth < *m.Low-rounding || truth > *m.High+rounding {
				t.Errorf("%d slots, seed %d: the truth is %+.1f %%, found %s", slots, seed, 100*truth, m.Sentence)
			}
			found += map[bool]int{true: 1, false: 0}[m.Verdict == Worse && *m.Low > 0]
		}
		want := map[int]int{4: 10, 1000: 0}[slots]
		expect.Equal(t, found, want, "found with %d slots", slots)
	}
}

// TestPartsOfOtherWorkloads: only a whole run of the same workload is a pair.
func TestPartsOfOtherWorkloads(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	all := []queued{{at: 0, ttft: 1}, {at: 1, ttft: 1, free: true}, {at: 2, ttft: 1}}
	gold := func(q *queued) bool { return !q.free }
	a := sideOf(t, "a", "class=free", all, gold, chance)
	for without, words := range map[string]string{"class=gold": "--without: class=free and class=gold"} {
		_, err := Compare(a, sideOf(t, "b", without, all, gold, chance), false)
		expect.Error(t, err, words)
	}
	b := sideOf(t, "b", "", all[:2], gold, chance)
	_, err := Compare(a, b, false)
	expect.Error(t, err, "traces: ")
	b = sideOf(t, "b", "", all, gold, chance)
	for _, run := range b.runs {
		run.summary.Run.Options["seed"] = "2"
	}
	_, err = Compare(a, b, false)
	expect.Error(t, err, "--seed")
}
