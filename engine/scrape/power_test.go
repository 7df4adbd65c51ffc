package scrape

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestDCGMPage: a GPU that is cut into instances counts once, and a page of an engine may have GPUs, too.
func TestDCGMPage(t *testing.T) {
	page, err := os.ReadFile("testdata/dcgm.prom")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader()
	for engine, text := range map[string]string{"dcgm": string(page), "vllm": "vllm:num_requests_running 7\n" + string(page)} {
		m, err := r.Read([]byte(text))
		if err != nil || m.Engine != engine || m.GPUs != 2 || m.PowerW == nil || math.Abs(*m.PowerW-100) > 1e-9 || m.EnergyMJ == nil || *m.EnergyMJ != 15153422938 {
			t.Errorf("%+v, %v", m, err)
		}
		if (engine == "vllm") != (m.Running != nil) {
			t.Errorf("%s: running %v", engine, m.Running)
		}
	}
	if m, err := r.Read([]byte("vllm:num_requests_running 7\n")); err != nil || m.GPUs != 0 || m.PowerW != nil {
		t.Errorf("no GPU is %+v, %v", m, err)
	}
}

// TestPower makes pages of GPUs whose power is known at every time: mean power is that of the integral, by either family.
func TestPower(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		base, slope, gpus := 100+400*rng.Float64(), rng.Float64()*10, 1+rng.IntN(8)
		watts := func(at float64) float64 { return float64(gpus) * (base + slope*at) } // which trapezoids meet exactly
		joules := func(at float64) float64 { return float64(gpus) * (base*at + slope*at*at/2) }
		for _, family := range []string{"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"} {
			w, r := NewWatch([]string{"http://a", "http://gpus"}), NewReader()
			at, begin := rng.Float64()-0.5, 0.0
			for i := range 20 {
				value := watts(at)
				if strings.Contains(family, "ENERGY") {
					value = 1e9 + 1e3*joules(at)
				}
				page := ""
				for g := range gpus {
					page += fmt.Sprintf("%s{gpu=\"%d\",UUID=\"GPU-%d\"} %.9f\n", family, g, g, value/float64(gpus))
				}
				m := &Sample{AtNS: int64(at * 1e9), Phase: During}
				var err error
				if m.Reading, err = r.Read([]byte(page)); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					m.Phase, begin = Before, at
				} else if rng.IntN(5) == 0 && i < 19 {
					m = &Sample{AtNS: m.AtNS, Phase: During, Error: "refused"}
				}
				w.Add(1, m)
				if i < 19 {
					at += 0.1 + rng.Float64()
				}
			}
			got, want := w.Servers(1).All, (joules(at)-joules(begin))/(at-begin)
			if got.PowerW == nil || got.GPUs != int64(gpus) || math.Abs(*got.PowerW-want) > 1e-3*want {
				t.Errorf("seed %d, %s: %+v, want %.2f W", seed, family, got, want)
			}
		}
	}
}

// TestPowerOfChangingGPUs: what a GPU that came or went had counted before is no energy of the run, nor is a counter that fell.
func TestPowerOfChangingGPUs(t *testing.T) {
	w := NewWatch([]string{"a"})
	for i, c := range []struct {
		gpus int
		mj   float64
	}{{1, 1e6}, {1, 2e6}, {2, 9e9}, {2, 9e9 + 3e6}, {1, 3e6}, {1, 1e6}, {1, 3e6}} {
		w.Add(0, &Sample{AtNS: int64(i) * 1e9, Phase: During, Reading: Reading{GPUs: c.gpus, Values: Values{EnergyMJ: &c.mj}}})
	}
	if got := w.Servers(1).All; got.PowerW == nil || *got.PowerW != 2000 || got.Restarts != 0 { // 1,000, 3,000 and 2,000 J in a second each
		t.Errorf("%+v, want 2,000 W", got)
	}
	if got := NewWatch([]string{"a"}).Servers(1).All; got.PowerW != nil || got.GPUs != 0 {
		t.Errorf("no sample is %+v", got)
	}
}
