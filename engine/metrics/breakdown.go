package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// maxParts bounds the parts of a breakdown, each of which has histograms.
const maxParts = 1024

// breakdown counts by who got a request. It belongs to the recorder.
type breakdown struct {
	parts map[string]*partCounts
	rest  int64 // requests of parts beyond maxParts
}

type partCounts struct {
	requests, ok    int64
	ttft, tpot, e2e *Distribution
	cache           cacheCounts
}

// add counts one finished request; one of nobody's is left out.
func (b *breakdown) add(name string, r *record.Record) {
	if name == "" {
		return
	}
	p := b.parts[name]
	if p == nil {
		if len(b.parts) == maxParts {
			b.rest++
			return
		}
		p = &partCounts{ttft: NewDistribution(), tpot: NewDistribution(), e2e: NewDistribution()}
		if b.parts == nil {
			b.parts = map[string]*partCounts{}
		}
		b.parts[name] = p
	}
	p.requests++
	if r.Outcome != record.OK {
		return
	}
	p.ok++
	addKnown(p.ttft, r.TTFTNS())
	addKnown(p.tpot, r.TPOTNS())
	addKnown(p.e2e, r.E2ENS())
	p.cache.add(r)
}

// summary is nil with fewer than least parts.
func (b *breakdown) summary(least int) *Breakdown {
	if len(b.parts) < least {
		return nil
	}
	out := &Breakdown{Parts: []Part{}, Rest: b.rest}
	all := b.rest
	for name, p := range b.parts {
		all += p.requests
		part := Part{
			Name: name, Requests: p.requests, OK: p.ok, Failed: p.requests - p.ok,
			TTFTMS: p.ttft.Percentiles(1e6), TPOTMS: p.tpot.Percentiles(1e6), E2EMS: p.e2e.Percentiles(1e6),
		}
		if p.cache.reports > 0 {
			part.ReportedHitRatio = ratio(p.cache.reported, p.cache.prompt)
		}
		out.Parts = append(out.Parts, part)
	}
	slices.SortFunc(out.Parts, func(x, y Part) int { return strings.Compare(x.Name, y.Name) })
	for i := range out.Parts {
		out.Parts[i].Share = float64(out.Parts[i].Requests) / float64(all)
	}
	out.CV = unevenness(out.Parts)
	return out
}

// unevenness is the coefficient of variation of the parts' requests; nil below two parts.
func unevenness(parts []Part) *float64 {
	if len(parts) < 2 {
		return nil
	}
	sum, squares := 0.0, 0.0
	for _, p := range parts {
		sum += float64(p.Requests)
	}
	mean := sum / float64(len(parts))
	for _, p := range parts {
		squares += (float64(p.Requests) - mean) * (float64(p.Requests) - mean)
	}
	cv := math.Sqrt(squares/float64(len(parts))) / mean
	return &cv
}

// What counts as uneven: a variation above evenCV, and above three times that which chance gives to parts that are
// equally likely.
const (
	evenCV       = 0.1
	chanceFactor = 3
)

// unevenNotes names a spread over instances that is not even. Addresses get what the router gave them, which is even by itself.
func unevenNotes(s *Summary) []string {
	b := s.Instances
	if b == nil || b.CV == nil {
		return nil
	}
	requests := int64(0)
	for _, p := range b.Parts {
		requests += p.Requests
	}
	byChance := math.Sqrt(float64(len(b.Parts)-1) / float64(requests))
	if *b.CV <= max(evenCV, chanceFactor*byChance) {
		return nil
	}
	most := slices.MaxFunc(b.Parts, func(x, y Part) int { return int(x.Requests - y.Requests) })
	least := slices.MinFunc(b.Parts, func(x, y Part) int { return int(x.Requests - y.Requests) })
	return []string{fmt.Sprintf("requests are spread unevenly over %s: %s answered %s of them, %s %s; an even share is %s (coefficient of variation %.2f)",
		human.Many(int64(len(b.Parts)), "instance"), most.Name, human.Percent(most.Share), least.Name, human.Percent(least.Share),
		human.Percent(1/float64(len(b.Parts))), *b.CV)}
}
