package capacity

import (
	"math"
	"os"
	"testing"
)

// longRun is the share beyond each objective over many long windows.
func (s *simulation) longRun(load float64, windows int, seconds float64) []float64 {
	shares := make([]float64, len(s.objectives))
	for number := range windows {
		for j, share := range s.shares(number, load, seconds) {
			shares[j] += share / float64(windows)
		}
	}
	return shares
}

// TestTruth finds the knees of the models by long simulation, and how many requests a window needs that tells loads
// apart that differ by 4 %: a knee of its own has a standard error of 1 %. It takes minutes.
func TestTruth(t *testing.T) {
	if os.Getenv("FASTREPLAY_CAPACITY") == "" {
		t.Skip("set FASTREPLAY_CAPACITY to find the knees of the models anew")
	}
	for _, m := range knownModels(t) {
		s := &simulation{model: &m, objectives: m.objectives, seed: 999}
		knee := root(2*m.knee, func(load float64) bool {
			if load < 0.9*m.knee || load > 1.1*m.knee {
				return load < m.knee
			}
			for j, beyond := range s.longRun(load, 80, 50000/m.rate/load) {
				if beyond > m.objectives[j].Allowed {
					return false
				}
			}
			return true
		}, 12)
		if math.Abs(knee/m.knee-1) > 0.006 {
			t.Errorf("%s: the knee is at %.4f; the model says %.4f", m.name, knee, m.knee)
		}
		const windows, requests = 100, 8000
		for j := range m.objectives {
			var sum, squares float64
			for number := range windows {
				one := &simulation{model: &m, objectives: m.objectives, seed: uint64(5000 + number)}
				beyond := one.longRun(m.knee, 1, requests/m.rate/m.knee)[j]
				sum, squares = sum+beyond, squares+beyond*beyond
			}
			mean := sum / windows
			effect := (squares/windows - mean*mean) * requests / (mean * (1 - mean))
			below := s.longRun(m.knee*0.97, 20, 15000/m.rate/m.knee)[j]
			above := s.longRun(m.knee*1.03, 20, 15000/m.rate/m.knee)[j]
			rise := math.Log(above/below) / math.Log(1.03/0.97)
			t.Logf("%s, %s: knee %.4f, variance %.0f times that of independent requests, share rises by the power %.1f, full window %.0f requests",
				m.name, m.objectives[j].Text, knee, effect, rise, effect*(1-mean)/mean/rise/rise/1e-4)
		}
	}
}
