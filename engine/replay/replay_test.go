package replay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/engine/internal/must"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/setup"
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
		"--answers exact":                     func(c *replay.Config) { c.Sessions.Answers = "exact" },
		"no request of the selection depends": func(c *replay.Config) { c.Sessions.Mode = setup.SessionsGated },
	} {
		cfg := configure(t)
		change(&cfg)
		if summary, err := replay.Run(t.Context(), &cfg, nil); summary != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("summary %v, error %v; want one with %q", summary, err, want)
		}
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
		}
	}
	if len(kept) < 2 || kept[0] != cfg.Notes[0] || !slices.ContainsFunc(kept, func(n string) bool { return strings.HasPrefix(n, "cold: off") }) {
		t.Errorf("notes %q", kept)
	}
	others := func(n string) bool { return !slices.Contains(kept, n) } // such as what the machine took
	if results := slices.DeleteFunc(slices.Clone(summary.Notes), others); !slices.Equal(results, kept) {
		t.Errorf("results keep %q, told were %q", results, kept)
	}
	files, err := os.ReadDir(cfg.Output)
	if err != nil || len(files) < 4 {
		t.Errorf("files %v, %v", files, err)
	}
}
