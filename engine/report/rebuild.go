package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/verdict"
)

// ErrNoResults is returned for a directory that no run wrote to.
var ErrNoResults = errors.New("no results here")

// rebuild makes a summary out of the records alone. What only the run itself
// knew is absent: ITL, connections, the client, the limits.
func rebuild(dir string, slos []metrics.SLO) (*metrics.Summary, error) {
	var urls []string
	err := EachRecord(dir, func(r *record.Record) {
		if r.Target != "" && !slices.Contains(urls, r.Target) {
			urls = append(urls, r.Target)
		}
	})
	if err != nil {
		return nil, err
	}
	var endNS int64
	var started time.Time
	var w metrics.Workload
	c, seen, err := recordsIn(dir, urls, nil, slos, func(r *record.Record) {
		endNS = max(
			endNS,
			r.PlannedNS,
			r.SentNS,
			r.LastTokenNS,
			r.DoneNS,
		)
		if started.IsZero() && r.SentAt != record.None {
			started = time.UnixMicro(int64(r.SentAt)).UTC().Add(-time.Duration(r.SentNS))
		}
		countIn(&w, r)
	})
	servers, failed := rebuildServers(dir, nil)
	plan, unread := ReadPlan(dir)
	if err = cmp.Or(err, failed, unread); err != nil {
		return nil, err
	}
	if plan == nil { // of a version that wrote none
		plan = &Plan{Workload: w, Limits: metrics.DefaultLimits()}
	}
	if !started.IsZero() {
		plan.Run.StartedAt = started
	}
	plan.Run.DurationS = float64(endNS) / 1e9
	plan.Run.Partial = true
	plan.Limits.ForcedOutput = false
	known := metrics.Summary{
		Requests: metrics.Requests{Planned: seen.Count - c.Unmeasured()},
		Limits:   plan.Limits,
		Workload: plan.Workload,
		Servers:  servers,
		Run:      plan.Run,
		Verdict: metrics.Verdict{Reasons: []metrics.Reason{{
			Code:  metrics.NoSummary,
			Grade: metrics.Invalid,
			What: fmt.Sprintf("the run has no %s, so it was killed, its disk was full, or it is still running",
				SummaryName),
			Why: fmt.Sprintf("this is computed from its %s on disk, without ITL, connections and client",
				format.Many(seen.Count, "record")),
			Do: "run again, or wait for its end",
		}}},
	}
	known.AddNotes(0, plan.Notes)
	s := c.Summary(known, collect.Probed{})
	s.Verdict.Drop(metrics.Interrupted) // no_summary says it
	return s, nil
}

// countIn adds a record to what was to be replayed.
func countIn(w *metrics.Workload, r *record.Record) {
	if r.LeftOut() {
		w.LeftOut++
		return
	}
	w.Requests++
	w.InputTokens += max(0, r.InputTokens)
	w.OutputTokens += max(0, r.OutputTokens)
}

// recordsIn counts the records of a results directory by these targets, within w, shows each to see and returns which
// there are.
func recordsIn(
	dir string, urls []string, w *metrics.Window, slos []metrics.SLO, see func(*record.Record),
) (c *collect.Collector, seen record.Lines, err error) {
	c = collect.NewCollector(urls, slos...)
	c.Within(w)
	for r, err := range RecordsOf(RecordsName(dir), &seen) {
		if err != nil {
			return c, seen, err
		}
		c.Add(r, slices.Index(urls, r.Target)) // below 0: it never had one
		if r.Phase == record.Profiled {
			see(r)
		}
	}
	return c, seen, nil
}

// rebuildServers sums up the servers' samples that are on disk, of a window those within it; nil where there are
// none. How often they were meant to come, and whether all servers were read, only the run knew.
func rebuildServers(dir string, part *metrics.Window) (*metrics.Servers, error) {
	samples, err := ReadLines[scrape.Sample](filepath.Join(dir, ServerMetricsName))
	if part != nil {
		samples = slices.DeleteFunc(samples, func(m scrape.Sample) bool {
			return !part.Has(max(0, m.AtNS))
		})
	}
	if err != nil || len(samples) == 0 {
		return nil, err
	}
	var pages, targets []string
	for i := range samples {
		if !slices.Contains(pages, samples[i].URL) {
			pages = append(pages, samples[i].URL)
			targets = append(targets, samples[i].Target)
		}
	}
	w := scrape.NewWatch(targets)
	for i := range samples {
		w.Add(slices.Index(pages, samples[i].URL), &samples[i])
	}
	return &metrics.Servers{Servers: *w.Servers(0)}, nil
}

