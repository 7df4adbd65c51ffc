package collect

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// maxParts bounds the parts of a breakdown, each of which has histograms.
const maxParts = 1024

// partLatencies are the places in the table of those that parts have.
var partLatencies = metrics.LatenciesIn[metrics.PartLatencies]()

// breakdown counts by who got a request. It belongs to the recorder.
type breakdown struct {
	parts map[string]*partCounts
	slos  []metrics.SLO // by which good requests count; none = none
	rest  int64         // requests of parts beyond maxParts
	waits bool          // how long requests wait counts, too, and their ideal hits
	loads bool          // requests that come first at a target count, which it may have loaded something for
}

type partCounts struct {
	requests, ok int64
	good         int64                // of ok, within all bounds
	stopped      int64                // that were cancelled or not sent
	latencies    metrics.LatencyStats // those of partLatencies
	second       stats.Distribution   // from the first token chunk to the second
	cache        cacheCounts
	squares      float64 // sum of the squares of its ok requests' prompt tokens
	longestNS    int64   // that one of its requests waited for a token, or for its failure
	first        map[string]firstUse
}

// firstUse is the first request of a part at a target, as far as records have come.
type firstUse struct{ sentNS, ttftNS int64 }

// addWait counts how long a request waited.
func (b *breakdown) addWait(p *partCounts, r *record.Record) {
	if r.SentNS == record.None || stopped(r.Outcome) {
		return
	}
	ttft := latencies[metrics.TTFT].Of(r)
	wait := ttft
	if ttft == record.None {
		wait = r.DoneNS - r.SentNS
	}
	p.longestNS = max(p.longestNS, wait)
	if first, known := p.first[r.Target]; b.loads && (!known || r.SentNS < first.sentNS) {
		if p.first == nil {
			p.first = map[string]firstUse{}
		}
		p.first[r.Target] = firstUse{r.SentNS, ttft}
	}
}

// setWaits sets what part tells of waits.
func (p *partCounts) setWaits(part *metrics.Part) {
	part.LongestWaitMS = new(float64(p.longestNS) / 1e6)
	var ttfts []float64
	for _, first := range p.first {
		if first.ttftNS != record.None {
			ttfts = append(ttfts, float64(first.ttftNS)/1e6)
		}
	}
	if len(ttfts) > 0 {
		part.FirstTTFTMS = new(stats.Describe(ttfts, 1).P50)
	}
	if p.cache.Ideals == p.ok {
		part.ExpectedHitRatio = stats.Ratio(p.cache.Expected, p.cache.Prompt)
	}
}

// add counts one finished request; one of nobody's is left out, and so is one that the user left out.
func (b *breakdown) add(name string, r *record.Record) {
	if name == "" || r.LeftOut() {
		return
	}
	p := b.parts[name]
	if p == nil {
		if len(b.parts) == maxParts {
			b.rest++
			return
		}
		p = new(partCounts)
		if b.parts == nil {
			b.parts = map[string]*partCounts{}
		}
		b.parts[name] = p
	}
	p.requests++
	if stopped(r.Outcome) {
		p.stopped++
	}
	if b.waits {
		b.addWait(p, r)
	}
	if r.Outcome != record.OK {
		return
	}
	p.ok++
	if !slices.ContainsFunc(b.slos, func(o metrics.SLO) bool { return !o.Met(r) }) {
		p.good++
	}
	for _, l := range partLatencies {
		addKnown(&p.latencies[l], latencies[l].Of(r))
	}
	addKnown(&p.second, r.SecondGapNS)
	p.cache.add(r)
	n := float64(known(metrics.PromptTokens(r)))
	p.squares += n * n
}

// summary is nil with fewer than least parts. If the run was over before its requests, those that it ended did not
// fail.
func (b *breakdown) summary(least int, over bool) *metrics.Breakdown {
	if len(b.parts) < least {
		return nil
	}
	out := &metrics.Breakdown{Parts: []metrics.Part{}, Rest: b.rest}
	all := b.rest
	for name, p := range b.parts {
		all += p.requests
		failed := p.requests - p.ok
		if over {
			failed -= p.stopped
		}
		part := metrics.Part{
			Name:             name,
			Requests:         p.requests,
			OK:               p.ok,
			Failed:           failed,
			PromptTokens:     p.cache.Prompt,
			ReportedHitRatio: p.cache.hitRatio(),
		}
		part.SecondGapMS = p.second.Percentiles(1e6)
		if len(b.slos) > 0 {
			part.GoodShare = stats.Ratio(p.good, p.ok+failed)
		}
		if b.waits {
			p.setWaits(&part)
		}
		p.latencies.Fill(&part.PartLatencies)
		out.Parts = append(out.Parts, part)
	}
	slices.SortFunc(out.Parts, func(x, y metrics.Part) int { return natural(x.Name, y.Name) })
	for i := range out.Parts {
		out.Parts[i].Share = float64(out.Parts[i].Requests) / float64(all)
	}
	out.CV, _ = spreadOf(out.Parts, requestsOf, 0)
	out.TokensCV, _ = spreadOf(out.Parts, tokensOf, 0)
	out.JainTTFT = jainOfTTFT(out.Parts)
	return out
}

