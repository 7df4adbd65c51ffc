package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
)

// answeredBy is a record of a request that an instance answered, well or with an error.
func answeredBy(instance, endpoint string, ok bool, ttftNS, cached int64) *record.Record {
	var r record.Record
	r.Clear()
	r.Row, r.Instance, r.Endpoint, r.PlannedNS, r.SentNS = 0, instance, endpoint, 0, 0
	r.Outcome = record.HTTPError
	if ok {
		r.Outcome, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens = record.OK, ttftNS, ttftNS+9e6, 10
		r.PromptTokens, r.CachedTokens = 100, cached
	}
	return &r
}

// TestJain: Jain's index by its definition. An instance that answers nothing is not as good as the others.
func TestJain(t *testing.T) {
	for _, c := range []struct {
		ttfts []int64 // by instance, ms; 0 = it fails
		want  *float64
	}{
		{[]int64{20}, nil},
		{[]int64{20, 20}, new(1.0)},
		{[]int64{10, 30}, new(0.8)}, // 40² / (2·1000)
		{[]int64{20, 20, 0}, nil},
	} {
		r := NewCollector([]string{"http://gateway"})
		for i, ms := range c.ttfts {
			r.Add(answeredBy(fmt.Sprint("pod-", i), "10.0.0.1:8000", ms > 0, ms*1e6, 0), 0)
		}
		got := r.Summary(metrics.Summary{}, Probed{}).Instances.JainTTFT
		expect.Equal(t, got == nil, c.want == nil, "%v", c.ttfts)
		if got != nil && c.want != nil {
			expect.Near(t, *got, *c.want, 1e-9, "index")
		}
	}
}

// TestBreakdown counts again with maps.
func TestBreakdown(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := NewCollector([]string{"http://gateway"})
	requests, oks, cached := map[string]int64{}, map[string]int64{}, map[string]int64{}
	endpoints := map[string]int64{}
	slowest := map[string]int64{}
	for range 2000 {
		name, endpoint := fmt.Sprintf("pod-%d", rng.IntN(3)), fmt.Sprintf("10.0.0.%d:8000", rng.IntN(2))
		if rng.IntN(10) == 0 {
			name = "" // nobody says
		}
		ok, ttft, hit := rng.IntN(5) > 0, 1e6+rng.Int64N(1e8), rng.Int64N(100)
		c.Add(answeredBy(name, endpoint, ok, ttft, hit), 0)
		endpoints[endpoint]++
		requests[name]++
		if ok {
			oks[name]++
			cached[name] += hit
			slowest[name] = max(slowest[name], ttft)
		}
	}
	s := planned(c, 2000)
	if len(s.Instances.Parts) != 3 || len(s.Endpoints.Parts) != 2 || s.Instances.Rest != 0 {
		t.Fatalf("%+v, %+v", s.Instances, s.Endpoints)
	}
	named := requests["pod-0"] + requests["pod-1"] + requests["pod-2"]
	var mean, squares float64 = float64(named) / 3, 0
	for i, p := range s.Instances.Parts {
		name := fmt.Sprintf("pod-%d", i)
		if p.Name != name || p.Requests != requests[name] || p.OK != oks[name] || p.Failed != requests[name]-oks[name] {
			t.Errorf("%+v, want %s with %d, %d ok", p, name, requests[name], oks[name])
		}
		if math.Abs(p.Share-float64(requests[name])/float64(named)) > 1e-12 || math.Abs(*p.ReportedHitRatio-float64(cached[name])/float64(100*oks[name])) > 1e-12 {
			t.Errorf("%s: share %v, hits %v", name, p.Share, *p.ReportedHitRatio)
		}
		if got, want := p.TTFTMS.Max*1e6, float64(slowest[name]); math.Abs(got-want) > want/500 {
			t.Errorf("%s: slowest TTFT %v ns, want %v", name, got, want)
		}
		squares += (float64(p.Requests) - mean) * (float64(p.Requests) - mean)
	}
	expect.Near(t, *s.Instances.CV, math.Sqrt(squares/3)/mean, 1e-12, "variation")
	for _, p := range s.Endpoints.Parts {
		expect.Equal(t, p.Requests, endpoints[p.Name], "%+v", p)
	}
}

