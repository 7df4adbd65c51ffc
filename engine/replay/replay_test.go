package replay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

func configure(t *testing.T) replay.Config {
	server := startServer()
	t.Cleanup(func() { _ = server.Close() })
	cfg := replay.Defaults()
	cfg.Traces, cfg.URLs = []string{"../../bench/samples/mooncake-small.jsonl"}, []string{server.URL()}
	cfg.Output, cfg.Read.Limit, cfg.Pacing.Scale = filepath.Join(t.TempDir(), "run"), 10, 100
	return cfg
}

// listener notes what it is told, and ends the run when it is built.
type listener struct {
	replay.Silent
	notes []setup.Note
	built func()
	began bool
}

func (l *listener) Note(n setup.Note) { l.notes = append(l.notes, n) }

func (l *listener) Built(*replay.Running) { l.built() }

func (l *listener) Begun(*replay.Running) func() {
	l.began = true
	return func() {}
}

// TestRunEndedBeforeTheStart: its error is the cause, nothing was sent, and nothing is left on disk.
func TestRunEndedBeforeTheStart(t *testing.T) {
	cause := errors.New("somebody changed his mind")
	cfg := configure(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	l := &listener{built: func() { cancel(cause) }}
	summary, err := replay.Run(ctx, &cfg, l)
	if summary != nil || !errors.Is(err, cause) || l.began {
		t.Errorf("summary %v, error %v, began %t", summary, err, l.began)
	}
	if report.Exists(cfg.Output) {
		t.Errorf("%s is left", cfg.Output)
	}
}

// TestRefusedRun: what cannot be set up is an error before anything is sent.
func TestRefusedRun(t *testing.T) {
	for want, change := range map[string]func(*replay.Config){
		"--url":                               func(c *replay.Config) { c.URLs = nil },
		"no-such-trace":                       func(c *replay.Config) { c.Traces = []string{"no-such-trace"} },
		"--force-answers":                     func(c *replay.Config) { c.Sessions.ForceAnswers = true },
		"no request of the selection depends": func(c *replay.Config) { c.Sessions.Mode = setup.SessionsGated },

		"no trace; give":                   func(c *replay.Config) { c.Traces = nil },
		"name it, as in":                   func(c *replay.Config) { c.URLs, c.Limits.Require = nil, []string{"ttft.p99<1s"} },
		"--require \"nosuch\"":             func(c *replay.Config) { c.Limits.Require = []string{"nosuch<3"} },
		"the bounds that goodput":          func(c *replay.Config) { c.Limits.Require = []string{"goodput>=99%"} },
		"--until \"ttft.p99\"":             func(c *replay.Config) { c.Limits.Until = "ttft.p99" },
		"--abort-if \"ttft.p99\"":          func(c *replay.Config) { c.Limits.AbortIf = "ttft.p99" },
		"--until: no shard knows":          func(c *replay.Config) { c.Limits.Until, c.Shard.Count = "ttft.p99±5%", 2 },
		"--max-error-rate 2":               func(c *replay.Config) { c.Limits.MaxErrorRate = new(2.0) },
		"--route \"nothing\": want one of": func(c *replay.Config) { c.Route = "nothing" },
		"--realtime \"perhaps\"":           func(c *replay.Config) { c.Realtime = "perhaps" },
		"several models; want one":         func(c *replay.Config) { c.Model = "a,b" },
		"--header: one has no colon":       func(c *replay.Config) { c.Headers = []string{"nocolon"} },
		"exclude each other":               func(c *replay.Config) { c.Key, c.APIKeyFile = "a", "b" },
		"--extra-inputs":                   func(c *replay.Config) { c.Extra = []byte("{") },
		"--rate: ":                         func(c *replay.Config) { c.Pacing.Arrivals = &sched.Arrivals{Process: sched.Constant} },
		"want a number of lanes":           func(c *replay.Config) { c.Sessions.Mode = setup.SessionsLanes },
		"say when the run ends, with --duration": func(c *replay.Config) {
			c.Sessions.Mode, c.Pacing.Lanes, c.Sessions.Recycle = setup.SessionsLanes, 2, true
		},
		"it says how lanes take jobs": func(c *replay.Config) { c.Sessions.Recycle, c.Pacing.Duration = true, time.Second },
		"--recycle takes jobs again": func(c *replay.Config) {
			c.Sessions.Mode, c.Pacing.Lanes, c.Sessions.Snapshot = setup.SessionsLanes, 2, &workload.Snapshot{To: 1}
			c.Repeat = 2
		},
		"--duration -1s":               func(c *replay.Config) { c.Pacing.Duration = -time.Second },
		"--scrape-interval is 1ms":     func(c *replay.Config) { c.Scrape.Interval = time.Millisecond },
		"say when all shards begin":    func(c *replay.Config) { c.Shard.Count = 2 },
		"--load-bound 0.5":             func(c *replay.Config) { c.LoadBound = 0.5 },
		"use another router":           func(c *replay.Config) { c.Route, c.Sessions.History = "least-inflight", setup.HistoryLive },
		"--idle-cap tree= is about":    func(c *replay.Config) { c.Sessions.Mode, c.Sessions.Idle.Tree = setup.SessionsThink, time.Second },
		"--repeat is 0":                func(c *replay.Config) { c.Repeat = 0 },
		"--warmup is -1":               func(c *replay.Config) { c.Warmup = -1 },
		"--timeout must be above 0":    func(c *replay.Config) { c.Timeout = 0 },
		"--idle-timeout":               func(c *replay.Config) { c.IdleTimeout = 0 },
		"--start-barrier: it is where": func(c *replay.Config) { c.Barrier = "somewhere" },
		"after the agreed start":       func(c *replay.Config) { c.StartAt = time.Now().Add(-time.Hour) },
		"--senders is 0":               func(c *replay.Config) { c.Senders = 0 },
		"--instance-header":            func(c *replay.Config) { c.InstanceHeaders = []string{"a:b"} },
		"--instance-field \"a.\"":      func(c *replay.Config) { c.InstanceField = []string{"a", ""} },
		"--export: ":                   func(c *replay.Config) { c.Exports = []string{"nothing"} },
	} {
		cfg := configure(t)
		change(&cfg)
		summary, err := replay.Run(t.Context(), &cfg, nil)
		expect.Equal(t, summary, nil, "a summary beside %v", err)
		expect.Error(t, err, want)
		if report.Exists(cfg.Output) {
			t.Errorf("%q: %s is left", want, cfg.Output)
		}
	}
}

// TestNotesOfARun: the observer is told, in order, what results keep.
func TestNotesOfARun(t *testing.T) {
	cfg := configure(t)
	cfg.Notes, cfg.Cold = []string{"from the caller"}, "off"
	l := &listener{built: func() {}}
	summary := must.Have(replay.Run(t.Context(), &cfg, l))(t)
	var kept []string
	for _, n := range l.notes {
		if n.Level == setup.Keep {
			kept = append(kept, n.Text)
			if n.Code == "" {
				t.Errorf("no code: %q", n.Text)
			}
		}
	}
	if len(kept) < 2 || kept[0] != cfg.Notes[0] || !slices.ContainsFunc(kept, func(n string) bool { return strings.HasPrefix(n, "cold: off") }) {
		t.Errorf("notes %q", kept)
	}
	others := func(n string) bool { return !slices.Contains(kept, n) } // such as what the machine took
	expect.List(t, slices.DeleteFunc(slices.Clone(summary.Notes), others), kept, "results keep")
	files, err := os.ReadDir(cfg.Output)
	if err != nil || len(files) < 4 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestPlanRemoved: a plan that is removed during the run is there again at its end.
func TestPlanRemoved(t *testing.T) {
	cfg := configure(t)
	remove := func() { must.Do(t, os.Remove(filepath.Join(cfg.Output, report.PlanName))) }
	_, err := replay.Run(t.Context(), &cfg, &listener{built: remove})
	must.Do(t, err)
	if plan := must.Have(report.ReadPlan(cfg.Output))(t); plan == nil || plan.WireBytes == 0 {
		t.Errorf("plan %+v", plan)
	}
}

// TestRunEndedEarly: a run that is lost misses an objective, and what was not released is no part of it, whoever sends.
func TestRunEndedEarly(t *testing.T) {
	for _, c := range []struct{ concurrency, senders int }{{0, 2}, {1000, 1}} {
		cfg := configure(t)
		cfg.Read.Limit, cfg.Repeat, cfg.Pacing.Scale = 100, 60, 1
		cfg.Pacing.Arrivals = &sched.Arrivals{Process: sched.Constant, Rate: sched.Steady(300)}
		cfg.Pacing.Concurrency, cfg.Senders = c.concurrency, c.senders
		cfg.Limits.AbortIf = "e2e.p99>1us"
		s := must.Have(replay.Run(t.Context(), &cfg, nil))(t)
		if s.Requests.Planned >= 6000 || s.Requests.ByOutcome["not_sent"] > 0 || s.Run.Partial ||
			s.Requests.Planned != s.Records.Count || s.Workload.Requests != s.Records.Count {
			t.Errorf("%+v: %+v, %+v", c, s.Requests, s.Run)
		}
		if s.Run.Aborted == "" || s.Verdict.Missed() != 1 {
			t.Errorf("%+v: %q, %d missed", c, s.Run.Aborted, s.Verdict.Missed())
		}
	}
}
