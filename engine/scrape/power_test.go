package scrape

import (
	"math"
	"os"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestDCGMPage: a GPU that is cut into instances counts once, and a page of an engine may have GPUs, too.
func TestDCGMPage(t *testing.T) {
	page := must.Have(os.ReadFile("testdata/dcgm.prom"))(t)
	r := NewReader()
	for engine, text := range map[string]string{"dcgm": string(page), "vllm": "vllm:num_requests_running 7\n" + string(page)} {
		m, err := r.Read([]byte(text))
		if err != nil || m.Engine != engine || m.GPUs != 2 || m.PowerW == nil || math.Abs(*m.PowerW-100) > 1e-9 {
			t.Errorf("%+v, %v", m, err)
		}
		expect.Equal(t, engine == "vllm", m.Running != nil, "%s: running %v", engine, m.Running)
	}
	if m, err := r.Read([]byte("vllm:num_requests_running 7\n")); err != nil || m.GPUs != 0 || m.PowerW != nil {
		t.Errorf("no GPU is %+v, %v", m, err)
	}
}

// TestPower: mean power is that of the samples during the run, each with the latest of the other pages.
func TestPower(t *testing.T) {
	w := NewWatch([]string{"http://a", "http://b"})
	sample := func(page, gpus int, phase Phase, watts float64) {
		w.Add(page, &Sample{Phase: phase, Reading: Reading{GPUs: gpus, Values: Values{PowerW: &watts}}})
	}
	sample(0, 8, Before, 1000)
	sample(1, 4, Before, 500)
	sample(0, 8, During, 5000) // and 500
	sample(1, 4, During, 2000) // and 5000
	sample(0, 8, During, 4000) // and 2000
	sample(0, 8, After, 9999)
	got := w.Servers(1)
	if all := got.All; all.PowerW == nil || all.PowerW.Max != 7000 || math.Abs(all.PowerW.Mean-18500.0/3) > 1e-9 || all.GPUs != 12 {
		t.Errorf("%+v of %d GPUs, want %g W of 12", all.PowerW, all.GPUs, 18500.0/3)
	}
	if a := got.Targets[0]; a.PowerW == nil || a.PowerW.Mean != 4500 || a.GPUs != 8 {
		t.Errorf("%+v of %d GPUs, want 4,500 W of 8", a.PowerW, a.GPUs)
	}
	if none := NewWatch([]string{"a"}).Servers(1).All; none.PowerW != nil || none.GPUs != 0 {
		t.Errorf("no sample is %+v", none)
	}
}
