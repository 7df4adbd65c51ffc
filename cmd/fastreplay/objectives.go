package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// goodput is what --goodput says, of a run or of a report on one.
type goodput []string

func (g *goodput) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(
		(*[]string)(g),
		"goodput",
		nil,
		"count requests within `BOUNDS`, as \"ttft:500ms tpot:50ms\" or \"class=gold ttft:300\" (in ms); repeatable",
	)
}

func (g goodput) parse() ([]metrics.SLO, error) {
	slos, err := metrics.ParseSLOs(g...)
	if err != nil {
		return nil, suggestName(fmt.Errorf("--goodput: %w", err))
	}
	return slos, nil
}

// requirements are what --require says, of a run or of a report on one.
type requirements struct{ require []string }

func (r *requirements) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(
		&r.require,
		"require",
		nil,
		"an `OBJECTIVE`, such as \"ttft.p99<500ms\" or \"goodput>=99%\"; exit code 3 if it is missed, 4 if values "+
			"are too few to tell; repeatable",
	)
}

// check refuses what no run has.
func (r *requirements) check() error {
	for _, text := range r.require {
		if _, _, _, err := verdict.ParseRequirement(text); err != nil {
			return suggestName(fmt.Errorf("--require %w", err))
		}
	}
	return nil
}

// judgeAgain puts these objectives in place of the run's own, if there are any. A demo is not judged.
func (r *requirements) judgeAgain(dir string, s *metrics.Summary) error {
	if len(r.require) == 0 {
		return nil
	}
	if s.Run.Demo {
		return fmt.Errorf("--require: "+wasDemo, dir)
	}
	s.Limits.Require = r.require
	s.Verdict.Objectives = verdict.Objectives(s, s.Verdict.Unsafe)
	return nil
}

// checkRecords refuses objectives on a summary whose records are no longer those of the run: nobody can check it then.
// A part is counted from the records, so its verdict tells.
func (r *requirements) checkRecords(dir string, s *metrics.Summary) error {
	if len(r.require) == 0 || s.Window != nil {
		return nil
	}
	for _, err := range report.Checked(dir, s) {
		if err != nil {
			return fmt.Errorf("--require: %w", err)
		}
	}
	return nil
}

// wasDemo is why a run is not judged.
const wasDemo = "%s was a demo against the embedded mock, and says nothing of a server; give a run that was made " +
	"with --url"

// ending is the exit code of a report, as that of a run: a report without objectives judges nothing.
func (r *requirements) ending(s *metrics.Summary) error {
	if len(r.require) == 0 {
		return nil
	}
	return ending(false, s, nil)
}

func addExportFlag(f *pflag.FlagSet, names *[]string) {
	f.StringArrayVar(
		names,
		"export",
		nil,
		"also write the results as the files of a `TOOL`: "+strings.Join(export.Names(), ", ")+"; repeatable",
	)
}
