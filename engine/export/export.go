// Package export writes a run's results as the files of other tools, for dashboards and notebooks that read those.
//
// It works from a results directory alone, so that the end of a run and `fastreplay report` give the same bytes. Names, units
// and formulas are the other tool's; what our records do not hold is absent (AIPerf) or null (vLLM), never 0. It measures
// nothing, and belongs to one goroutine at a time. Of the records it keeps a few numbers each in memory.
package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// ErrExists is returned where a file of the export is there already: results are never overwritten.
var ErrExists = errors.New("already exported")

// format is what one tool reads.
type format struct {
	name  string
	files []file
}

type file struct {
	name  string
	write func(io.Writer, *results) error
}

func formats() []format {
	return []format{
		{
			"aiperf",
			[]file{{"profile_export.jsonl", writeAIPerfRecords}, {"profile_export_aiperf.json", writeAIPerfSummary}},
		},
		{"vllm", []file{{"vllm.json", writeVLLM}}},
		{"parquet", []file{{"requests.parquet", writeParquet}}},
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

// Check returns an error that lists what there is if one of the names is no format.
func Check(names []string) error {
	for _, name := range names {
		if _, err := find(name); err != nil {
			return err
		}
	}
	return nil
}

func find(name string) (format, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("%q is no export: use one of %s", name, strings.Join(Names(), ", "))
}

// Write adds the files of the named format to the results in dir and returns their paths. Each is written whole or not at
// all; on error none of them is left. Where slos are given, goodput is by them and not by the run's own.
func Write(dir, name string, slos ...metrics.SLO) (paths []string, err error) {
	f, err := find(name)
	if err != nil {
		return nil, err
	}
	for _, part := range f.files {
		path := filepath.Join(dir, part.name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s is there; remove it to export %s again", ErrExists, path, f.name)
		}
	}
	r, err := load(dir, slos...)
	if err != nil {
		return nil, err
	}
	return f.write(r)
}

func (f *format) write(r *results) (paths []string, err error) {
	for _, part := range f.files {
		path := filepath.Join(r.dir, part.name)
		if err := report.WriteWhole(path, func(w io.Writer) error { return part.write(w, r) }); err != nil {
			for _, written := range paths {
				err = errors.Join(err, os.Remove(written))
			}
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
