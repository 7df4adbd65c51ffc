package route

import (
	"fmt"

	"github.com/fastreplay/fastreplay/engine/format"
)

// Of is a router's part of the oracle; nil where it has none.
func (o *Oracle) Of(router string) *Routed {
	for i := range o.Routers {
		if o.Routers[i].Router == router {
			return &o.Routers[i]
		}
	}
	return nil
}

// Heading says how many instances there are and how large their caches: "on 4 instances, 20k tokens of cache each".
func (o *Oracle) Heading() string {
	caches := "unlimited caches"
	switch {
	case o.EachTokens != nil:
		caches = format.Short(float64(*o.EachTokens)) + " tokens of cache each"
	case o.CapacityTokens != nil:
		caches = format.Short(float64(*o.CapacityTokens)) + " tokens of cache in all"
	case o.Limited > 0:
		caches = format.Many(int64(o.Limited), "cache") + " of known size, the others taken as unlimited"
	}
	return "on " + format.Many(int64(o.Instances), "instance") + ", " + caches
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
	return []string{o.Label(r.Router), format.Share(r.HitRatio), format.Share(r.LargestShare), fmt.Sprintf("%.2f", r.RequestsCV), fmt.Sprintf("%.2f", r.TokensCV)}
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
