package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestRank(t *testing.T) {
	for _, c := range [][3]int64{
		{0, 500, 1}, {1, 0, 1}, {10, 1000, 10},
		{math.MaxInt64, 1000, math.MaxInt64}, {math.MaxInt64, 500, math.MaxInt64/2 + 1},
	} {
		expect.Equal(t, Rank(c[0], c[1]), c[2], "Rank(%d, %d)", c[0], c[1])
	}
}

// TestRankIsTheNearest: so many values are enough for the share, and one less is not.
func TestRankIsTheNearest(t *testing.T) {
	for n := int64(1); n < 2500; n++ {
		for _, perMille := range []int64{500, 900, 950, 990, 999} {
			if r := Rank(n, perMille); r*1000 < n*perMille || (r-1)*1000 >= n*perMille {
				t.Fatalf("Rank(%d, %d) = %d", n, perMille, r)
			}
		}
	}
}

// TestVariation against the other formula, N·Σx²/(Σx)² − 1, in exact numbers.
func TestVariation(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		values := make([]int64, 1+chance.IntN(30))
		floats := make([]float64, len(values))
		sum, squares := new(big.Int), new(big.Int)
		for i := range values {
			values[i] = 1 + chance.Int64N(1<<40)
			floats[i] = float64(values[i])
			x := big.NewInt(values[i])
			sum.Add(sum, x)
			squares.Add(squares, x.Mul(x, x))
		}
		square := new(big.Rat).SetFrac(squares.Mul(squares, big.NewInt(int64(len(values)))), sum.Mul(sum, sum))
		exact, _ := square.Sub(square, big.NewRat(1, 1)).Float64()
		got, exists := Variation(values)
		same, _ := Variation(floats)
		if want := math.Sqrt(exact); !exists || same != got || math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", values, got, want)
		}
	}
	for _, none := range [][]float64{nil, {0}, {0, 0}, {-1, 1}} {
		if got, exists := Variation(none); exists || got != 0 {
			t.Errorf("%v: %v", none, got)
		}
	}
}

// TestEnoughSamples against the binomial distribution summed with 400 bits.
func TestEnoughSamples(t *testing.T) {
	for _, c := range []struct {
		perMille int64
		least    int64
	}{{500, 11}, {900, 64}, {950, 130}, {990, 662}, {999, 6636}} {
		quantile := float64(c.perMille) / 1000
		for n := range c.least + 50 {
			must.Equal(t, EnoughSamples(n, quantile), n >= c.least, "%d samples, quantile %v", n, quantile)
		}
		for n := c.least - 1; n <= c.least; n++ {
			share := func(perMille int64) *big.Float {
				return new(big.Float).SetPrec(400).SetRat(big.NewRat(perMille, 1000))
			}
			atMostOne := share(0)
			for k := range int64(2) { // k of n lie above
				p := share(1000).SetInt(new(big.Int).Binomial(n, k))
				for i := range n {
					if i < k {
						p.Mul(p, share(1000-c.perMille))
					} else {
						p.Mul(p, share(c.perMille))
					}
				}
				atMostOne.Add(atMostOne, p)
			}
			expect.Equal(t, atMostOne.Cmp(share(10)) <= 0, n >= c.least, "%d samples, quantile %v: the exact sum", n, quantile)
		}
	}
	for _, none := range []bool{EnoughSamples(0, 0.5), EnoughSamples(1, 0), EnoughSamples(math.MaxInt64, 1)} {
		if none {
			t.Error("enough of nothing, or for a maximum")
		}
	}
}

// TestAtMost against a sum over the outcomes of single requests.
func TestAtMost(t *testing.T) {
	for _, p := range []float64{0.01, 0.3, 0.5, 0.99, 1} {
		ways := []float64{1} // how likely so many of none, one, two … requests are of the kind
		for n := range int64(40) {
			sum := 0.0
			for k, likely := range ways {
				sum += likely
				if n == 0 {
					continue
				}
				if got := AtMost(int64(k), n, p); math.Abs(got-sum) > 1e-9 {
					t.Errorf("at most %d of %d, each with %v: %v, want %v", k, n, p, got, sum)
				}
			}
			next := make([]float64, n+2)
			for k, likely := range ways {
				next[k] += likely * (1 - p)
				next[k+1] += likely * p
			}
			ways = next
		}
	}
}
