package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Acted is one action of the runs of both sides, and what it cost in each. With so few runs a side no interval says
// more than the values do.
type Acted struct {
	AtS   float64          `json:"at_s"`  // when it was to run, since the start
	A     []metrics.Action `json:"a"`     // of the runs of A, as in their summaries
	B     []metrics.Action `json:"b"`     // and of B
	Words string           `json:"words"` // one sentence
}

// compareActions lines the runs up by their actions: those that were to run at the same instants.
func (r *Result) compareActions(a, b *Side) {
	plan := func(run *run) (at []float64) {
		for _, action := range run.summary.Actions {
			at = append(at, action.AtS)
		}
		slices.Sort(at)
		return at
	}
	instants := plan(a.runs[0])
	for _, run := range slices.Concat(a.runs, b.runs) {
		if at := plan(run); !slices.Equal(at, instants) {
			if len(at) == 0 || len(instants) == 0 {
				r.note("a run has no actions, so those of others are not compared")
				return
			}
			r.note("the runs have actions at different instants, which are not compared")
			return
		}
	}
	for k, at := range instants {
		of := func(side *Side) (all []metrics.Action) {
			for _, run := range side.runs {
				actions := slices.Clone(run.summary.Actions)
				slices.SortStableFunc(actions, func(x, y metrics.Action) int { return cmp.Compare(x.AtS, y.AtS) })
				all = append(all, actions[k])
			}
			return all
		}
		acted := Acted{AtS: at, A: of(a), B: of(b)}
		parts := []string{"action at " + format.Seconds(at) + ": " + each("", acted, landing)}
		for _, cost := range costs() {
			parts = append(parts, each(cost.what, acted, func(action *metrics.Action) string {
				if action.Cost == nil || !action.Landed {
					return ""
				}
				return cost.of(action)
			}))
		}
		acted.Words = strings.Join(format.Present(parts...), "; ")
		r.Actions = append(r.Actions, acted)
	}
}

// cost is a number of what an action cost, as people read it.
type cost struct {
	what string
	of   func(*metrics.Action) string // "" = unknown
}

func costs() []cost {
	return []cost{
		{"failed ", func(a *metrics.Action) string { return format.Count(a.Cost.Failed) }},
		{"late ", func(a *metrics.Action) string { return format.Count(a.Cost.Late) }},
		{"SLO debt ", func(a *metrics.Action) string { return rounded(a.Cost.SLODebt) }},
		{"hit tokens lost ", func(a *metrics.Action) string { return rounded(a.Cost.HitsLost) }},
		{"TTFT p95 back after ", back},
	}
}

// each prints a value of all runs of both sides, with – for a run that lacks it. It is "" if a side has none, or if the
// value is 0 everywhere.
func each(what string, acted Acted, value func(*metrics.Action) string) string {
	told := false
	lacking := false
	list := func(all []metrics.Action) string {
		var values []string
		known := false
		for i := range all {
			text := value(&all[i])
			known = known || text != ""
			told = told || text != "" && text != "0"
			values = append(values, cmp.Or(text, "–"))
		}
		lacking = lacking || !known
		return strings.Join(values, ", ")
	}
	text := fmt.Sprintf("%s%s in A and %s in B", what, list(acted.A), list(acted.B))
	if lacking || !told {
		return ""
	}
	return text
}

func landing(action *metrics.Action) string {
	if action.Landed {
		return "landed"
	}
	return "was not seen to land"
}

// rounded prints a number that may be unknown; "" then.
func rounded(v *float64) string {
	if v == nil {
		return ""
	}
	return format.Count(int64(*v))
}

// back says when TTFT p95 was back within its band, since the action landed.
func back(action *metrics.Action) string {
	c := action.Cost
	switch {
	case c.BandMS == nil || c.Left == nil:
		return ""
	case !*c.Left:
		return "0"
	case c.BackS == nil:
		return "never"
	}
	return format.Seconds(max(0, *c.BackS-*action.LandedS))
}
