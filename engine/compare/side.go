package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
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
	Name string // as people call it; "" = by its targets or directories
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
	target, instance               string
	state                          state
	told                           bool // the server sent counts of tokens
}

type state uint8

const (
	ok      state = iota
	failed        // any outcome but ok
	stopped       // not sent or broken off, since the run ended before, or left out by the user
)

// ReadSide reads the runs of a side from their directories, in the order in which they were made. It is an error if a directory has no
// results, or if two runs had different workloads.
func ReadSide(dirs ...string) (*Side, error) {
	s := new(Side)
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
	r, reports := &run{dir: dir, summary: summary}, map[string]bool{}
	over := summary.Run.Partial || summary.Run.Cut
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
		switch {
		case rec.LeftOut() || over && (rec.Outcome == record.Cancelled || rec.Outcome == record.NotSent):
			w.state = stopped
		case rec.Outcome != record.OK:
			w.state = failed
		}
		reports[w.target] = reports[w.target] || w.cached != record.None
		r.rows = append(r.rows, w)
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	slices.SortFunc(r.rows, func(a, b row) int { return cmp.Compare(a.index, b.index) })
	for i := range r.rows {
		w := &r.rows[i]
		if w.cached == record.None && w.told && reports[w.target] { // of a server that reports hits, a count without them says 0
			w.cached = 0
		}
		if i > 0 && w.index == r.rows[i-1].index {
			return fmt.Errorf("%s has two records of request %d", dir, w.index)
		}
	}
	if s.runs = append(s.runs, r); len(s.runs) > 1 {
		if found, _ := differences(s, &Side{runs: []*run{r}}); len(found) > 0 {
			return fmt.Errorf("%s was sent another workload than the first run of its side (%s)", dir, strings.Join(found, "; "))
		}
	}
	return nil
}

// Halves are the first run and the second one of a side that has two, each as a side.
func (s *Side) Halves() [2]*Side { return [2]*Side{{runs: s.runs[:1]}, {runs: s.runs[1:]}} }

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

// ms is a time in ms, NaN if there is none.
func ms(ns int64) float64 {
	if ns == record.None {
		return math.NaN()
	}
	return float64(ns) / 1e6
}

// identity names a side by what it differs from the other in: the URLs of the targets, else the directories.
func (s *Side) identity(other *Side) Identity {
	id := Identity{Fingerprint: s.runs[0].summary.Workload.Fingerprint}
	for _, r := range s.runs {
		id.Dirs = append(id.Dirs, r.dir)
		grade := strings.ToUpper(string(cmp.Or(r.summary.Verdict.Measurement, metrics.Valid)))
		id.Verdict = min(cmp.Or(id.Verdict, grade), grade) // by name they are in order
	}
	if id.Name = cmp.Or(s.Name, strings.Join(id.Dirs, ", ")); s.Name == "" {
		if urls := s.runs[0].summary.Run.Targets; len(urls) > 0 && !slices.Equal(urls, other.runs[0].summary.Run.Targets) {
			id.Name = strings.Join(urls, ", ")
		}
	}
	return id
}

// differences are what two sides were sent where it differs, such as "--seed: 1 and 2": by their fingerprints, and by what paces a closed
// loop, which no fingerprint has. Without both fingerprints, as after a kill, what is known of the workloads decides; then sure is false.
func differences(x, y *Side) (found []string, sure bool) {
	a, b := x.runs[0].summary, y.runs[0].summary
	one, other := a.Workload.Fingerprint, b.Workload.Fingerprint
	sure = one != "" && other != ""
	differ := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			found = append(found, fmt.Sprintf("%s: %v and %v", name, cmp.Or(a, any("not given")), cmp.Or(b, any("not given"))))
		}
	}
	options := []string{"concurrency", "sessions"}
	differ("pace", a.Run.Pace, b.Run.Pace)
	if !sure || one != other {
		v, w := &a.Workload, &b.Workload
		differ("trace", v.Trace, w.Trace)
		differ("rows of the trace", v.Rows, w.Rows)
		differ("requests", v.Requests, w.Requests)
		differ("tokens, recorded and added", [3]int64{v.InputTokens, v.OutputTokens, v.ShortSurplus}, [3]int64{w.InputTokens, w.OutputTokens, w.ShortSurplus})
		differ("the servers' context", v.Context, w.Context)
		differ("API", a.Run.API, b.Run.API)
		differ("model", a.Run.Model, b.Run.Model)
		options = append(options, // that decide what is sent and when
			"format", "fields", "time-unit", "block-tokens", "bad-rows", "limit", "from", "to", "repeat", "too-long", "scale", "amplify", "rate",
			"ramp", "arrival", "duration", "idle-cap", "answers", "history", "endpoint", "prompt", "tokenizer", "extra-inputs", "no-stream",
			"no-force-output", "seed", "cold", "chat-overhead")
	}
	for _, name := range options {
		differ("--"+name, a.Run.Options[name], b.Run.Options[name])
	}
	if sure && one != other && len(found) == 0 {
		found = []string{"the bytes of the requests: the content of the trace file, or what the chat template adds to a prompt, changed"}
	}
	return found, sure
}
