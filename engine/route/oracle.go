package route

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Question is a work whose routers are to be compared: requests in the order in which they leave.
type Question struct {
	Prompts        *kvcache.Prompts
	Sessions       []int64 // conversation of each request; nil = unknown
	Flow           Flow
	Targets        []Target // whose addresses are the instances
	Seed           uint64   // as of Random and BySession
	Bound          float64  // as of ByPrefix, above 0
	BlockTokens    int      // that a server caches as one piece
	CapacityTokens []int64  // of each instance's cache, 0 = unlimited; nil = all are
	Actual         []int32  // the instance that each request went to; nil = none of them went anywhere yet
	Failed         []bool   // requests that fill caches, and whose hits do not count; nil = none
}

// Oracle is what hits prefix caches could have had with each router, and how evenly the requests were spread. Hits are
// in whole blocks of the servers' caches. Prompts are reused from the moment that they are sent, which gives a bit more
// hits than servers have. Those of requests that failed are reused, too.
type Oracle struct {
	Instances      int    `json:"instances"`            // caches that were modelled
	BlockTokens    int    `json:"engine_block_tokens"`  // tokens of their blocks
	CapacityTokens *int64 `json:"capacity_tokens"`      // of all caches together; null: unlimited or unknown
	EachTokens     *int64 `json:"capacity_tokens_each"` // of each cache; null also if they differ
	// instances whose cache has a known size; the others are taken as unlimited
	Limited       int      `json:"limited_instances"`
	Requests      int64    `json:"requests"`            // whose hits count: the ok ones of a run, all of a plan
	PromptTokens  int64    `json:"prompt_tokens"`       // of these
	OneCacheRatio float64  `json:"one_cache_hit_ratio"` // of one cache for all with the room of all of them
	LoadBound     float64  `json:"load_bound"`          // that of prefix_bounded (--load-bound)
	Routers       []Routed `json:"routers"`             // what each way of routing would have hit, the best first
	Actual        *Routed  `json:"actual,omitempty"`    // where the requests went; absent before a run
	Definition    string   `json:"definition"`          // how caches are reckoned, in a sentence
}

// The names of routers in an Oracle; those of a run's own are the values of --route.
const (
	RoundRobinName    = "round-robin"
	RandomName        = "random"
	SessionName       = "session"
	PrefixName        = "prefix"         // without a bound
	PrefixBoundedName = "prefix_bounded" // with one
	ActualName        = "actual"
)

// IsPlanned reports whether a router, by its name, gives requests their places before they leave.
func IsPlanned(router string) bool {
	return slices.Contains([]string{RoundRobinName, RandomName, SessionName, PrefixName}, router)
}

// Routed is what one router makes of the requests.
type Routed struct {
	// as in --route; prefix has no load bound, prefix_bounded has it; in actual: as the requests went
	Router       string  `json:"router"`
	HitTokens    int64   `json:"hit_tokens"`    // prompt tokens that the caches held
	HitRatio     float64 `json:"hit_ratio"`     // hit_tokens as a share of the prompt tokens
	LargestShare float64 `json:"largest_share"` // of the requests, at the instance with the most
	RequestsCV   float64 `json:"requests_cv"`   // coefficient of variation over the instances, against their weights
	TokensCV     float64 `json:"tokens_cv"`     // likewise, of prompt tokens
}

// MostInstances bounds the instances of a Question, since each distinct block has a bit for each.
const MostInstances = 1024

// mostAtOnce bounds how many routers are compared at a time, for each has caches of its own.
const mostAtOnce = 4

// Ask compares the routers. It takes as many passes over all blocks as there are routers, mostAtOnce of them at a time.
// It returns nil below two instances, above MostInstances, or if no prompt's tokens are known.
func Ask(q Question) *Oracle {
	places, weights := Addresses(q.Targets)
	if len(places) < 2 || len(places) > MostInstances {
		return nil
	}
	if q.CapacityTokens == nil {
		q.CapacityTokens = make([]int64, len(places))
	}
	o := &Oracle{
		Instances:   len(places),
		BlockTokens: q.BlockTokens,
		LoadBound:   q.Bound,
		Definition:  definition,
	}
	o.capacities(q.CapacityTokens)
	for i := range q.Prompts.Len() {
		if q.counts(i) {
			o.Requests++
			o.PromptTokens += int64(q.Prompts.Tokens(i))
		}
	}
	if o.PromptTokens == 0 {
		return nil
	}
	routers := q.routers(weights)
	o.Routers = make([]Routed, len(routers))
	var work sync.WaitGroup
	slots := make(chan struct{}, mostAtOnce)
	do := func(job func()) {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			job()
		})
	}
	for r, router := range routers {
		do(func() {
			o.Routers[r] = q.routed(router.name, router.route(), weights, o.PromptTokens)
		})
	}
	if q.Actual != nil {
		o.Actual = new(Routed)
		do(func() {
			*o.Actual = q.routed(ActualName, q.Actual, weights, o.PromptTokens)
		})
	}
	one := q
	one.CapacityTokens = []int64{*cmp.Or(o.CapacityTokens, new(int64))}
	do(func() {
		o.OneCacheRatio = one.routed("", make([]int32, q.Prompts.Len()), []float64{1}, o.PromptTokens).HitRatio
	})
	work.Wait()
	slices.SortStableFunc(o.Routers, func(x, y Routed) int {
		return cmp.Compare(y.HitTokens, x.HitTokens)
	})
	return o
}

const definition = "Each cache drops its least recently used blocks; a prompt can be reused from the moment it is " +
	"sent, and answers take no room. " +
	"prefix: each request goes to the instance that holds the longest prefix of it by what it was sent before, of " +
	"several to the least loaded one."