// EachRecord calls f with each record of a results directory, in order of completion. f must not keep the record. A
// last one that was not finished does not count.
func EachRecord(dir string, f func(*record.Record)) error {
	for r, err := range RecordsOf(RecordsName(dir), nil) {
		if err != nil {
			return err
		}
		f(r)
	}
	return nil
}

// RecordsName is the file of a directory's records, compressed if no other is there.
func RecordsName(dir string) string {
	name := filepath.Join(dir, RequestsName)
	if _, err := os.Lstat(name); err != nil {
		name += ".zst"
	}
	return name
}

// RecordsOf are the records of one file, each valid until the next. They end with the first error. After the last one
// seen says which lines the file has; it may be nil.
func RecordsOf(name string, seen *record.Lines) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		file, err := Open(name, math.MaxInt64)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s has no %s",
				ErrNoResults, filepath.Dir(name),
				strings.TrimSuffix(filepath.Base(name), ".zst"))
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer file.Close()
		in, err := record.NewReader(file, name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer in.Close()
		var r record.Record
		for {
			err := in.Next(&r)
			if seen != nil {
				*seen = in.Seen
			}
			if err == io.EOF || errors.Is(err, record.ErrUnfinished) ||
				!yield(&r, err) || err != nil {
				return
			}
		}
	}
}

// Checked are the records of a run with this summary, but for those that are no part of the measurement. The last is an
// error if they are not all that the run wrote, or others.
func Checked(dir string, s *metrics.Summary) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		var seen record.Lines
		for r, err := range RecordsOf(RecordsName(dir), &seen) {
			if err == nil && r.Phase != record.Profiled {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		for _, wrong := range unlike(dir, s, seen) {
			yield(nil, errors.New(wrong.String()))
		}
	}
}

// unlike says what is wrong with the records of a run's directory, of which seen was read; nil if it is what the run
// wrote.
func unlike(dir string, s *metrics.Summary, seen record.Lines) []metrics.Reason {
	what := s.Unlike(seen)
	if what == "" {
		return nil
	}
	return []metrics.Reason{{
		Code:  metrics.Records,
		Grade: metrics.Invalid,
		What:  RecordsName(dir) + " has " + what,
		Why:   "it was cut, edited or mixed with another after the run",
		Do:    "bring back the file that the run wrote, or run again",
	}}
}

// urlsOf are the run's targets, as its records name them.
func urlsOf(dir string, s *metrics.Summary) (urls []string, err error) {
	for _, t := range s.Targets {
		if slices.Contains(urls, t.URL) {
			return nil, fmt.Errorf(
				"%s: the run had %s as several targets, and its records do not show which of them was asked",
				dir, t.URL,
			)
		}
		urls = append(urls, t.URL)
	}
	return urls, nil
}

// recount replaces the goodput of s by that of other SLOs, from the records.
func recount(dir string, s *metrics.Summary, slos []metrics.SLO) error {
	urls, err := urlsOf(dir, s)
	if err != nil {
		return err
	}
	nobodys := slices.Clone(slos) // bounds of an owner of whom no request was found
	c, seen, err := recordsIn(dir, urls, nil, slos, func(r *record.Record) {
		owner := metrics.OwnerOf(r)
		nobodys = slices.DeleteFunc(nobodys, func(o metrics.SLO) bool {
			return owner.Value(o.Field) == o.Value
		})
	})
	if err != nil {
		return err
	}
	if len(nobodys) > 0 && seen.Count > 0 {
		return fmt.Errorf("--goodput %q: no request of %s is of that %s", nobodys[0].Name(), dir, nobodys[0].Field)
	}
	c.Goodput(s)
	wrong := unlike(dir, s, seen)
	if wrong != nil {
		v := &s.Verdict
		v.Reasons = append(wrong, v.Reasons...)
		v.Measurement = metrics.Invalid
		v.Valid = false
	}
	lost := s.Requests.Planned + c.Unmeasured() - seen.Count
	if lost > 0 {
		s.AddNotes(len(s.Notes), metrics.NotesOf("goodput_incomplete", "goodput was counted without %s that %s lacks",
			format.Many(lost, "record"), RequestsName))
	}
	return nil
}

