package capacity

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

const ms = int64(1e6)

// made is a request that is planned at some ms, is sent 1 ms later, and has its first token and its end so many ms
// after the sending.
func made(planned, first, last int64, outcome record.Outcome) *record.Record {
	r := new(record.Record)
	r.Clear()
	r.PlannedNS, r.SentNS, r.Outcome = planned*ms, (planned+1)*ms, outcome
	if first >= 0 {
		r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens, r.Chunks = (planned+1+first)*ms, (planned+1+last)*ms, 11, 11
	}
	r.DoneNS = (planned + 1 + last) * ms
	return r
}

func noneOpen(func(of rows.Owner, plannedNS, sentNS, firstNS int64)) {}

func objectivesOf(t *testing.T, text string) []Objective {
	t.Helper()
	return must.Have(ParseObjectives(text))(t)
}

// TestCounter compares peeks with counts that are made anew from all requests, at many instants.
func TestCounter(t *testing.T) {
	const ofAll = "ttft.p95<30ms ttft_planned.p90<31ms tpot.p95<5ms e2e.p50<90ms ok>=99%"
	t.Run("all", func(t *testing.T) { checkCounter(t, objectivesOf(t, ofAll)) })
	t.Run("owners", func(t *testing.T) {
		checkCounter(t, objectivesOf(t, ofAll+" class=gold ttft.p90<20ms ok>=90% tenant=b e2e.p50<70ms"))
	})
}

func checkCounter(t *testing.T, objectives []Objective) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	w := Span{FromNS: 200 * ms, ForNS: 950 * ms, SliceNS: 100 * ms}
	var all []*record.Record
	for range 900 {
		first := rng.Int64N(50)
		r := made(rng.Int64N(1400), first, first+rng.Int64N(100), []record.Outcome{record.OK, record.OK, record.OK, record.HTTPError, record.Cancelled}[rng.IntN(5)])
		r.Class, r.Tenant = []string{"gold", "free", ""}[rng.IntN(3)], []string{"a", "b"}[rng.IntN(2)]
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record.Record) int { return int(a.DoneNS - b.DoneNS) })
	c, next := NewCounter(objectives, w), 0
	for now := int64(0); now <= 1700*ms; now += 37 * ms {
		for ; next < len(all) && all[next].DoneNS <= now; next++ {
			c.Add(all[next])
		}
		peek := c.Peek(now, func(f func(of rows.Owner, plannedNS, sentNS, firstNS int64)) {
			for _, r := range all[next:] {
				sent, first := r.SentNS, r.FirstTokenNS
				if sent > now {
					sent = record.None
				}
				if first > now {
					first = record.None
				}
				if r.PlannedNS <= now {
					f(metrics.OwnerOf(r), r.PlannedNS, sent, first)
				}
			}
		}, false)
		var want []Slice
		for from := w.FromNS; from+w.SliceNS <= now && from < w.FromNS+w.ForNS; from += w.SliceNS {
			s := Slice{Beyond: make([]int64, len(objectives))}
			about := make([]Tally, len(objectives))
			for i, r := range all {
				sent, end := r.SentNS, min(now, r.DoneNS)
				s.InFlight += float64(max(0, min(end, from+w.SliceNS)-max(sent, from))) / float64(w.SliceNS)
				if r.PlannedNS < from || r.PlannedNS >= min(from+w.SliceNS, w.FromNS+w.ForNS) || i < next && r.Outcome == record.Cancelled {
					continue
				}
				late := false
				concerned := func(o Objective) bool {
					return o.Field == "" || o.Field == "class" && r.Class == "gold" || o.Field == "tenant" && r.Tenant == "b"
				}
				for j, o := range objectives {
					is := false
					switch {
					case !concerned(o):
					case i < next:
						is = o.Beyond(r)
					case o.Metric == "ttft":
						is = min(now, r.FirstTokenNS)-r.SentNS >= o.LimitNS
					case o.Metric == "ttft_planned":
						is = min(now, r.FirstTokenNS)-r.PlannedNS >= o.LimitNS
					case o.Metric == "e2e":
						is = now-r.SentNS >= o.LimitNS
					}
					if is {
						s.Beyond[j]++
					}
					late = late || is
				}
				for j, o := range objectives {
					switch {
					case !concerned(o):
					case late || i < next:
						about[j].Requests++
					default:
						about[j].Open++
					}
				}
				if late || i < next {
					s.Requests++
				} else {
					s.Open++
				}
			}
			for j := range objectives {
				if i := len(want); i < len(peek.Slices) && peek.Slices[i].of(j) != about[j] {
					t.Fatalf("at %d ms, slice %d: %s is about %+v, want %+v", now/ms, i, objectives[j].Text, peek.Slices[i].of(j), about[j])
				}
			}
			want = append(want, s)
		}
		if len(peek.Slices) != len(want) || peek.Ended || peek.WindowS != 0.95 || peek.SliceS != 0.1 {
			t.Fatalf("at %d ms: %+v, want %d slices", now/ms, peek, len(want))
		}
		for i := range want {
			if got := peek.Slices[i]; math.Abs(got.InFlight-want[i].InFlight) > 1e-9 || got.Requests != want[i].Requests || got.Open != want[i].Open || !slices.Equal(got.Beyond, want[i].Beyond) {
				t.Fatalf("at %d ms, slice %d:\ngot  %+v\nwant %+v", now/ms, i, got, want[i])
			}
		}
	}
	last := c.Peek(1700*ms, noneOpen, true)
	if again := c.Peek(1700*ms, noneOpen, true); !last.Ended || len(last.Slices) != 10 || !reflect.DeepEqual(last, again) {
		t.Errorf("the last peek, %+v, and again, %+v", last, again)
	}
}

