package sched

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func instants(t *testing.T, n int, a Arrivals) []int64 {
	t.Helper()
	at, err := a.Instants(n)
	must.Do(t, err, a)
	if at[0] != 0 || !slices.IsSorted(at) || len(at) != n {
		t.Fatalf("%+v: %d instants from %d on, want %d ascending from 0", a, len(at), at[0], n)
	}
	return at
}

// gapsOf are the gaps in means.
func gapsOf(at []int64, rate float64) []float64 {
	gaps := make([]float64, len(at)-1)
	for i := range gaps {
		gaps[i] = float64(at[i+1]-at[i]) * rate / 1e9
	}
	return gaps
}

// gammaCDF is that of the gamma distribution of mean 1 and shape k: its density k^k x^(k-1) e^(-kx)/Γ(k), integrated by
// Simpson's rule. For shapes below 1 that is over y = x^k, which takes away the pole at 0.
func gammaCDF(k, x float64) float64 {
	const steps = 1 << 10
	if x <= 0 {
		return 0
	}
	logGamma, _ := math.Lgamma(k)
	density := func(x float64) float64 { return math.Exp(k*math.Log(k) + (k-1)*math.Log(x) - k*x - logGamma) }
	first := density(0)
	if k == 1 {
		first = 1
	}
	top := x
	if k < 1 {
		density = func(y float64) float64 { return math.Exp(k*math.Log(k) - k*math.Pow(y, 1/k) - logGamma - math.Log(k)) }
		top, first = math.Pow(x, k), density(0)
	}
	sum := first + density(top)
	for i := 1; i < steps; i++ {
		sum += float64(2+2*(i%2)) * density(top*float64(i)/steps)
	}
	return sum * top / steps / 3
}

func TestGammaCDFIsRight(t *testing.T) {
	for _, x := range []float64{0.1, 0.7, 1, 3} {
		for k, want := range map[float64]float64{
			0.5: math.Erf(math.Sqrt(x / 2)), // chi-squared of one degree
			1:   1 - math.Exp(-x),
			2:   1 - math.Exp(-2*x)*(1+2*x), // Erlang
			3:   1 - math.Exp(-3*x)*(1+3*x+4.5*x*x),
		} {
			expect.Near(t, gammaCDF(k, x), want, 1e-5, "shape %v up to %v", k, x)
		}
	}
}

// TestArrivalsHaveTheirDistribution compares gaps with mean, variance, third moment and, by Kolmogorov and Smirnov's
// test, the whole distribution of their process.
func TestArrivalsHaveTheirDistribution(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	const n = 40_001
	for _, c := range []struct {
		a     Arrivals
		shape float64
	}{
		{Arrivals{Process: Poisson}, 1},
		{Arrivals{Process: Gamma, Burstiness: 1}, 1},
		{Arrivals{Process: Gamma, Burstiness: 0.25}, 0.25},
		{Arrivals{Process: Gamma, Burstiness: 0.5}, 0.5},
		{Arrivals{Process: Gamma, Burstiness: 3}, 3},
		{Arrivals{Process: Gamma, Burstiness: 40}, 40},
	} {
		for seed := range uint64(3) {
			for _, rate := range []float64{3, 20_000} {
				c.a.Seed, c.a.Rate = seed, Steady(rate)
				checkGaps(t, c.a, c.shape, gapsOf(instants(t, n, c.a), rate))
			}
		}
	}
}

func checkGaps(t *testing.T, a Arrivals, k float64, gaps []float64) {
	t.Helper()
	n := float64(len(gaps))
	var mean, variance, skew float64
	for _, g := range gaps {
		mean += g / n
	}
	for _, g := range gaps {
		variance += (g - mean) * (g - mean) / n
		skew += math.Pow(g-mean, 3) / n
	}
	// A gamma distribution of mean 1 and shape k has variance 1/k, third moment 2/k², fourth 3/k² + 6/k³. The bounds
	// are five standard errors, for the third moment a share.
	if bound := 5 * math.Sqrt(1/k/n); math.Abs(mean-1) > bound {
		t.Errorf("%+v: mean gap %.4f of the wanted, want 1 ± %.4f", a, mean, bound)
	}
	if bound := 5 * math.Sqrt((2/(k*k)+6/(k*k*k))/n); math.Abs(variance-1/k) > bound {
		t.Errorf("%+v: variance %.4f, want %.4f ± %.4f", a, variance, 1/k, bound)
	}
	expect.Near(t, skew*k*k/2, 1, 0.35, "%+v: third moment %.4f, want about %.4f", a, skew, 2/(k*k))
	slices.Sort(gaps)
	half := grid(1e9/a.Rate.To) * a.Rate.To / 1e9 / 2 // gaps are rounded: those up to half a step more count as this one
	furthest := 0.0
	for i := 0; i < len(gaps); i += 401 {
		from, _ := slices.BinarySearch(gaps, gaps[i]-half)
		to, _ := slices.BinarySearch(gaps, gaps[i]+half)
		furthest = max(furthest, math.Abs(gammaCDF(k, gaps[i]-half)-float64(from)/n), math.Abs(gammaCDF(k, gaps[i]+half)-float64(to)/n))
	}
	if bound := 1.95 / math.Sqrt(n); furthest > bound { // passed by 999 of 1,000 samples of the right distribution
		t.Errorf("%+v: distance of the distributions %.4f, want below %.4f", a, furthest, bound)
	}
}

