// Package report puts a run's results on disk and on the terminal, and reads
// them back.
//
// It owns the output directory: run.json, requests.jsonl (or .zst), histograms.hlog, timeline.jsonl,
// timeline_instances.jsonl, server_metrics.jsonl and summary.json. It also owns the forms in which people read them:
// the page for the terminal and the HTML page. It counts nothing and judges nothing.
//
// A Writer and a SampleWriter belong to one goroutine each. Writer.Append allocates
// only while its buffer grows; everything else here is off the hot path.
//
// The package is not an API: any release may change it.
package report

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
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
	// ServerMetricsName has a line for each reading of a server's own metrics (scrape.Sample); absent where none was
	// read.
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

// Exists reports whether there is a file or a directory of this name.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Vacant returns nil if dir is empty or does not exist, so that a run can check before its work whether it may write
// there.
func Vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("output directory: %w; choose another with --output", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s holds %q; remove it or choose another with --output",
			ErrExists, dir, entries[0].Name())
	}
	return nil
}

// OwnNames returns the names of the files that a run writes into its directory.
func OwnNames() []string {
	return []string{
		PlanName,
		RequestsName,
		RequestsName + ".zst",
		HistogramsName,
		SummaryName,
		PageName,
		TimelineName,
		InstancesName,
		ServerMetricsName,
	}
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
			began[dir] = at
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		newest := began[b].Compare(began[a])
		return cmp.Or(newest, cmp.Compare(b, a))
	})
	return dirs, nil
}

