package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Part is a part of a run, from its start. The zero value is all of it.
type Part struct {
	From, To time.Duration // To 0 = to the end
	Steady   float64       // in place of both: the longest part in which requests in flight stay within this share of their median; 0 = not so
}

// LoadPart reads the summary of a part of a run. It is made of the records, so what only the run knew is absent. Faults that records do not
// show are those of the whole run.
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
	load := metrics.Workload{Trace: all.Trace, Format: all.Format, Rows: all.Rows, BlockTokens: all.BlockTokens, Fingerprint: all.Fingerprint}
	c, _, err := collect(dir, urls, w, slos, func(r *record.Record) {
		if w.Has(r.PlannedNS) {
			countIn(&load, r)
		}
	})
	servers, failed := rebuildServers(dir, w)
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	s := metrics.Summary{Run: whole.Run, Amplify: whole.Amplify, Limits: whole.Limits, Window: w, Workload: load, Servers: servers}
	if s.Requests.Planned = load.Requests + load.LeftOut; s.Requests.Planned == 0 {
		return nil, fmt.Errorf("%s: no request was planned from %s", dir, s.Length())
	}
	s.Notes = []string{fmt.Sprintf("these numbers are of %s; only the whole run has ITL, jobs, connections and the client; server metrics are those of the samples within", s.Length())}
	reading := slices.DeleteFunc(slices.Clone(whole.Lateness.Reading), func(u metrics.Unsafe) bool { return u.Metric == "itl" }) // a part has none
	for _, r := range whole.Verdict.Reasons {
		if r.Code == "receive_lag" && r.Grade == metrics.Limited && len(reading) == 0 {
			continue
		}
		if slices.Contains([]string{"no_summary", "unwritten", "client_failures", "starved", "short_rows", "refused", "receive_lag"}, r.Code) {
			r.What = "of the whole run: " + strings.TrimSuffix(r.What, "; all else is safe")
			s.Verdict.Reasons = append(s.Verdict.Reasons, r)
		}
	}
	out := c.Summary(s, metrics.Probed{})
	out.Lateness.Reading = reading
	out.Verdict = metrics.Judge(out, s.Verdict.Reasons...)
	return out, nil
}

// of is the part in a run of so many seconds.
func (p Part) of(dir string, runS float64, urls []string) (*metrics.Window, error) {
	if p.Steady > 0 {
		last := int64(0)
		c, _, err := collect(dir, urls, nil, nil, func(r *record.Record) { last = max(last, r.PlannedNS, r.SentNS) })
		if err != nil {
			return nil, err
		}
		steps := slices.DeleteFunc(c.Timeline().All(), func(s metrics.Step) bool { return s.FromS*1e9 > float64(last) }) // nothing is sent any more
		w, err := metrics.FindSteady(steps, runS, p.Steady)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		return w, nil
	}
	w := &metrics.Window{FromS: p.From.Seconds(), ToS: runS, RunS: runS}
	if p.To > 0 {
		w.ToS = min(runS, p.To.Seconds())
	}
	if w.FromS >= w.ToS {
		return nil, fmt.Errorf("%s: the run took %s, so nothing of it is left from %s on", dir, format.Seconds(runS), format.Seconds(w.FromS))
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
