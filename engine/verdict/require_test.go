package verdict

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// measuredRun is a summary in which every number is another one.
func measuredRun() *metrics.Summary {
	values := func(from float64) *stats.Percentiles {
		return &stats.Percentiles{P50: from + 50, P75: from + 75, P90: from + 90, P95: from + 95, P99: from + 99, P999: from + 99.9, Max: from + 100, Mean: from + 55, Count: 99_999}
	}
	s := sound()
	s.TTFTMS, s.TPOTMS, s.ITLMS, s.E2EMS = values(100), values(200), values(300), values(400)
	s.TTFTPlannedMS, s.E2EPlannedMS, s.DriftUS = values(500), values(600), values(700)
	s.WireDriftUS, s.UploadMS, s.NTPOTMS = values(800), values(1000), values(1300)
	s.TTFOMS, s.TTFOPlannedMS = values(1100), values(1200)
	s.Throughput = metrics.Throughput{RequestsPerS: 12.5, InputTokensPerS: 999, OutputTokensPerS: 1234.5}
	s.UnderLoad.Throughput = metrics.Throughput{RequestsPerS: 13.5, InputTokensPerS: 1999, OutputTokensPerS: 2234.5}
	s.Goodput, s.Lateness.Displaced = &metrics.Goodput{Share: new(0.981)}, 0
	s.Run.AnsweredS = 0.77 * s.Run.DurationS
	s.Requests = metrics.Requests{Planned: 1000, OK: 900, Stopped: 100}
	s.PrefixCache = metrics.PrefixCache{HitRatio: new(0.4), ExpectedHitRatio: new(0.64)}
	return s
}

// TestRequire: what becomes of each objective in each world of testdata/require.txt, to the word.
func TestRequire(t *testing.T) {
	text := string(must.Have(os.ReadFile("testdata/require.txt"))(t))
	for _, world := range strings.Split(text, "\n== ")[1:] {
		head, objectives, _ := strings.Cut(world, "\n=>\n")
		lines := strings.Split(head, "\n")
		s := changed(t, measuredRun(), lines[1:]...)
		also := s.Limits.Require
		for line := range strings.Lines(objectives) {
			text, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
			if why, refused := strings.CutPrefix(want, "refused: "); refused {
				_, _, _, err := ParseRequirement(text)
				expect.Error(t, err, why, "%q", text)
				expect.Lacks(t, fmt.Sprint(err), "\n", "%q", text)
				continue
			}
			s.Limits.Require = append([]string{text}, also...)
			expect.Equal(t, becomes(&Judge(s).Objectives[0]), want, "%s: %s", lines[0], text)
		}
	}
}

// becomes says what becomes of an objective.
func becomes(o *metrics.Objective) string {
	word := "missed, "
	switch {
	case o.Undecided():
		word = "" // the outcome begins with "unknown"
	case o.Met:
		word = "met, "
	}
	return fmt.Sprintf("%s%s (%v)", word, Outcome(o), o.Limit)
}

// TestQuantities: every name can be required, and is the number of that name in the summary.
func TestQuantities(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Quantities() {
		s := measuredRun()
		o := objective(s, nil, name, name, "", 0)
		if o.Value == nil {
			t.Fatalf("%s has no value", name)
		}
		key := fmt.Sprint(*o.Value)
		if seen[key] {
			t.Errorf("%s is %s, as another one", name, key)
		}
		seen[key] = true
		if strings.HasSuffix(name, "_per_s") {
			continue
		}
		o = objective(new(metrics.Summary), nil, name, name, "<", 1)
		expect.Equal(t, o.Met, false, name)
		expect.Equal(t, Outcome(&o), "the run has no "+name)
	}
}

// TestMaxErrorRate: it is an objective, without those that did not fail, and there is none by default.
func TestMaxErrorRate(t *testing.T) {
	s := measuredRun()
	if v := Judge(s); len(v.Objectives) != 0 || v.Missed() != 0 {
		t.Errorf("objectives %v without any", v.Objectives)
	}
	for most, met := range map[float64]bool{0: false, 0.033: false, 0.034: true, 1: true} {
		s.Limits.MaxErrorRate = &most
		s.Requests.OK, s.Requests.Failed = 870, 30
		v := Judge(s)
		if len(v.Objectives) != 1 || v.Objectives[0].Met != met || (v.Missed() == 0) != met || v.Measurement != metrics.Valid {
			t.Errorf("at most %v: %+v", most, v.Objectives)
		}
	}
}
