package inspect

import (
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
	"github.com/fastreplay/fastreplay/engine/route"
)

// routedBlockTokens is what the instances' caches are taken to cache as one piece: vLLM's default.
const routedBlockTokens = 16

// routing compares the routers of several instances: with caches without a limit, then with each capacity that was asked for.
// Rows that are there word for word have no known tokens; they are left out.
func routing(t *trace.Trace, o Options) (oracles []*route.Oracle) {
	if o.Instances < 2 || t.BlockRefs() == 0 {
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
		const label = 28
		head, lines := o.Table()
		p.Line("")
		p.Line("  on " + human.Many(int64(o.Instances), "instance") + ", " + cacheWords(o))
		for i, cells := range slices.Insert(lines, 0, head) {
			line := human.Left("  "+cells[0], label)
			if i > 0 {
				line = human.Left("    "+cells[0], label)
			}
			for _, cell := range cells[1:] {
				line += human.Right(cell, column+3)
			}
			p.Line(line)
		}
	}
	if len(r.Routing) > 0 {
		p.Line("")
		p.Sentence("  ", r.Routing[0].Definition)
	}
}

func cacheWords(o *route.Oracle) string {
	if o.CapacityTokens == nil {
		return "unlimited caches"
	}
	return fmt.Sprintf("%s tokens of cache each", short(float64(*o.CapacityTokens)/float64(o.Instances)))
}

// routingSections have the hits of every router that some report has, by the size of the caches.
func routingSections(reports []*Report) (sections []section) {
	most := 0
	for _, r := range reports {
		most = max(most, len(r.Routing))
	}
	for at := range most {
		s := section{}
		for _, r := range reports {
			if at >= len(r.Routing) {
				continue
			}
			s.title = fmt.Sprintf("hits on %s, %s", human.Many(int64(r.Routing[at].Instances), "instance"), cacheWords(r.Routing[at]))
			_, lines := r.Routing[at].Table()
			for _, cells := range lines {
				if !slices.ContainsFunc(s.quantities, func(q quantity) bool { return q.label == cells[0] }) {
					s.quantities = append(s.quantities, routedQuantity(cells[0], at))
				}
			}
		}
		sections = append(sections, s)
	}
	return sections
}

func routedQuantity(label string, at int) quantity {
	return quantity{label, func(r *Report) string {
		if at >= len(r.Routing) {
			return absent
		}
		_, lines := r.Routing[at].Table()
		for _, cells := range lines {
			if cells[0] == label {
				return cells[1]
			}
		}
		return absent
	}}
}
