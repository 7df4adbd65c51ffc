package report

import (
	"strings"

	"github.com/fastreplay/fastreplay/engine/chart"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// tiles are what one wants to know first of a run.
func (p *Pictures) tiles(s *metrics.Summary) []chart.Tile {
	rate := "requests/s"
	if s.Requests.Failed > 0 {
		rate = "ok requests/s"
	}
	tiles := p.latencyTiles(s)
	tiles = append(tiles, chart.Tile{
		Name:  rate,
		Value: format.Number(s.UnderLoad.RequestsPerS, 3),
		Under: format.Short(s.UnderLoad.OutputTokensPerS) + " output tokens/s",
		Spark: p.line("", func(t *metrics.Step) float64 { return float64(t.OutputTokens) }).Values,
	})
	if hits := s.PrefixCache.HitRatio; hits != nil {
		tile := chart.Tile{Name: "prefix hits", Value: format.Percent(*hits), Spark: p.hits()}
		if ideal := s.PrefixCache.ExpectedHitRatio; ideal != nil {
			tile.Under = format.Percent(*ideal) + " ideal"
		}
		tiles = append(tiles, tile)
	}
	failed := chart.Tile{
		Name:  "failed",
		Value: format.Count(s.Requests.Failed),
		Under: "of " + format.Requests(s.Requests.Failed+s.Requests.OK),
		Spark: p.line("", func(t *metrics.Step) float64 { return float64(t.Failed) }).Values,
	}
	if s.Requests.Failed > 0 {
		share := format.Percent(float64(s.Requests.Failed) / float64(s.Requests.Failed+s.Requests.OK))
		failed.Under += ", " + strings.ReplaceAll(share, " ", "\u00a0") // in one line
		failed.Grade = chart.Bad
	}
	tiles = append(tiles, failed)
	if g := s.Goodput; g != nil && g.Share != nil {
		tiles = append(tiles, chart.Tile{
			Name:  "goodput",
			Value: format.Percent(*g.Share),
			Under: bounds(s) + ", " + format.Number(g.RequestsPerS, 3) + "/s",
		})
	}
	return tiles
}

// latencyTiles are TTFT and TPOT, or E2E of whole answers: the median in large print, and p99 below it.
func (p *Pictures) latencyTiles(s *metrics.Summary) (tiles []chart.Tile) {
	for _, l := range shownLatencies(s, metrics.OnScreen) {
		i := metrics.FindLatency(l.key)
		if i != metrics.TTFT && i != metrics.TPOT && (i != metrics.E2E || len(tiles) > 0) {
			continue
		}
		tile := chart.Tile{
			Name:  l.label + " p50",
			Spark: p.maybe("", func(t *metrics.Step) *float64 { return t.Percentile(i, 500) }).Values,
		}
		for _, n := range l.numbers(s) {
			text := n.mark + format.Duration(n.ns, 3)
			switch n.name {
			case "p50":
				tile.Value = text
				tile.Under = n.interval
			case "p99":
				name := "p99 "
				if n.isMax {
					name = "max "
					text = format.Duration(n.ns, 3)
				}
				p99 := strings.ReplaceAll(name+text, " ", "\u00a0") // in one line
				tile.Under = strings.Join(format.Present(tile.Under, p99, n.interval), ", ")
			}
		}
		tiles = append(tiles, tile)
	}
	return tiles
}

// hits are the shares of the prompt tokens that the servers reported as cached, over time.
func (p *Pictures) hits() chart.Values {
	return p.maybe("", func(t *metrics.Step) *float64 {
		if t.CachedTokens == nil || t.PromptTokens == 0 {
			return nil
		}
		return new(float64(*t.CachedTokens) / float64(t.PromptTokens))
	}).Values
}
