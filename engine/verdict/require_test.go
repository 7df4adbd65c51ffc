package verdict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
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

func TestRequire(t *testing.T) {
	for _, c := range []struct {
		text  string
		value float64
		limit float64
		met   bool
		words string
	}{
		{"ttft.p99<500ms", 199, 500, true, "199.0 ms"},
		{"ttft.p99<199", 199, 199, false, "199.0 ms"},
		{"ttft.p99<=199ms", 199, 199, true, "199.0 ms"},
		{"TTFT.P99.9 >= 0.2s", 199.9, 200, false, "199.9 ms"},
		{"ttft.p50>149999us", 150, 149.999, true, "150.0 ms"},
		{"ttft.mean > 155000 µs", 155, 155, false, "155.0 ms"},
		{"tpot.max<301ms", 300, 301, true, "300.0 ms"},
		{"itl.p95<1s", 395, 1000, true, "395.0 ms"},
		{"e2e.p90<489ms", 490, 489, false, "490.0 ms"},
		{"ttft-planned.p50<551", 550, 551, true, "550.0 ms"},
		{"e2e_planned.p999<=699.9", 699.9, 699.9, true, "699.9 ms"},
		{"drift.p99<0.8ms", 0.799, 0.8, true, "799.0 µs"},
		{"requests_per_s>=12.5", 12.5, 12.5, true, "12.50/s"},
		{"under_load.requests_per_s>=13.5", 13.5, 13.5, true, "13.50/s"},
		{"output_tokens_per_s>1235/s", 1234.5, 1235, false, ""},
		{"input_tokens_per_s<1e3", 999, 1000, true, ""},
		{"goodput>=99%", 0.981, 0.99, false, "98.1 %"},
		{"goodput>=0.98", 0.981, 0.98, true, "98.1 %"},
		{"error_rate<1%", 30. / 900, 0.01, false, ""},
		{"prefix_hits>40%", 0.4, 0.4, false, "40 %"},
		{"hits_of_ideal>=62.5 %", 0.625, 0.625, true, "62.5 %"},
	} {
		s := measuredRun()
		s.Requests.OK, s.Requests.Failed = 870, 30
		s.Limits.Require = []string{c.text, "error_rate<=100%"}
		all := Judge(s).Objectives
		if _, _, _, err := ParseRequirement(c.text); err != nil || len(all) != 2 {
			t.Errorf("%s: %v, %v", c.text, err, all)
			continue
		}
		o := all[0]
		if o.Text != c.text || o.Value == nil || *o.Value != c.value || o.Limit != c.limit || o.Met != c.met || c.words != "" && Outcome(&o) != c.words {
			t.Errorf("%s: %+v (%s), want %+v", c.text, o, Outcome(&o), c)
		}
		empty := &metrics.Summary{Limits: s.Limits}
		if o = Objectives(empty, nil)[0]; !strings.HasSuffix(o.Metric, "_per_s") && (o.Met || Outcome(&o) != "the run has no "+o.Metric) {
			t.Errorf("%s of a run without numbers: %+v, %s", c.text, o, Outcome(&o))
		}
	}
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
	}
}

func TestRequirementErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "want NAME<LIMIT",
		"ttft.p99":            "want NAME<LIMIT",
		"ttft.p99=5":          "want NAME<LIMIT",
		"ttft<500ms":          `"ttft" is no number of a run; there are drift.p99, ttft.p99, ttft_planned.p99, ttfo.p99, ttfo_planned.p99, tpot.p99, ntpot.p99, itl.p99`,
		"tftt.p99<500ms":      `"tftt.p99" is no number of a run`,
		"ttft.p98<500ms":      "is no number of a run",
		"ttft.p99<":           `"" is no limit for it; want a time, such as 500ms`,
		"ttft.p99<5%":         `"5%" is no limit for it; want a time`,
		"ttft.p99<-1ms":       "want a time",
		"ttft.p99<NaN":        "want a time",
		"ttft.p99<Infms":      "want a time",
		"ttft.p99<<5":         "want a time",
		"goodput>=99ms":       "want a share",
		"goodput>=101%":       "want a share",
		"error_rate<5":        "want a share",
		"requests_per_s>10ms": "want a number per second",
	} {
		_, _, _, err := ParseRequirement(text)
		expect.Error(t, err, want, "%q", text)
		expect.Lacks(t, fmt.Sprint(err), "\n", "%q", text)
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

// TestRequireOfUnsafe: if the client may have moved a percentile, an objective says whether that changes its outcome.
func TestRequireOfUnsafe(t *testing.T) {
	for text, want := range map[string]metrics.Objective{
		"ttft.p99<120": {Met: false, Unsure: false}, "ttft.p99<190": {Met: false, Unsure: true},
		"ttft.p99<220": {Met: true, Unsure: true}, "ttft.p99<300": {Met: true, Unsure: false},
		"ttft.p99>=190": {Met: true, Unsure: true}, "ttft.p99>230": {Met: false, Unsure: false},
	} {
		s := measuredRun()
		s.Lateness.Reading = []metrics.Unsafe{{Metric: "ttft", Percentile: "p99", ValueMS: 199, EffectMS: 30}, {Metric: "ttft", Percentile: "p90", ValueMS: 190, EffectMS: 900}}
		s.Limits.Require = []string{text, "ttft.p50<500"}
		all := Judge(s).Objectives
		words := "199.0 ms ± 30.0 ms: " + map[metrics.Objective]string{
			{}: "missed all the same", {Unsure: true}: "may be met", {Met: true, Unsure: true}: "may be missed", {Met: true}: "met all the same",
		}[want]
		if o := all[0]; o.Met != want.Met || o.Unsure != want.Unsure || o.EffectMS != 30 || Outcome(&o) != words {
			t.Errorf("%s: %+v, %q", text, o, Outcome(&o))
		}
		if o := all[1]; o.Unsure || o.EffectMS != 0 || Outcome(&o) != "150.0 ms" {
			t.Errorf("a safe number: %+v, %q", o, Outcome(&o))
		}
	}
}

// TestRequireOfFewValues: an objective on a percentile of too few values is neither met nor missed, unless a lower
// percentile of enough values tells.
func TestRequireOfFewValues(t *testing.T) {
	for _, c := range []struct {
		count             int64
		text, words       string
		met               bool
		missed, undecided int
	}{
		{8, "ttft.p99<500", "unknown: ~199.0 ms of too few values, 662 would tell", false, 0, 1},
		{8, "ttft.p99<1", "unknown: ~199.0 ms of too few values, 662 would tell", false, 0, 1},
		{8, "ttft.p50<500", "unknown: ~150.0 ms of too few values, 11 would tell", false, 0, 1},
		{8, "ttft.mean<500", "unknown: ~155.0 ms of too few values, 11 would tell", false, 0, 1},
		{11, "ttft.mean<500", "155.0 ms", true, 0, 0},
		{8, "ttft.max<500", "200.0 ms", true, 0, 0},
		{661, "ttft.p99<149", "~199.0 ms of too few values", false, 1, 0},
		{661, "ttft.p99>149", "~199.0 ms of too few values", true, 0, 0},
		{661, "ttft.p99<199.5", "unknown: ~199.0 ms of too few values, 662 would tell", false, 0, 1},
		{662, "ttft.p99<500", "199.0 ms", true, 0, 0},
		{662, "ttft.p99<100", "199.0 ms", false, 1, 0},
	} {
		s := measuredRun()
		s.TTFTMS.Count = c.count
		s.Limits.Require = []string{c.text}
		v := Judge(s)
		o := v.Objectives[0]
		if Outcome(&o) != c.words || o.Met != c.met || v.Missed() != c.missed || v.Undecided() != c.undecided {
			t.Errorf("%s of %d values: %+v, %q", c.text, c.count, o, Outcome(&o))
		}
	}
}

// TestRequireOfFewRequests: a share of too few requests is neither met nor missed, unless chance does not explain it.
// What it says of none, or of all, is about this run alone.
func TestRequireOfFewRequests(t *testing.T) {
	for _, c := range []struct {
		failed, of        int64
		text, words       string
		met               bool
		missed, undecided int
	}{
		{0, 1, "goodput>=99%", "unknown: 100 % of too few requests, 662 would tell", false, 0, 1},
		{0, 3, "error_rate<1%", "unknown: 0 % of too few requests, 662 would tell", false, 0, 1},
		{0, 298, "error_rate<1%", "unknown: 0 % of too few requests, 662 would tell", false, 0, 1},
		{0, 299, "error_rate<1%", "0 %", true, 0, 0},
		{0, 299, "goodput>=99%", "100 %", true, 0, 0},
		{1, 400, "goodput>=99%", "unknown: 99.75 % of too few requests, 662 would tell", false, 0, 1},
		{1, 1, "error_rate<4%", "100 %", false, 1, 0},
		{1, 1, "error_rate<=6%", "unknown: 100 % of too few requests, 108 would tell", false, 0, 1},
		{2, 100, "error_rate<1%", "unknown: 2 % of too few requests, 662 would tell", false, 0, 1},
		{4, 100, "error_rate<1%", "4 %", false, 1, 0},
		{4, 100, "goodput>=99%", "96 %", false, 1, 0},
		{6, 662, "error_rate<1%", "0.9063 %", true, 0, 0},
		{7, 662, "error_rate<1%", "1.057 %", false, 1, 0},
		{0, 3, "error_rate<=0", "0 %", true, 0, 0},
		{1, 3, "error_rate<=0", "33.33 %", false, 1, 0},
		{0, 3, "goodput>=100%", "100 %", true, 0, 0},
		{3, 3, "error_rate>50%", "unknown: 100 % of too few requests, 11 would tell", false, 0, 1},
		{5, 5, "error_rate>50%", "100 %", true, 0, 0},
	} {
		s := measuredRun()
		s.Requests = metrics.Requests{Planned: c.of + 7, Stopped: 7, OK: c.of - c.failed, Failed: c.failed}
		s.Goodput.Share = new(1 - float64(c.failed)/float64(c.of))
		s.Limits.Require = []string{c.text}
		v := Judge(s)
		o := v.Objectives[0]
		if Outcome(&o) != c.words || o.Met != c.met || v.Missed() != c.missed || v.Undecided() != c.undecided {
			t.Errorf("%s, %d of %d failed: %+v, %q", c.text, c.failed, c.of, o, Outcome(&o))
		}
	}
}

// TestRequireOfEmptyFirst: where first chunks may be no tokens, TTFT may be longer than measured, and TPOT shorter, so
// that fewer or more requests keep bounds on them. An objective that this can change is undecided, and no other.
func TestRequireOfEmptyFirst(t *testing.T) {
	const why = ", and TTFT and TTFO may be too short, and TPOT too long"
	for text, want := range map[string]string{
		"ttft.p99<500ms": "unknown: 199.0 ms" + why, "ttft.p99<100ms": "missed", "ttft.p99>500ms": "unknown: 199.0 ms" + why,
		"ttft.p99>100ms": "met", "ttfo.mean<2s": "unknown: 1.155 s" + why, "ttft_planned.p50<1s": "unknown: 550.0 ms" + why,
		"tpot.p99<500ms": "met", "tpot.p99<100ms": "unknown: 299.0 ms" + why, "e2e.p99<1s": "met", "e2e.p99<100ms": "missed",
		// of bounds on TTFT, on TPOT, on both and on E2E
		"ttft goodput>=90%": "unknown: 95 %" + why, "ttft goodput>=99%": "missed", "ttft goodput<=99%": "met", "ttft goodput<=90%": "unknown: 95 %" + why,
		"tpot goodput>=90%": "met", "tpot goodput>=99%": "unknown: 95 %" + why, "ttft tpot goodput>=90%": "unknown: 95 %" + why,
		"ttft tpot goodput>=99%": "unknown: 95 %" + why, "e2e goodput>=90%": "met", "e2e goodput>=99%": "missed",
	} {
		bounds := strings.Fields(text)
		text := bounds[len(bounds)-1]
		for _, empty := range []int64{0, 870} {
			s := measuredRun()
			s.Tokens.EmptyFirst = empty
			s.Goodput = &metrics.Goodput{Share: new(0.95), Missed: map[string]int64{}}
			for _, latency := range bounds[:len(bounds)-1] {
				s.Goodput.Missed[latency] = 40
			}
			s.Limits.Require = []string{text}
			v := Judge(s)
			o := v.Objectives[0]
			got := map[bool]string{true: "met", false: "missed"}[o.Met]
			if v.Undecided() > 0 {
				got = Outcome(&o)
			}
			undecided := strings.HasPrefix(want, "unknown")
			switch {
			case empty == 0 && v.Undecided() > 0:
				t.Errorf("%s without empty chunks: %+v", text, o)
			case empty > 0 && (got != want || o.Met && undecided || undecided && v.Missed() > 0):
				t.Errorf("%s: %q, want %q: %+v", text, got, want, o)
			}
		}
	}
}

// TestRequireOfSurvivors: a latency of those that did not fail meets no objective if enough failed to be what lies
// beyond it, unless an objective says how many may. It is missed all the same.
func TestRequireOfSurvivors(t *testing.T) {
	met, missed, unknown := "met", "missed", "unknown"
	for _, c := range []struct {
		failed int64 // of 1,000
		text   string
		also   string
		want   string
	}{
		{0, "ttft.p99<500ms", "drift.p99<1s", met},
		{4, "ttft.p99<500ms", "drift.p99<1s", met},
		{5, "ttft.p99<500ms", "drift.p99<1s", unknown},
		{5, "ttft.p95<500ms", "drift.p99<1s", met},
		{25, "ttft.p95<500ms", "ttft.p50<500ms", unknown},
		{1, "e2e.max<500s", "drift.p99<1s", unknown},
		{240, "tpot.mean<500ms", "drift.p99<1s", met},
		{250, "tpot.mean<500ms", "drift.p99<1s", unknown},
		{900, "ttft.p99<100ms", "drift.p99<1s", missed},
		{900, "ttft.p99>100ms", "drift.p99<1s", met},
		{900, "drift.p99<1s", "ttft.p50<500ms", met},
		{900, "upload.p99<2s", "ttft.p50<500s", met},
		{900, "requests_per_s>1", "ttft.p50<500ms", met},
		{900, "ttft.p99<500ms", "error_rate<95%", met},
		{900, "ttft.p99<500ms", "goodput>=5%", met},
		{900, "ttft.p99<500ms", "class=free error_rate<95%", met},
	} {
		s := measuredRun()
		s.Requests = metrics.Requests{Planned: 1100, OK: 1000 - c.failed, Failed: c.failed, Stopped: 100}
		s.Owners = new(metrics.Owners)
		s.Limits.Require = []string{c.text, c.also}
		o := Objectives(s, nil)[0]
		got := map[bool]string{true: met, false: missed}[o.Met]
		if o.Undecided() {
			got = unknown
			expect.Contains(t, Outcome(&o), fmt.Sprint(c.failed, " of 1,000 failed"), c.text)
		}
		expect.Equal(t, got, c.want, "%+v", c)
	}
}
