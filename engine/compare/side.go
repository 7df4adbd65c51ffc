package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// Side is one or several runs that were made with the same server and the same workload. ReadSide makes it; it is not changed later.
type Side struct {
	name string // as given; "" = to be found by Compare
	runs []*run
}

// run is one run of a side.
type run struct {
	dir     string
	summary *metrics.Summary
	rows    []row // by index
}

// row is what a comparison needs of one request. Numbers are as in its record, and may be record.None.
type row struct {
	index                          int64 // in the plan, which is the same in all runs of a workload
	group                          int64 // job or conversation
	planned, sent, first, last     int64 // ns
	done                           int64
	prompt, cached, output, chunks int64
	choices, decode                int64
	target, instance               string // one string for all rows with it
	state                          state
	told                           bool // the server sent counts of tokens
}

type state uint8

const (
	ok      state = iota
	failed        // any outcome but ok
	stopped       // not sent or broken off, since the run ended before, or left out by the user
)

// ReadSide reads the runs of a side from their directories, in the order in which they were made. With name "" the side is called by its
// target or directory. It is an error if a directory has no results, or if two runs had different workloads (*DifferentError).
func ReadSide(name string, dirs ...string) (*Side, error) {
	if len(dirs) == 0 {
		return nil, errors.New("a side needs at least one directory of results")
	}
	s := &Side{name: name}
	for _, dir := range dirs {
		summary, err := report.Load(dir)
		if err != nil {
			return nil, err
		}
		err = s.Add(dir, summary, func(yield func(*record.Record)) error {
			_, err := report.EachRecord(dir, yield)
			if errors.Is(err, report.ErrNoResults) {
				err = fmt.Errorf("%s has no %s, by which requests are paired", dir, report.RequestsName)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add adds a run to a side: its summary, and its records in any order, which are not kept. dir names it. The zero Side has no runs.
func (s *Side) Add(dir string, summary *metrics.Summary, each func(func(*record.Record)) error) error {
	r := &run{dir: dir, summary: summary}
	reports := map[string]bool{}
	var bad error
	err := each(func(rec *record.Record) {
		index, err := strconv.ParseInt(rec.RequestID[strings.LastIndexByte(rec.RequestID, '-')+1:], 10, 64)
		if err != nil {
			bad = fmt.Errorf("%s: request_id %q ends with no number, by which requests are paired", dir, rec.RequestID)
			return
		}
		w := row{
			index: index, group: rec.Job, planned: rec.PlannedNS, sent: rec.SentNS, first: rec.FirstTokenNS, last: rec.LastTokenNS,
			done: rec.DoneNS, prompt: rec.PromptTokens, cached: rec.CachedTokens, output: rec.CompletionTokens, chunks: rec.Chunks,
			choices: rec.Choices, decode: rec.DecodeNS, target: unique.Make(rec.Target).Value(), instance: unique.Make(rec.Instance).Value(), told: rec.ToldUsage(),
		}
		if w.group == record.None {
			w.group = rec.Session
		}
		if w.prompt == record.None {
			w.prompt = rec.InputTokens
		}
		over := summary.Run.Partial || summary.Run.Cut
		switch {
		case rec.LeftOut() || over && (rec.Outcome == record.Cancelled || rec.Outcome == record.NotSent):
			w.state = stopped
		case rec.Outcome != record.OK:
			w.state = failed
		}
		reports[w.target] = reports[w.target] || rec.CachedTokens != record.None
		r.rows = append(r.rows, w)
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	for i := range r.rows { // of a server that reports hits, a count without them says 0
		if w := &r.rows[i]; w.cached == record.None && w.told && reports[w.target] {
			w.cached = 0
		}
	}
	slices.SortFunc(r.rows, func(a, b row) int { return cmp.Compare(a.index, b.index) })
	for i := range max(0, len(r.rows)-1) {
		if r.rows[i].index == r.rows[i+1].index {
			return fmt.Errorf("%s has two records of request %d", dir, r.rows[i].index)
		}
	}
	if s.runs = append(s.runs, r); len(s.runs) > 1 {
		if _, err := sameWorkload(s.runs[0], r); err != nil {
			return fmt.Errorf("the runs of a side must have one workload: %w", err)
		}
	}
	return nil
}

// record is the part of the row's record that latencies and SLOs are computed from.
func (w *row) record() *record.Record {
	var r record.Record
	r.Clear()
	r.PlannedNS, r.SentNS, r.FirstTokenNS, r.LastTokenNS = w.planned, w.sent, w.first, w.last
	r.CompletionTokens, r.Chunks, r.Choices, r.DecodeNS = w.output, w.chunks, w.choices, w.decode
	return &r
}

// at is when the request belongs to, in ns from the start of its run: its planned time, or when it was sent if it has none.
func (w *row) at() int64 {
	if w.planned == record.None {
		return max(0, w.sent)
	}
	return max(0, w.planned)
}

// ms is a latency of a record in ms, NaN if it has none.
func ms(ns int64) float64 {
	if ns == record.None {
		return math.NaN()
	}
	return float64(ns) / 1e6
}

// identity names a side by what it differs from the other in: the URLs of the targets, else the directories.
func (s *Side) identity(other *Side) Identity {
	id := Identity{Name: s.name, Fingerprint: s.runs[0].summary.Workload.Fingerprint}
	urls := s.runs[0].summary.Run.Targets
	for _, r := range s.runs {
		id.Dirs = append(id.Dirs, r.dir)
		if grade := strings.ToUpper(string(r.summary.Verdict.Measurement)); id.Verdict == "" || len(grade) > 5 && (grade < id.Verdict || id.Verdict == "VALID") {
			id.Verdict = grade // by name INVALID comes before LIMITED
		}
	}
	if id.Name == "" {
		id.Name = strings.Join(id.Dirs, ", ")
		if len(urls) > 0 && !slices.Equal(urls, other.runs[0].summary.Run.Targets) {
			id.Name = strings.Join(urls, ", ")
		}
	}
	return id
}
