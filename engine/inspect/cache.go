package inspect

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// curvePoints is how many capacities a plot of the LRU curve has.
const curvePoints = 64

// follower gathers what is counted per block reference.
type follower struct {
	Blocks
	blockTokens int
	stack       *kvcache.StackDistances
	references  *kvcache.References // nil if nobody asked for tiers
	ids         map[uint64]seenID   // by id; nil if Blocks is not needed

	blocks, hitBlocks int64
	full, hitFull     int64
	repeatIDs         int64
	held              []rowHeld

	lastNS  []int64         // by block: when it was used last
	gaps    map[int64]int64 // ns since the last use of a repeated block, and how often
	gap     stats.Counted   // the latest of them, not in gaps yet: most blocks of a row were used last by the same row
	gapsNS  []stats.Counted // all of them
	between []stats.Counted // of repeated blocks: tokens in the other blocks since, each a whole block
}

// follow adds all rows to a follower, except those whose prompts are verbatim.
func follow(t *trace.Trace, ids map[uint64]seenID, references *kvcache.References) *follower {
	f := &follower{
		references:  references,
		blockTokens: t.BlockTokens,
		stack:       kvcache.NewStackDistances(t.BlockTokens),
		ids:         ids,
		gaps:        map[int64]int64{},
	}
	for i := range t.Len() {
		if t.Made(i) {
			f.add(t.Blocks(i), int(t.InputTokens[i]), t.ArrivalNS[i])
		}
	}
	f.gaps[f.gap.Value] += f.gap.Count
	for _, ns := range slices.Sorted(maps.Keys(f.gaps)) {
		f.gapsNS = append(f.gapsNS, stats.Counted{
			Value: ns,
			Count: f.gaps[ns],
		})
	}
	for blocks, times := range f.stack.Curve(kvcache.InOrder).Distances {
		f.between = append(f.between, stats.Counted{
			Value: int64(blocks) * int64(t.BlockTokens),
			Count: times,
		})
	}
	return f
}

// add follows one row.
func (f *follower) add(ids []uint64, tokens int, atNS int64) {
	if len(ids) == 0 {
		f.BareRows++
	}
	hit := 0
	uses := f.stack.Add(ids, tokens)
	if f.references != nil {
		f.references.Add(uses)
	}
	for i, u := range uses {
		f.blocks++
		if u.Tokens == f.blockTokens {
			f.full++
		}
		if u.Block < 0 {
			f.WithoutID++
			continue
		}
		f.References++
		// A block that was there with as many tokens says nothing new of its id: what precedes it is the same.
		whole := u.Held > 0 && u.Held == u.Tokens
		if whole || f.ids != nil && f.see(ids, i, u.Tokens) {
			f.repeatIDs++
		}
		if u.Held > 0 {
			hit += min(u.Held, u.Tokens)
			f.repeat(u, atNS)
		}
		if u.Block == len(f.lastNS) {
			f.lastNS = append(f.lastNS, 0)
		}
		f.lastNS[u.Block] = atNS
	}
	f.held = append(f.held, rowHeld{atNS, int32(tokens), int32(hit)})
}

func (f *follower) repeat(u kvcache.Use, atNS int64) {
	f.hitBlocks++
	if u.Tokens == f.blockTokens && u.Held == f.blockTokens {
		f.hitFull++
	}
	ns := atNS - f.lastNS[u.Block]
	if ns != f.gap.Value {
		f.gaps[f.gap.Value] += f.gap.Count
		f.gap = stats.Counted{Value: ns}
	}
	f.gap.Count++
}

func (f *follower) summary() *Blocks {
	f.Distinct = int64(len(f.ids))
	f.DistinctAll = int64(f.stack.Distinct())
	f.Names = "prefixes"
	if f.ManyBefore > 0 {
		f.Names = "contents"
	}
	return &f.Blocks
}

// infinite are the hits of a cache without a limit.
func (f *follower) infinite() Infinite {
	var tokens, held int64
	shares := 0.0
	for _, r := range f.held {
		tokens += int64(r.tokens)
		held += int64(r.held)
		shares += float64(r.held) / float64(r.tokens)
	}
	return Infinite{
		Blocks:      share(f.hitBlocks, f.blocks),
		Tokens:      share(held, tokens),
		FullBlocks:  share(f.hitFull, f.full),
		MeanRequest: shares / float64(max(1, len(f.held))),
		IDs:         share(f.repeatIDs, f.blocks),
	}
}

