package export

import (
	"math"
	"testing"
)

// TestSample: the statistics are numpy's; the wanted values are what it prints.
func TestSample(t *testing.T) {
	s := newSample([]float64{4, 1, math.NaN(), 3, 2, math.Inf(1)})
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"percentile 0", s.percentile(0), 1},
		{"percentile 50", s.percentile(50), 2.5},
		{"percentile 90", s.percentile(90), 3.7},
		{"percentile 99", s.percentile(99), 3.97},
		{"percentile 100", s.percentile(100), 4},
		{"mean", s.mean(), 2.5},
		{"std", s.deviation(), 1.118033988749895},
		{"sum", s.sum(), 10},
		{"percentile of one", sample{7}.percentile(99), 7},
		{"std of one", sample{7}.deviation(), 0},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	none := newSample(nil)
	for name, v := range map[string]float64{"percentile": none.percentile(50), "mean": none.mean(), "std": none.deviation()} {
		if known(v) {
			t.Errorf("%s of nothing is %v", name, v)
		}
	}
}

func TestTotal(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{nan, nan}, nan}, {[]float64{nan, 3, 4}, 7}} {
		if got := total(c.values); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("total of %v is %v, want %v", c.values, got, c.want)
		}
	}
}
