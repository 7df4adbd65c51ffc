package capacity

import "math"

// counts is what a probe, or a part of one, shows of an objective. Requests that are near each other in time are
// correlated, so that many of them say as much as fewer independent ones. designEffect is how many times fewer.
type counts struct {
	logLoad      float64 // log of the load, or minus it with Falling: more is harder
	n, beyond    float64 // requests
	open         float64 // of n, that had not ended
	variance     float64 // of beyond, as its slices differ
	independent  float64 // the same if requests were independent
	parts        float64 // about how many slices were independent of each other; 0 if they show nothing of variance
	grows        bool    // a backlog grew
	designEffect float64 // variance over independent, as it is taken to be; at least 1
	weight       float64 // 0 to 1: how far the line of the fit may be trusted from there to the edge
	// logit above which the line may lie as it likes: where most requests are beyond, others may never be
	most float64
	// logit below which the line may lie as it likes: where few are beyond, they may be so at any load
	least float64
}

// count counts slices for objective j. Open requests count as not beyond: those that were decided first may be the
// worst.
func count(all []Slice, j int) (t counts) {
	n := make([]float64, len(all))
	beyond := make([]float64, len(all))
	for i := range all {
		of := all[i].of(j)
		n[i] = float64(of.Requests + of.Open)
		beyond[i] = float64(all[i].Beyond[j])
		t.n += n[i]
		t.open += float64(of.Open)
		t.beyond += beyond[i]
	}
	if t.beyond > 0 && t.beyond < t.n && len(all) > 1 {
		t.spread(n, beyond)
	}
	return t
}

// decided are the slices up to the last before which open requests are too few to matter for objective j. A quarter of
// what is allowed is too few.
func decided(all []Slice, j int, allowed float64) []Slice {
	var n, open float64
	upTo := 0
	for i := range all {
		of := all[i].of(j)
		n += float64(of.Requests + of.Open)
		open += float64(of.Open)
		if open <= allowed/4*n {
			upTo = i + 1
		}
	}
	return all[:upTo]
}

// spread estimates the variance of beyond. Slices that follow each other are alike. So autocovariances are summed in
// pairs while they fall and are above 0 (the initial monotone sequence of Geyer, 1992).
func (t *counts) spread(n, beyond []float64) {
	mean := t.beyond / t.n
	covariance := func(lag int) (sum float64) {
		for i := lag; i < len(n); i++ {
			sum += (beyond[i] - mean*n[i]) * (beyond[i-lag] - mean*n[i-lag])
		}
		return sum
	}
	v := -covariance(0)
	least := math.Inf(1)
	lag := 0
	for ; lag+1 < len(n); lag += 2 {
		least = min(least, covariance(lag)+covariance(lag+1))
		if least <= 0 {
			break
		}
		v += 2 * least
	}
	slices := float64(len(n))
	alike := float64(2*lag + 1)
	t.variance = max(v, covariance(0)) * slices / max(1, slices-alike)
	t.independent = t.n * mean * (1 - mean)
	t.parts = slices / alike
}

// share is the part that is beyond; 0 without requests.
func (t *counts) share() float64 {
	return t.beyond / max(1, t.n)
}

// evidence is the logarithm of the evidence against a share beyond of allowed: a mixture of likelihood ratios, which is
// an e-value. By Ville's inequality it ever reaches 1/level with a chance of at most level, if one peeks as often as
// one likes.
func (t *counts) evidence(allowed float64) float64 {
	n := t.n / t.designEffect
	b := t.beyond / t.designEffect
	return logBeta(b+0.5, n-b+0.5) - logBeta(0.5, 0.5) - b*math.Log(allowed) - (n-b)*math.Log1p(-allowed)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}
