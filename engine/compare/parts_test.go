package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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

// sideOf is a side of three runs of those requests, by turns with those of another side, whose server adds noise of 3 %,
// and 2 % from run to run.
func sideOf(t *testing.T, name, without string, all []queued, sent func(*queued) bool, noise *rand.Rand) *Side {
	t.Helper()
	side := new(Side)
	for k := range 3 {
		side.addRun(t, fmt.Sprint(name, k), without, k, 1, all, sent, noise)
	}
	return side
}

// addRun adds a run that begins at a place in the order of all, and takes so many times as long.
func (side *Side) addRun(
	t *testing.T, name, without string, place int, times float64, all []queued, sent func(*queued) bool, noise *rand.Rand,
) {
	t.Helper()
	scale := times * math.Exp(0.02*noise.NormFloat64())
	s := new(metrics.Summary)
	s.Run.StartedAt = time.Unix(int64(1e9+place), 0)
	s.Run.Targets = []string{"http://queue"}
	s.Workload = metrics.Workload{Trace: "day.jsonl", Rows: int64(len(all)), Fingerprint: "of" + without}
	s.Run.Options = map[string]any{}
	if without != "" {
		s.Run.Options["without"] = without
	}
	index := 0
	side.addRecords(t, name, s, len(all), func(row int, r *record.Record) {
		q := &all[row]
		r.Row, r.RequestID, r.PlannedNS = int64(row), fmt.Sprint(name, "-", index), int64(q.at*1e9)
		if !sent(q) { // as a run writes them, behind the others
			r.RequestID, r.Error = fmt.Sprint(name, "-", len(all)+row), record.WithoutWords
			return
		}
		index++
		r.SentNS, r.Outcome = r.PlannedNS, record.OK
		r.Class = q.class(row)
		r.FirstTokenNS = r.SentNS + int64(q.ttft*scale*math.Exp(0.03*noise.NormFloat64())*1e9)
		r.LastTokenNS, r.DoneNS = r.FirstTokenNS+1e6, r.FirstTokenNS+1e6
		r.CompletionTokens, r.PromptTokens = 2, 100
	})
}

// mixed are requests of a busy server, two in five of them free.
func mixed(chance *rand.Rand) (all []queued) {
	for at := 0.0; at < 100; at += chance.ExpFloat64() / 34 {
		all = append(all, queued{at: at, service: 0.05 + 0.1*chance.Float64(), free: chance.Float64() < 0.4})
	}
	return all
}

func paying(q *queued) bool { return !q.free }

func everyone(*queued) bool { return true }

// p95Of is that of the TTFTs of the paying requests of one class, without noise.
func p95Of(all []queued, class string) float64 {
	var ttft []float64
	for row := range all {
		if all[row].class(row) == class {
			ttft = append(ttft, all[row].ttft)
		}
	}
	slices.Sort(ttft)
	return ttft[len(ttft)*95/100]
}

func (q *queued) class(row int) string {
	switch {
	case q.free:
		return "free"
	case row%3 == 0:
		return "silver"
	}
	return "gold"
}

func costOf(t *testing.T, r *Result, owner string) (Metric, string) {
	t.Helper()
	for _, part := range r.Owners {
		if part.Owner == owner {
			return *named(part.Metrics, costed), part.Cost
		}
	}
	t.Fatalf("no %s in %+v", owner, r.Owners)
	return Metric{}, ""
}

// TestCostOfAClass: what a class costs each of two others in a queue is found by runs with and without it in ten of ten
// worlds, and where it costs nothing nothing is found. The truth is the queue's without noise. The words are the same
// from either side.
func TestCostOfAClass(t *testing.T) {
	for slots, worlds := range map[int]uint64{4: 10, 1000: 4} {
		found := 0
		for seed := range worlds {
			chance := rand.New(rand.NewPCG(seed, 3))
			all := mixed(chance)
			serve(all, slots, paying)
			alone := map[string]float64{"gold": p95Of(all, "gold"), "silver": p95Of(all, "silver")}
			a := sideOf(t, "alone", "class=free", all, paying, chance)
			serve(all, slots, everyone)
			b := sideOf(t, "both", "", all, everyone, chance)
			r := compared(t, a, b)
			turned := r
			if seed == 0 {
				turned = compared(t, b, a)
			}
			expect.Equal(t, r.Paired, true, "paired")
			expect.Contains(t, strings.Join(r.Notes, "\n"), "A was sent without class=free: the difference of the others is what class=free costs them")
			for class, before := range alone {
				truth := p95Of(all, class)/before - 1
				m, cost := costOf(t, r, "class="+class)
				must.Equal(t, m.Low != nil, true, "%+v", m)
				const rounding = 0.02 // noise of 3 % makes percentiles larger
				if truth < *m.Low-rounding || truth > *m.High+rounding {
					t.Errorf("%d slots, seed %d: the truth is %+.1f %%, found %s", slots, seed, 100*truth, m.Sentence)
				}
				_, other := costOf(t, turned, "class="+class)
				expect.Equal(t, other, cost, "from the other side")
				claims := "free costs " + class + " " + m.change() + " TTFT p95 [" + m.number(*m.Low)
				found += map[bool]int{true: 1}[m.Verdict == Worse && (m.times() || strings.HasPrefix(cost, claims))]
			}
		}
		want := map[int]int{4: 20, 1000: 0}[slots]
		expect.Equal(t, found, want, "found with %d slots", slots)
	}
}

