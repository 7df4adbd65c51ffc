package main

import (
	"fmt"
	"slices"
	"strconv"
)

const (
	burstName  = "burst/28x50kB"
	burstSize  = 28
	burstRatio = "last one's drift / writes before it"
)

func burstScenarios() []scenario {
	return []scenario{{burstName, "bursts of 28 requests of 50 kB at one instant, 200 ms apart; two lanes too where there are any", runBurst}}
}

func runBurst(r *round) error {
	bursts := 20
	if r.quick {
		bursts = 3
	}
	path, err := r.trace("--rows", strconv.Itoa(bursts*burstSize), "--rate", strconv.Itoa(5*burstSize), "--arrival", "constant",
		"--burst", strconv.Itoa(burstSize), "--burst-every", strconv.Itoa(burstSize), "--input-tokens", "8300", "--output-tokens", "4", "--seed", "1")
	if err != nil {
		return err
	}
	m, err := r.serve(nil, "--ttft", "20ms")
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }()
	var subjects []subject
	add := func(who string, mode mode, args ...string) {
		subjects = append(subjects, subject{who, func() error { return r.measureBursts(who, mode, m.url, append(args, "--trace", path)...) }})
	}
	for _, mode := range r.modes() {
		add(us(mode), mode)
	}
	if r.has("--lanes") {
		add(us(r.best())+", two lanes", r.best(), "--lanes", "2")
	} else {
		r.skip("two lanes: fastreplay has no --lanes")
	}
	return r.alternate(subjects...)
}

func (r *round) measureBursts(who string, m mode, url string, args ...string) error {
	o, err := r.replay(m.prefix, url, append([]string{"--realtime", m.realtime}, args...)...)
	if err != nil {
		return err
	}
	last, ratios, err := burstsOf(o.lines)
	if err != nil {
		return err
	}
	slices.Sort(last)
	r.put(who, "last one's drift, median of bursts", nanoseconds, percentile(last, 0.5))
	r.put(who, "worst", nanoseconds, percentile(last, 1))
	r.put(who, burstRatio, ratio, median(ratios))
	r.putClient(who, o)
	return nil
}

// burstsOf finds, for each burst, the drift of the request that left last, and how many times that is of the time that
// the writes before it took.
func burstsOf(lines []line) (last []int64, ratios []float64, err error) {
	groups := map[int64][]*line{}
	for i := range lines {
		l := &lines[i]
		if l.SentNS == nil || l.WrittenNS == nil {
			return nil, nil, fmt.Errorf("request %s of a burst was not sent whole (%s)", l.RequestID, l.Outcome)
		}
		groups[l.PlannedNS] = append(groups[l.PlannedNS], l)
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b *line) int { return int(*a.SentNS - *b.SentNS) })
		end := g[len(g)-1]
		writes := int64(0)
		for _, l := range g[:len(g)-1] {
			writes += *l.WrittenNS - *l.SentNS
		}
		last = append(last, *end.DriftNS)
		if writes > 0 {
			ratios = append(ratios, float64(*end.DriftNS)/float64(writes))
		}
	}
	return last, ratios, nil
}
