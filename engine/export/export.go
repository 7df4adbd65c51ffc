// Package export writes a run's results as the files of other tools, for dashboards, notebooks and systems of
// continuous integration that read those.
//
// It works from a results directory alone. So the end of a run and `fastreplay report` give the same bytes, unless the
// report judges the run anew. Names, units and formulas are the other tool's; what our records do not hold is absent
// (AIPerf) or null (vLLM), never 0. It measures nothing, and belongs to one goroutine at a time. Of the records it
// keeps a few numbers each in memory.
//
// The package is not an API: any release may change it.
package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// ErrExists is returned where a file of the export is there already: results are never overwritten.
var ErrExists = errors.New("already exported")

// tool is one that reads results, with its files.
type tool struct {
	name  string
	files []file
}

type file struct {
	name  string
	write func(io.Writer, *results) error
}

// hasRows reports whether it has requests alone, and no place for what tells of the run.
func (f *file) hasRows() bool {
	return f.name == "requests.csv" || f.name == "profile_export.jsonl"
}

func formats() []tool {
	return []tool{
		{
			"aiperf",
			[]file{{"profile_export.jsonl", writeAIPerfRecords}, {"profile_export_aiperf.json", writeAIPerfSummary}},
		},
		{"vllm", []file{{"vllm.json", writeVLLM}}},
		{"parquet", []file{{"requests.parquet", writeParquet}}},
		{"csv", []file{{"requests.csv", writeCSV}, {"summary.csv", writeQuantities}}},
		{"markdown", []file{{"summary.md", writeMarkdown}}},
		{"junit", []file{{"junit.xml", writeJUnit}}},
		{"openmetrics", []file{{"metrics.txt", writeOpenMetrics}}},
		{"benchmark-report", []file{{"benchmark_report.json", writeBenchmarkReport}}},
	}
}

// Names returns the formats that Write accepts.
func Names() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// Paths returns the files that Write makes in dir of the named formats.
func Paths(dir string, names []string) (paths []string) {
	for _, f := range formats() {
		for _, part := range f.files {
			if slices.Contains(names, f.name) {
				paths = append(paths, filepath.Join(dir, part.name))
			}
		}
	}
	return paths
}

// Check returns an error that lists what there is if one of the names is no format.
func Check(names []string) error {
	for _, name := range names {
		if _, err := find(name); err != nil {
			return err
		}
	}
	return nil
}

func find(name string) (tool, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return tool{}, fmt.Errorf("%q is no export: use one of %s", name, strings.Join(Names(), ", "))
}

// Named are files that a tool writes under names of their own.
type Named struct {
	Tool  string   // as Names has it
	Paths []string // in the order of the tool's files
	InDir bool     // relative paths lie in the directory of the results
}

// Write writes the files of the named format, of the results in dir, to paths: as many as the format has files, in
// their order. Each is written whole or not at all; on error none of them is left. s is the summary of the results as a
// report judges them anew; nil = that on disk. The words are the paths, and what cannot tell of an invalid measurement.
func Write(dir, name string, paths []string, s *metrics.Summary) (words string, err error) {
	f, err := find(name)
	if err != nil {
		return "", err
	}
	return f.write(dir, paths, s)
}

// Vacant returns an error that names the first of the paths to which nothing can be written, or where something is.
// It leaves no file.
func Vacant(paths []string) error {
	for _, path := range paths {
		_, err := os.Lstat(path)
		if err == nil {
			return fmt.Errorf("%w: %s is there; remove it or choose another name", ErrExists, path)
		}
		var f *os.File
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
		}
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	return nil
}

func (f *tool) write(dir string, paths []string, s *metrics.Summary) (words string, err error) {
	if err := Vacant(paths); err != nil {
		return "", err
	}
	r, err := load(dir, s)
	if err != nil {
		return "", err
	}
	words = strings.Join(paths, ", ")
	for i, part := range f.files {
		if part.hasRows() && r.summary.Verdict.Measurement == metrics.Invalid {
			words += "; the measurement is INVALID, which " + filepath.Base(paths[i]) + " has no place for"
		}
		if err := report.WriteWhole(paths[i], func(w io.Writer) error {
			return part.write(w, r)
		}); err != nil {
			for _, written := range paths[:i] {
				err = errors.Join(err, os.Remove(written))
			}
			return "", err
		}
	}
	return words, nil
}
