// Package report puts a run's results on disk and on the terminal, and reads
// them back.
//
// It owns the output directory: run.json, requests.jsonl (or .zst), histograms.hlog, timeline.jsonl, timeline_instances.jsonl,
// server_metrics.jsonl and summary.json. It also owns the forms in which people read them: the page for the terminal and
// the HTML page. It measures nothing and judges nothing; that is engine/metrics.
//
// A Writer and a SampleWriter belong to one goroutine each. Writer.Append allocates
// only while its buffer grows; everything else here is off the hot path.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// The files of an output directory.
const (
	// PlanName is written before the start (Plan).
	PlanName       = "run.json"
	RequestsName   = "requests.jsonl" // with ".zst" behind it when compressed
	HistogramsName = "histograms.hlog"
	SummaryName    = "summary.json"
	PageName       = "report.html"
	// TimelineName has a line for each step of time of each target (metrics.Step).
	TimelineName = "timeline.jsonl"
	// InstancesName has the same of each instance; absent where no answer names one.
	InstancesName = "timeline_instances.jsonl"
	// ServerMetricsName has a line for each reading of a server's own metrics (scrape.Sample); absent where none was read.
	ServerMetricsName = "server_metrics.jsonl"
)

// DefaultRoot is where runs go that name no directory.
const DefaultRoot = "results"

// ErrExists is returned for an output directory that holds something already.
var ErrExists = errors.New("the output directory is not empty")

// Create makes the output directory and returns its path. dir "" means
// results/<UTC time of now>, with a number behind it if that exists already.
// A given directory may exist if it is empty; results are never overwritten.
func Create(dir string, now time.Time) (string, error) {
	if dir != "" {
		return dir, create(dir)
	}
	base := filepath.Join(DefaultRoot, now.UTC().Format("2006-01-02T150405Z"))
	for n := 1; ; n++ {
		dir = base
		if n > 1 {
			dir = base + "-" + strconv.Itoa(n)
		}
		if err := create(dir); !errors.Is(err, ErrExists) {
			return dir, err
		}
	}
}

func create(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("output directory: %w; choose another with --output", err)
	}
	return Vacant(dir)
}

// Vacant returns nil if dir is empty or does not exist, so that a run can check before its work whether it may write there.
func Vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory: %w; choose another with --output", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s holds %q; remove it or choose another with --output", ErrExists, dir, entries[0].Name())
	}
	return nil
}

// Runs returns the directories of runs below root, the newest first.
func Runs(root string) (dirs []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	began := map[string]time.Time{}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if at, ok := IsRun(dir); ok {
			began[dir], dirs = at, append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(began[b].Compare(began[a]), cmp.Compare(b, a)) })
	return dirs, nil
}

// IsRun reports whether a run wrote to dir, and when its first file was written, as far as that is known.
func IsRun(dir string) (began time.Time, ok bool) {
	for _, name := range []string{PlanName, SummaryName, RequestsName, RequestsName + ".zst"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return info.ModTime(), true
		}
	}
	return began, false
}

// keptFile is a file of results that is made anew, with all that is in it, when its name has been removed.
type keptFile struct {
	*os.File
	name      string
	flag      int
	onRemoved func(name string)
}

func newKeptFile(name string, flag int, onRemoved func(string)) (*keptFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|flag, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot write results: %w", err)
	}
	return &keptFile{f, name, flag, onRemoved}, nil
}

// restore makes the file and its directory anew if they are gone. What was written is still to be read while it is open.
func (f *keptFile) restore() error {
	here, err := os.Stat(f.name)
	if own, failed := f.Stat(); err == nil && failed == nil && !os.SameFile(here, own) {
		return fmt.Errorf("%s was replaced by another file during the run", f.name)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
		return fmt.Errorf("%s was removed during the run: %w", f.name, err)
	}
	anew, err := newKeptFile(f.name, f.flag, f.onRemoved)
	if err != nil {
		return err
	}
	if _, err := io.Copy(anew, io.NewSectionReader(f.File, 0, math.MaxInt64)); err != nil {
		return errors.Join(fmt.Errorf("%s was removed during the run: %w", f.name, err), anew.Close(), os.Remove(f.name))
	}
	_ = f.Close()
	f.File = anew.File
	if f.onRemoved != nil {
		f.onRemoved(f.name)
	}
	return nil
}
