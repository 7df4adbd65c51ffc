package capacity

import (
	"fmt"
	"math"

	"github.com/fastreplay/fastreplay/engine/format"
)

const (
	// wrong bounds the chance of each wrong end of a probe, though it may be looked at after every slice.
	wrong = 0.01
	// wrongAtEnd is the same for the verdict of a probe whose window is over.
	wrongAtEnd = 0.05
	// leastSlices is after how many slices a probe may end.
	leastSlices = 6
)

// Look tells whether a probe may end by now. It may be asked at any time, as often as one likes.
//
// The evidence against "the share beyond is as allowed" is a mixture of likelihood ratios, an e-value: by Ville's inequality it
// ever reaches 1/wrong with a chance of at most wrong. Its counts are divided by the effect of requests that share their fate.
func (s *Search) Look(p Probe, look Look) Decision {
	level := wrong
	if look.Ended {
		level = wrongAtEnd
	} else if len(look.Slices) < leastSlices {
		return Decision{}
	}
	grows := backlogGrows(look.Slices)
	holds, largest := true, math.Inf(-1)
	var worst string
	for j := range s.config.Objectives {
		o := &s.config.Objectives[j]
		low := s.tally(p, look.Slices, j, false)
		over := low.beyond / max(1, low.n) / o.Allowed
		if e := evidence(low, o.Allowed); over > 1 && e >= math.Log(1/level) {
			return Decision{true, Breaks, o.words(low) + growth(grows)}
		}
		high := s.tally(p, look.Slices, j, true)
		if e := evidence(high, o.Allowed); high.beyond >= o.Allowed*high.n || e < math.Log(1/level) {
			holds = false
		}
		if over > largest {
			largest, worst = over, o.words(high)
		}
	}
	switch {
	case holds && (look.Ended || !grows):
		return Decision{true, Holds, worst}
	case look.Ended:
		return Decision{true, Edge, worst + ", which is too near to tell"}
	}
	return Decision{}
}

func growth(grows bool) string {
	if grows {
		return ", and the backlog grows"
	}
	return ""
}

// words tell what a tally shows.
func (o *Objective) words(t tally) string {
	return fmt.Sprintf("%s of %s are beyond %s, which allows %s", format.Percent(t.beyond/max(1, t.n)), format.Many(int64(t.n), "request"), o.Text, format.Percent(o.Allowed))
}

// tally counts what slices show of objective j. Of a probe that goes on, requests that are open count as beyond, or as nothing.
func (s *Search) tally(p Probe, slices []Slice, j int, openBeyond bool) tally {
	t := tally{x: s.x(p.Load)}
	beyond := make([]float64, len(slices))
	n := make([]float64, len(slices))
	for i := range slices {
		n[i], beyond[i] = float64(slices[i].Requests), float64(slices[i].Beyond[j])
		if openBeyond {
			n[i] += float64(slices[i].Open)
			beyond[i] += float64(slices[i].Open)
		}
		t.n += n[i]
		t.beyond += beyond[i]
	}
	own, batches := effect(n, beyond)
	const doubt = 8 // batches
	t.effect = max(1, (own*batches+s.effects[j]*doubt)/(batches+doubt))
	return t
}

// evidence is the logarithm of the e-value against a share beyond of allowed.
func evidence(t tally, allowed float64) float64 {
	n, b := t.n/t.effect, t.beyond/t.effect
	return logBeta(b+0.5, n-b+0.5) - logBeta(0.5, 0.5) - b*math.Log(allowed) - (n-b)*math.Log1p(-allowed)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// effect estimates by how much the variance of the count beyond exceeds that of independent requests, from batches of slices:
// the variance of batch means, corrected for batches that are no longer than what they share (lugsail, Vats and Flegal 2022).
func effect(n, beyond []float64) (effect, batches float64) {
	sumN, sumB := 0.0, 0.0
	for i := range n {
		sumN, sumB = sumN+n[i], sumB+beyond[i]
	}
	if sumB == 0 || sumN == 0 || sumB == sumN {
		return 1, 0
	}
	const most = 16
	mean := sumB / sumN
	length := (len(n) + most - 1) / most
	long, batches := variance(n, beyond, mean, max(1, length))
	if length >= 3 {
		short, _ := variance(n, beyond, mean, length/3)
		long = max(long, 2*long-short)
	}
	if batches < 2 {
		return 1, 0
	}
	return long / (sumN * mean * (1 - mean)), batches - 1
}

// variance is that of the sum of beyond, from what batches of so many slices differ by.
func variance(n, beyond []float64, mean float64, length int) (v, batches float64) {
	for i := 0; i < len(n); i += length {
		d := 0.0
		for k := i; k < min(i+length, len(n)); k++ {
			d += beyond[k] - mean*n[k]
		}
		v += d * d
		batches++
	}
	return v * batches / max(1, batches-1), batches
}

// backlogGrows tells whether the requests in flight become more and more: they drift upwards by more than a random walk would.
func backlogGrows(slices []Slice) bool {
	const parts = 8
	if len(slices) < parts {
		return false
	}
	var level [parts]float64
	var count [parts]float64
	for i := range slices {
		part := i * parts / len(slices)
		level[part] += slices[i].InFlight
		count[part]++
	}
	sum, squares := 0.0, 0.0
	for i := range level {
		level[i] /= count[i]
		if i > 0 {
			d := level[i] - level[i-1]
			sum, squares = sum+d, squares+d*d
		}
	}
	const steps = parts - 1
	spread := squares/steps - sum/steps*sum/steps
	return level[parts-1] > 1.3*level[0]+1 && sum > 2.5*math.Sqrt(max(0, spread)*steps)
}
