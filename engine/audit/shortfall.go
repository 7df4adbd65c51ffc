// Package audit examines a run when it is over. It finds why servers had fewer tokens cached than expected, and how
// many cached tokens the order of arrival explains. It finds which prompts a server counted otherwise, and where other
// routers would have sent the requests.
//
// Its functions take the work and the fates of its requests and change neither. They measure nothing and write nothing.
// Any goroutine may call them once Run.Do has returned; they allocate as they need.
//
// The package is not an API: any release may change it.
package audit

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// Shortfall returns why servers had fewer tokens cached than expected. It replays the run, at its own times, in a model
// of each instance's cache: once without a limit and once with the instance's capacity. counted has, by target, the
// hits that the server counted, if they replace what responses report; else record.None. Shortfall returns nil if
// nothing exact was expected. Where a request lacks tokens that no cache of the instance's capacity would have held,
// never is called with how many, and when it was sent.
func Shortfall(
	w *workload.Work, fates []Fate, counted []int64, never func(sentNS, tokens int64),
) *metrics.Shortfall {
	if w.Overhead.HeadUnknown {
		return nil
	}
	a := audit{work: w, fates: fates}
	sums := make([]evidence, len(counted)) // of the requests of each target whose hits are only known in all
	byInstance := map[netip.AddrPort][]int32{}
	reports := map[int]bool{}
	for i := range fates {
		rec := &fates[i]
		if rec.Outcome == record.OK && rec.CachedTokens != record.None {
			reports[w.Places[i].Target] = true
		}
		at := w.Endpoint(i)
		byInstance[at] = append(byInstance[at], int32(i))
	}
	for instance, requests := range byInstance {
		cache := w.Cache(instance)
		endless := workload.PrefixCache{BlockTokens: cache.BlockTokens}
		unlimited := make([]int64, len(requests))
		there := unlimited
		limited := unlimited
		if !cache.Off && slices.ContainsFunc(requests, func(i int32) bool {
			target := w.Places[i].Target
			return counted[target] != record.None || reports[target] && lacks(&fates[i]) > 0
		}) { // else nothing is to be explained
			unlimited = a.held(requests, endless)
			there = a.heldThere(requests, unlimited, endless)
			limited = there
			if cache.Tokens > 0 {
				limited = a.heldThere(requests, nil, cache)
			}
		}
		for j, i := range requests {
			if !fates[i].Profiled {
				continue // it fills caches, and is not measured
			}
			target := w.Places[i].Target
			e := evidence{
				off:       cache.Off,
				reports:   reports[target],
				unlimited: unlimited[j],
				there:     there[j],
				limited:   limited[j],
			}
			if counted[target] == record.None || e.off {
				before := a.found.InPrefillTokens + a.found.EvictedTokens
				a.explain(&fates[i], e)
				if n := a.found.InPrefillTokens + a.found.EvictedTokens - before; n > 0 {
					never(fates[i].SentNS, n)
				}
			} else if fates[i].Outcome == record.OK {
				sums[target].add(fates[i].ExpectedCachedTokens, e)
			}
		}
	}
	for target, e := range sums {
		switch {
		case counted[target] == record.None:
		case e.mixed:
			a.found.Tokens += e.expected
			a.found.NotReportedTokens += e.expected
		default:
			a.divide(e.expected-counted[target], e)
		}
	}
	found := a.found // alone, or the fates stay in memory with it
	return &found
}

// audit is the examination of one run.
type audit struct {
	work  *workload.Work
	fates []Fate
	found metrics.Shortfall
}

// evidence is what is known of one request's cache.
type evidence struct {
	off     bool // the server reports that it caches nothing
	reports bool // its target has reported cached tokens

	expected int64 // tokens
	mixed    bool  // of several requests: of some nothing is expected, but their hits are counted with the others'
	// Tokens that models held for the request. The models are an unlimited cache for the whole address, one of the
	// instance that answered, and the same with a limit.
	unlimited, there, limited int64
}

// add adds what is known of one more request, of which so many tokens were expected. What a model holds beyond them
// makes up for nothing that another request lacks.
func (e *evidence) add(expected int64, o evidence) {
	if expected == record.None {
		e.mixed = true
		return
	}
	e.expected += expected
	e.unlimited += min(expected, o.unlimited)
	e.there += min(expected, o.there)
	e.limited += min(expected, o.limited)
}

// lacks is how many tokens fewer than expected were cached for a request; 0 if that is unknown. Once a target has
// reported, an absent count is 0 in a usage.
func lacks(rec *Fate) int64 {
	if rec.Outcome != record.OK || rec.ExpectedCachedTokens == record.None {
		return 0
	}
	return rec.ExpectedCachedTokens - max(0, rec.CachedTokens)
}

