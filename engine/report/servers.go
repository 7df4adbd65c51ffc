package report

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// servers prints what the servers said of themselves, beside what we saw; nothing where none was read.
func (p *page) servers(s *metrics.Summary) {
	if s.Servers == nil || s.Servers.All.Alternates {
		return
	}
	all := &s.Servers.All
	p.Field("servers", gauge("running", all.Running, plain), gauge("waiting", all.Waiting, plain),
		known(func(v float64) string { return "in flight " + plain(v) }, s.InFlight, "mean"),
		gauge("KV use", all.KVUsage, format.Percent))
	hit := ""
	if all.PrefixHitRatio != nil {
		hit = hits(all.PrefixHitRatio, "hits counted")
		if s.PrefixCache.ReportedHitRatio != nil {
			hit += ", " + format.Percent(*s.PrefixCache.ReportedHitRatio) + " reported"
		}
	}
	p.Field("", hit, known(whole, all.Preemptions, "preempted"),
		known(whole, all.GenerationTokens, "tokens made"), some(s.Tokens.Completion, "received"))
}

func gauge(what string, g *scrape.Gauge, print func(float64) string) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%s %s mean, %s max", what, print(g.Mean), print(g.Max))
}

func whole(v float64) string { return format.Count(int64(v)) }

// plain prints a mean of requests with three digits, and whole ones without a point.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return format.Count(int64(v))
	}
	return format.Number(v, 3)
}
