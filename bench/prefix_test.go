package bench

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	analysis "github.com/fastreplay/fastreplay/engine/inspect"
	"github.com/fastreplay/fastreplay/engine/route"
)

// sharing is a trace of conversations that go on while others do: 400 requests in 2 s.
func sharing(t *testing.T) string {
	t.Helper()
	return generate(t, "--format", "bailian", "--rows", "400", "--rate", "200", "--turns", "1:8", "--turn-tokens", "50:300", "--active", "60",
		"--input-tokens", "200:1200", "--output-tokens", "4:12", "--reuse", "0.6", "--seed", "3")
}

// fourMocks are servers with unlimited caches, as flags of a run. Their answers name them, if named.
func fourMocks(t *testing.T, named bool) (urls, flags []string) {
	t.Helper()
	for _, name := range []string{"a", "b", "c", "d"} {
		args := []string{"--ttft", "1ms", "--itl", "1ms"}
		if named {
			args = append(args, "--header", "Target-Pod: pod-"+name)
		}
		m := startMock(t, args...)
		urls, flags = append(urls, m.url), append(flags, "--url", m.url)
	}
	return urls, flags
}

// foretold is what inspect says of a trace on four instances.
func foretold(t *testing.T, path string) *route.Oracle {
	t.Helper()
	code, out, said := inspect(t, "--instances", "4", "--json", path)
	var d analysis.Document
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 {
		t.Fatalf("exit %d, %v\n%s", code, err, said)
	}
	if len(d.Traces[0].Routing) != 1 {
		t.Fatalf("%d oracles, want the one of unlimited caches", len(d.Traces[0].Routing))
	}
	return d.Traces[0].Routing[0]
}

// What the servers report may lie below the oracle's number, by prompts that were still in their prefill when they could have been
// reused. The run counts those. Beyond that it is exact but for requests of nearly one instant that overtake each other.
const (
	overtaking  = 0.005 // of all prompt tokens
	withinBound = 0.02  // of all prompt tokens, prefills and all
)

// TestRoutersHitWhatTheOracleSays: on four servers each router reaches the hits that inspect foretold from the trace alone, and
// the prefix-aware one its bound.
func TestRoutersHitWhatTheOracleSays(t *testing.T) {
	t.Parallel()
	path := sharing(t)
	oracle := foretold(t, path)
	best := oracle.Of(route.PrefixBoundedName).HitRatio
	if rr := oracle.Of("round-robin").HitRatio; rr > best-0.05 || best > oracle.OneCacheRatio {
		t.Errorf("round-robin %v, prefix %v, one cache %v: this trace tells no routers apart", rr, best, oracle.OneCacheRatio)
	}
	routers := []string{"prefix", "least-inflight", "round-robin", "random", "session"}
	for _, name := range routers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hitsAsForetold(t, path, name, oracle)
		})
	}
}

// hitsAsForetold routes a trace by a router on four servers, and compares.
func hitsAsForetold(t *testing.T, path, name string, oracle *route.Oracle) {
	_, servers := fourMocks(t, false)
	r := run(t, append([]string{path, "--route", name}, servers...)...)
	r.only(t, "ok")
	best := oracle.Of(route.PrefixBoundedName).HitRatio
	o, cache := r.summary.Routing, r.summary.PrefixCache
	want := o.Actual.HitRatio // of least-inflight, which nothing foretells
	if name == "prefix" {
		want = best
	} else if foretold := oracle.Of(name); foretold != nil {
		want = foretold.HitRatio
	}
	if o.Actual.HitRatio != want || o.OneCacheRatio != oracle.OneCacheRatio || o.Of(route.PrefixBoundedName).HitRatio != best {
		t.Errorf("the run's oracle says %+v, inspect said %+v", o, oracle)
	}
	if name != "least-inflight" && math.Abs(*cache.ExpectedHitRatio-want) > 1e-9 {
		t.Errorf("%v of the tokens expected, the oracle says %v", *cache.ExpectedHitRatio, want)
	}
	prefill := float64(cache.Shortfall.InPrefillTokens) / float64(o.PromptTokens)
	t.Logf("oracle %.4f, reported %.4f, in prefill %.4f", want, *cache.ReportedHitRatio, prefill)
	if off := math.Abs(*cache.ReportedHitRatio + prefill - want); off > overtaking {
		t.Errorf("%v reported and %v in prefill, the oracle says %v", *cache.ReportedHitRatio, prefill, want)
	}
	if name == "prefix" && *cache.ReportedHitRatio < best-withinBound {
		t.Errorf("%v reported, the best prefix-aware bound is %v", *cache.ReportedHitRatio, best)
	}
}

// lopsided is a gateway that sends seven of ten requests to the first server and the rest to the others in turn.
func lopsided(t *testing.T, urls []string) string {
	t.Helper()
	var n atomic.Int64
	return forward(t, func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/completions") {
			if at := n.Add(1); at%10 >= 7 {
				return 1 + int(at%3)
			}
		}
		return 0
	}, urls...)
}

// TestGatewayIsToldWhatItCosts: an uneven gateway that looks at no prefixes is named. Beside it are the hits of where it sent
// requests, and those of a greedy prefix-aware router.
func TestGatewayIsToldWhatItCosts(t *testing.T) {
	t.Parallel()
	path := sharing(t)
	oracle := foretold(t, path)
	urls, _ := fourMocks(t, true)
	// The servers are cold, and a gateway passes a flush on to one of them.
	r := run(t, path, "--url", lopsided(t, urls), "--no-probe", "--model", "mock", "--cold", "off")
	r.only(t, "ok")
	o, cache := r.summary.Routing, r.summary.PrefixCache
	if o.Instances != 4 || o.Of(route.PrefixBoundedName).HitRatio != oracle.Of(route.PrefixBoundedName).HitRatio {
		t.Fatalf("%+v, inspect said %+v", o, oracle)
	}
	if o.Actual.LargestShare < 0.65 || o.Actual.LargestShare > 0.75 || o.Actual.RequestsCV < 0.5 {
		t.Errorf("%+v, want seven of ten at one", o.Actual)
	}
	// Through a gateway, what is sent last may arrive first.
	if off := math.Abs(*cache.ReportedHitRatio - o.Actual.HitRatio); off > withinBound {
		t.Errorf("%v reported, %v by where the gateway sent requests", *cache.ReportedHitRatio, o.Actual.HitRatio)
	}
	cost := float64(cache.Shortfall.ElsewhereTokens) / float64(o.PromptTokens)
	if want := *cache.ExpectedHitRatio - o.Actual.HitRatio; math.Abs(cost-want) > withinBound {
		t.Errorf("%v of the tokens were at another instance, want about %v", cost, want)
	}
	said := strings.Join(strings.Fields(r.stderr), " ")
	for _, text := range []string{"requests are spread unevenly over 4 instances: pod-a answered 70", "the gateway's placement on 4 instances can reach", "routing.routers router hit_tokens hit_ratio largest_share", "shortfall.elsewhere_tokens"} {
		if !strings.Contains(said, text) {
			t.Errorf("no %q in\n%s", text, r.stderr)
		}
	}
}
