package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/engine/capacity"
	"github.com/fastreplay/fastreplay/engine/report"
)

// The files of a search, beside a directory for each probe.
const (
	settingsName = "search.json"
	journalName  = "probes.jsonl"
	answerName   = "capacity.json"
	capacityPage = "capacity.html"
)

// settings are all that the outcomes of probes depend on, by flag. They are search.json. Secrets are not among them.
func (s *searching) settings(replay map[string]any) map[string]string {
	o, all := s.o, map[string]string{}
	for name, v := range map[string]any{
		"--trace": each(o.traces, absolute), "number of its requests": s.requests, "--url": each(o.urls, withoutQuery), "--slo": o.slo, "--over": o.over,
		"--range": o.loads, "--window": o.window, "--warm-in": o.warmIn, "--precision": o.precision, "--seed": o.seed,
	} {
		all[name] = plain(v)
	}
	for name, v := range replay {
		if name != "trace" {
			all["behind --, --"+name] = plain(v)
		}
	}
	return all
}

// plain is a flag's value as it is given: lists have commas.
func plain(v any) string {
	switch v := v.(type) {
	case []string:
		return strings.Join(v, ",")
	case [2]float64:
		return fmt.Sprintf("%v:%v", v[0], v[1])
	}
	return fmt.Sprint(v)
}

// open makes the directory of the search, or goes on with one.
func (s *searching) open(settings map[string]string) (err error) {
	s.dir = s.o.output
	before, err := os.ReadFile(filepath.Join(s.dir, settingsName))
	if s.dir == "" || errors.Is(err, os.ErrNotExist) {
		s.dir, err = report.Create(s.dir, time.Now())
	}
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, journalName)
	journal, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	whole := 0
	if s.outcomes, whole, err = capacity.ReadOutcomes(journal); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(s.outcomes) == 0 {
		err = report.WriteWhole(filepath.Join(s.dir, settingsName), func(w io.Writer) error { return report.EncodeJSON(w, settings) })
	} else if err = sameSettings(s.dir, before, settings); err == nil {
		s.ui.line("goes on after probe %d in %s", len(s.outcomes), s.dir)
	}
	if err == nil {
		err = report.WriteWhole(name, func(w io.Writer) error { _, err := w.Write(journal[:whole]); return err })
	}
	if err == nil {
		s.journal, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	}
	for _, o := range s.outcomes {
		s.search.Add(o)
	}
	return err
}

// sameSettings refuses to go on with another search, and names the difference.
func sameSettings(dir string, before []byte, is map[string]string) error {
	var was map[string]string
	if err := json.Unmarshal(before, &was); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, settingsName), err)
	}
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if was[name] != is[name] {
			return fmt.Errorf("%s is of another search: %s was %q there, and is %q now; give the same, or another --output", dir, name, was[name], is[name])
		}
	}
	return nil
}

// note adds the outcome of a probe to the journal.
func (s *searching) note(o capacity.Outcome) error {
	line, err := capacity.AppendOutcome(nil, o)
	if err == nil {
		_, err = s.journal.Write(line)
	}
	if err = errors.Join(err, s.journal.Sync()); err != nil {
		return &exitError{exitInvalid, fmt.Sprintf("results are incomplete on disk: %v", err)}
	}
	s.outcomes = append(s.outcomes, o)
	s.search.Add(o)
	return nil
}

// discard removes what a search without an outcome left.
func (s *searching) discard() {
	for _, name := range []string{settingsName, journalName, ""} {
		if len(s.outcomes) == 0 {
			_ = os.Remove(filepath.Join(s.dir, name)) // the directory only if it is empty
		}
	}
}