// TestNobodySaysWho: without names and with one address there is nothing to break down.
func TestNobodySaysWho(t *testing.T) {
	c := NewCollector([]string{"http://server"})
	c.Add(answeredBy("", "10.0.0.1:8000", true, 1e6, 0), 0)
	unsent := answeredBy("", "10.0.0.2:8000", false, 0, 0)
	unsent.SentNS, unsent.Outcome = record.None, record.NotSent
	c.Add(unsent, 0)
	if s := planned(c, 2); s.Instances != nil || s.Endpoints != nil {
		t.Errorf("%+v, %+v", s.Instances, s.Endpoints)
	}
}

// TestUnevenSpreadIsNamed, and chance is not.
func TestUnevenSpreadIsNamed(t *testing.T) {
	for _, c := range []struct {
		counts []int
		named  bool
	}{
		{[]int{850, 150}, true}, {[]int{500, 500}, false}, {[]int{520, 480}, false}, {[]int{6, 2}, false}, {[]int{1000}, false},
		{[]int{300, 300, 300, 100}, true}, {[]int{30, 33, 27, 35, 25}, false}, {[]int{100, 100, 100, 100, 0, 500}, true},
	} {
		collector := NewCollector([]string{"http://gateway"})
		total := 0
		for i, n := range c.counts {
			for range n {
				collector.Add(answeredBy(fmt.Sprintf("pod-%d", i), "10.0.0.1:8000", true, 1e6, 0), 0)
				total++
			}
		}
		notes := strings.Join(planned(collector, total).Notes, "\n")
		expect.Equal(t, strings.Contains(notes, "spread unevenly"), c.named, "%v: %q", c.counts, notes)
		if c.counts[0] == 850 && !strings.Contains(notes, "requests are spread unevenly over 2 instances: pod-0 answered 85 % of them, pod-1 15 %; an even share is 50 % (coefficient of variation 0.70)") {
			t.Error(notes)
		}
	}
}

// TestOurSpreadIsNone: instances that have an address each get what the weights ask for.
func TestOurSpreadIsNone(t *testing.T) {
	for gateways, named := range map[bool]bool{false: false, true: true} {
		collector := NewCollector([]string{"http://0", "http://1"})
		for i := range 1000 {
			target := min(1, i/850)
			endpoint := fmt.Sprintf("10.0.0.%d:8000", target)
			if gateways && i == 0 {
				endpoint = "10.0.0.1:8000"
			}
			collector.Add(answeredBy(fmt.Sprint("pod-", target), endpoint, true, 1e6, 0), target)
		}
		notes := strings.Join(planned(collector, 1000).Notes, "\n")
		expect.Equal(t, strings.Contains(notes, "spread unevenly"), named, "gateways %t: %q", gateways, notes)
	}
}

// TestTooManyParts: what is not listed is counted.
func TestTooManyParts(t *testing.T) {
	var b breakdown
	for i := range maxParts + 10 {
		b.add(fmt.Sprint(i), answeredBy("x", "y", true, 1e6, 0))
	}
	if s := b.summary(1, false); len(s.Parts) != maxParts || s.Rest != 10 || math.Abs(s.Parts[0].Share-1.0/(maxParts+10)) > 1e-12 {
		t.Errorf("%d parts, %d rest, share %v", len(s.Parts), s.Rest, s.Parts[0].Share)
	}
}

