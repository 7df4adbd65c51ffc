package bench

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// prove checks what holds for every run, whatever became of it. Each planned request has one line, the numbers agree
// with each other, and the summary adds up.
func (r *results) prove(t *testing.T) {
	t.Helper()
	r.proveLines(t)
	r.proveCounts(t)
	r.provePercentiles(t)
	r.proveHistograms(t)
	r.provePage(t)
}

// provePage: the page that the run has written is the page of what it has left on disk.
func (r *results) provePage(t *testing.T) {
	t.Helper()
	var again bytes.Buffer
	must.Do(t, report.HTML(&again, r.dir, must.Have(report.Load(r.dir))(t)))
	expect.Equal(t, string(readFile(t, filepath.Join(r.dir, report.PageName))) == again.String(), true, "%s is another page", r.dir)
}

func (r *results) proveLines(t *testing.T) {
	t.Helper()
	rows, ids := map[int64]int64{}, map[string]bool{}
	times := max(1, int64(r.summary.Workload.Repeat)) // at most, for each row
	if a := r.summary.Amplify; a != nil {
		times *= int64(math.Ceil(a.Factor))
	}
	for i := range r.lines {
		l := &r.lines[i]
		if rows[l.Row] == times || ids[l.ID] || l.ID == "" || l.Target == "" || l.Endpoint == "" {
			t.Errorf("row %d: a line too many, or one without identity: %+v", l.Row, l)
		}
		rows[l.Row]++
		ids[l.ID] = true
		if l.Outcome == "not_sent" != (l.Sent == absent) && l.Outcome != "connect_error" {
			t.Errorf("row %d is %s, sent at %d", l.Row, l.Outcome, l.Sent)
		}
		if l.ok() == (l.Error != "") {
			t.Errorf("row %d is %s with error %q", l.Row, l.Outcome, l.Error)
		}
		proveInstants(t, l)
	}
	if n := int64(len(r.lines)); n != r.summary.Requests.Planned || n != r.summary.Workload.Requests {
		t.Errorf("%d lines, %d planned, %d in the workload", n, r.summary.Requests.Planned, r.summary.Workload.Requests)
	}
}

// proveInstants: known instants ascend, and what derives from them agrees.
func proveInstants(t *testing.T, l *line) {
	t.Helper()
	last := int64(0)
	for _, at := range []int64{l.Planned, l.Sent, l.Headers, l.FirstToken, l.FirstText, l.LastToken, l.Done} {
		if at == absent {
			continue
		}
		if at < last {
			t.Errorf("row %d: an instant before its cause: %+v", l.Row, l)
			return
		}
		last = at
	}
	if l.Written != absent && l.Written < l.Sent {
		t.Errorf("row %d: written at %d, sent at %d", l.Row, l.Written, l.Sent)
	}
	if l.Sent != absent && (l.Drift != l.Sent-l.Planned || l.WrittenFirstBytes > l.BytesSent) {
		t.Errorf("row %d: drift %d from %d to %d; the first of %d bytes: %d", l.Row, l.Drift, l.Planned, l.Sent, l.BytesSent, l.WrittenFirstBytes)
	}
	ms := func(from, to int64, parts float64) float64 {
		if from == absent || to == absent || !(parts > 0) {
			return math.NaN()
		}
		return float64(to-from) / 1e6 / parts
	}
	perToken := ms(l.FirstToken, l.LastToken, float64(l.Completion-1))
	if l.Chunks == 1 || perToken == 0 { // all tokens came at once
		perToken = math.NaN()
	}
	for _, d := range []struct {
		name      string
		got, want float64
	}{
		{"ttft", l.TTFT, ms(l.Sent, l.FirstToken, 1)}, {"e2e", l.E2E, ms(l.Sent, l.LastToken, 1)},
		{"tpot", l.TPOT, perToken},
	} {
		if math.IsNaN(d.got) != math.IsNaN(d.want) || math.Abs(d.got-d.want) > 1e-6 {
			t.Errorf("row %d: %s is %v ms, by its instants %v", l.Row, d.name, d.got, d.want)
		}
	}
}

