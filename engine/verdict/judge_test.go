package verdict

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// sound is the summary of a run with nothing wrong with it, every number just
// inside its limit.
func sound() *metrics.Summary {
	return &metrics.Summary{
		Limits: metrics.DefaultLimits(),
		Run:    metrics.Run{DurationS: 10, Host: metrics.Host{CPUs: 2}},
		Requests: metrics.Requests{Planned: 1000, Sent: 1000, OK: 500, Failed: 500, Resent: 7, Late: 12, ByOutcome: map[string]int64{"ok": 500, "timeout": 500},
			Failures: []metrics.Failure{{Outcome: "timeout", Phase: metrics.PhaseStream, Count: 500}}},
		RunLatencies: metrics.RunLatencies{DriftUS: &stats.Percentiles{P50: 1000, P99: 5e6, P999: 9e6, Max: 9e6, Mean: 900, Count: 1000}},
		Lateness:     metrics.Lateness{DisplacedMS: 15, Displaced: 100, MeanGapMS: new(10.0), Sending: []metrics.Unsafe{}, Reading: []metrics.Unsafe{}},
		Tokens:       metrics.Tokens{Prompt: 100_000, OverLong: 3},
		Workload:     metrics.Workload{InputTokens: 100_000, ShortRows: 3, ShortSurplus: 1000},
		PrefixCache: metrics.PrefixCache{
			AboveIdealTokens: 1000, AboveIdealRequests: 2,
		},
		Connections: metrics.Connections{NotReady: 1, MaxWaitMS: 0.501},
		Writes:      metrics.Writes{Partial: 400},
		Client:      metrics.Client{CPUS: 19, ReceiveLagUS: &stats.Percentiles{P99: 5e6, Max: 1e7}},
	}
}

// said are the reasons of a verdict, a sentence each.
func said(v metrics.Verdict) (out []string) {
	for _, r := range v.Reasons {
		out = append(out, r.String())
	}
	return out
}

// changed is a summary with keys of summary.json set to other values, as KEY.KEY=JSON.
func changed(t *testing.T, s *metrics.Summary, edits ...string) *metrics.Summary {
	t.Helper()
	var all map[string]any
	must.Do(t, json.Unmarshal(must.Have(json.Marshal(s))(t), &all))
	for _, edit := range edits {
		path, text, _ := strings.Cut(edit, "=")
		keys := strings.Split(path, ".")
		last := len(keys) - 1
		at := all
		for _, key := range keys[:last] {
			at = at[key].(map[string]any)
		}
		var value any
		must.Do(t, json.Unmarshal([]byte(text), &value), edit)
		at[keys[last]] = value
	}
	out := new(metrics.Summary)
	in := json.NewDecoder(bytes.NewReader(must.Have(json.Marshal(all))(t)))
	in.DisallowUnknownFields()
	must.Do(t, in.Decode(out), edits)
	return out
}

// TestJudge: the verdict of each world of testdata/judge.txt, to the word.
func TestJudge(t *testing.T) {
	text := string(must.Have(os.ReadFile("testdata/judge.txt"))(t))
	worlds := strings.Split(text, "\n== ")[1:]
	var common []string
	for _, world := range worlds {
		world, want, judged := strings.Cut(world, "\n=> ")
		lines := strings.Split(strings.TrimSpace(world), "\n")
		name, edits := lines[0], lines[1:]
		if !judged {
			common = edits
			continue
		}
		s := changed(t, sound(), slices.Concat(common, edits)...)
		got := Judge(s)
		for _, r := range got.Reasons {
			expect.Equal(t, r.Do != "", true, "%s: %s does not say what to do", name, r.Code)
		}
		words := append([]string{string(got.Measurement)}, said(got)...)
		expect.Equal(t, strings.Join(words, "\n"), strings.TrimSpace(want), name)
		expect.Equal(t, got.Valid, got.Measurement != metrics.Invalid, name)
		if got.Reasons == nil || got.Unsafe == nil || got.Objectives == nil {
			t.Errorf("%s: a list is nil; JSON must have []", name)
		}
		if (len(got.Unsafe) > 0) != strings.Contains(want, "may be off") {
			t.Errorf("%s: unsafe %v", name, got.Unsafe)
		}
		if s.Verdict.Reasons != nil || s.Verdict.Valid {
			t.Errorf("%s: Judge changed the summary", name)
		}
	}
	must.Equal(t, len(worlds) > 70, true, "worlds")
}

// TestUnfilled: a closed loop of fewer requests than slots is another load, by as much as slots may be empty at all. So
// are lanes that lack jobs, unless some may go on only after the end of the run.
func TestUnfilled(t *testing.T) {
	for slots, want := range map[int64]metrics.Grade{
		0: metrics.Valid, 1000: metrics.Valid, 1001: metrics.Limited, 1333: metrics.Limited, 1334: metrics.Invalid, 1e6: metrics.Invalid,
	} {
		s := sound()
		s.Run.Concurrency = slots
		s.Lateness.SlotsLostShare = new(0.0)
		v := Judge(s)
		expect.Equal(t, v.Measurement, want, "%d slots: %v", slots, said(v))
		s.Window = new(metrics.Window) // a part of a run has but some of its requests
		expect.Equal(t, Judge(s).Measurement, metrics.Valid, "%d slots", slots)
		s.Window, s.Run.Partial = nil, true // nor has what is left of one that was killed
		expect.Equal(t, len(Judge(s).Reasons), 1, "%d slots", slots)
	}
	for _, c := range []struct {
		jobs, cutOff int64
		prepared     *metrics.Preparation
		want         metrics.Grade
	}{
		{10, 0, nil, metrics.Valid},
		{9, 0, nil, metrics.Limited},
		{9, 9, nil, metrics.Limited},
		{7, 0, nil, metrics.Invalid},
		{7, 0, new(metrics.Preparation), metrics.Invalid},
		{7, 1, new(metrics.Preparation), metrics.Valid},
	} {
		s := sound()
		s.Run.Lanes = 10
		s.Preparation = c.prepared
		s.Jobs = &metrics.Jobs{Jobs: c.jobs, CutOff: c.cutOff}
		v := Judge(s)
		expect.Equal(t, v.Measurement, c.want, "%+v: %v", c, said(v))
	}
}
