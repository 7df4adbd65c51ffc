package collect

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/bench/worlds"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// lossOf is what tells that a run of so many requests is lost, which its time ends if endNS is not 0.
func lossOf(t *testing.T, text string, planned, endNS int64) *Loss {
	t.Helper()
	l := must.Have(ParseLoss(text, planned, endNS))(t)
	return l
}

// lostAfter is after how many of a run's records it is lost; 0 = never.
func lostAfter(l *Loss, all []record.Record) int {
	for i := range all {
		l.Add(&all[i])
		if l.Lost(all[i].DoneNS, 0) {
			return i + 1
		}
	}
	return 0
}

// TestLossInWorlds: in each world, a run whose limit is the true percentile is ended in at most 5 % of the runs, and no
// run is ended whose own percentile is within the limit. With FASTREPLAY_WORLDS=300 it judges so many runs of each
// world and prints all shares; otherwise one.
func TestLossInWorlds(t *testing.T) {
	seeds, n := 1, 300
	text := os.Getenv("FASTREPLAY_WORLDS")
	if text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		n = 1000
	}
	var all worlds.Share
	for _, w := range worlds.Worlds() {
		t.Run(w.Name, func(t *testing.T) {
			for _, p := range judgedPercentiles {
				key := fmt.Sprintf("ttft.p%g", float64(p)/10)
				var lost, timed worlds.Share
				for seed := range uint64(seeds) {
					truth := w.Value(seed, 0, n, worlds.Stat{Metric: worlds.TTFT, Of: float64(p) / 1000})
					run := recordsOf(w.Run(seed, 0, n, 1))
					slices.SortFunc(run, func(a, b record.Record) int { return cmp.Compare(a.DoneNS, b.DoneNS) })
					loss := fmt.Sprintf("%s>%gms", key, truth)
					byPlan := lostAfter(lossOf(t, loss, int64(n), 0), run)
					byTime := lostAfter(lossOf(t, loss, 100*int64(n), run[n-1].DoneNS), run)
					lost.Add(byPlan > 0)
					timed.Add(byTime > 0)
					all.Add(byPlan > 0)
					all.Add(byTime > 0)
					if byPlan > 0 || byTime > 0 {
						if v := *verdict.Value(summaryOf(run), key); v*1e6 <= math.Floor(truth*1e6) {
							t.Errorf("seed %d: ended after %d, by time %d, and %s is %g, within %g", seed, byPlan, byTime, key, v, truth)
						}
					}
				}
				if text != "" {
					fmt.Printf("%-14s p%-4g ended %s, by time %s\n", w.Name, float64(p)/10, lost, timed)
				}
			}
		})
	}
	if low, _ := all.Wilson(); low > 5*mostChance {
		t.Errorf("%s of the runs at their limit were ended", all)
	}
}

// TestLoss: a run is ended as soon as it is lost, and what is in flight counts.
func TestLoss(t *testing.T) {
	slow, fast := answeredAfter(0, 0, 6e9, record.None), answeredAfter(0, 0, 1e9, record.None)
	var all []record.Record
	for range 1000 {
		all = append(all, slow)
	}
	if at := lostAfter(lossOf(t, "ttft.p95>5s", 1000, 0), all); at <= 50 || at > 150 {
		t.Errorf("all slow: lost after %d of 1,000", at)
	}
	l := lossOf(t, "ttft.p95>5s", 1000, 0)
	for range 900 {
		l.Add(&fast)
	}
	if l.Lost(0, 50) || l.Lost(0, 40) {
		t.Error("lost, though p95 may be within the limit")
	}
	l = lossOf(t, "ttft.p95>5s", 1000, 0)
	if l.Lost(0, 50) || !l.Lost(0, 200) {
		t.Error("50 in flight, or 200")
	}
	for _, c := range []struct {
		now, planned, sent, first int64
		want                      bool
	}{
		{6e9, 0, 0, record.None, true},
		{6e9, 0, 2e9, record.None, false},
		{9e9, 0, 0, 4e9, false},
		{9e9, 0, 0, 6e9, true},
		{9e9, 0, record.None, record.None, false},
	} {
		expect.Equal(t, l.Exceeds(c.now, c.planned, c.sent, c.first), c.want, "%+v", c)
	}
	failed := slow
	failed.Outcome = record.Reset
	errors := lossOf(t, "error_rate>20%", 100, 0)
	l = lossOf(t, "ttft.p95>5s", 100, 0)
	for range 100 {
		errors.Add(&failed)
		l.Add(&failed)
	}
	if !errors.Lost(0, 0) || l.Lost(0, 0) {
		t.Error("failures count as latencies, or not as failures")
	}
	for _, text := range []string{"ttft.p95", "ttft.p95<5s", "ttft.mean>5s", "itl.p99>1s", "nothing.p95>1s",
		"ttft.p95>-1s", "error_rate>0", "error_rate<5%"} {
		expect.Refused(ParseLoss(text, 10, 0))(t, "", text)
	}
}

// TestLossByTime: of a run that its time ends, no one knows how many requests it will have. It is lost once twice as
// many as in its best section could not save it, and not before.
func TestLossByTime(t *testing.T) {
	const planned, perSection, sectionNS = 1_000_000, 100, int64(time.Second)
	slow := answeredAfter(0, 0, 6e9, record.None)
	var all []record.Record
	for i := range int64(20 * perSection) {
		slow.DoneNS = i * sectionNS / perSection
		all = append(all, slow)
	}
	at := lostAfter(lossOf(t, "ttft.p50>5s", planned, 20*sectionNS), all)
	// n sections of 100 above the limit: 100 n > 0.5 (100 n + 200 (20 - n)), so n > 40/3
	if at < 13*perSection || at > 15*perSection {
		t.Errorf("lost after %d", at)
	}
	expect.Equal(t, lostAfter(lossOf(t, "ttft.p50>5s", planned, 0), all), 0, "without an end")
	l := lossOf(t, "ttft.p50>5s", planned, 20*sectionNS)
	for i := range at {
		l.Add(&all[i])
	}
	expect.Contains(t, l.Words(all[at-1].DoneNS, 0), "twice as much as at their best", "why")
}

// TestCanLose: who could never be lost says so, by a run whose requests are all above the limit.
func TestCanLose(t *testing.T) {
	for text, want := range map[string]map[int64]bool{
		"ttft.p50>1s":    {1: false, 4: false, 20: true, 1000: true, 1e9: true},
		"ttft.p99>1s":    {1: false, 10: true, 1000: true},
		"error_rate>20%": {20: true},
		"error_rate>90%": {20: false, 1000: false, 1e9: false}, // nine tenths fail by chance so often that no bet tells
	} {
		for planned, can := range want {
			l := must.Have(ParseLoss(text, planned, 0))(t)
			if l.CanLose() != can || l.Judged() {
				t.Errorf("%s of %d requests: can be lost is %v", text, planned, !can)
			}
			r := answered()
			r.FirstTokenNS = record.None
			if l.Add(r); l.Judged() != strings.HasPrefix(text, "error_rate") {
				t.Errorf("%s: a request without a TTFT: judged %v", text, l.Judged())
			}
		}
	}
}