// TestGapsAreIndependent: neighbours do not know of each other.
func TestGapsAreIndependent(t *testing.T) {
	for _, b := range []float64{0.3, 1, 5} {
		gaps := gapsOf(instants(t, 40_001, Arrivals{Rate: Steady(50), Process: Gamma, Burstiness: b, Seed: 9}), 50)
		for lag := 1; lag <= 3; lag++ {
			var product, square float64
			for i := range len(gaps) - lag {
				product += (gaps[i] - 1) * (gaps[i+lag] - 1)
				square += (gaps[i] - 1) * (gaps[i] - 1)
			}
			if r := product / square; math.Abs(r) > 5/math.Sqrt(40_000) {
				t.Errorf("burstiness %v: gaps %d apart correlate by %.3f", b, lag, r)
			}
		}
	}
}

func TestArrivalsRepeat(t *testing.T) {
	for _, p := range Processes() {
		a := Arrivals{Rate: Rate{From: 5, To: 50, Over: time.Second}, Process: p, Burstiness: 0.7, Seed: 4}
		one, other := instants(t, 500, a), instants(t, 500, a)
		expect.List(t, one, other, "%s: the same seed made other instants", p)
		if more := instants(t, 800, a); !slices.Equal(more[:500], one) {
			t.Errorf("%s: more requests moved the first ones", p)
		}
		a.Seed++
		expect.Equal(t, slices.Equal(one, instants(t, 500, a)), p == Constant, "%s: with another seed, the same instants", p)
	}
	// Pinned: they must be the same on every machine and with every release.
	for p, want := range map[Process][]int64{
		Poisson: {0, 32_772_000, 93_247_000, 123_597_000},
		Gamma:   {0, 224_440_000, 311_031_000, 375_669_000},
	} {
		expect.List(t, instants(t, 4, Arrivals{Rate: Steady(8), Process: p, Burstiness: 0.5, Seed: 1}), want, p)
	}
}

func TestAtOnce(t *testing.T) {
	p := AtOnce(3, 0)
	if !p.Open() || p.Requests != 3 || !slices.Equal(p.ReleaseNS, []int64{0, 0, 0}) || p.PeakWithin(1) != 3 {
		t.Errorf("plan %+v, want three requests at 0", p)
	}
	if p = AtOnce(3, time.Second); p.Requests != 3 || p.EndNS != 1e9 {
		t.Errorf("plan %+v, want three requests until 1 s", p)
	}
}

func TestArrivalsRefuseNonsense(t *testing.T) {
	good := Arrivals{Rate: Steady(1), Process: Gamma, Burstiness: 1}
	instants(t, 2, good)
	for name, change := range map[string]func(*Arrivals){
		"no rate": func(a *Arrivals) { a.Rate = Rate{} }, "NaN": func(a *Arrivals) { a.Rate = Steady(math.NaN()) },
		"infinite": func(a *Arrivals) { a.Rate = Steady(math.Inf(1)) }, "negative": func(a *Arrivals) { a.Rate = Steady(-1) },
		"ends at 0": func(a *Arrivals) { a.Rate = Rate{1, 0, time.Second} }, "begins below 0": func(a *Arrivals) { a.Rate = Rate{-1, 1, time.Second} },
		"no time": func(a *Arrivals) { a.Rate = Rate{1, 2, 0} }, "negative time": func(a *Arrivals) { a.Rate = Rate{1, 2, -1} },
		"process": func(a *Arrivals) { a.Process = "uniform" }, "no process": func(a *Arrivals) { a.Process = "" },
		"burstiness": func(a *Arrivals) { a.Burstiness = 0 }, "NaN burstiness": func(a *Arrivals) { a.Burstiness = math.NaN() },
		"too slow": func(a *Arrivals) { a.Rate = Steady(1e-13) },
	} {
		a := good
		change(&a)
		expect.Refused(FromArrivals(2, a, 0))(t, "", "%s: %+v was accepted", name, a)
	}
}