// TestCostsThatAreNot: a server that changes from run to run, while no class costs another anything, is not taken for
// such a cost: neither in a pair of runs, nor if the sides were run one behind the other. Nor are latencies which failed
// requests may have had.
func TestCostsThatAreNot(t *testing.T) {
	for order, wants := range map[string]string{
		"AB": "3 runs a side", "AAB": "3 runs a side", "AAABBB": "no cost of free", "AABB": "no cost of free", "ABBAAB": "no cost of free",
	} {
		claims := 0
		for seed := range uint64(4) {
			chance := rand.New(rand.NewPCG(seed, 5))
			all := mixed(chance)
			serve(all, 1000, everyone)
			sides := [2]*Side{new(Side), new(Side)}
			for place, side := range order {
				without, sent := "class=free", paying
				if side == 'B' {
					without, sent = "", everyone
				}
				slower := math.Pow(1.08, float64(place))
				sides[side-'A'].addRun(t, fmt.Sprint(order, place), without, place, slower, all, sent, chance)
			}
			_, cost := costOf(t, compared(t, sides[0], sides[1]), "class=gold")
			if strings.HasPrefix(cost, "free costs gold") {
				claims++
				t.Log(order, cost)
			} else if !strings.Contains(cost, wants) {
				t.Errorf("%s: %q, want %q", order, cost, wants)
			}
		}
		if claims > 0 {
			t.Errorf("%s: %d of 4 claim a cost", order, claims)
		}
	}
	for i, c := range []struct {
		order, url, wants string
		loop              int64
	}{
		{"ABBAAB", "http://a", "free costs gold", 0},
		{"ABBAAB", "http://b", "not known: the runs went to different servers, http://a and http://b", 0},
		{"ABBAAB", "http://a", "not known: in a closed loop", 8},
		{"AAABBB", "http://a", "not known: it changed by +", 0}, // somebody changed the server between the sides
	} {
		chance := rand.New(rand.NewPCG(uint64(i), 6))
		all := mixed(chance)
		serve(all, 1000, everyone)
		sides := [2]*Side{new(Side), new(Side)}
		for place, side := range c.order {
			without, sent, slower, url := "class=free", paying, 1.0, "http://a"
			if side == 'B' {
				without, sent, slower, url = "", everyone, 1.5, c.url
			}
			sides[side-'A'].addRun(t, fmt.Sprint(c.order, i, place), without, place, slower, all, sent, chance)
			made := &sides[side-'A'].runs[len(sides[side-'A'].runs)-1].summary.Run
			made.Targets, made.Concurrency = []string{url}, c.loop
		}
		r := compared(t, sides[0], sides[1])
		_, cost := costOf(t, r, "class=gold")
		expect.Contains(t, cost, c.wants)
		told := strings.Contains(strings.Join(r.Notes, "\n"), "what class=free costs them")
		expect.Equal(t, told, c.loop == 0 && c.url == "http://a", "%q", r.Notes)
	}
	m := Metric{Name: costed, Unit: "ms", Change: new(0.0), Low: new(-0.005), High: new(0.005), Verdict: Same}
	failed := Metric{Name: "error_rate", Change: new(0.03)}
	r := &Result{Scope: ScopeServers, Margin: sameWithin, Metrics: []Metric{m, failed}}
	expect.Contains(t, r.cost("free", "gold", true, ""), "is not known: 0.00 % [−0.50, 0.50], and more of its requests failed")
	*failed.Change = 0
	expect.Contains(t, r.cost("free", "gold", true, ""), "free costs gold no TTFT p95: within ±1 %")
}