// explain divides what a request lacks among the causes, in the order in which they can be distinguished.
func (a *audit) explain(rec *Fate, e evidence) {
	short := lacks(rec)
	switch {
	case short <= 0:
	case e.off:
		a.found.Tokens += short
		a.found.CacheOffTokens += short
	case !e.reports || !rec.Told:
		a.found.Tokens += short
		a.found.NotReportedTokens += short
	default:
		e.expected = rec.ExpectedCachedTokens
		a.divide(short, e)
	}
}

// divide divides tokens that are missing among what the models explain.
func (a *audit) divide(short int64, e evidence) {
	short = max(0, short)
	a.found.Tokens += short
	take := func(tokens int64) int64 {
		taken := min(short, max(0, tokens))
		short -= taken
		return taken
	}
	a.found.InPrefillTokens += take(e.expected - e.unlimited)
	a.found.ElsewhereTokens += take(e.unlimited - e.there)
	a.found.EvictedTokens += take(e.there - e.limited)
	a.found.UnexplainedTokens += short
}

// moment is when something happened to a request that its server's cache knows of.
type moment struct {
	atNS    int64
	kind    momentKind
	request int32 // place in the list of requests
}

type momentKind uint8

// Moments at the same time are taken in this order.
const (
	prefilled momentKind = iota
	ended
	arrived
)

// heldThere is held by the instances that answers name, each on its own. Where they name none, or one, that is what one
// cache holds, which is given if it is known.
func (a *audit) heldThere(requests []int32, together []int64, size workload.PrefixCache) []int64 {
	places := map[int32][]int{} // in requests
	for j, i := range requests {
		at := a.fates[i].instance
		places[at] = append(places[at], j)
	}
	if len(places) < 2 && together != nil {
		return together
	}
	held := make([]int64, len(requests))
	for _, of := range places {
		own := make([]int32, len(of))
		for k, j := range of {
			own[k] = requests[j]
		}
		for k, n := range a.held(own, size) {
			held[of[k]] = n
		}
	}
	return held
}

// held is what a cache of the given size would have held for each request when it had arrived whole. A prompt can be
// reused from its first token on, and its blocks are free from the end of its answer on. Both are seen from here, a
// little later than on the server. Of a trace that has both, prompts that are made and verbatim ones each have a cache
// of their own.
func (a *audit) held(requests []int32, size workload.PrefixCache) []int64 {
	made := kvcache.NewLRU(a.work.Trace.BlockTokens, size.BlockTokens, size.Tokens)
	verbatim := made
	if v := a.work.Verbatim; v != nil {
		verbatim = kvcache.NewLRU(v.BlockTokens, size.BlockTokens, size.Tokens)
	}
	running := make([]kvcache.Running, len(requests))
	held := make([]int64, len(requests))
	for _, m := range a.moments(requests) {
		i := int(requests[m.request])
		cache := verbatim
		if a.work.Made(i) {
			cache = made
		}
		switch m.kind {
		case arrived:
			p, _ := a.work.CachePrompt(i)
			output := int(a.work.Trace.OutputTokens[i])
			if counted := a.fates[i].CompletionTokens; counted != record.None {
				output = int(counted)
			}
			started, hit := cache.Start(p.Blocks, p.Tokens, p.Head, p.Total, output)
			running[m.request] = started
			held[m.request] = int64(hit)
		case prefilled:
			cache.Prefilled(running[m.request])
		case ended:
			cache.Finish(running[m.request])
		}
	}
	return held
}

// moments lists in order of time what the servers' caches saw. A request that a server refused never was in its cache.
func (a *audit) moments(requests []int32) []moment {
	list := make([]moment, 0, 3*len(requests))
	for j, i := range requests {
		rec := &a.fates[i]
		if rec.SentNS == record.None || rec.Status != 200 {
			continue
		}
		begin := rec.BegunNS
		end := max(begin+1, rec.EndNS)
		add := func(atNS int64, kind momentKind) {
			list = append(list, moment{atNS, kind, int32(j)})
		}
		add(begin, arrived)
		first := rec.FirstTokenNS
		if first == record.None && rec.Outcome == record.OK {
			first = end // a whole answer hides when the prefill ended
		}
		if first != record.None {
			add(max(begin+1, first), prefilled)
		}
		add(end, ended)
	}
	slices.SortFunc(list, func(x, y moment) int {
		return cmp.Or(
			cmp.Compare(x.atNS, y.atNS),
			cmp.Compare(x.kind, y.kind),
			cmp.Compare(x.request, y.request),
		)
	})
	return list
}

// Miscounted is how many verbatim prompts a server counted otherwise than before the start, and the first of
// them by its row, with both counts.
func Miscounted(w *workload.Work, fates []Fate) (n int, row, want, got int64) {
	for i := range fates {
		rec := &fates[i]
		tokens := int64(0)
		if !w.Made(i) {
			tokens = int64(w.ServerTokens(i))
		}
		if tokens == 0 || rec.PromptTokens == record.None || rec.PromptTokens == tokens {
			continue
		}
		n++
		if n == 1 {
			row = int64(w.Trace.Row[i])
			want = tokens
			got = rec.PromptTokens
		}
	}
	return n, row, want, got
}
