package capacity

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

func TestParseObjectives(t *testing.T) {
	t.Parallel()
	got, err := ParseObjectives("ttft.p95<1s, tpot.p50<=50ms\te2e-planned.p99.9 < 2.5s ok >= 99.9% error_rate<=2%")
	if err != nil {
		t.Fatal(err)
	}
	want := []Objective{
		{"ttft.p95<1s", "ttft", 1e9, 0.05},
		{"tpot.p50<=50ms", "tpot", 5e7 + 1, 0.5},
		{"e2e-planned.p99.9<2.5s", "e2e_planned", 25e8, 0.001},
		{"ok>=99.9%", "ok", 0, 0.001},
		{"error_rate<=2%", "ok", 0, 0.02},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestParseObjectivesRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "has no objective",
		" , ":                       "has no objective",
		"ttft.p95":                  "want NAME<LIMIT",
		"ttft.mean<1s":              "allows no share",
		"ttft.max<1s":               "ttft.p95",
		"ttft.p95>1s":               "upper limit",
		"ttft.p95<0":                "above 0",
		"ttft.p95<-1s":              "is no limit",
		"itl.p95<50ms":              "tpot",
		"drift.p95<1ms":             "no latency of a request",
		"goodput>90%":               "no latency of a request",
		"ttfx.p95<1s":               "want a percentile of ttft,",
		"ok>=100%":                  "allows 0",
		"ok>=0%":                    "allows 1",
		"ok<99%":                    "least share that is ok",
		"error_rate>1%":             "largest that fails",
		"ok>=ninety":                "want a share",
		"okay>=90%":                 "want a percentile of ttft,",
		"ttft.p95<1s ttft.p95<=2s":  "already",
		"ttft.p95<1s,error_rate<1s": "is no limit",
	} {
		if all, err := ParseObjectives(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, %v; want one line with %q", text, all, err, want)
		}
	}
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	objectives, err := ParseObjectives("ttft.p95<1s tpot.p95<=10ms e2e.p95<3s e2e_planned.p95<3s ttft_planned.p95<1s ok>=99%")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(change func(*record.Record)) *record.Record {
		r := &record.Record{}
		r.Clear()
		r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.CompletionTokens, r.Outcome = 0, 5e8, 14e8, 24e8, 101, record.OK
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		r    *record.Record
		want string // by objective: 1 is beyond
	}{
		"late by the plan alone": {answer(func(*record.Record) {}), "000010"},
		"at the limit":           {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = 15e8, 25e8 }), "100010"},
		"above the limits":       {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = 25e8, 36e8 }), "111110"},
		"one token":              {answer(func(r *record.Record) { r.LastTokenNS, r.CompletionTokens = r.FirstTokenNS, 1 }), "000010"},
		"failed in time":         {answer(func(r *record.Record) { r.Outcome = record.HTTPError }), "111111"},
		"no token":               {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = record.None, record.None }), "101110"},
	} {
		got := ""
		for i := range objectives {
			if objectives[i].Beyond(c.r) {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestRowsOfWhatNeverEnded: a latency of which nothing ended is above its limit, if so many requests waited longer; of
// others nothing is known.
func TestRowsOfWhatNeverEnded(t *testing.T) {
	t.Parallel()
	objectives, err := ParseObjectives("ttft.p95<300ms tpot.p95<50ms ok>=99%")
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{Probe: Probe{Number: 1, Load: 2}, Verdict: Breaks, SliceS: 1, Slices: []Slice{{Requests: 40, Beyond: []int64{40, 0, 0}}}}
	o.Summarize(len(objectives))
	p := Page{Objectives: objectives, Outcomes: []Outcome{o}, Load: func(float64) string { return "2" }}
	_, rows := p.Table()
	if want := []string{"1", "2", "–", "> 300 ms", "–", "–", "–"}; !slices.Equal(rows[0][:7], want) || o.Slices != nil {
		t.Errorf("%q, want %q", rows, want)
	}
}
