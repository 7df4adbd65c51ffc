package collect

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/bench/worlds"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// endedBy replays a run until u ends it, and returns how many requests that took. holds tells whether the interval at the
// end holds a value in ms.
func endedBy(u *Precision, all []record.Record) (n int, holds func(ms float64) bool) {
	c := NewCollector([]string{"http://a"})
	for n = 0; n < len(all) && !u.Look(c); n++ {
		c.Add(&all[n], 0)
	}
	u.End(c)
	s := summaryOf(all[:n])
	interval, _ := s.Interval(latencies[u.latency].Key, u.perMille)
	return n, func(ms float64) bool { return interval != nil && interval[0] <= ms && ms <= interval[1] }
}

// truthOf is a percentile of the first n requests of many runs of a world, in ms. meanwhile: their servers are in the
// state of run 0 all along.
func truthOf(w worlds.World, seed uint64, all, n int, quantile float64, meanwhile bool) float64 {
	var values []float64
	for k := range uint64(40) {
		run := w.Run(seed, 1000+k, all, 1)
		if meanwhile {
			run = w.Again(seed, 0, k, all)
		}
		for _, q := range run[:n] {
			if q.OK {
				values = append(values, q.TTFT)
			}
		}
	}
	slices.Sort(values)
	return values[int(math.Ceil(quantile*float64(len(values))))-1]
}

// TestUntilInWorlds: the interval of a run that ended since it was narrow holds the truth of the requests that were
// sent. With FASTREPLAY_WORLDS=300 it judges so many runs of each world, and prints all shares; otherwise one of three
// worlds. TestIntervalsInWorlds has the same for runs of fixed length.
//
// Worlds in which each run draws something once are left out: no run tells what others drew. Where a server changes
// more slowly than a run, the truth that is demanded is that of the server as it was meanwhile.
func TestUntilInWorlds(t *testing.T) {
	seeds, n := 1, 1600
	text := os.Getenv("FASTREPLAY_WORLDS")
	if text != "" {
		seeds, _ = strconv.Atoi(text)
		n = 3200
	}
	slow := []string{"walk", "walk-4", "walk-8", "correlated-5", "correlated-20", "wave-half", "wave-1"}
	for _, w := range worlds.Worlds() {
		few := slices.Contains([]string{"independent", "turns-4", "queue-50"}, w.Name)
		if len(w.Once) > 0 || text == "" && !few {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			for _, of := range []string{"p50±4%", "p95±8%", "p99±20%"} {
				var reached, covers, meanwhile worlds.Share
				after := 0
				for seed := range uint64(seeds) {
					u := must.Have(ParseUntil("ttft." + of))(t)
					at, holds := endedBy(u, recordsOf(w.Kept().Run(seed, 0, n, 1)))
					if reached.Add(u.Reached); u.Reached {
						after += at
						q := float64(u.perMille) / 1000
						covers.Add(holds(truthOf(w.Kept(), seed, n, at, q, false)))
						meanwhile.Add(holds(truthOf(w.Kept(), seed, n, at, q, true)))
					}
				}
				if text != "" {
					fmt.Printf("%-14s %-8s stopped %-20s after %-5d covers %-20s meanwhile %s\n", w.Name, of, reached,
						after/max(1, reached.Hits), covers, meanwhile)
				}
				if slices.Contains(slow, w.Name) {
					covers = meanwhile
				}
				if _, high := covers.Wilson(); high < 0.94 {
					t.Errorf("%s: %s of the intervals at the stop hold the truth", of, covers)
				}
			}
		})
	}
}

// TestUntil: it looks at doublings, ends at a narrow interval that was not much wider before, and says why there is none.
func TestUntil(t *testing.T) {
	run := func(text string, n int, ttft func(i int) int64) *Precision {
		u := must.Have(ParseUntil(text))(t)
		var all []record.Record
		for i := range n {
			all = append(all, answeredAfter(int64(i)*1e6, 0, ttft(i), record.None))
		}
		endedBy(u, all)
		return u
	}
	mixed := func(i int) int64 { return 1e8 + int64(i*7919%1000)*1e5 } // 100 to 200 ms
	if u := run("ttft.p50±10%", 5000, mixed); !u.Reached || u.Requests != 800 || u.PlusMinus > 0.1 {
		t.Errorf("%+v", u)
	}
	if u := run("TTFT.p99 +- 5 %", 5000, mixed); !u.Reached || u.Requests != 3200 {
		t.Errorf("%+v", u)
	}
	u := run("ttft.p50+/-0.1%", 1000, mixed)
	if u.Reached || u.PlusMinus < 0.001 || !strings.Contains(u.Words(), "it may need about") {
		t.Errorf("%+v: %s", u, u.Words())
	}
	u = run("ttft.p50±10%", 1000, func(i int) int64 { return int64(1+i) * 1e8 })
	if u.Reached || u.Unknown != stats.Dependent || !strings.Contains(u.Words(), "for longer") {
		t.Errorf("%+v: %s", u, u.Words())
	}
	if u := run("ttft.p50±10%", 20, mixed); u.Reached || u.Unknown != stats.TooFew {
		t.Errorf("%+v", u)
	}
	for _, text := range []string{"ttft.p99", "ttft.p99±5", "ttft.p99±0%", "ttft.p99±-5%", "ttft.p99±100%", "ttft.mean±5%",
		"itl.p99±5%", "goodput±5%", "nothing.p99±5%", "ttft.p99±%", "ttft.p99<5%"} {
		expect.Refused(ParseUntil(text))(t, "", text)
	}
}
