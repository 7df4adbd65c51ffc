package capacity

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// confirmation is the latest one; nil if there was none.
func (s *Search) confirmation() *Outcome {
	for _, o := range slices.Backward(s.served) {
		if o.Confirm {
			return o
		}
	}
	return nil
}

// confirmed tells whether the latest confirmation held, at such a load or a harder one.
func (s *Search) confirmed(logLoad float64) bool {
	c := s.confirmation()
	return c != nil && c.Verdict == Holds && s.logLoad(c.Load) >= logLoad-1e-9
}

// unconfirmed is the load that is to be confirmed: the bound of the answer on the easy side. It is 0 if there is none,
// or if too little of the budget is left. It is also 0 if that load, or a harder one, held in a confirmation.
func (s *Search) unconfirmed() float64 {
	last := s.last()
	_, easy, _ := s.bounded()
	if easy == nil || *easy == 0 || last == nil || last.Client != "" || len(s.outcomes) > mostProbes {
		return 0
	}
	load := s.load(s.logLoad(*easy))
	leastS := s.config.WindowS / 2
	if s.confirmation() != nil {
		leastS = confirmWindows * s.config.WindowS
	}
	least, _ := s.bounds()
	late := s.config.Budget > 0 && s.leftS()-s.besidesS() < leastS
	if late || s.logLoad(load) < least-1e-9 || s.confirmed(s.logLoad(load)-s.config.Precision) {
		return 0
	}
	return load
}

// parts are into how many a confirmation is divided.
const parts = 16

// hangsOnOne says that a confirmation held only since one of its parts came once; "" if it would have held with three
// of each. How often such a part comes is not known from so few. It is a pause or a timer, with about as long between
// them as the confirmation lasts.
func (s *Search) hangsOnOne(c *Outcome) string {
	n := len(c.Slices)
	if n < 2*parts {
		return ""
	}
	for j, o := range s.config.Objectives {
		all := count(c.Slices, j)
		for i := range parts {
			part := count(c.Slices[i*n/parts:(i+1)*n/parts], j)
			if all.beyond+2*part.beyond > o.Allowed*(all.n+2*part.n) {
				return fmt.Sprintf(
					"In the confirmation much of what missed %s came within %s: had that come three times, "+
						"the objective would have broken. A larger --budget would tell how often it comes.",
					o.Text, format.Span(c.lasted()/parts))
			}
		}
	}
	return ""
}

// doubt is why an interval may be wrong though its confirmation held: the servers changed while it lasted. "" if they
// did not. warmer: they became faster, so nothing bounds what they carry when they are warm. Requests in flight for
// each that comes are how long one takes (Little, 1961), which needs no request that is late.
func doubt(c *Outcome) (why string, warmer bool) {
	n := len(c.Slices)
	if n < 2*parts {
		return "", false
	}
	took := make([]float64, parts)
	for i := range took {
		came := 0.0
		for _, s := range c.Slices[i*n/parts : (i+1)*n/parts] {
			took[i] += s.InFlight
			came += float64(s.Requests)
		}
		took[i] /= max(1, came)
	}
	if backlogGrows(c.Slices) {
		return "Requests in flight grew all through the confirmation, so the load may not hold for longer; " +
			"a larger --budget, or a longer trace, would tell.", false
	}
	for first := 2; first <= parts/2-2; first++ {
		early, _ := stats.Moments(took[:first])
		late, _ := stats.Moments(took[first:])
		if early > 1.15*late && longer(took[:first], took[first:]) {
			return fmt.Sprintf(
				"In the confirmation requests took %s times as long at first as later. Servers that are "+
					"warm may carry more; a longer --warm-in, such as %s, would tell.", format.Number(early/late, 2),
				format.Span(math.Ceil(float64(first+1)*c.lasted()/parts/60)*60)), true
		}
	}
	return "", false
}

// slows says that the servers got slower while a confirmation lasted. Each token took ever longer, which no queue
// causes, and by more than the requests beside it explain. "" if they did not.
func slows(c *Outcome) string {
	n := len(c.Slices)
	if n < 2*parts {
		return ""
	}
	took := make([]float64, parts) // for a token
	beside := make([]float64, parts)
	came := make([]float64, parts)
	for i := range took {
		var sum, timed float64
		for _, s := range c.Slices[i*n/parts : (i+1)*n/parts] {
			sum += s.TPOTMS
			timed += float64(s.Timed)
			beside[i] += s.InFlight
			came[i] += float64(s.Requests)
		}
		if timed == 0 {
			return ""
		}
		took[i] = sum / timed
	}
	// what more requests beside it cost a token, by neighbours, whose differences hold nothing of a slow change
	var across, along float64
	for i := range parts - 1 {
		step := beside[i+1] - beside[i]
		across += step * step
		along += step * (took[i+1] - took[i])
	}
	if across > 0 {
		for i := range took {
			took[i] -= along / across * (beside[i] - beside[0])
		}
	}
	rise := func(of []float64) float64 {
		first, _ := stats.Moments(of[:parts/4])
		last, _ := stats.Moments(of[parts-parts/4:])
		return last/first - 1
	}
	const (
		surely   = 4    // Student's t, of 14 degrees of freedom
		least    = 0.01 // of a token's time
		moreLoad = 0.25 // of requests, which may be all of it
	)
	if rise(came) > moreLoad || rise(took) < least || stats.TrendT(took) < surely {
		return ""
	}
	return fmt.Sprintf("In the confirmation each token took ever longer, by %s from its first quarter to its last. "+
		"Servers that get slower with their age carry as much for that long alone: a larger --budget, or a replay as "+
		"long as they are to run, would tell.", format.Percent(math.Round(1000*rise(took))/1000))
}

// longer tells whether a is above b by the ranks of both (H. Mann and D. Whitney, 1947): a queue that is long by chance
// makes a few values very large, and no others. TestWarm says how often a queue does it all the same.
func longer(a, b []float64) bool {
	above := 0.0 // pairs
	for _, v := range a {
		for _, w := range b {
			switch {
			case v > w:
				above++
			case v == w:
				above += 0.5
			}
		}
	}
	n := float64(len(a))
	m := float64(len(b))
	const surely = 2.2 // standard deviations
	return above-n*m/2 >= surely*math.Sqrt(n*m*(n+m+1)/12)
}

// part is the part of the trace that the probe nearest to a load measured, the confirmation aside.
func (s *Search) part(load float64) (part *Part) {
	nearest := math.Inf(1)
	for _, o := range s.outcomes {
		away := math.Abs(math.Log(o.Load / load))
		if o.Part != nil && !o.Confirm && (part == nil || away < nearest) {
			nearest = away
			part = o.Part
		}
	}
	return part
}