// IsRun reports whether a run wrote to dir, and when its first file was written, as far as that is known.
func IsRun(dir string) (began time.Time, ok bool) {
	for _, name := range []string{PlanName, SummaryName, RequestsName, RequestsName + ".zst"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
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

// restore makes the file and its directory anew if they are gone. What was written is still to be read while it is
// open.
func (f *keptFile) restore() error {
	here, err := os.Stat(f.name)
	own, failed := f.Stat()
	if err == nil && failed == nil && !os.SameFile(here, own) {
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
	written := io.NewSectionReader(f.File, 0, math.MaxInt64)
	if _, err := io.Copy(anew, written); err != nil {
		err = fmt.Errorf("%s was removed during the run: %w", f.name, err)
		return errors.Join(err, anew.Close(), os.Remove(f.name))
	}
	_ = f.Close()
	f.File = anew.File
	if f.onRemoved != nil {
		f.onRemoved(f.name)
	}
	return nil
}

// WriteSummary writes dir/summary.json, all of it or nothing.
func WriteSummary(dir string, s *metrics.Summary) error {
	return WriteJSON(filepath.Join(dir, SummaryName), s)
}

// Plan is run.json: what is known of a run before its start, in the keys of summary.json.
type Plan struct {
	Schema int `json:"schema"` // version of this file, as of summary.json
	// as in summary.json; started_at is when this was written, and what only the run finds out is 0
	Run       metrics.Run      `json:"run"`
	Workload  metrics.Workload `json:"workload"`   // as in summary.json
	Load      metrics.Load     `json:"load"`       // its size, as planned; null where nothing is known
	WireBytes int64            `json:"wire_bytes"` // size of all requests
	Limits    metrics.Limits   `json:"limits"`     // as in summary.json
	Notes     []metrics.Note   `json:"notes"`      // about the run so far
}

// WritePlan writes dir/run.json, all of it or nothing.
func WritePlan(dir string, p *Plan) error {
	return WriteJSON(filepath.Join(dir, PlanName), p)
}

// ReadPlan reads dir/run.json; nil if there is none.
func ReadPlan(dir string) (*Plan, error) {
	p := new(Plan)
	err := ReadJSON(filepath.Join(dir, PlanName), p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// The largest files of results that are read. A summary of 1,024 instances and as many addresses has 3 MB, a
// histogram 10 kB at most.
const (
	mostJSON    = 16 << 20 // also of a timeline for the screen, half a second's work; that of 32 targets has 2 MB
	mostSamples = 1 << 30  // a page of metrics that is read each second fills it in a week
	mostNumber  = 1e30     // in JSON; seeds have up to 2e19
)

// Open opens a file of results that has at most so many bytes. It refuses what would not end, or would wait for
// somebody: pipes, devices.
func Open(name string, most int64) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is a pipe, a device or a directory; want a file, as the run wrote it", name)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; no run writes more than %d there", name, info.Size(), most)
	}
	return os.Open(name)
}

func readFile(name string, most int64) ([]byte, error) {
	file, err := Open(name, most)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// ReadJSON reads a file of one JSON object into v, and refuses numbers that no run writes. Errors name the file.
func ReadJSON(name string, v any) error {
	data, err := readFile(name, mostJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var all any
	_ = json.Unmarshal(data, &all)
	if beyond(all) {
		return fmt.Errorf("%s has a number above %g, which no run writes; was the file edited?", name, mostNumber)
	}
	return nil
}

// beyond reports whether there is a number in JSON whose sum with others might not fit.
func beyond(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) > mostNumber
	case []any:
		return slices.ContainsFunc(v, beyond)
	case map[string]any:
		values := slices.Collect(maps.Values(v))
		return slices.ContainsFunc(values, beyond)
	}
	return false
}

// EncodeJSON writes indented JSON, as summary.json has it, that a terminal can show.
func EncodeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(format.VisibleJSON(b.Bytes()))
	return err
}

// WriteJSON writes a file of one JSON object, as EncodeJSON does, all of it or nothing.
func WriteJSON(name string, v any) error {
	return WriteWhole(name, func(w io.Writer) error {
		return EncodeJSON(w, v)
	})
}

// WriteHistograms writes dir/histograms.hlog, all of it or nothing. start and
// end are the wall-clock times of the run.
func WriteHistograms(dir string, c *collect.Collector, start, end time.Time) error {
	return WriteWhole(filepath.Join(dir, HistogramsName), func(w io.Writer) error {
		return c.WriteHistograms(w, start, end)
	})
}

// Gaps returns the gaps between token chunks (ITL) of all targets together, in ns; nil without any, as of a run that
// was killed.
func Gaps(dir string) (gaps *hdrhistogram.Histogram, err error) {
	err = EachGaps(dir, func(_ string, of *hdrhistogram.Histogram) {
		if gaps == nil {
			gaps = of
			return
		}
		gaps.Merge(of)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return gaps, err
}

// EachGaps calls f with the gaps between token chunks of each target that has some.
func EachGaps(dir string, f func(target string, gaps *hdrhistogram.Histogram)) error {
	name := filepath.Join(dir, HistogramsName)
	text, err := readFile(name, mostJSON)
	if err != nil {
		return err
	}
	for h, err := range collect.Histograms(text) {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Metric == "itl" {
			f(h.Target, h.Values)
		}
	}
	return nil
}

// WriteTimeline writes dir/timeline.jsonl and, if answers name instances, dir/timeline_instances.jsonl, each whole or
// not at all.
func WriteTimeline(dir string, t *collect.Timeline) error {
	err := writeSteps(filepath.Join(dir, TimelineName), t.Targets())
	if !t.HasInstances() {
		return err
	}
	return errors.Join(err, writeSteps(filepath.Join(dir, InstancesName), t.Instances()))
}

func writeSteps(name string, all iter.Seq[[]metrics.Step]) error {
	return WriteWhole(name, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		for steps := range all {
			for i := range steps {
				if err := e.Encode(&steps[i]); err != nil {
					return err
				}
			}
		}
		return out.Flush()
	})
}

// Steps reads dir/timeline.jsonl, the steps of each target after those of another. It returns nil if there is none
// that can be read soon.
func Steps(dir string) []metrics.Step {
	steps, _ := readLines[metrics.Step](filepath.Join(dir, TimelineName), mostJSON) // none where it fails
	return steps
}

// WriteWhole writes a file beside its place and moves it there when it is
// complete and on disk; on error nothing is left of it.
func WriteWhole(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		err = fmt.Errorf("cannot write %s: %w", name, err)
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Load reads the summary of a results directory. A run that was killed left
// none; then it is rebuilt from the records. With SLOs the goodput is counted
// by them, from the records, and not the run's own.
func Load(dir string, slos ...metrics.SLO) (*metrics.Summary, error) {
	name := filepath.Join(dir, SummaryName)
	s := new(metrics.Summary)
	err := ReadJSON(name, s)
	if errors.Is(err, fs.ErrNotExist) {
		return rebuild(dir, slos)
	}
	if err != nil {
		return nil, err
	}
	if s.Schema != metrics.Schema {
		return nil, fmt.Errorf("%s: schema %d, but this version reads %d", name, s.Schema, metrics.Schema)
	}
	if len(slos) > 0 {
		return s, recount(dir, s, slos)
	}
	return s, nil
}

// SampleWriter writes server_metrics.jsonl, each sample at once, so that it outlives us. One goroutine at a time uses
// it.
type SampleWriter struct {
	file *keptFile
	err  error // the first
}

// NewSampleWriter creates server_metrics.jsonl in dir, which must not have one. onRemoved is as in WriterOptions.
func NewSampleWriter(dir string, onRemoved func(name string)) (*SampleWriter, error) {
	f, err := newKeptFile(filepath.Join(dir, ServerMetricsName), os.O_APPEND, onRemoved)
	if err != nil {
		return nil, err
	}
	return &SampleWriter{file: f}, nil
}

// Append writes a line. Close returns the error if that failed.
func (w *SampleWriter) Append(s *scrape.Sample) {
	line, err := json.Marshal(s)
	err = errors.Join(err, w.file.restore())
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	w.err = cmp.Or(w.err, err)
}

// Close closes the file and returns the first error of all.
func (w *SampleWriter) Close() error {
	return cmp.Or(w.err, w.file.Close())
}

// ReadLines reads a file of a JSON object a line, if there is one. A last line that was not finished does not count.
func ReadLines[T any](name string) (all []T, err error) { return readLines[T](name, mostSamples) }

func readLines[T any](name string, most int64) (all []T, err error) {
	text, err := readFile(name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			var cut *json.SyntaxError
			if !bytes.HasSuffix(line, []byte("\n")) && errors.As(err, &cut) {
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", name, len(all)+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Digest begins the SHA-256 of all these files. One that cannot be read again, such as a pipe, counts as empty.
func Digest(files []string) string {
	all := sha256.New()
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if f, err := os.Open(name); err == nil {
			_, _ = io.Copy(all, f)
			_ = f.Close()
		}
	}
	return hex.EncodeToString(all.Sum(nil)[:8])
}