// TestWords: requests that have not ended may be beyond the limit yet.
func TestWords(t *testing.T) {
	o := objectivesOf(t, "ttft.p95<1s")[0]
	open := count([]Slice{{Requests: 213, Open: 75, Beyond: []int64{213}}}, 0)
	expect.Equal(t, o.words(open), "At least 74 % of 288 requests are beyond ttft.p95<1s, which allows 5 %")
	ended := count([]Slice{{Requests: 288, Beyond: []int64{213}}}, 0)
	expect.Equal(t, o.words(ended), "74 % of 288 requests are beyond ttft.p95<1s, which allows 5 %")
}

// TestCounterLeavesOutWhatNeverCame: if the trace ends before the window does, the slices behind its end do not count.
func TestCounterLeavesOutWhatNeverCame(t *testing.T) {
	c := NewCounter(objectivesOf(t, "ttft.p95<30ms"), Span{0, 1000 * ms, 100 * ms})
	c.Add(made(250, 10, 20, record.OK))
	if peek := c.Peek(2000*ms, noneOpen, true); len(peek.Slices) != 3 || peek.Slices[2].Requests != 1 {
		t.Errorf("%+v", peek)
	}
}

// TestNumbers: goodput, percentiles and failures are those of the window, and the instance that breaks first is named.
func TestNumbers(t *testing.T) {
	dir := t.TempDir()
	var lines []byte
	add := func(url string, r *record.Record) {
		r.Target, r.Row = url, 0
		lines = r.AppendJSON(lines)
	}
	urls := []string{"http://a", "http://b"}
	for i := range int64(100) {
		add(urls[0], made(100+i, 10, 110, record.OK))
		late := int64(10)
		if i >= 80 {
			late = 500
		}
		add(urls[1], made(100+i, late, late+100, record.OK))
	}
	add(urls[0], made(150, -1, 1, record.HTTPError))
	cut := made(199, -1, 300, record.Cancelled) // it waited for longer than the limit
	add(urls[1], cut)
	add(urls[0], made(5, 900, 1000, record.OK)) // of the warm-in
	must.Do(t, os.WriteFile(filepath.Join(dir, "requests.jsonl"), lines, 0o600))
	objectives := objectivesOf(t, "ttft.p95<100ms ok>=99%")
	o := Outcome{Verdict: Holds, Why: "So far."}
	must.Do(t, o.Measure(dir, urls, objectives, Span{100 * ms, 100 * ms, ms}))
	numbers, limiter := o.Numbers, o.Limiter
	expect.Equal(t, o.Verdict+" "+o.Why, Unsure+" So far. What was in flight then broke it.")
	if limiter != "TTFT on instance 2" || numbers[GoodputPerS] != 0 || math.Abs(numbers[Goodput]-180.0/201) > 1e-12 || math.Abs(numbers[ErrorRate]-1.0/201) > 1e-12 {
		t.Errorf("%v, limited by %s", numbers, limiter)
	}
	later := Outcome{Verdict: Holds} // 89 and 80 requests ended from 200 to 300 ms, all of which had been planned before 200 ms
	if err := later.Measure(dir, urls, objectives, Span{200 * ms, 100 * ms, ms}); err != nil || later.Numbers[requestsPerS] != 1690 || later.Numbers[GoodputPerS] != 1690 || later.Numbers[tokensPerS] != 11*1690 {
		t.Errorf("%v: %v", err, later.Numbers)
	}
	var none Outcome // of a window that is empty there is no throughput, not one of 0
	if err := none.Measure(dir, urls, objectives, Span{200 * ms, 0, ms}); err != nil || len(none.Numbers) > 0 {
		t.Errorf("%v: %v", err, none.Numbers)
	}
	expect.Near(t, numbers["ttft.p95"], 500, 1, "TTFT p95 ms")
	for range 21 { // beside 20 late ones
		add(urls[0], made(150, -1, 1, record.HTTPError))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "requests.jsonl"), lines, 0o600))
	must.Do(t, o.Measure(dir, urls, objectives[:1], Span{100 * ms, 100 * ms, ms}))
	expect.Equal(t, o.Limiter, "failures on instance 1")
	lines = nil
	for range 30 {
		add(urls[0], made(150, -1, 1, record.HTTPError))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "requests.jsonl"), lines, 0o600))
	allFailed := Outcome{Verdict: Unsure, Why: "So far.", Of: []int64{30}, Beyond: []float64{1}}
	must.Do(t, allFailed.Measure(dir, urls, objectives[:1], Span{100 * ms, 100 * ms, ms}))
	expect.Equal(t, allFailed.Why, "30 of 30 requests failed. So far.")
	p := Page{Objectives: objectives[:1], Outcomes: []Outcome{allFailed}, Number: func(float64) string { return "load" }}
	head, rows := p.Table()
	expect.Equal(t, rows[0][slices.Index(head, "ttft.p95")], "–") // none had a first token
}

