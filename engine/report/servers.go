package report

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// servers prints what the servers said of themselves, beside what we saw; nothing where none was read.
func (p *page) servers(s *metrics.Summary) {
	if s.Servers == nil || s.Servers.All.Alternates {
		return
	}
	all := &s.Servers.All
	p.Field("servers", gauge("running", all.Running), gauge("waiting", all.Waiting), inFlight(s.InFlight), usage(all.KVUsage))
	hit := ""
	if all.PrefixHitRatio != nil {
		hit = hits(all.PrefixHitRatio, "hits counted")
		if s.PrefixCache.ReportedHitRatio != nil {
			hit += ", " + human.Percent(*s.PrefixCache.ReportedHitRatio) + " reported"
		}
	}
	p.Field("", hit, counted(all.Preemptions, "preempted"), counted(all.GenerationTokens, "tokens made"), some(s.Tokens.Completion, "received"))
}

func gauge(what string, g *scrape.Gauge) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%s %s mean, %s max", what, plain(g.Mean), plain(g.Max))
}

// plain prints a mean of requests with three digits, and whole ones without a point.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return human.Count(int64(v))
	}
	return human.Number(v, 3)
}

func usage(g *scrape.Gauge) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("KV use %s mean, %s max", human.Percent(g.Mean), human.Percent(g.Max))
}

func inFlight(mean *float64) string {
	if mean == nil {
		return ""
	}
	return "in flight " + plain(*mean) + " mean"
}

func counted(n *float64, what string) string {
	if n == nil {
		return ""
	}
	return count(int64(*n), what)
}
