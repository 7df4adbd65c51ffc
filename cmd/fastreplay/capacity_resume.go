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
	"strconv"
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
	o := s.o
	all := map[string]string{
		"--trace": strings.Join(each(o.traces, absolute), ","), "number of its requests": strconv.Itoa(s.requests), "--url": strings.Join(each(o.urls, withoutQuery), ","),
		"--slo": o.slo, "--over": o.over, "--range": fmt.Sprintf("%v:%v", o.loads[0], o.loads[1]), "--window": o.window.String(), "--warm-in": o.warmIn.String(),
		"--precision": fmt.Sprint(o.precision), "--seed": fmt.Sprint(o.seed),
	}
	for name, v := range replay {
		if name != "trace" {
			all["behind --, --"+name] = fmt.Sprintf("%s", v) // a text, JSON or a list
		}
	}
	return all
}

// open makes the directory of the search, or goes on with one.
func (s *searching) open(settings map[string]string) (err error) {
	s.dir = s.o.output
	before, err := os.ReadFile(filepath.Join(s.dir, settingsName))
	if s.dir == "" || errors.Is(err, os.ErrNotExist) {
		s.dir, err = report.Create(s.dir, time.Now())
	}
	if err == nil {
		s.outcomes, err = report.ReadLines[capacity.Outcome](filepath.Join(s.dir, journalName))
	}
	switch {
	case err != nil:
		return err
	case len(s.outcomes) == 0:
		return report.WriteWhole(filepath.Join(s.dir, settingsName), func(w io.Writer) error { return report.EncodeJSON(w, settings) })
	}
	if err := sameSettings(s.dir, before, settings); err != nil {
		return err
	}
	s.ui.line("goes on after probe %d in %s", len(s.outcomes), s.dir)
	for _, o := range s.outcomes {
		s.search.Add(o)
	}
	return nil
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

// note adds the outcome of a probe, and writes the journal.
func (s *searching) note(o capacity.Outcome) error {
	s.outcomes = append(s.outcomes, o)
	s.search.Add(o)
	err := report.WriteWhole(filepath.Join(s.dir, journalName), func(w io.Writer) (err error) {
		for i := range s.outcomes {
			err = errors.Join(err, json.NewEncoder(w).Encode(&s.outcomes[i]))
		}
		return err
	})
	if err != nil {
		return &exitError{exitInvalid, fmt.Sprintf("results are incomplete on disk: %v", err)}
	}
	return nil
}