// TestPage: the page has the answer, a graph of each objective, the interval and every probe.
func TestPage(t *testing.T) {
	objectives := objectivesOf(t, "ttft.p95<100ms ok>=99%")
	outcome := func(number int, load, ttft float64, verdict string) Outcome {
		return Outcome{Probe: Probe{Number: number, Load: load}, Requests: 500, Verdict: verdict, Why: "because of " + verdict, Limiter: "TTFT on b", Numbers: map[string]float64{GoodputPerS: 10 * load, "ttft.p95": ttft, ErrorRate: 0}}
	}
	high := 3.0
	p := Page{
		Title: "Capacity of <day>", Unit: "requests/s", Objectives: objectives, Answer: Answer{Load: 2.9, Low: 1.5, High: &high, Why: "It is over."},
		Outcomes: []Outcome{outcome(1, 1, 20, Holds), outcome(2, 4, 300, Breaks), outcome(3, 2, 90, Unsure)}, Number: func(v float64) string { return "load" }, Load: func(v float64) string { return "load" },
	}
	var out bytes.Buffer
	must.Do(t, p.Write(&out))
	for _, want := range []string{`"title":"Held at load; missed TTFT p95 \u003c 100 ms on b at load and above"`, `"lines":["It is over."]`, `"at":[0.909091,1,2,4,4.4]`, `"values":[null,20,90,300,null]`, `"values":[null,null,null,300,null]`, `"limit 100 ms"`, `"values":[100,100,100,100,100]`, `"f":1.5,"t":2`, "because of breaks", "TTFT on b"} {
		expect.Contains(t, out.String(), want, "the page lacks")
	}
	expect.Lacks(t, out.String(), "<day>", "a title is read as HTML")
	expect.Equal(t, strings.Count(out.String(), `"beyond the limit"`), 1) // what broke one objective is not red in graphs of others
	p.Objectives = objectives[:1]                                         // failures are beyond it, too
	head, _ := p.Table()
	expect.Equal(t, slices.Contains(head, "failed"), false)
	p.Outcomes[1].Numbers[ErrorRate] = 0.1
	head, rows := p.Table()
	expect.Equal(t, rows[1][slices.Index(head, "failed")], "10 %")
}
