package metrics

import (
	"fmt"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// checkPercentiles compares a distribution of the summary with the oracle's,
// scaled to its unit.
func checkPercentiles(t *testing.T, name string, got *stats.Percentiles, samples oracle, unitNS float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s is null", name)
	}
	o := samples.sorted()
	if want := float64(o[len(o)-1]) / unitNS; got.Max != want {
		t.Errorf("%s: max %v, want %v", name, got.Max, want)
	}
	if want := float64(o.mean()) / unitNS; got.Mean != want {
		t.Errorf("%s: mean %v, want %v", name, got.Mean, want)
	}
	for permille, v := range map[int]float64{500: got.P50, 900: got.P90, 950: got.P95, 990: got.P99, 999: got.P999} {
		want := o.quantile(permille)
		if v < float64(want)/unitNS || v > float64(want+resolution(want))/unitNS {
			t.Errorf("%s: p%d = %v, want %v", name, permille, v, float64(want)/unitNS)
		}
	}
}

// TestSummaryHoldsEveryDistribution: each in its own place and unit, for the
// run and for each target.
func TestSummaryHoldsEveryDistribution(t *testing.T) {
	all := workload(21, 3000, 3)
	c := collect(all, urls(3))
	s := c.Summary(Summary{Requests: Requests{Planned: 3000}, Limits: DefaultLimits()}, Probed{})
	n := naive(all, -1)
	checkPercentiles(t, "drift_us", s.DriftUS, n.drift, 1e3)
	checkPercentiles(t, "ttft_ms", s.TTFTMS, n.ttft, 1e6)
	checkPercentiles(t, "ttft_planned_ms", s.TTFTPlannedMS, n.ttftPlanned, 1e6)
	checkPercentiles(t, "tpot_ms", s.TPOTMS, n.tpot, 1e6)
	checkPercentiles(t, "itl_ms", s.ITLMS, n.itl, 1e6)
	checkPercentiles(t, "e2e_ms", s.E2EMS, n.e2e, 1e6)
	checkPercentiles(t, "e2e_planned_ms", s.E2EPlannedMS, n.e2ePlanned, 1e6)
	for i, target := range s.Targets {
		n, name := naive(all, i), fmt.Sprint("target ", i)
		checkPercentiles(t, name+" drift_us", target.DriftUS, n.drift, 1e3)
		checkPercentiles(t, name+" ttft_ms", target.TTFTMS, n.ttft, 1e6)
		checkPercentiles(t, name+" tpot_ms", target.TPOTMS, n.tpot, 1e6)
		checkPercentiles(t, name+" itl_ms", target.ITLMS, n.itl, 1e6)
		checkPercentiles(t, name+" e2e_ms", target.E2EMS, n.e2e, 1e6)
	}
}

func TestSummaryKeepsWhatItIsGiven(t *testing.T) {
	c := NewCollector(urls(1))
	for _, wait := range []int64{record.None, 0, 7_500_000, 1_000} {
		r := answered()
		r.ConnWaitNS = wait
		c.Add(r, 0)
	}
	info := Summary{
		Requests: Requests{Planned: 4, Unwritten: 2}, Limits: Limits{MaxDriftMS: 1, MaxReceiveLagMS: 2, MaxErrorRate: 0.5, AllowWarm: true},
		Run:         Run{Scale: 3, Version: "v", Targets: []string{"x"}, Host: Host{CPUs: 8}},
		Workload:    Workload{Trace: "t", Rows: 5, Fingerprint: "sha256:00"},
		Connections: Connections{Dialled: 9, ClosedIdle: 1}, Writes: Writes{Whole: 3, Partial: 1},
		Client: Client{Lanes: 1, WireBytes: 77}, Verdict: Verdict{Reasons: []string{"a reason"}},
	}
	s := c.Summary(info, Probed{})
	equal(t, "run", s.Run, info.Run)
	equal(t, "workload", s.Workload, info.Workload)
	equal(t, "limits", s.Limits, info.Limits)
	equal(t, "writes", s.Writes, info.Writes)
	equal(t, "connections", s.Connections, Connections{Dialled: 9, ClosedIdle: 1, MaxWaitMS: 7.5})
	equal(t, "client", s.Client, info.Client)
	equal(t, "verdict", s.Verdict, Verdict{Reasons: []string{"2 records could not be written to disk, though this summary counts them: make room and run again", "a reason"}})
	if s.Requests.Unwritten != 2 || s.Schema != 1 {
		t.Errorf("unwritten %d, schema %d", s.Requests.Unwritten, s.Schema)
	}
}
