package inspect

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
)

// routedBlockTokens is what the instances' caches are taken to cache as one piece: vLLM's default.
const routedBlockTokens = 16

// routing compares the routers of several instances: with caches without a limit, then with each capacity that was asked for.
// Rows that are there word for word have no known tokens; they are left out.
func routing(t *trace.Trace, o Options) (oracles []*route.Oracle) {
	if o.Instances == 0 || t.BlockRefs() == 0 {
		return nil
	}
	q := route.Question{
		Prompts: kvcache.NewPrompts(t.BlockTokens, 0), Targets: route.Even(slices.Repeat([]int{1}, o.Instances)),
		Bound: o.LoadBound, BlockTokens: routedBlockTokens,
	}
	for i := range t.Len() {
		if t.Literal(i).Kind != trace.NoLiteral {
			continue
		}
		q.Prompts.Add(t.Blocks(i), int(t.InputTokens[i]), int(t.InputTokens[i]))
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

// routing prints the hits by who routes.
func (p *page) routing(r *Report) {
	for _, o := range r.Routing {
		o.Print(&p.Page)
	}
	if len(r.Routing) > 0 {
		p.Line("")
		p.Sentence("  ", r.Routing[0].Definition)
	}
}
