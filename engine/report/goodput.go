package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// recount replaces the goodput of s by that of other SLOs, from the records.
func recount(dir string, s *metrics.Summary, slos []metrics.SLO) error {
	var urls []string
	for _, t := range s.Targets {
		if slices.Contains(urls, t.URL) {
			return fmt.Errorf("%s: the run had %s as several targets, and its records do not say which of them was asked", dir, t.URL)
		}
		urls = append(urls, t.URL)
	}
	c, n, err := collect(dir, urls, slos, func(*record.Record) {})
	if errors.Is(err, ErrNoResults) {
		return fmt.Errorf("%s has no %s, by which other SLOs are counted", dir, RequestsName)
	}
	if err != nil {
		return err
	}
	c.Goodput(s)
	if lost := s.Requests.Planned - n; lost > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("goodput was counted without %s that %s lacks", format.Many(lost, "record"), RequestsName))
	}
	return nil
}

// goodput prints the requests that met the SLOs, and how often each was
// missed; nothing without SLOs.
func (p *page) goodput(g *metrics.Goodput) {
	if g == nil {
		return
	}
	p.Field("goodput", format.Rate(g.RequestsPerS)+" requests/s", count(g.Requests, "good"),
		known(format.Percent, g.Share, "of the planned"))
	var missed []string
	for _, l := range metrics.Latencies() {
		if ms, ok := g.SLO[l.Name+"_ms"]; ok {
			slo := l.Label + " ≤ " + strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
			if n := g.Unmeasured[l.Name]; n > 0 {
				slo += " (" + count(n, "have none") + ")"
			}
			missed = append(missed, count(g.Missed[l.Name], slo))
		}
	}
	p.Field("missed", append(missed, some(g.Failed, "failed"))...)
}

func goodputCells(t *metrics.Target) []string {
	g := t.Goodput
	if g == nil || g.Share == nil {
		return []string{"–", "–", "–  "}
	}
	return []string{format.Count(g.Requests), format.Rate(g.RequestsPerS), format.Percent(*g.Share)}
}