// TestGatesOfOwners: a gate of one class is judged by its requests alone.
func TestGatesOfOwners(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 3))
	all := mixed(chance)
	serve(all, 1000, everyone)
	a := sideOf(t, "a", "", all, everyone, chance)
	for row := range all {
		if all[row].class(row) == "silver" {
			all[row].ttft *= 1.5
		}
	}
	r := compared(t, a, sideOf(t, "b", "", all, everyone, chance))
	for text, want := range map[string]Answer{
		"class=silver ttft.p95:+20%": Failed, "class=gold ttft.p95:+20%": Passed, "class=lead ttft.p95:+20%": Undecided,
	} {
		answer, words := r.Judge(gateOf(t, text))
		expect.Equal(t, answer, want, words)
	}
	expect.Refused(ParseGate("class=gold ttft.p33:+20%"))(t, "want METRIC")
}

// TestPartsOfOtherWorkloads: only a whole run of the same workload is a pair.
func TestPartsOfOtherWorkloads(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	all := []queued{{at: 0, ttft: 1}, {at: 1, ttft: 1, free: true}, {at: 2, ttft: 1}}
	a := sideOf(t, "a", "class=free", all, paying, chance)
	b := sideOf(t, "b", "class=gold", all, paying, chance)
	expect.Refused(Compare(a, b, false))(t, "--without: class=free and class=gold")
	b = sideOf(t, "b", "", all[:2], paying, chance)
	expect.Refused(Compare(a, b, false))(t, "traces: ")
	b = sideOf(t, "b", "", all, paying, chance)
	for _, run := range b.runs {
		run.summary.Run.Options["seed"] = "2"
	}
	expect.Refused(Compare(a, b, false))(t, "--seed")
}

// TestTwinsOfOwners: a part's table shows no TTFO that is its TTFT.
func TestTwinsOfOwners(t *testing.T) {
	r := halfGold(t, 2, func(row int) string { return []string{"gold", "free"}[row%2] })
	for _, part := range r.Owners {
		for _, m := range part.Metrics {
			if m.Main && strings.HasPrefix(m.Name, "ttfo") {
				t.Errorf("%s: %s is on the screen", part.Owner, m.Name)
			}
		}
	}
	expect.Equal(t, len(r.Owners), 2)
}

// halfGold compares sides of so many runs whose requests have the classes that a function gives by row.
func halfGold(t *testing.T, runs int, class func(row int) string) *Result {
	t.Helper()
	var sides [2]Side
	for i := range 2 * runs {
		s := new(metrics.Summary)
		s.Run.StartedAt, s.Run.Targets = time.Unix(1e9, 0), []string{"http://a:1"}
		s.Workload, s.Run.Options = metrics.Workload{Rows: 800, Fingerprint: "of all"}, map[string]any{}
		random := rand.New(rand.NewPCG(uint64(i), 7))
		sides[i%2].addRecords(t, fmt.Sprint("run", i), s, 800, func(row int, r *record.Record) {
			r.Row, r.RequestID, r.PlannedNS, r.SentNS = int64(row), fmt.Sprint(i, "-", row), int64(row)*1e8, int64(row)*1e8
			r.Outcome, r.Class = record.OK, class(row)
			r.FirstTokenNS = r.SentNS + int64(1e8*math.Exp(0.1*random.NormFloat64()))
			r.FirstOutputNS, r.LastTokenNS, r.DoneNS = r.FirstTokenNS, r.FirstTokenNS+1e7, r.FirstTokenNS+1e7
			r.CompletionTokens, r.PromptTokens = 2, 100
		})
	}
	return compared(t, &sides[0], &sides[1])
}

// TestGatesOfLoneOwners: a gate of one class is judged if others are in none, or all in this one, and says so if it is
// one of too many.
func TestGatesOfLoneOwners(t *testing.T) {
	const passes = "class=gold ttft.p50:+90%"
	for name, c := range map[string]struct {
		class func(row int) string
		gate  string
		want  Answer
		parts int
		words string
	}{
		"half":     {func(row int) string { return []string{"gold", ""}[row%2] }, passes, Passed, 1, ""},
		"all":      {func(int) string { return "gold" }, passes, Passed, 0, ""},
		"none":     {func(int) string { return "" }, passes, Undecided, 0, "no requests to compare"},
		"another":  {func(int) string { return "lead" }, passes, Undecided, 0, "no requests to compare"},
		"too many": {func(row int) string { return fmt.Sprint("c", min(row%40, 38)) }, "class=c9 ttft.p50:+90%", Undecided, mostParts, "class=c9 is not among the 32 with the most requests"},
	} {
		r := halfGold(t, 3, c.class)
		answer, words := r.Judge(gateOf(t, c.gate))
		expect.Equal(t, answer, c.want, "%s: %s", name, words)
		expect.Contains(t, words, c.words, name)
		expect.Equal(t, len(r.Owners), c.parts, name)
	}
}
