package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func addExportFlag(f *pflag.FlagSet, names *[]string) {
	f.StringArrayVar(names, "export", nil, "also write the files of another `TOOL` into the results: "+strings.Join(export.Names(), ", ")+"; repeatable")
}

func checkExports(names []string) error {
	if err := export.Check(names); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// writeExports writes each export once, whatever becomes of another one; slos take the place of the run's own.
func writeExports(say *terminal, dir string, names []string, slos ...metrics.SLO) error {
	var errs []error
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		paths, err := export.Write(dir, name, slos...)
		if err != nil {
			errs = append(errs, fmt.Errorf("--export %s: %w", name, err))
			continue
		}
		say.line("exported for %s: %s", name, strings.Join(paths, ", "))
	}
	return errors.Join(errs...)
}
