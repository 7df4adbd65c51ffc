package inspect

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// Load is what Analyse would say of a load, and no more.
func Load(t *trace.Trace) metrics.Load {
	r := &Report{Rows: int64(t.Len()), Untimed: t.Untimed, Arrivals: arrivals(t, 0, 0)}
	if t.BlockRefs() > 0 {
		f := follow(t, nil)
		r.Cache, r.Reuse = f.cache(t.BlockTokens, nil), f.distances(t.BlockTokens)
	}
	return r.Load()
}

// Load is the part of the report that tells whether a load that was multiplied is still of its kind.
func (r *Report) Load() metrics.Load {
	l := metrics.Load{Requests: r.Rows}
	if !r.Untimed {
		l.SpanS, l.RequestsPerS, l.Peak, l.GapCV = r.Arrivals.SpanS, r.Arrivals.RowsPerS, &r.Arrivals.PeakRows, r.Arrivals.GapCV
	}
	if r.Cache != nil {
		l.HitRatio = &r.Cache.Infinite.Tokens
	}
	if r.Reuse != nil && r.Reuse.Tokens != nil {
		l.ReuseP50, l.ReuseP90 = &r.Reuse.Tokens.P50, &r.Reuse.Tokens.P90
	}
	return l
}

// Amplified is lines for people about what amplifying did to a load, on a terminal of so many columns, 0 = 80.
func Amplified(a *metrics.Amplify, width int) string {
	p := &page{human.NewPage(width, labelWidth)}
	p.amplified(a)
	return strings.TrimSuffix(string(p.Bytes()), "\n")
}

func (p *page) amplified(a *metrics.Amplify) {
	what, how := human.Many(a.Sessions, "conversation"), ""
	switch {
	case a.Inferred && a.Sessions == a.Before.Requests:
		what = human.Many(a.Sessions, "request")
	case a.Inferred:
		how = "told by their blocks"
	}
	shared := ""
	if a.SharedBlocks > 0 {
		shared = fmt.Sprintf("%s shared by all clones", human.Many(a.SharedBlocks, "leading block"))
	}
	p.Field("amplified", fmt.Sprintf("%g times %s", a.Factor, what), how, shared)
	p.Line(human.Left("", amplifyLabel) + human.Right("before", amplifyColumn) + human.Right("after", amplifyColumn))
	for _, q := range loadQuantities() {
		before, after := q.of(&a.Before), q.of(&a.After)
		if before != absent || after != absent {
			p.Line(human.Left("    "+q.label, amplifyLabel) + human.Right(before, amplifyColumn) + human.Right(after, amplifyColumn))
		}
	}
}

const (
	amplifyLabel  = 32
	amplifyColumn = 14
)

type loadQuantity struct {
	label string
	of    func(*metrics.Load) string
}

func loadQuantities() []loadQuantity {
	return []loadQuantity{
		{"requests", func(l *metrics.Load) string { return count(l.Requests) }},
		{"mean rate", func(l *metrics.Load) string { return optional(l.RequestsPerS, rate) }},
		{"most requests within 1 s", func(l *metrics.Load) string { return optional(l.Peak, count) }},
		{"interarrival CV", func(l *metrics.Load) string {
			return optional(l.GapCV, func(v float64) string { return human.Number(v, 3) })
		}},
		{"reuse distance p50, tokens", func(l *metrics.Load) string { return optional(l.ReuseP50, human.Short) }},
		{"reuse distance p90, tokens", func(l *metrics.Load) string { return optional(l.ReuseP90, human.Short) }},
		{"ideal cache hits, of tokens", func(l *metrics.Load) string { return optional(l.HitRatio, human.Share) }},
	}
}

// amplifySection is what loads were before they were amplified; what they are is in the other sections.
func amplifySection() section {
	s := section{"before --amplify", []quantity{{"factor", func(r *Report) string {
		return optional(r.Amplify, func(a metrics.Amplify) string { return fmt.Sprintf("%g", a.Factor) })
	}}}}
	for _, q := range loadQuantities() {
		s.quantities = append(s.quantities, quantity{q.label, func(r *Report) string {
			return optional(r.Amplify, func(a metrics.Amplify) string { return q.of(&a.Before) })
		}})
	}
	return s
}