// router gives each request an instance.
type router struct {
	name  string
	route func() []int32
}

// routers are those that a Question compares; by session only where sessions are known.
func (q *Question) routers(weights []float64) []router {
	n := q.Prompts.Len()
	all := []router{
		{RoundRobinName, func() []int32 {
			return flat(RoundRobin(n, q.Targets), q.Targets)
		}},
		{RandomName, func() []int32 {
			return flat(Random(n, q.Targets, q.Seed), q.Targets)
		}},
		{PrefixName, func() []int32 {
			return ByPrefix(q.Prompts, q.caches(), q.Flow, weights, 0)
		}},
		{PrefixBoundedName, func() []int32 {
			return ByPrefix(q.Prompts, q.caches(), q.Flow, weights, q.Bound)
		}},
	}
	if q.Sessions != nil {
		all = append(
			all,
			router{SessionName, func() []int32 {
				return flat(BySession(q.Sessions, q.Targets, q.Seed), q.Targets)
			}},
		)
	}
	return all
}

func (q *Question) caches() *kvcache.Fleet {
	return kvcache.NewFleet(q.Prompts, q.BlockTokens, q.CapacityTokens)
}

func (q *Question) counts(i int) bool { return q.Failed == nil || !q.Failed[i] }

// routed shows the caches each request where it goes.
func (q *Question) routed(name string, instances []int32, weights []float64, promptTokens int64) Routed {
	r := Routed{Router: name}
	caches := q.caches()
	requests := make([]float64, len(weights))
	tokens := make([]float64, len(weights))
	for i, k := range instances {
		held := caches.Give(i, int(k))
		n := q.Prompts.Tokens(i)
		tokens[k] += float64(n)
		if n > 0 && q.counts(i) {
			r.HitTokens += int64(held)
		}
		requests[k]++
	}
	r.HitRatio = float64(r.HitTokens) / float64(promptTokens)
	r.LargestShare = slices.Max(requests) / float64(len(instances))
	r.RequestsCV = variation(requests, weights)
	r.TokensCV = variation(tokens, weights)
	return r
}

// capacities sets what the capacities of the instances' caches, 0 = unlimited, are together and for each.
func (o *Oracle) capacities(tokens []int64) {
	sum := int64(0)
	for _, n := range tokens {
		sum += n
		if n > 0 {
			o.Limited++
		}
	}
	if o.Limited == len(tokens) {
		o.CapacityTokens = &sum
	}
	most := slices.Max(tokens)
	if most > 0 && most == slices.Min(tokens) {
		o.EachTokens = &most
	}
}

// flat numbers places by all addresses of the targets.
func flat(places []Place, targets []Target) []int32 {
	first := make([]int32, len(targets))
	n := int32(0)
	for t, target := range targets {
		first[t] = n
		n += int32(target.Endpoints)
	}
	instances := make([]int32, len(places))
	for i, p := range places {
		instances[i] = first[p.Target] + int32(p.Endpoint)
	}
	return instances
}

// variation is the coefficient of variation of what each instance got for its weight.
func variation(got, weights []float64) float64 {
	each := make([]float64, len(got))
	for k := range got {
		each[k] = got[k] / weights[k]
	}
	cv, _ := stats.Variation(each)
	return cv
}

// Of is a router's part of the oracle; nil where it has none.
func (o *Oracle) Of(router string) *Routed {
	for i := range o.Routers {
		if o.Routers[i].Router == router {
			return &o.Routers[i]
		}
	}
	return nil
}

// Heading describes how many instances there are and how large their caches: "on 4 instances, 20k tokens of cache
// each".
func (o *Oracle) Heading() string {
	caches := "unlimited caches"
	switch {
	case o.EachTokens != nil:
		caches = format.Short(float64(*o.EachTokens)) + " tokens of cache each"
	case o.CapacityTokens != nil:
		caches = format.Short(float64(*o.CapacityTokens)) + " tokens of cache in all"
	case o.Limited > 0:
		caches = format.Many(o.Limited, "cache") + " of known size, the others taken as unlimited"
	}
	return "on " + format.Many(o.Instances, "instance") + ", " + caches
}

// tableColumn has room for the longest head.
const tableColumn = 12

// Print prints the oracle for people: its heading, and a line for each router.
func (o *Oracle) Print(p *format.Page) {
	rows := [][]string{{OneCacheLabel, format.Share(o.OneCacheRatio), "", "", ""}}
	for i := range o.Routers {
		rows = append(rows, o.row(&o.Routers[i]))
	}
	if o.Actual != nil {
		rows = append(rows, o.row(o.Actual))
	}
	p.Line("")
	p.Line("  " + o.Heading())
	p.Table(tableColumn, []string{"if routed by", "hits", "share max", "CV reqs", "CV tokens"}, rows)
}

func (o *Oracle) row(r *Routed) []string {
	return []string{
		o.Label(r.Router),
		format.Share(r.HitRatio),
		format.Share(r.LargestShare),
		fmt.Sprintf("%.2f", r.RequestsCV),
		fmt.Sprintf("%.2f", r.TokensCV),
	}
}

// OneCacheLabel is what people call the line of OneCacheRatio.
const OneCacheLabel = "one cache for all"

// Label is what people call a router.
func (o *Oracle) Label(router string) string {
	switch router {
	case PrefixName:
		return "prefix, any load"
	case PrefixBoundedName:
		return fmt.Sprintf("prefix, load bound %g", o.LoadBound)
	case ActualName:
		return "as they went"
	}
	return router
}
