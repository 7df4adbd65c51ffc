package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// checkObjectives refuses objectives that no run of this load can meet or miss: they would be told after all of it.
func (p *Prepared) checkObjectives(context.Context) error {
	limits := &p.o.Limits
	type objective struct{ flag, text string }
	var all []objective
	for _, text := range limits.Require {
		all = append(all, objective{"require", text})
	}
	for _, slo := range p.o.SLOs {
		all = append(all, objective{"goodput", slo.Name()})
	}
	all = append(all, objective{"until", limits.Until}, objective{"abort-if", limits.AbortIf})
	for _, o := range all {
		if why := cmp.Or(p.ownedByNobody(o.text), p.neverMeasured(o.text)); why != "" {
			return fmt.Errorf("--%s %q: %s", o.flag, o.text, why)
		}
	}
	return nil
}

// ownedByNobody says that an objective is about an owner that the trace does not have; "" if it is not.
func (p *Prepared) ownedByNobody(objective string) string {
	field, value, _ := rows.CutOwner(objective)
	has := func(o rows.Owner) bool { return o.Value(field) == value }
	if field == "" || slices.ContainsFunc(p.Trace.Owners, has) {
		return ""
	}
	return fmt.Sprintf("no row of the trace has the %s %q", field, value)
}

// neverMeasured says that an objective is about a latency that no answer has, since all come whole. It is "" if some
// may come in parts, as the trace's own bodies may ask for.
func (p *Prepared) neverMeasured(objective string) string {
	if !p.o.NoStream || p.verbatims.payloads > 0 || p.verbatims.extra {
		return ""
	}
	_, _, name := rows.CutOwner(objective)
	name, _, _ = strings.Cut(name, ".")
	i := metrics.FindLatency(strings.ToLower(name))
	if i < 0 || !metrics.Latencies()[i].OfStream {
		return ""
	}
	cause := "--no-stream"
	remedy := "bound e2e, or have answers stream"
	if !p.o.traits.Streams {
		cause = "--api " + p.o.API
		remedy = "bound e2e"
	}
	return fmt.Sprintf("with %s answers have no %s: %s", cause, metrics.Latencies()[i].Label, remedy)
}
