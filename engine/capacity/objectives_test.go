package capacity

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func TestParseObjectives(t *testing.T) {
	t.Parallel()
	got := objectivesOf(t, "ttft.p95<1s, tpot.p50<=50ms\te2e-planned.p99.9 < 2.5s ok >= 99.9% error_rate<=2%")
	want := []Objective{
		{Text: "ttft.p95<1s", Metric: "ttft", LimitNS: 1e9, Allowed: 0.05},
		{Text: "tpot.p50<=50ms", Metric: "tpot", LimitNS: 5e7 + 1, Allowed: 0.5},
		{Text: "e2e-planned.p99.9<2.5s", Metric: "e2e_planned", LimitNS: 25e8, Allowed: 0.001},
		{Text: "ok>=99.9%", Metric: "ok", LimitNS: 0, Allowed: 0.001},
		{Text: "error_rate<=2%", Metric: "ok", LimitNS: 0, Allowed: 0.02},
	}
	must.Equal(t, len(got), len(want), "%v, and not %v", got, want)
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

// TestObjectivesOfOwners: those behind an owner are about its requests alone, and a rare owner has too few of them.
func TestObjectivesOfOwners(t *testing.T) {
	t.Parallel()
	all := objectivesOf(t, "ok>=50% class=gold ttft.p95<1s ok >= 90% tenant=b e2e.p50<2s")
	var got []string
	for _, o := range all {
		got = append(got, o.Quantity()+"|"+o.Label()+"|"+o.Field+"|"+o.Value)
	}
	want := []string{
		"error_rate|failures||", "class=gold ttft.p95|class=gold TTFT|class|gold", "class=gold error_rate|class=gold failures|class|gold",
		"tenant=b e2e.p50|tenant=b E2E|tenant|b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	rare := must.Have(New(Config{Objectives: all[1:2], WindowS: 10, Least: 1}))(t)
	slice := Slice{Requests: 900, Beyond: []int64{2}, Of: []Tally{{Requests: 20}}}
	p := Probe{Number: 1, Load: 1, Confirm: true}
	d := rare.Peek(p, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: []Slice{slice}})
	expect.Equal(t, d.Verdict, Breaks, "2 of 20 are more than 5 %: %s", d.Why)
	slice.Beyond = []int64{0}
	d = rare.Peek(p, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: []Slice{slice}})
	expect.Equal(t, d.Verdict+" "+d.Why, Unsure+" Too few requests to tell class=gold ttft.p95<1s: 20, and 59 would do.")
	slice.Of = []Tally{{}}
	d = rare.Peek(p, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: []Slice{slice}})
	expect.Equal(t, d.Verdict, Unsure, "none of gold's: %s", d.Why)
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
		"goodput>=90%":              "a goodput needs bounds",
		"goodput<90%":               "want the least share",
		"ttfx.p95<1s":               "want a percentile of ttft,",
		"ok>=100%":                  "allows 0",
		"ok>=0%":                    "allows 1",
		"ok<99%":                    "least share that is ok",
		"error_rate>1%":             "largest that fails",
		"ok>=ninety":                "want a share",
		"okay>=90%":                 "want a percentile of ttft,",
		"ttft.p95<1s ttft.p95<=2s":  "already",
		"ttft.p95<1s,error_rate<1s": "is no limit",
		"ttft.p95<1s class=gold":    "has no objective at its end",
		"class=gold ttfo.p95<1s":    "not known by tenant",
		"class=a ok>=9% ok>=9%":     "already",
	} {
		if all, err := ParseObjectives(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, %v; want one line with %q", text, all, err, want)
		}
	}
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	bounds := must.Have(metrics.ParseSLOs("ttft:1s tpot:10ms"))(t)
	objectives := must.Have(ParseObjectives("ttft.p95<1s tpot.p95<=10ms e2e.p95<3s e2e_planned.p95<3s ttft_planned.p95<1s ok>=99% goodput>=95%", bounds...))(t)
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
		"late by the plan alone": {answer(func(*record.Record) {}), "0000100"},
		"at the limit":           {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = 15e8, 25e8 }), "1000100"},
		"above the limits":       {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = 25e8, 36e8 }), "1111101"},
		"one token":              {answer(func(r *record.Record) { r.LastTokenNS, r.CompletionTokens = r.FirstTokenNS, 1 }), "0000100"},
		"failed in time":         {answer(func(r *record.Record) { r.Outcome = record.HTTPError }), "1111111"},
		"no token":               {answer(func(r *record.Record) { r.FirstTokenNS, r.LastTokenNS = record.None, record.None }), "1011101"},
	} {
		got := ""
		for i := range objectives {
			if objectives[i].Beyond(c.r) {
				got += "1"
			} else {
				got += "0"
			}
		}
		expect.Equal(t, got, c.want, name)
	}
}

// TestRowsOfWhatNeverEnded: a latency of which nothing ended is above its limit, if so many requests waited longer; of
// others nothing is known.
func TestRowsOfWhatNeverEnded(t *testing.T) {
	t.Parallel()
	objectives := objectivesOf(t, "ttft.p95<300ms tpot.p95<50ms ok>=99%")
	o := Outcome{Probe: Probe{Number: 1, Load: 2}, Verdict: Breaks, SliceS: 1, Slices: []Slice{{Requests: 40, Beyond: []int64{40, 0, 0}}}}
	o.Summarize(len(objectives))
	p := Page{Objectives: objectives, Outcomes: []Outcome{o}, Number: func(float64) string { return "2" }}
	_, rows := p.Table()
	if want := []string{"1", "2", "–", "> 300 ms", "–", "–", "–"}; !slices.Equal(rows[0][:7], want) || o.Slices != nil {
		t.Errorf("%q, want %q", rows, want)
	}
}

// TestBreaksWithoutOwner: that no request of an owner came hides nothing of what the others' requests broke.
func TestBreaksWithoutOwner(t *testing.T) {
	t.Parallel()
	objectives := objectivesOf(t, "ttft.p95<1s class=gold ttft.p95<2s")
	s := must.Have(New(Config{Objectives: objectives, WindowS: 10, Least: 1}))(t)
	slice := Slice{Requests: 900, Beyond: []int64{900, 0}, Of: []Tally{{Requests: 900}, {}}}
	d := s.Peek(Probe{Number: 1, Load: 1}, Peek{Ended: true, SliceS: 10, WindowS: 10, Slices: []Slice{slice}})
	expect.Equal(t, d.Verdict, Breaks, "%s", d.Why)
}