func (r *results) proveCounts(t *testing.T) {
	t.Helper()
	q, by := r.summary.Requests, r.outcomes()
	sent, resent, sum := int64(0), int64(0), int64(0)
	for _, l := range r.lines {
		if l.Sent != absent {
			sent++
		}
		resent += l.Resent
	}
	for outcome, n := range q.ByOutcome {
		sum += n
		expect.Equal(t, int64(by[outcome]), n, "lines that are %s", outcome)
	}
	if sum != q.Planned || q.OK+q.Failed+q.Stopped != q.Planned || q.OK != int64(by["ok"]) || q.Sent != sent || q.Resent != resent || q.Early != 0 || q.Unwritten != 0 {
		t.Errorf("the summary %+v does not add up to %d lines, %v, %d sent, %d resent", q, len(r.lines), by, sent, resent)
	}
	failures := int64(0)
	for _, f := range q.Failures {
		failures += f.Count
		if int64(by[f.Outcome]) < f.Count {
			t.Errorf("%d lines are %s, the summary has %+v", by[f.Outcome], f.Outcome, f)
		}
	}
	expect.Equal(t, failures, q.Failed, "failures by kind")
	// A re-send may find nobody to connect to. A write that the kernel refused is of a request that was reset.
	if w := r.summary.Writes; w.Whole+w.Partial < sent-int64(by["reset"]) || w.Whole+w.Partial > sent+resent {
		t.Errorf("%+v for %d requests sent and %d re-sends", w, sent, resent)
	}
	perTarget := int64(0)
	for _, target := range r.summary.Targets {
		perTarget += target.Requests
	}
	expect.Equal(t, perTarget, q.Planned, "the targets count requests")
}

// provePercentiles recomputes every distribution of the summary from the lines, by sorting: percentiles are the same
// numbers.
func (r *results) provePercentiles(t *testing.T) {
	t.Helper()
	span := func(from, to int64) int64 {
		if from == absent || to == absent {
			return absent
		}
		return to - from
	}
	s := &r.summary
	for _, d := range []struct {
		name   string
		got    *stats.Percentiles
		unitNS float64
		okOnly bool
		of     func(l *line) int64
	}{
		{"drift", s.DriftUS, 1e3, false, func(l *line) int64 { return span(l.Planned, l.Sent) }},
		{"ttft", s.TTFTMS, 1e6, true, func(l *line) int64 { return span(l.Sent, l.FirstToken) }},
		{"ttft planned", s.TTFTPlannedMS, 1e6, true, func(l *line) int64 { return span(l.Planned, l.FirstToken) }},
		{"e2e", s.E2EMS, 1e6, true, func(l *line) int64 { return span(l.Sent, l.LastToken) }},
		{"e2e planned", s.E2EPlannedMS, 1e6, true, func(l *line) int64 { return span(l.Planned, l.LastToken) }},
	} {
		var values []float64
		for i := range r.lines {
			if v := d.of(&r.lines[i]); v != absent && (r.lines[i].ok() || !d.okOnly) {
				values = append(values, float64(v)/d.unitNS)
			}
		}
		provePercentiles(t, d.name, d.got, values)
	}
}

func provePercentiles(t *testing.T, name string, got *stats.Percentiles, values []float64) {
	t.Helper()
	if got == nil || len(values) == 0 {
		if got != nil || len(values) != 0 {
			t.Errorf("%s: %+v in the summary, %d values in the lines", name, got, len(values))
		}
		return
	}
	slices.Sort(values)
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	rank := func(share float64) float64 { return values[max(0, int(math.Ceil(share*float64(len(values))-1e-9))-1)] }
	for _, p := range []struct {
		name      string
		got, want float64
	}{
		{"p50", got.P50, rank(0.5)}, {"p90", got.P90, rank(0.9)}, {"p95", got.P95, rank(0.95)}, {"p99", got.P99, rank(0.99)},
		{"p999", got.P999, rank(0.999)}, {"max", got.Max, values[len(values)-1]}, {"mean", got.Mean, mean},
	} {
		if p.got != p.want && (p.name != "mean" || math.Abs(p.got-p.want) > 0.001*math.Abs(p.want)+0.001) {
			t.Errorf("%s %s is %v in the summary, %v of the sorted lines", name, p.name, p.got, p.want)
		}
	}
}

