package report

import (
	"math"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// gauges is what servers' pages report by step.
type gauges struct {
	running, waiting, kv, mostKV chart.Values
	hits, queries                chart.Values // what was added to them in each step
}

func newGauges(steps int) gauges {
	none := func() chart.Values {
		v := make(chart.Values, steps)
		for i := range v {
			v[i] = math.NaN()
		}
		return v
	}
	return gauges{none(), none(), none(), none(), make(chart.Values, steps), make(chart.Values, steps)}
}

// serverLines are what all servers report by time: gauges summed, and the mean use of their KV caches.
func (p *pictures) serverLines(spans []chart.Piece) (out []chart.Graph) {
	all, _ := p.gauges()
	hits := make(chart.Values, len(p.all))
	for i := range hits {
		hits[i] = all.hits[i] / all.queries[i] // NaN where nothing was looked up
	}
	for _, g := range []struct {
		title, unit string
		series      []chart.Series
	}{
		{"Requests in the servers, as they report", "", []chart.Series{{Name: "running", Values: all.running}, {Name: "waiting", Values: all.waiting}}},
		{"KV cache in use", "ratio", []chart.Series{{Name: "mean", Values: all.kv}, {Name: "the fullest engine", Values: all.mostKV}}},
		{"Prefix hits, as the servers count", "ratio", []chart.Series{{Name: "hits", Values: hits}}},
	} {
		for _, v := range g.series[0].Values {
			if !math.IsNaN(v) {
				graph := p.overTime(g.title, g.unit, spans, g.series...)
				out = append(out, graph)
				break
			}
		}
	}
	return out
}

// serverHeat has a row for each server's page, if there are several.
func (p *pictures) serverHeat() (out []chart.Graph) {
	all, pages := p.gauges()
	if len(pages) < 2 {
		return nil
	}
	for _, m := range []struct {
		title, unit string
		of          func(*gauges) chart.Values
		mean        bool // the row of all is the mean of the rows
	}{
		{"Running, as the servers report", "", func(g *gauges) chart.Values { return g.running }, true},
		{"Waiting, as the servers report", "", func(g *gauges) chart.Values { return g.waiting }, true},
		{"KV cache in use", "ratio", func(g *gauges) chart.Values { return g.kv }, false},
	} {
		g := p.overTime(m.title, m.unit, nil)
		whole := filled(m.of(&all))
		if m.mean {
			for i := range whole {
				whole[i] /= float64(len(pages))
			}
		}
		g.Rows, g.Heat = []string{"mean of all"}, []chart.Values{whole}
		for _, page := range pages[:min(len(pages), mostRows)] {
			g.Rows, g.Heat = append(g.Rows, shortURL(page.name)), append(g.Heat, filled(m.of(&page.gauges)))
		}
		out = append(out, g)
	}
	return out
}

// filled has each reading until the next one, and gaps where there was none for long.
func filled(v chart.Values) chart.Values {
	longest, since := 1, -1 // between two readings
	for i := range v {
		if !math.IsNaN(v[i]) {
			if since >= 0 {
				longest = max(longest, i-since)
			}
			since = i
		}
	}
	out, last := make(chart.Values, len(v)), -1
	for i := range v {
		out[i] = math.NaN()
		if !math.IsNaN(v[i]) {
			last = i
		}
		if last >= 0 && i-last <= longest {
			out[i] = v[last]
		}
	}
	return out
}

// page is what one server's page reports by step.
type pageGauges struct {
	gauges
	name   string
	latest scrape.Reading
	known  bool // latest has a reading
}

// gauges puts the samples into steps: the latest of each step, of each page and of all together.
func (p *pictures) gauges() (all gauges, pages []*pageGauges) {
	all = newGauges(len(p.all))
	of := map[string]*pageGauges{}
	widthS := p.all[0].ToS - p.all[0].FromS
	for i := range p.samples {
		m := &p.samples[i]
		g := of[m.URL]
		if g == nil {
			g = &pageGauges{gauges: newGauges(len(p.all)), name: m.Target}
			of[m.URL], pages = g, append(pages, g)
		}
		step := min(len(p.all)-1, int(float64(max(0, m.AtNS))/1e9/widthS))
		if g.known && m.Error == "" {
			addGrowth(all.hits, step, g.latest.PrefixHits, m.PrefixHits)
			addGrowth(all.queries, step, g.latest.PrefixQueries, m.PrefixQueries)
		}
		g.latest, g.known = m.Reading, m.Error == ""
		g.running[step], g.waiting[step], g.kv[step] = maybe(m.Running), maybe(m.Waiting), maybe(m.KVUsage)
		all.running[step] = total(pages, func(r *scrape.Reading) *float64 { return r.Running })
		all.waiting[step] = total(pages, func(r *scrape.Reading) *float64 { return r.Waiting })
		all.kv[step] = total(pages, func(r *scrape.Reading) *float64 { return r.KVUsage }) / float64(len(pages))
		for _, page := range pages {
			if v := page.latest.MostKVUsage; v != nil && !(all.mostKV[step] >= *v) {
				all.mostKV[step] = *v
			}
		}
	}
	return all, pages
}

// total sums a gauge over the latest readings of pages; NaN if none has it.
func total(pages []*pageGauges, of func(*scrape.Reading) *float64) float64 {
	sum, n := 0.0, 0
	for _, page := range pages {
		if v := of(&page.latest); v != nil {
			sum, n = sum+*v, n+1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum
}

// addGrowth adds by how much a counter has grown, unless its server was restarted.
func addGrowth(to chart.Values, step int, before, after *float64) {
	if before != nil && after != nil && *after >= *before {
		to[step] += *after - *before
	}
}
