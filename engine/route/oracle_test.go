package route

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/engine/format"
)

// TestOracle: hits, shares and variations of every router, counted again with sets of prefixes.
func TestOracle(t *testing.T) {
	for seed := range uint64(10) {
		chance := rand.New(rand.NewPCG(seed, 2))
		all := chains(chance, 300)
		sessions := make([]int64, len(all))
		actual := make([]int32, len(all))
		tokens := 0
		for i := range all {
			sessions[i], actual[i] = int64(chance.IntN(30)), int32(chance.IntN(chance.IntN(4)+1))
			tokens += len(all[i])
		}
		targets := []Target{{2, 1}, {1, 1.5}, {1, 1}}
		q := Question{
			Prompts: promptsOf(all), Sessions: sessions, Flow: randomFlow(chance, len(all)), Targets: targets, Seed: 7, Bound: 1.5, BlockTokens: 1, Actual: actual,
		}
		o := Ask(q)
		weights := []float64{0.5, 0.5, 1.5, 1}
		any, _ := naivePrefix(all, q.Flow, weights, 0, nil)
		bounded, _ := naivePrefix(all, q.Flow, weights, 1.5, nil)
		for name, chosen := range map[string][]int32{
			PrefixName: any, PrefixBoundedName: bounded, ActualName: actual,
			RoundRobinName: flat(RoundRobin(len(all), targets), targets), RandomName: flat(Random(len(all), targets, 7), targets), SessionName: flat(BySession(sessions, targets, 7), targets),
		} {
			got := o.Of(name)
			if name == ActualName {
				got = o.Actual
			}
			checkRouted(t, got, all, chosen, weights)
		}
		if hits := naiveHits(all, make([]int32, len(all)), 1); o.PromptTokens != int64(tokens) || o.OneCacheRatio != float64(hits)/float64(tokens) {
			t.Errorf("%d prompt tokens, one cache for all %v, want %d and %v", o.PromptTokens, o.OneCacheRatio, tokens, float64(hits)/float64(tokens))
		}
		if !slices.IsSortedFunc(o.Routers, func(x, y Routed) int { return cmp.Compare(y.HitTokens, x.HitTokens) }) || len(o.Routers) != 5 {
			t.Errorf("%+v, want five routers, the best first", o.Routers)
		}
		page := format.NewPage(0, 0)
		o.Print(&page)
		lines := strings.Split(strings.TrimSuffix(string(page.Bytes()), "\n"), "\n")
		if len(lines) != 10 || lines[1] != "  on 4 instances, unlimited caches" || !strings.HasSuffix(lines[2], "   share max     CV reqs   CV tokens") || !strings.HasPrefix(lines[9], "  as they went ") {
			t.Errorf("%q", lines)
		}
	}
}

