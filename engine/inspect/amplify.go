package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Load is the part of Analyse's report that describes the load.
func Load(t *trace.Trace) metrics.Load {
	r := &Report{
		Rows:     int64(t.Len()),
		Untimed:  t.Untimed,
		Arrivals: arrivals(t, 0, 0, newPictures()),
	}
	if t.BlockRefs() > 0 {
		f := follow(t, nil, nil)
		r.Cache = f.cache(nil)
		r.Reuse = f.distances()
	}
	return r.Load()
}

// Load is the part of the report that shows whether a multiplied load is still of its kind.
func (r *Report) Load() metrics.Load {
	l := metrics.Load{Requests: r.Rows}
	if !r.Untimed {
		l.SpanS = r.Arrivals.SpanS
		l.RequestsPerS = r.Arrivals.RowsPerS
		l.Peak = &r.Arrivals.PeakRows
		l.GapCV = r.Arrivals.GapCV
	}
	if r.Cache != nil {
		l.HitRatio = &r.Cache.Infinite.Tokens
	}
	if r.Reuse != nil && r.Reuse.Tokens != nil {
		l.ReuseP50 = &r.Reuse.Tokens.P50
		l.ReuseP90 = &r.Reuse.Tokens.P90
	}
	return l
}

// Amplified is lines for people about what amplifying did to a load, on a terminal of so many columns, 0 = 80.
func Amplified(a *metrics.Amplify, width int) string {
	p := &page{format.NewPage(width, labelWidth)}
	p.amplified(a)
	return strings.TrimSuffix(string(p.Bytes()), "\n")
}

func (p *page) amplified(a *metrics.Amplify) {
	what := format.Many(a.Sessions, "conversation")
	how := ""
	switch {
	case a.Jobs:
		what = format.Many(a.Sessions, "job")
	case a.Inferred && a.Sessions == a.Before.Requests:
		what = format.Requests(a.Sessions)
	case a.Inferred:
		how = "found by their blocks"
	}
	shared := ""
	if a.SharedBlocks > 0 {
		shared = fmt.Sprintf("%s shared by all clones", format.Many(a.SharedBlocks, "leading block"))
	}
	p.Field("amplified", fmt.Sprintf("%g times %s", a.Factor, what), how, shared)
	widths := []int{14}
	p.Row("", 32, widths, "before", "after")
	after := loadRows(a.After)
	for i, q := range loadRows(a.Before) {
		now := after[i].text
		if q.text != "" || now != "" {
			p.Row("    "+q.name, 32, widths, cmp.Or(q.text, absent), cmp.Or(now, absent))
		}
	}
}

// loadRows are the names and texts of a load's numbers, as tables have them of one before --amplify.
func loadRows(l metrics.Load) []quantity {
	all := declared(fillerOf(&Report{Amplify: &metrics.Amplify{Before: l}}))
	i := slices.IndexFunc(all, func(s section) bool {
		return s.title == "before --amplify"
	})
	return all[i].quantities[1:] // without the factor
}