// Part is a part of a run, from its start. The zero value is all of it.
type Part struct {
	From, To time.Duration // To 0 = to the end
	// in place of both: the longest part in which requests in flight stay within this share of their median; 0 = not
	// so
	Steady float64
}

// LoadPart reads the summary of a part of a run. It is made of the records, so what only the run knew is absent.
// Faults that records do not show are those of the whole run.
func LoadPart(dir string, part Part, slos ...metrics.SLO) (*metrics.Summary, error) {
	if part == (Part{}) {
		return Load(dir, slos...)
	}
	whole, err := Load(dir)
	if err != nil {
		return nil, err
	}
	urls, err := urlsOf(dir, whole)
	if err != nil {
		return nil, err
	}
	if len(slos) == 0 {
		slos = SLOsOf(whole)
	}
	w, err := part.of(dir, whole.Run.DurationS, urls)
	if err != nil {
		return nil, err
	}
	all := &whole.Workload
	load := metrics.Workload{
		Trace:       all.Trace,
		Format:      all.Format,
		Rows:        all.Rows,
		BlockTokens: all.BlockTokens,
		Fingerprint: all.Fingerprint,
	}
	c, seen, err := recordsIn(dir, urls, w, slos, func(r *record.Record) {
		if w.Has(r.PlannedNS) {
			countIn(&load, r)
		}
	})
	servers, failed := rebuildServers(dir, w)
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	s := metrics.Summary{
		Verdict:  metrics.Verdict{Reasons: unlike(dir, whole, seen)},
		Run:      whole.Run,
		Amplify:  whole.Amplify,
		Limits:   whole.Limits,
		Window:   w,
		Workload: load,
		Servers:  servers,
	}
	s.Requests.Planned = load.Requests + load.LeftOut
	if s.Requests.Planned == 0 {
		return nil, fmt.Errorf("%s: no request was planned from %s", dir, s.Length())
	}
	s.AddNotes(0, metrics.NotesOf(
		"part",
		"these numbers are of %s; only the whole run has ITL, jobs, connections and the client; server metrics "+
			"are those of the samples within",
		s.Length(),
	))
	// a part has none
	reading := slices.Clone(whole.Lateness.Reading)
	reading = slices.DeleteFunc(reading, func(u metrics.Unsafe) bool {
		return u.Metric == "itl"
	})
	for _, r := range whole.Verdict.Reasons {
		if r.Code == metrics.LateReading && r.Grade == metrics.Limited &&
			len(reading) == 0 {
			continue
		}
		if r.Code.Traits().Unseen {
			r.What = "of the whole run: " + strings.TrimSuffix(r.What, "; all else is safe")
			s.Verdict.Reasons = append(s.Verdict.Reasons, r)
		}
	}
	out := c.Summary(s, collect.Probed{})
	out.Actions = whole.Actions
	out.Lateness.Reading = reading
	out.Verdict = verdict.Judge(out, s.Verdict.Reasons...)
	return out, nil
}

// of is the part in a run of so many seconds.
func (p Part) of(dir string, runS float64, urls []string) (*metrics.Window, error) {
	if p.Steady > 0 {
		var last int64
		c, _, err := recordsIn(dir, urls, nil, nil, func(r *record.Record) {
			last = max(last, r.PlannedNS, r.SentNS)
		})
		if err != nil {
			return nil, err
		}
		// nothing is sent any more
		steps := c.Timeline().All()
		steps = slices.DeleteFunc(steps, func(s metrics.Step) bool {
			return s.FromS*1e9 > float64(last)
		})
		w, err := metrics.FindSteady(steps, runS, p.Steady)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		return w, nil
	}
	w := &metrics.Window{
		FromS: p.From.Seconds(),
		ToS:   runS,
		RunS:  runS,
	}
	if p.To > 0 {
		w.ToS = min(runS, p.To.Seconds())
	}
	if w.FromS >= w.ToS {
		return nil, fmt.Errorf("%s: the run took %s, so nothing of it is left from %s on",
			dir, format.Seconds(runS), format.Seconds(w.FromS))
	}
	return w, nil
}

// SLOsOf are the run's own SLOs; none if they are of another version.
func SLOsOf(s *metrics.Summary) []metrics.SLO {
	var bounds []string
	if s.Goodput != nil {
		for name, ms := range s.Goodput.SLO {
			bounds = append(bounds, fmt.Sprintf("%s:%v", strings.TrimSuffix(name, "_ms"), ms))
		}
	}
	slos, _ := metrics.ParseSLOs(bounds...)
	return slos
}