// TestOracleOfFailures: of requests that failed no hits and no tokens count, though what they sent is in the caches.
func TestOracleOfFailures(t *testing.T) {
	for seed := range uint64(10) {
		chance := rand.New(rand.NewPCG(seed, 3))
		all := chains(chance, 300)
		actual := make([]int32, len(all))
		failed := make([]bool, len(all))
		held := []map[string]bool{{}, {}, {}} // the last is one cache for all
		hits := [2]int{}                      // as placed, in one cache
		ok, tokens := 0, 0
		for i, c := range all {
			failed[i] = chance.IntN(3) == 0
			actual[i] = int32(chance.IntN(2))
			for n, k := range []int32{actual[i], 2} {
				if !failed[i] {
					hits[n] += sharedWith(held[k], c)
				}
				for n := range c {
					held[k][key(c[:n+1])] = true
				}
			}
			if !failed[i] {
				ok++
				tokens += len(c)
			}
		}
		o := Ask(Question{Prompts: promptsOf(all), Flow: randomFlow(chance, len(all)), Targets: Even([]int{1, 1}), Bound: 1.5, BlockTokens: 1,
			Actual: actual, Failed: failed})
		got := fmt.Sprint(o.Requests, o.PromptTokens, o.Actual.HitTokens, o.Actual.HitRatio, o.OneCacheRatio)
		want := fmt.Sprint(ok, tokens, hits[0], float64(hits[0])/float64(tokens), float64(hits[1])/float64(tokens))
		if got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

func naiveHits(all []chain, chosen []int32, instances int) (hits int) {
	held := make([]map[string]bool, instances)
	for k := range held {
		held[k] = map[string]bool{}
	}
	for i, c := range all {
		hits += sharedWith(held[chosen[i]], c)
		for n := range c {
			held[chosen[i]][key(c[:n+1])] = true
		}
	}
	return hits
}

func checkRouted(t *testing.T, got *Routed, all []chain, chosen []int32, weights []float64) {
	t.Helper()
	requests, tokens := make([]float64, len(weights)), make([]float64, len(weights))
	sum := 0
	for i, k := range chosen {
		requests[k]++
		tokens[k] += float64(len(all[i]))
		sum += len(all[i])
	}
	hits := naiveHits(all, chosen, len(weights))
	if got.HitTokens != int64(hits) || math.Abs(got.HitRatio-float64(hits)/float64(sum)) > 1e-12 || got.LargestShare != slices.Max(requests)/float64(len(all)) {
		t.Errorf("%+v, want %d hits of %d tokens, shares of %v", got, hits, sum, requests)
	}
	for _, v := range []struct {
		cv  float64
		got []float64
	}{{got.RequestsCV, requests}, {got.TokensCV, tokens}} {
		mean, squares := 0.0, 0.0
		for k := range v.got {
			mean += v.got[k] / weights[k]
			squares += v.got[k] / weights[k] * v.got[k] / weights[k]
		}
		n := float64(len(weights))
		if want := math.Sqrt(squares/n-mean/n*mean/n) / (mean / n); math.Abs(v.cv-want) > 1e-9 {
			t.Errorf("%s: variation %v, want %v", got.Router, v.cv, want)
		}
	}
}

// TestOracleOfOne: one instance, or no prompts, give no oracle. Texts count in no ratio.
func TestOracleOfOne(t *testing.T) {
	one := kvcache.NewPrompts(1, 0)
	one.Add([]uint64{1}, 1, 1)
	text := kvcache.NewPrompts(1, 0)
	text.AddText([]byte(strings.Repeat("a", 100)))
	for _, q := range []Question{
		{Prompts: one, Targets: Even([]int{1}), BlockTokens: 1, Flow: Flow{Concurrency: 1}},
		{Prompts: text, Targets: Even([]int{1, 1}), BlockTokens: 1, Flow: Flow{Concurrency: 1}},
		{Prompts: one, Targets: Even(slices.Repeat([]int{1}, MostInstances+1)), BlockTokens: 1, Flow: Flow{Concurrency: 1}},
	} {
		if o := Ask(q); o != nil {
			t.Errorf("%+v", o)
		}
	}
}

// TestOracleOfFullCaches: with little room there are fewer hits, and the heading has the room of all. If one cache is
// unlimited, there is no such room.
func TestOracleOfFullCaches(t *testing.T) {
	all := chains(rand.New(rand.NewPCG(8, 8)), 400)
	q := Question{Prompts: promptsOf(all), Targets: Even([]int{1, 1}), Flow: Flow{Concurrency: 8}, Bound: 1.25, BlockTokens: 1}
	roomy := Ask(q)
	q.CapacityTokens = []int64{20, 30}
	tight := Ask(q)
	if *tight.CapacityTokens != 50 || roomy.CapacityTokens != nil || tight.OneCacheRatio >= roomy.OneCacheRatio {
		t.Errorf("%+v and %+v", tight, roomy)
	}
	for _, r := range tight.Routers {
		if r.HitTokens >= roomy.Of(r.Router).HitTokens {
			t.Errorf("%s: %d hits in full caches, %d in unlimited ones", r.Router, r.HitTokens, roomy.Of(r.Router).HitTokens)
		}
	}
	if got := tight.Heading(); tight.EachTokens != nil || got != "on 2 instances, 50 tokens of cache in all" {
		t.Errorf("%q, of which each has %v", got, tight.EachTokens)
	}
	q.CapacityTokens = []int64{20_480, 20_480}
	if o := Ask(q); *o.EachTokens != 20_480 || o.Heading() != "on 2 instances, 20.5k tokens of cache each" {
		t.Errorf("%q", o.Heading())
	}
	q.CapacityTokens = []int64{20, 0}
	if o := Ask(q); o.CapacityTokens != nil || o.Heading() != "on 2 instances, 1 cache of known size, the others taken as unlimited" {
		t.Errorf("%q, %v tokens in all, one of which has no limit", o.Heading(), o.CapacityTokens)
	}
}

// BenchmarkAsk compares the routers of 32 instances for 400,000 requests of 25 blocks, with unlimited caches and with
// full ones.
func BenchmarkAsk(b *testing.B) {
	chance := rand.New(rand.NewPCG(1, 2))
	q := Question{Prompts: kvcache.NewPrompts(512, 0), Targets: Even(slices.Repeat([]int{1}, 32)), Bound: DefaultBound, BlockTokens: 16}
	var earlier [][]uint64
	for i := range 400_000 {
		ids := make([]uint64, 25)
		from := 0
		if i > 0 {
			from = copy(ids[:chance.IntN(25)], earlier[i-1-chance.IntN(min(i, 20_000))])
		}
		for j := from; j < len(ids); j++ {
			ids[j] = uint64(i)<<8 | uint64(j)
		}
		earlier = append(earlier, ids)
		q.Prompts.Add(ids, 25*512, 25*512)
		q.Sessions = append(q.Sessions, int64(i/7))
		q.Flow.ReleaseNS, q.Flow.LastNS = append(q.Flow.ReleaseNS, int64(i)*3e6), append(q.Flow.LastNS, 3e9)
	}
	for _, capacity := range []int64{0, 3_000_000} {
		b.Run(fmt.Sprint(capacity), func(b *testing.B) {
			q.CapacityTokens = slices.Repeat([]int64{capacity}, 32)
			for b.Loop() {
				if o := Ask(q); o.OneCacheRatio == 0 {
					b.Fatal("no hits in a trace full of them")
				}
			}
		})
	}
}
