package compare

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// Side is one or several runs that were made with the same server and the same workload. ReadSide makes it; it is not
// changed later.
type Side struct {
	SLOs []metrics.SLO // for goodput; nil = those that its first run was made with, which sets them
	runs []*run
}

// run is one run of a side.
type run struct {
	dir     string
	id      string // of its requests: what their ids begin with
	summary *metrics.Summary
	rows    []*row // by index, without those that are not the server's: the run ended before, or the user left them out
}

// row is what a comparison needs of one request. A number that its record lacks is NaN.
type row struct {
	// the job or session that it is part of; record.None if it is alone
	conversation int64
	// in the plan, which is the same in all runs of a workload
	index    int64
	traceRow int64 // whose request it is
	// from the start: when it was planned, or sent if nothing planned it; its end
	atS, doneS                     float64
	ms                             [metrics.NumLatencies]float64 // by latency, of those that --goodput can bound
	prompt, cached, output, chunks float64                       // tokens; chunks of a single choice
	// 1 if it ended ok within the SLOs, 0 if not, NaN without any
	met              float64
	ok, told         bool // it ended ok; the server sent counts of tokens
	target, instance string
	owner            unique.Handle[rows.Owner] // whose it is
}

// ReadSide reads the runs of a side from their directories, in the order in which they were made. It is an error if a
// directory has no results, or if two runs had different workloads.
func ReadSide(slos []metrics.SLO, dirs ...string) (*Side, error) {
	s := &Side{SLOs: slos}
	for _, dir := range dirs {
		summary, err := report.Load(dir)
		if err != nil {
			return nil, err
		}
		if err := s.Add(dir, summary, report.Checked(dir, summary)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add adds a run to a side: its summary, and its records in any order, which are not kept. dir names it. The zero
// Side has no runs.
func (s *Side) Add(dir string, summary *metrics.Summary, all iter.Seq2[*record.Record, error]) error {
	r := &run{dir: dir, summary: summary}
	reports := map[string]bool{}
	if s.SLOs == nil {
		s.SLOs = report.SLOsOf(summary)
	}
	over := summary.Run.Partial || summary.Run.Cut
	for rec, err := range all {
		if err != nil {
			return err
		}
		if rec.LeftOut() ||
			over && (rec.Outcome == record.Cancelled || rec.Outcome == record.NotSent) {
			continue
		}
		w := newRow(rec, s.SLOs)
		dash := strings.LastIndexByte(rec.RequestID, '-') + 1
		r.id = rec.RequestID[:dash]
		if w.index, err = strconv.ParseInt(rec.RequestID[dash:], 10, 64); err != nil {
			return fmt.Errorf("%s: request_id %q ends with no number, by which requests are paired", dir, rec.RequestID)
		}
		reports[w.target] = reports[w.target] || !math.IsNaN(w.cached)
		r.rows = append(r.rows, w)
	}
	slices.SortFunc(r.rows, byIndex)
	for i, w := range r.rows {
		// of a server that reports hits, a count without them says 0
		if math.IsNaN(w.cached) && w.told && reports[w.target] {
			w.cached = 0
		}
		if i > 0 && w.index == r.rows[i-1].index {
			return fmt.Errorf("%s has two records of request %d", dir, w.index)
		}
	}
	s.runs = append(s.runs, r)
	if len(s.runs) > 1 {
		if found, _ := differences(s.runs[0], r); len(found) > 0 && !ofSeedAlone(found) {
			return fmt.Errorf("%s was sent another workload than %s, which is to be the same (%s)",
				dir, s.runs[0].dir, strings.Join(found, "; "))
		}
	}
	return nil
}

// same reports whether two are one run: in the same directory, or a copy.
func (r *run) same(other *run) bool {
	one, _ := os.Stat(r.dir)
	two, _ := os.Stat(other.dir)
	began := r.summary.Run.StartedAt
	return one != nil && two != nil && os.SameFile(one, two) ||
		!began.IsZero() && began.Equal(other.summary.Run.StartedAt) && r.id == other.id
}

func byIndex(a, b *row) int {
	return cmp.Compare(a.index, b.index)
}

func newRow(rec *record.Record, slos []metrics.SLO) *row {
	w := &row{
		conversation: rec.Session,
		traceRow:     rec.Row,
		atS:          max(0, record.Float(rec.PlannedNS)/1e9),
		doneS:        record.Float(rec.DoneNS) / 1e9,
		prompt:       record.Float(rec.PromptTokens),
		cached:       record.Float(rec.CachedTokens),
		output:       record.Float(rec.CompletionTokens),
		chunks:       math.NaN(),
		met:          math.NaN(),
		ok:           rec.Outcome == record.OK,
		told:         rec.ToldUsage(),
		target:       unique.Make(rec.Target).Value(),
		instance:     unique.Make(rec.Instance).Value(),
		owner:        unique.Make(metrics.OwnerOf(rec)),
	}
	if rec.Job != record.None {
		w.conversation = rec.Job
	}
	if math.IsNaN(w.atS) {
		w.atS = record.Float(rec.SentNS) / 1e9
	}
	if math.IsNaN(w.prompt) {
		w.prompt = record.Float(rec.InputTokens)
	}
	for i, l := range metrics.BoundedLatencies() {
		w.ms[i] = record.Float(l.Of(rec)) / 1e6
	}
	if rec.Choices <= 1 && rec.Chunks > 0 {
		w.chunks = float64(rec.Chunks)
	}
	if len(slos) > 0 {
		w.met = b2f(w.ok &&
			!slices.ContainsFunc(slos, func(o metrics.SLO) bool {
				return !o.Met(rec)
			}))
	}
	return w
}

// identity names a side by what it differs from the other in: the URLs of the targets, else the directories.
func (s *Side) identity(other *Side) Identity {
	id := Identity{Fingerprint: s.runs[0].summary.Workload.Fingerprint}
	for _, r := range s.runs {
		id.Dirs = append(id.Dirs, r.dir)
		grade := strings.ToUpper(string(cmp.Or(r.summary.Verdict.Measurement, metrics.Valid)))
		id.Demo = id.Demo || r.summary.Run.Demo
		id.Verdict = min(cmp.Or(id.Verdict, grade), grade) // by name they are in order
	}
	urls := strings.Join(s.runs[0].summary.Run.Targets, ", ")
	if urls == strings.Join(other.runs[0].summary.Run.Targets, ", ") {
		urls = ""
	}
	id.Name = cmp.Or(urls, strings.Join(id.Dirs, ", "))
	return id
}

// decisive are the flags that decide what is sent and when.
const decisive = `format fields time-unit block-tokens bad-rows limit from to repeat too-long scale amplify rate ramp
arrival duration idle-cap answers history endpoint prompt tokenizer extra-inputs no-stream
no-force-output seed cold chat-overhead tenants map tenant-salt`

// differences are what two runs were sent where it differs, such as "--seed: 1 and 2". They are told by fingerprints,
// and by what paces a closed loop, which no fingerprint has. Without both fingerprints, as after a kill, what is known
// of the workloads decides; then sure is false.
func differences(x, y *run) (found []string, sure bool) {
	a := x.summary
	b := y.summary
	one := a.Workload.Fingerprint
	other := b.Workload.Fingerprint
	sure = one != "" && other != ""
	differ := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			found = append(found,
				fmt.Sprintf("%s: %v and %v", name, cmp.Or(a, any("not given")), cmp.Or(b, any("not given"))))
		}
	}
	options := []string{"concurrency", "sessions"}
	part := x.without() != "" && y.without() == "" || x.without() == "" && y.without() != ""
	if !part {
		options = append(options, "without")
	}
	differ("pace", a.Run.Pace, b.Run.Pace)
	if !sure || one != other {
		v := &a.Workload
		w := &b.Workload
		if was, is := traceOf(v), traceOf(w); was != is {
			return []string{"traces: " + was + ", and " + is}, sure // all else follows from it
		}
		if !part {
			differ("requests", format.Count(v.Requests), format.Count(w.Requests))
		}
		differ("the servers' context", v.Context, w.Context)
		differ("API", a.Run.API, b.Run.API)
		differ("model", a.Run.Model, b.Run.Model)
		options = append(options, strings.Fields(decisive)...)
	}
	for _, name := range options {
		differ("--"+name, a.Run.Options[name], b.Run.Options[name])
	}
	if len(found) == 0 && !part {
		differ("input tokens", format.Count(a.Workload.InputTokens), format.Count(b.Workload.InputTokens))
		differ("output tokens", format.Count(a.Workload.OutputTokens), format.Count(b.Workload.OutputTokens))
	}
	if sure && one != other && len(found) == 0 && !part {
		found = []string{
			"the bytes of the requests: the content of the trace file, or what the chat template adds to a prompt, " +
				"changed"}
	}
	return found, sure
}

// ofSeedAlone reports whether differences are that of the seed. Then prompts differ in words, and in nothing else.
func ofSeedAlone(found []string) bool {
	return len(found) == 1 && strings.HasPrefix(found[0], "--seed: ")
}

// fingerprints are those of what the runs of a side were sent, in order. A run that was killed may have none.
func (s *Side) fingerprints() (all []string) {
	for _, r := range s.runs {
		if sent := r.summary.Workload.Fingerprint; sent != "" {
			all = append(all, sent)
		}
	}
	slices.Sort(all)
	return all
}

// seedsDiffer reports whether the runs of two sides have several seeds each, and not the same ones.
func seedsDiffer(a, b *Side) bool {
	one := a.fingerprints()
	other := b.fingerprints()
	several := func(all []string) bool { return len(all) > 0 && all[0] != all[len(all)-1] }
	return (several(one) || several(other)) && !slices.Equal(one, other)
}

// without is whose requests the run left out; "" if none.
func (r *run) without() string {
	text, _ := r.summary.Run.Options["without"].(string)
	return text
}

// pairWith gives the requests of a run that left some out the numbers that they have in a whole one. Copies of a row
// are in the same order in both.
func (r *run) pairWith(whole *run) {
	type place struct{ row, copy int64 }
	each := func(run *run, f func(place, *row)) {
		copies := map[int64]int64{}
		for _, w := range run.rows {
			f(place{w.traceRow, copies[w.traceRow]}, w)
			copies[w.traceRow]++
		}
	}
	numbers := map[place]int64{}
	each(whole, func(at place, w *row) { numbers[at] = w.index })
	each(r, func(at place, w *row) {
		number, known := numbers[at]
		if w.index = number; !known {
			w.index = -1 - w.traceRow // which no whole run has
		}
	})
	slices.SortFunc(r.rows, byIndex)
}

// traceOf is which trace a workload is of.
func traceOf(w *metrics.Workload) string {
	return fmt.Sprintf("%s with %s", w.Trace, format.Many(w.Rows, "row"))
}