func (f *follower) cache(capacities []int64) *Cache {
	inOrder := f.stack.Curve(kvcache.InOrder)
	tailFirst := f.stack.Curve(kvcache.TailFirst)
	c := &Cache{
		Infinite:         f.infinite(),
		SaturationTokens: inOrder.SaturationTokens(),
		Definition: fmt.Sprintf("An LRU cache of ⌊capacity / %d⌋ slots, a block of %d tokens in each, a last "+
			"partial one too. Rows count from their arrival, and output takes no room. "+
			"A block hits only if all before it in its row do. In order: each block is looked up and touched "+
			"before the next. Tail first: all are looked up when the row arrives, "+
			"then touched from the last to the first, as vLLM frees them.", f.blockTokens, f.blockTokens),
	}
	c.at = func(tokens int64) Capacity {
		return Capacity{
			Tokens:          tokens,
			BlockRatio:      inOrder.BlockRatio(tokens),
			TokenRatio:      inOrder.TokenRatio(tokens),
			TailFirstBlocks: tailFirst.BlockRatio(tokens),
			TailFirstTokens: tailFirst.TokenRatio(tokens),
		}
	}
	if len(capacities) == 0 {
		capacities = usualCapacities(c.SaturationTokens, int64(f.blockTokens))
	}
	for _, tokens := range capacities {
		c.LRU = append(c.LRU, c.at(tokens))
	}
	from := min(capacities[0], int64(f.blockTokens)*10)
	to := max(capacities[len(capacities)-1], c.SaturationTokens)
	for _, tokens := range spread(from, to, curvePoints) {
		c.Curve = append(c.Curve, c.at(tokens))
	}
	return c
}

// usualCapacities is 1, 3, 5, 10, … up to what is enough, from 1M or, for a smaller trace, from a tenth of its size.
func usualCapacities(enough, blockTokens int64) []int64 {
	enough = max(enough, blockTokens)
	unit := int64(1)
	for unit*100 <= enough && unit < 1_000_000 {
		unit *= 10
	}
	var all []int64
	for {
		for _, digit := range []int64{1, 3, 5} {
			if digit*unit >= blockTokens {
				all = append(all, digit*unit)
			}
			if digit*unit >= enough {
				return all
			}
		}
		unit *= 10
	}
}

// spread is n whole numbers from one to another in equal ratios.
func spread(from, to int64, n int) []int64 {
	all := make([]int64, n)
	step := math.Log(float64(to)/float64(from)) / float64(n-1)
	for i := range all {
		all[i] = int64(math.Round(float64(from) * math.Exp(step*float64(i))))
	}
	return all
}

// distances describes how far back the last use of repeated blocks lies.
func (f *follower) distances() *Reuse {
	return &Reuse{
		References:      f.hitBlocks,
		TimeHistogram:   binned(timeEdges(), f.gapsNS, 1e9),
		TokensHistogram: binned(oneThreeTen(1000, 20), f.between, 1),
		TimeS:           stats.DescribeCounted(f.gapsNS, 1e9),
		Tokens:          stats.DescribeCounted(f.between, 1),
	}
}

// timeEdges is steps that people know, in seconds. The first bin is for what happens at once.
func timeEdges() []float64 {
	const minute, hour, day, year = 60, 3600, 86400, 31_557_600
	return []float64{
		0, 1e-9, 1, 3, 10, 30,
		minute, 3 * minute, 10 * minute, 30 * minute,
		hour, 3 * hour, 12 * hour,
		day, 7 * day, 300 * year,
	}
}

// seenID is an id at its first occurrence, and whether others differed.
type seenID struct {
	before      uint64 // the id in front of it, 0 where first is set
	tokens      int32
	first       bool // in its prompt
	otherLength bool
	otherBefore bool
}

// see notes the i-th id of a row, which stands for so many tokens there, and reports whether the id was seen before.
func (f *follower) see(ids []uint64, i, tokens int) bool {
	now := seenID{tokens: int32(tokens), first: i == 0}
	if i > 0 {
		now.before = ids[i-1]
	}
	was, again := f.ids[ids[i]]
	if !again {
		f.ids[ids[i]] = now
		return false
	}
	if !was.otherLength && was.tokens != now.tokens {
		was.otherLength = true
		f.TwoLengths++
		f.ids[ids[i]] = was
	}
	if !was.otherBefore && (was.first != now.first || was.before != now.before) {
		was.otherBefore = true
		f.ManyBefore++
		f.ids[ids[i]] = was
	}
	return true
}

// routedBlockTokens is what the instances' caches are taken to cache as one piece: vLLM's default.
const routedBlockTokens = 16

// routing compares the routers of several instances: with caches without a limit, then with each capacity that was
// asked for. Rows with verbatim prompts have no known tokens; they are left out.
func routing(t *trace.Trace, o Options) (oracles []*route.Oracle) {
	if o.Instances == 0 || t.BlockRefs() == 0 {
		return nil
	}
	q := route.Question{
		Prompts:     kvcache.NewPrompts(t.BlockTokens, 0),
		Targets:     route.Even(slices.Repeat([]int{1}, o.Instances)),
		Bound:       o.LoadBound,
		BlockTokens: routedBlockTokens,
	}
	for i := range t.Len() {
		if !t.Made(i) {
			continue
		}
		tokens := int(t.InputTokens[i])
		q.Prompts.Add(t.Blocks(i), tokens, tokens)
		q.Flow.ReleaseNS = append(q.Flow.ReleaseNS, t.ArrivalNS[i])
		q.Flow.LastNS = append(q.Flow.LastNS, o.Assumed.LastNS(t.OutputTokens[i]))
		if t.Session != nil {
			q.Sessions = append(q.Sessions, t.Session[i])
		}
	}
	for _, tokens := range slices.Insert(slices.Clone(o.CacheTokens), 0, 0) {
		q.CapacityTokens = slices.Repeat([]int64{tokens}, o.Instances)
		if oracle := route.Ask(q); oracle != nil {
			oracles = append(oracles, oracle)
		}
	}
	return oracles
}
