package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

// TestByTime counts again request by request and step by step.
func TestByTime(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 3))
		urls := []string{"http://a", "http://b"}
		span := int64(1+rng.IntN(400)) * s
		type one struct {
			r      *record.Record
			target int
		}
		var list []one
		for range 500 {
			o := record.Outcome(rng.IntN(record.Outcomes) * rng.IntN(2))
			r := sentAt(rng.Int64N(span), o, rng.Int64N(3*s))
			if rng.IntN(3) > 0 {
				r.Instance = fmt.Sprintf("pod-%d", rng.IntN(3))
			}
			list = append(list, one{r, rng.IntN(3) - 1}) // some have no target
		}
		c, again := NewCollector(urls), NewCollector(urls)
		for _, x := range list {
			c.Add(x.r, x.target)
		}
		for _, i := range rng.Perm(len(list)) {
			again.Add(list[i].r, list[i].target)
		}
		got := c.ByTime()
		var end int64
		for _, x := range list {
			end = max(end, endOf(x.r))
		}
		width := int64(got[0].ToS * 1e9)
		steps := int(end/width) + 1
		if steps > mostSteps || width > s && end < width/2*30 {
			t.Fatalf("seed %d: %d steps of %d ns for %d", seed, steps, width, end)
		}
		if len(got) != 5*steps {
			t.Fatalf("seed %d: %d lines, want %d of 2 targets and 3 instances", seed, len(got), 5*steps)
		}
		for i, line := range got {
			from, to := int64(i%steps)*width, int64(i%steps+1)*width
			want := Step{FromS: float64(from) / 1e9, ToS: float64(to) / 1e9, Failed: map[string]int64{}}
			var ttft []int64
			flight := int64(0)
			for _, x := range list {
				if n := i / steps; n < 2 {
					want.Target = urls[n]
					if x.target != n {
						continue
					}
				} else if want.Instance = fmt.Sprintf("pod-%d", n-2); x.r.Instance != want.Instance {
					continue
				}
				at := x.r.PlannedNS
				if x.r.SentNS != record.None {
					flight += max(0, min(to, endOf(x.r))-max(from, at))
				}
				if at < from || at >= to {
					continue
				}
				want.Requests++
				if x.r.Outcome == record.OK {
					want.OK++
					ttft = append(ttft, x.r.FirstTokenNS-at)
				} else {
					want.Failed[x.r.Outcome.String()]++
				}
			}
			if math.Abs(line.InFlight-float64(flight)/float64(width)) > 1e-9 {
				t.Errorf("seed %d, line %d: %v in flight, want %v", seed, i, line.InFlight, float64(flight)/float64(width))
			}
			line.InFlight = 0
			if n := len(ttft); n > 0 {
				slices.Sort(ttft)
				p50, p99 := float64(ttft[(n+1)/2-1])/1e6, float64(ttft[int(math.Ceil(float64(n)*99/100))-1])/1e6
				want.TTFTP50, want.TTFTP99 = &p50, &p99
			}
			if !reflect.DeepEqual(line, want) {
				t.Fatalf("seed %d, line %d:\ngot  %+v\nwant %+v", seed, i, line, want)
			}
		}
		for i, line := range again.ByTime() { // but for the order of adding up
			line.InFlight, got[i].InFlight = 0, 0
			if !reflect.DeepEqual(line, got[i]) {
				t.Fatalf("in another order line %d is %+v, was %+v", i, line, got[i])
			}
		}
	}
}

func endOf(r *record.Record) int64 { return max(r.PlannedNS, r.LastTokenNS, r.DoneNS, r.FirstTokenNS) }

func TestStepWidth(t *testing.T) {
	for _, c := range []struct{ endS, want int64 }{{0, 1}, {59, 1}, {60, 2}, {119, 2}, {120, 5}, {600, 15}, {3600, 120}, {86400, 1800}, {216_000, 7200}, {1_000_000, 18000}} {
		if got := stepNS(c.endS*s) / s; got != c.want {
			t.Errorf("%d s: steps of %d s, want %d", c.endS, got, c.want)
		}
	}
}

// TestByTimeOfNothing: a run without a record.
func TestByTimeOfNothing(t *testing.T) {
	c := NewCollector([]string{"http://a"})
	if got := c.ByTime(); len(got) != 1 || got[0].Requests != 0 || got[0].TTFTP50 != nil {
		t.Errorf("%+v", got)
	}
}
