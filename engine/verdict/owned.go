package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// ownedQuantities are the numbers, or the beginnings of their names, that results have of the requests of one owner.
var ownedQuantities = []string{"ttft.", "tpot.", "e2e.", "goodput", ErrorRate, "prefix_hits"}

// checkOwned refuses numbers that results do not have by owner.
func checkOwned(name string) error {
	if slices.ContainsFunc(ownedQuantities, func(known string) bool { return strings.HasPrefix(name, known) }) &&
		!strings.Contains(name, "planned") {
		return nil
	}
	return fmt.Errorf("%q is not known by tenant, model, class or priority; there are percentiles of ttft, tpot and "+
		"e2e, goodput, %s and prefix_hits", name, ErrorRate)
}

// viewOf is the summary of the requests that a number is about, and the number's name there.
func viewOf(s *metrics.Summary, name string) (view *metrics.Summary, rest string) {
	field, value, rest := rows.CutOwner(name)
	if field == "" {
		return s, name
	}
	view = new(metrics.Summary)
	for by, parts := range s.Owners.Each {
		i := slices.IndexFunc(parts.Parts, func(part metrics.Part) bool { return by == field && part.Name == value })
		if i < 0 {
			continue
		}
		part := &parts.Parts[i]
		view.Requests = metrics.Requests{Planned: part.OK + part.Failed, OK: part.OK, Failed: part.Failed}
		view.TTFTMS = part.TTFTMS
		view.TPOTMS = part.TPOTMS
		view.E2EMS = part.E2EMS
		view.PrefixCache.HitRatio = part.ReportedHitRatio
		if part.GoodShare != nil {
			view.Goodput = &metrics.Goodput{Share: part.GoodShare}
		}
	}
	return view, rest
}

// ofOwner is by how much the client may have moved a number of one owner's requests. It is as far as any percentile of
// all, since nobody knows whose requests were late.
func ofOwner(unsafe []metrics.Unsafe, name string) (all []metrics.Unsafe) {
	latency, percentile, _ := strings.Cut(name, ".")
	most := 0.0
	for _, u := range unsafe {
		if u.Metric == latency {
			most = max(most, u.EffectMS)
		}
	}
	if most > 0 {
		all = append(all, metrics.Unsafe{Metric: latency, Percentile: percentile, EffectMS: most})
	}
	return all
}
