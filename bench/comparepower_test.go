package bench_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/compare"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// load is requests as a trace has them: turns of conversations, whose prompts grow by their earlier turns and are
// cached up to there.
type load struct {
	at              []float64 // s
	session         []int64
	uncached, input []float64 // tokens
	output          []int64
}

// newLoad makes n requests at 3.4 a second, as many as the conversation trace of Mooncake has (12,031 in 3,536 s).
// Lengths are log-normal: new input tokens have a median of 2,000, output tokens one of 300.
func newLoad(n int, seed uint64) *load {
	const rate = 3.4
	random, l := rand.New(rand.NewPCG(seed, 1)), &load{}
	type turn struct {
		at, uncached, input float64
		session, output     int64
	}
	var turns []turn
	for session, at := int64(0), 0.0; len(turns) < n; session++ {
		at += random.ExpFloat64() / rate * 3
		begin, context := at, 0.0
		for range 1 + random.IntN(5) { // 3 turns on average
			fresh := min(16000, math.Exp(math.Log(2000)+random.NormFloat64()))
			output := 2 + min(2000, math.Exp(math.Log(300)+0.8*random.NormFloat64()))
			turns = append(turns, turn{begin, fresh, context + fresh, session, int64(output)})
			context += fresh + output
			begin += 10 + 20*random.ExpFloat64()
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
	for _, t := range turns[:n] {
		l.at, l.session, l.output = append(l.at, t.at), append(l.session, t.session), append(l.output, t.output)
		l.uncached, l.input = append(l.uncached, t.uncached), append(l.input, t.input)
	}
	return l
}

// answer is how a server took a request, in s from the run's start.
type answer struct{ first, last float64 }

// serve replays a load on a server in virtual time, and returns what a run would record. The server batches by
// iterations, with prefill in chunks (Yu et al., Orca, OSDI 2022; Agrawal et al., Sarathi-Serve, OSDI 2024). An
// iteration takes 8 ms, 0.1 ms for each request in it and 20 µs for each new token: the size of an 8 B model on one
// GPU. So requests wait for each other, and for an iteration's end.
//
// All iterations take longer by a share. Their noise has five parts. Each iteration varies by 3 %. Clocks drift by 1 %
// (standard deviation), with a memory of 5 s. Once in 30 s an interval of 0.2 to 2 s is 1.2 to 2 times as slow: another
// tenant. One iteration in 500 stalls for a Pareto time from 5 ms on (exponent 1.5, at most 0.5 s): garbage collection.
// A request takes about 1 ms more through network and HTTP, log-normal (0.5). The throughput of such runs varies by
// some 0.4 to 0.6 %, as that of vLLM at 8 to 32 requests in flight (vllm-project/vllm#53436).
func serve(l *load, random *rand.Rand, slower float64) []answer {
	const chunk, drift = 2048, 0.01
	out := make([]answer, len(l.at))
	ends := map[int][]int{} // iteration → requests that end with it
	now, slowUntil, slow, wander := 0.0, 0.0, 1.0, 0.0
	next, active, head, left := 0, 0, 0, 0.0 // head is the request in prefill, left its tokens
	for iteration := 0; head < len(l.at) || active > 0; iteration++ {
		for next < len(l.at) && l.at[next] <= now {
			next++
		}
		if active == 0 && head == next {
			now = l.at[next]
			continue
		}
		budget, joined := float64(chunk), []int(nil)
		for head < next && budget > 0 {
			if left == 0 {
				left = l.uncached[head]
			}
			taken := min(budget, left)
			if budget, left = budget-taken, left-taken; left == 0 {
				joined = append(joined, head)
				head++
			}
		}
		took := 0.008 + 0.0001*float64(active) + 20e-6*(chunk-budget)
		keep := math.Exp(-took / 5)
		wander = wander*keep + drift*math.Sqrt(1-keep*keep)*random.NormFloat64()
		if random.Float64() < took/30 {
			slowUntil, slow = now+0.2+1.8*random.Float64(), 1.2+0.8*random.Float64()
		}
		if took *= (1 + slower) * (1 + wander) * math.Exp(0.03*random.NormFloat64()); now < slowUntil {
			took *= slow
		}
		if random.Float64() < 0.002 {
			took += min(0.5, 0.005*math.Pow(random.Float64(), -1/1.5))
		}
		now += took
		for _, i := range ends[iteration] {
			out[i].last += now
			active--
		}
		delete(ends, iteration)
		for _, i := range joined {
			jitter := 0.001 * math.Exp(0.5*random.NormFloat64())
			out[i] = answer{now + jitter, jitter}
			ends[iteration+int(l.output[i])-1] = append(ends[iteration+int(l.output[i])-1], i)
			active++
		}
	}
	return out
}

// asSide is the runs as a side, with TTFT and TPOT longer by a share.
func asSide(t *testing.T, l *load, longer float64, runs ...[]answer) *compare.Side {
	s := new(compare.Side)
	for _, answers := range runs {
		end := slices.MaxFunc(answers, func(a, b answer) int { return cmp.Compare(a.last, b.last) }).last
		summary := &metrics.Summary{Run: metrics.Run{DurationS: end * (1 + longer)}, Workload: metrics.Workload{Fingerprint: "sha256:same"}}
		err := s.Add("virtual", summary, func(yield func(*record.Record, error) bool) {
			var r record.Record
			r.Clear()
			for i, a := range answers {
				r.RequestID, r.Session, r.Outcome = "v-"+strconv.Itoa(i), l.session[i], record.OK
				r.PlannedNS = int64(l.at[i] * 1e9)
				r.SentNS = r.PlannedNS
				r.FirstTokenNS = r.SentNS + int64((a.first-l.at[i])*(1+longer)*1e9)
				r.LastTokenNS = r.FirstTokenNS + int64((a.last-a.first)*(1+longer)*1e9)
				r.DoneNS = r.LastTokenNS
				r.PromptTokens, r.CachedTokens = int64(l.input[i]), int64(l.input[i]-l.uncached[i])
				r.CompletionTokens, r.Chunks, r.TokensFrom = l.output[i], l.output[i], record.TokensFromUsage
				if !yield(&r, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// outcome counts what comparisons of made runs said of one metric.
type outcome struct{ alarms, covered int }

// comparedRuns compares pairs of runs of n requests, B with TTFT and TPOT longer by each change, and counts outcomes by
// metric and change.
func comparedRuns(t *testing.T, pairs, n int, changes []float64, names []string) map[string][]outcome {
	counts := map[string][]outcome{}
	for _, name := range names {
		counts[name] = make([]outcome, len(changes))
	}
	for pair := range pairs {
		random, l := rand.New(rand.NewPCG(uint64(pair), 7)), newLoad(n, uint64(pair))
		x, y := serve(l, random, 0), serve(l, random, 0)
		a := asSide(t, l, 0, x)
		for k, change := range changes {
			r, err := compare.Compare(a, asSide(t, l, change, y), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range r.Metrics {
				if counts[m.Name] == nil || m.Low == nil {
					continue
				}
				o := &counts[m.Name][k]
				o.alarms += btoi(m.Verdict == compare.Differs)
				o.covered += btoi(*m.Low <= change && change <= *m.High)
			}
		}
	}
	return counts
}

// powerNames are the metrics of the benchmark; the first two are those that it demands something of.
func powerNames() []string {
	return []string{"ttft.paired", "tpot.paired", "ttft.p50", "ttft.p95", "ttft.mean", "tpot.p50", "tpot.p95", "tpot.mean"}
}

// TestComparePower: of pairs of runs that noise alone tells apart, at most 5 % are called different, and of pairs that
// differ by 2 % at least half are, with 2,000 requests. It fails if what it counts has a probability below 0.1 % if that
// is so.
//
// FASTREPLAY_COMPARE_POWER=1000 counts 1,000 pairs of each change.
func TestComparePower(t *testing.T) {
	if testing.Short() {
		t.Skip("many comparisons")
	}
	text := os.Getenv("FASTREPLAY_COMPARE_POWER")
	if text == "" {
		text = "50"
	}
	pairs, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	whole, changes := pairs > 50, []float64{0, 0.02}
	if whole {
		changes = []float64{0, 0.01, 0.02, 0.03}
	}
	counts := comparedRuns(t, pairs, 2000, changes, powerNames())
	t.Logf("%d pairs of 2,000 requests; changes of %v", pairs, changes)
	for _, name := range powerNames() {
		t.Logf("%-12s called different, and true change within the interval: %v", name, counts[name])
	}
	for _, name := range powerNames()[:2] {
		got := counts[name]
		if different := got[0].alarms; atMost(pairs-different, pairs, 0.95) < 0.001 {
			t.Errorf("%s: %d false alarms among %d pairs", name, different, pairs)
		}
		if found := got[len(changes)-1-btoi(whole)].alarms; atMost(found, pairs, 0.5) < 0.001 {
			t.Errorf("%s: a change of 2 %% was found in %d of %d pairs", name, found, pairs)
		}
		if covered := got[0].covered; atMost(covered, pairs, 0.93) < 0.001 {
			t.Errorf("%s: %d of %d intervals hold the truth", name, covered, pairs)
		}
	}
	if whole {
		for _, n := range []int{500, 1000} {
			for name, got := range comparedRuns(t, pairs, n, []float64{0, 0.02}, powerNames()[:2]) {
				t.Logf("%-12s with %d requests, at 0 and 2 %%: %v", name, n, got)
			}
		}
	}
}

// atMost is the probability of at most k of n, each with probability p.
func atMost(k, n int, p float64) (sum float64) {
	log := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	for i := range k + 1 {
		sum += math.Exp(log(n) - log(i) - log(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log(1-p))
	}
	return sum
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