// TestTokensSpreadUnevenly: requests are even and their tokens are not, which lengths alone do not explain.
func TestTokensSpreadUnevenly(t *testing.T) {
	for _, c := range []struct {
		long  int64 // tokens of the prompts of pod-0; others have 100
		named bool
	}{{100, false}, {105, false}, {300, true}} {
		collector := NewCollector([]string{"http://gateway"})
		for i := range 900 {
			r := answeredBy(fmt.Sprintf("pod-%d", i%3), "10.0.0.1:8000", true, 1e6, 0)
			if i%3 == 0 {
				r.PromptTokens = c.long
			}
			collector.Add(r, 0)
		}
		s := planned(collector, 900)
		mean := float64(c.long+200) / 3
		want := math.Sqrt(((float64(c.long)-mean)*(float64(c.long)-mean)+2*(100-mean)*(100-mean))/3) / mean
		if math.Abs(*s.Instances.TokensCV-want) > 1e-9 || *s.Instances.CV > 1e-9 || s.Instances.Parts[0].PromptTokens != 300*c.long {
			t.Errorf("%d tokens: variations %v and %v, want 0 and %v", c.long, *s.Instances.CV, *s.Instances.TokensCV, want)
		}
		notes := strings.Join(s.Notes, "\n")
		expect.Equal(t, strings.Contains(notes, "prompt tokens are spread unevenly over 3 instances: pod-0 answered 60 % of them"), c.named, "%d tokens: %q", c.long, notes)
	}
}

// TestPlacementNotes: a gateway's placement is named where it costs something, ours is not.
func TestPlacementNotes(t *testing.T) {
	oracle := func(actual float64) *route.Oracle {
		return &route.Oracle{
			Instances: 2, LoadBound: 1.25, OneCacheRatio: 0.5, Actual: &route.Routed{HitRatio: actual},
			Routers: []route.Routed{{Router: route.PrefixName, HitRatio: 0.48}, {Router: route.PrefixBoundedName, HitRatio: 0.45}},
		}
	}
	for _, c := range []struct {
		instances []string
		actual    float64
		named     bool
	}{{[]string{"a", "b"}, 0.3, true}, {[]string{"a", "b"}, 0.475, false}, {[]string{""}, 0.3, false}, {[]string{"a"}, 0.3, false}} {
		collector := NewCollector([]string{"http://gateway"})
		for _, name := range c.instances {
			collector.Add(answeredBy(name, "10.0.0.1:8000", true, 1e6, 0), 0)
		}
		notes := strings.Join(collector.Summary(metrics.Summary{Requests: metrics.Requests{Planned: int64(len(c.instances))}, Routing: oracle(c.actual)}, Probed{}).Notes, "\n")
		const text = "the gateway's placement on 2 instances can reach 30 % prefix hits at best, a greedy prefix-aware router 48 % (45 % within 1.25 times the mean load), one cache for all 50 %"
		expect.Equal(t, strings.Contains(notes, text), c.named, "%v, %v: %q", c.instances, c.actual, notes)
	}
}

// TestNatural sorts shuffled names; no two of them are equal, in either order.
func TestNatural(t *testing.T) {
	want := []string{
		"", "0", "00", "01", "1", "1a", "2", "10", "127.0.0.1:9000", "127.0.0.1:10000", "127.0.0.2:80", "18446744073709551616", "18446744073709551617",
		"mock", "mock-", "mock-1", "mock-2", "mock-2-a", "mock-2-b", "mock-10", "mock-a", "pod", "ö",
	}
	for seed := range uint64(50) {
		got := slices.Clone(want)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		if slices.SortFunc(got, natural); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
	for i, x := range want {
		for j, y := range want {
			if c := natural(x, y); (c < 0) != (i < j) || (c > 0) != (i > j) {
				t.Errorf("natural(%q, %q) = %d", x, y, c)
			}
		}
	}
}

// TestLeftOutIsNoFailureOfAPart: what was left out is no request of a part, whether the run was over or not; what was
// stopped did not fail if it was.
func TestLeftOutIsNoFailureOfAPart(t *testing.T) {
	var b breakdown
	for _, why := range []string{"", "busy", "too long, " + record.LeftOutWords, "too long, " + record.StreamEndedWords} {
		var r record.Record
		r.Clear()
		r.Error = why
		b.add("a", &r)
		if r.LeftOut() {
			b.add("left out", &r)
		}
	}
	for over, want := range map[bool]int64{false: 2, true: 0} {
		if p := b.summary(1, over).Parts; len(p) != 1 || p[0].Requests != 2 || p[0].Failed != want {
			t.Errorf("over %v: %+v, want %d failed", over, p, want)
		}
	}
}
