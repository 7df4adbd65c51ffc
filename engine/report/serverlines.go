package report

import (
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// serverLines are what all servers report by time: gauges summed over the latest readings of their pages, the mean use of KV caches,
// and the share of prefix hits.
func (p *pictures) serverLines(spans []chart.Piece) (out []chart.Graph) {
	line := func(name string) chart.Series {
		return chart.Series{Name: name, Values: slices.Repeat(chart.Values{math.NaN()}, len(p.all))}
	}
	running, waiting, kv, mostKV, hits := line("running"), line("waiting"), line("mean"), line("the fullest engine"), line("hits")
	found, queries := make(chart.Values, len(p.all)), make(chart.Values, len(p.all))
	latest, widthS := map[string]scrape.Reading{}, p.all[0].ToS-p.all[0].FromS
	for i := range p.samples {
		m := &p.samples[i]
		step := min(len(p.all)-1, int(float64(max(0, m.AtNS))/1e9/widthS))
		if m.Error != "" {
			delete(latest, m.URL)
			continue
		}
		before := latest[m.URL]
		addGrowth(found, step, before.PrefixHits, m.PrefixHits)
		addGrowth(queries, step, before.PrefixQueries, m.PrefixQueries)
		latest[m.URL] = m.Reading
		hits.Values[step] = found[step] / queries[step] // NaN where nothing was looked up
		running.Values[step], _ = scrape.Total(latest, scrape.Running)
		waiting.Values[step], _ = scrape.Total(latest, scrape.Waiting)
		sum, pages := scrape.Total(latest, scrape.KVUsage)
		kv.Values[step] = sum / pages
		for _, r := range latest {
			if v := r.MostKVUsage; v != nil && !(mostKV.Values[step] >= *v) {
				mostKV.Values[step] = *v
			}
		}
	}
	for _, g := range []chart.Graph{
		p.overTime("Requests in the servers, as they report", "", spans, running, waiting),
		p.overTime("KV cache in use", "ratio", spans, kv, mostKV), p.overTime("Prefix hits, as the servers count", "ratio", spans, hits),
	} {
		if slices.ContainsFunc(g.Series[0].Values, func(v float64) bool { return !math.IsNaN(v) }) {
			out = append(out, g)
		}
	}
	return out
}

// addGrowth adds by how much a counter has grown, unless its server was restarted.
func addGrowth(to chart.Values, step int, before, after *float64) {
	if before != nil && after != nil && *after >= *before {
		to[step] += *after - *before
	}
}
