package route

import "fmt"

// Of is a router's part of the oracle; nil where it has none.
func (o *Oracle) Of(router string) *Routed {
	for i := range o.Routers {
		if o.Routers[i].Router == router {
			return &o.Routers[i]
		}
	}
	return nil
}

// Table is the oracle for people: a head, and a line for each router, label first.
func (o *Oracle) Table() (head []string, lines [][]string) {
	head = []string{"if routed by", "hits", "largest", "CV", "CV tokens"}
	lines = append(lines, []string{"one cache for all", percent(o.OneCacheRatio), "", "", ""})
	for i := range o.Routers {
		lines = append(lines, o.Routers[i].cells(o.words(o.Routers[i].Router)))
	}
	if o.Actual != nil {
		lines = append(lines, o.Actual.cells("as they went"))
	}
	return head, lines
}

// words is what people call a router.
func (o *Oracle) words(router string) string {
	switch router {
	case PrefixName:
		return "prefix, any load"
	case PrefixBoundedName:
		return fmt.Sprintf("prefix, load bound %g", o.LoadBound)
	}
	return router
}

func (r *Routed) cells(label string) []string {
	return []string{label, percent(r.HitRatio), percent(r.LargestShare), fmt.Sprintf("%.2f", r.RequestsCV), fmt.Sprintf("%.2f", r.TokensCV)}
}

// percent has two decimals, so that columns align.
func percent(ratio float64) string { return fmt.Sprintf("%.2f %%", 100*ratio) }
