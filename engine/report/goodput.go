package report

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// recount replaces the goodput of s by that of other SLOs, from the records.
func recount(dir string, s *metrics.Summary, slos []metrics.SLO) error {
	at := make(map[string]int, len(s.Targets))
	urls := make([]string, len(s.Targets))
	for i, t := range s.Targets {
		if _, again := at[t.URL]; again {
			return fmt.Errorf("%s: the run had %s as several targets, and its records do not say which of them was asked", dir, t.URL)
		}
		at[t.URL], urls[i] = i, t.URL
	}
	c := metrics.NewCollector(urls, slos...)
	n, err := EachRecord(dir, func(r *record.Record) {
		target, ok := at[r.Target]
		if !ok {
			target = -1 // it never had one
		}
		c.Add(r, target)
	})
	if errors.Is(err, ErrNoResults) {
		return fmt.Errorf("%s has no %s, by which other SLOs are counted", dir, RequestsName)
	}
	if err != nil {
		return err
	}
	c.Goodput(s)
	if lost := s.Requests.Planned - n; lost > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("goodput was counted without %s that %s lacks", human.Many(lost, "record"), RequestsName))
	}
	return nil
}

// goodput prints the requests that met the SLOs, and how often each was
// missed; nothing without SLOs.
func (p *page) goodput(g *metrics.Goodput) {
	if g == nil {
		return
	}
	share := ""
	if g.Share != nil {
		share = human.Percent(*g.Share) + " of the planned"
	}
	p.Field("goodput", human.Rate(g.RequestsPerS)+" requests/s", count(g.Requests, "good"), share)
	var missed []string
	for _, l := range metrics.Latencies() {
		if ms, ok := g.SLO[l.Name+"_ms"]; ok {
			slo := l.Label + " ≤ " + strconv.FormatFloat(ms, 'f', -1, 64) + " ms"
			missed = append(missed, count(g.Missed[l.Name], slo)+without(g.Unmeasured[l.Name]))
		}
	}
	p.Field("missed", append(missed, some(g.Failed, "failed"))...)
}

// without says how many requests missed an SLO for lack of a number.
func without(n int64) string {
	if n == 0 {
		return ""
	}
	return " (" + count(n, "have none") + ")"
}

func goodputCells(t *metrics.Target) []string {
	g := t.Goodput
	if g == nil || g.Share == nil {
		return []string{"–", "–", "–  "}
	}
	return []string{human.Count(g.Requests), human.Rate(g.RequestsPerS), human.Percent(*g.Share)}
}