// proveHistograms: the log holds as many gaps as the lines have chunks after a first one, of the same total.
func (r *results) proveHistograms(t *testing.T) {
	t.Helper()
	f := must.Have(os.Open(filepath.Join(r.dir, "histograms.hlog")))(t)
	defer f.Close()
	count, total := map[string]int64{}, map[string]float64{}
	for in := hdrhistogram.NewHistogramLogReader(f); ; {
		h, err := in.NextIntervalHistogram()
		must.Do(t, err, "histograms.hlog")
		if h == nil {
			break
		}
		metric, _, _ := strings.Cut(h.Tag(), "@")
		count[metric] += h.TotalCount()
		total[metric] += h.Mean() * float64(h.TotalCount())
	}
	sent, firsts, gaps, spanNS := int64(0), int64(0), int64(0), 0.0
	for _, l := range r.lines {
		if l.Sent != absent {
			sent++
		}
		if l.ok() && l.FirstToken != absent {
			firsts++
			if l.LastToken > l.FirstToken { // of chunks that came at once no gap is known
				gaps += l.Chunks - 1
			}
			spanNS += float64(l.LastToken - l.FirstToken)
		}
	}
	if count["drift"] != sent || count["ttft"] != firsts || count["itl"] != gaps {
		t.Errorf("the histograms count %v; the lines %d drifts, %d TTFTs, %d ITLs", count, sent, firsts, gaps)
	}
	expect.Near(t, total["itl"], spanNS, 0.002*spanNS, "the gaps add up to ns")
}

// join compares a run with what the servers logged, by request id. Every request that left arrived exactly once, after
// it was sent, and nothing of its answer was seen before the server sent it. Both clocks are CLOCK_MONOTONIC.
func (r *results) join(t *testing.T, log map[string][]served) {
	t.Helper()
	origin := r.summary.Run.MonotonicStartNS
	var network, first []float64
	for i := range r.lines {
		l := &r.lines[i]
		entries := log[l.ID]
		if len(entries) > 1 {
			t.Errorf("row %d (%s, resent %d) came %d times: %+v", l.Row, l.Outcome, l.Resent, len(entries), entries)
		}
		if len(entries) == 0 {
			if l.ok() {
				t.Errorf("row %d is ok, but no server saw it", l.Row)
			}
			continue
		}
		s := entries[0]
		if s.Arrival-origin < l.Sent {
			t.Errorf("row %d arrived %d ns before it was sent", l.Row, l.Sent-(s.Arrival-origin))
		}
		for _, e := range [...]struct {
			what           string
			client, server int64
		}{{"head", l.Headers, s.Arrival}, {"first token", l.FirstToken, s.First}, {"last token", l.LastToken, s.Last}, {"end", l.Done, s.Done}} {
			if e.client != absent && e.server != 0 && e.client < e.server-origin && l.ok() {
				t.Errorf("row %d: %s seen %d ns before the server sent it", l.Row, e.what, e.server-origin-e.client)
			}
		}
		if !l.ok() {
			continue
		}
		// What is verbatim may have no recorded lengths.
		if s.Prompt != l.Prompt || l.Input != 0 && l.Prompt != l.Input || s.Completion != cmp.Or(l.Output, l.Completion) {
			t.Errorf("row %d: %d prompt tokens recorded, %d here, %d there; %d completion tokens recorded, %d there",
				l.Row, l.Input, l.Prompt, s.Prompt, l.Output, s.Completion)
		}
		network = append(network, float64(s.Arrival-origin-l.Sent)/1e3)
		if l.FirstToken != absent {
			first = append(first, float64(l.FirstToken-(s.First-origin))/1e3)
		}
	}
	logQuantiles(t, "arrival after sent, µs", network)
	logQuantiles(t, "first token seen after it was sent, µs", first)
}

func logQuantiles(t *testing.T, what string, values []float64) {
	t.Helper()
	if len(values) == 0 {
		return
	}
	slices.Sort(values)
	at := func(share float64) float64 { return values[int(share*float64(len(values)-1))] }
	t.Logf("%s: p50 %.1f  p99 %.1f  max %.1f  (%d)", what, at(0.5), at(0.99), at(1), len(values))
}