// jainOfTTFT is Jain's index (R. Jain, D. Chiu and W. Hawe, DEC-TR-301, 1984) of the mean TTFTs; nil of fewer than two,
// and if a part has none: it may wait for ever.
func jainOfTTFT(parts []metrics.Part) *float64 {
	sum := 0.0
	squares := 0.0
	for i := range parts {
		ttft := parts[i].TTFTMS
		if ttft == nil {
			return nil
		}
		sum += ttft.Mean
		squares += ttft.Mean * ttft.Mean
	}
	if len(parts) < 2 || squares == 0 {
		return nil
	}
	return new(sum * sum / (float64(len(parts)) * squares))
}

func requestsOf(p *metrics.Part) float64 { return float64(p.Requests) }

func tokensOf(p *metrics.Part) float64 { return float64(p.PromptTokens) }

// spreadOf returns the coefficient of variation of what the parts got. It is nil below two parts, or if none got
// anything. byChance is the variation that chance gives to N parts that are equally likely: √((N−1)·Σx²) / Σx. squares
// is Σx², where x is what a single request counts.
func spreadOf(parts []metrics.Part, got func(*metrics.Part) float64, squares float64) (cv *float64, byChance float64) {
	sum := 0.0
	each := make([]float64, len(parts))
	for i := range parts {
		each[i] = got(&parts[i])
		sum += each[i]
	}
	v, exists := stats.Variation(each)
	if len(parts) < 2 || !exists {
		return nil, 0
	}
	return &v, math.Sqrt(float64(len(parts)-1)*squares) / sum
}

// What counts as uneven: a variation above evenCV, and above three times that which chance gives.
const (
	evenCV       = 0.1
	chanceFactor = 3
)

// unevenNotes has a note if a gateway's spread over instances is not even, in requests or else in tokens. A balancer of
// connections, such as kube-proxy or IPVS, has placed so many of these.
func (b *breakdown) unevenNotes(parts []metrics.Part, connections int64) metrics.Notes {
	requests, tokens := 0.0, 0.0 // sums of squares
	for _, p := range b.parts {
		requests += float64(p.requests)
		tokens += p.squares
	}
	for _, of := range []struct {
		what    string
		got     func(*metrics.Part) float64
		squares float64
	}{{"requests are", requestsOf, requests}, {"prompt tokens are", tokensOf, tokens}} {
		cv, byChance := spreadOf(parts, of.got, of.squares)
		if cv == nil || *cv <= max(evenCV, chanceFactor*byChance) {
			continue
		}
		sum := 0.0
		for i := range parts {
			sum += of.got(&parts[i])
		}
		by := func(x, y metrics.Part) int { return cmp.Compare(of.got(&x), of.got(&y)) }
		most := slices.MaxFunc(parts, by)
		least := slices.MinFunc(parts, by)
		return metrics.NotesOf(
			"uneven",
			"%s spread unevenly over %s: %s answered %s of them, %s %s; an even share is %s (coefficient of "+
				"variation %.2f). They came over %s, which is what a balancer of connections sees",
			of.what, format.Many(len(parts), "instance"), most.Name,
			format.Percent(of.got(&most)/sum), least.Name, format.Percent(of.got(&least)/sum),
			format.Percent(1/float64(len(parts))), *cv, format.Many(connections, "connection"),
		)
	}
	return nil
}

// natural orders names as people do, digits by their value: mock-2 before mock-10. Names that are equal then are
// ordered as text.
func natural(x, y string) int {
	return cmp.Or(strings.Compare(padded(x), padded(y)), strings.Compare(x, y))
}

// padded is name with its numbers in as many digits as the longest may have.
func padded(name string) (out string) {
	for name != "" {
		text := name[:len(name)-len(strings.TrimLeftFunc(name, func(r rune) bool { return r < '0' || r > '9' }))]
		name = name[len(text):]
		rest := strings.TrimLeft(name, "0123456789")
		number := strings.TrimLeft(name[:len(name)-len(rest)], "0")
		if out += text; len(rest) < len(name) {
			out += strings.Repeat("0", max(0, 64-len(number))) + number
		}
		name = rest
	}
	return out
}
