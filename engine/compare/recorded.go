package compare

import (
	"errors"
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// Recorded is the side that a trace recorded of itself, for runs of that trace. It has the TTFT, the duration and the
// cached tokens of each request, as far as its format has them. It is an error if it has no times.
func Recorded(t *trace.Trace, of *Side) (*Side, error) {
	places := map[int64]int{} // of the trace's rows; copies of one have the same record
	for i, row := range t.Row {
		if _, found := places[int64(row)]; !found {
			places[int64(row)] = i
		}
	}
	summary := *of.runs[0].summary
	summary.Run.Targets = []string{"the record in " + summary.Workload.Trace}
	summary.Verdict = metrics.Verdict{Measurement: theRecord}
	r := &run{dir: "recorded", summary: &summary}
	for _, sent := range of.runs[0].rows {
		i, found := places[sent.traceRow]
		if !found {
			continue
		}
		w := *sent
		if w.recorded(t, i) {
			r.rows = append(r.rows, &w)
		}
	}
	if len(r.rows) == 0 {
		return nil, errors.New(summary.Workload.Trace + " has no times of its own to compare with; traces of agents " +
			"may have (fastreplay help traces)")
	}
	return &Side{
		SLOs: of.SLOs,
		runs: []*run{r},
	}, nil
}

// ofRecord reports whether side A is what a trace recorded of itself: a day that comes once.
func (r *Result) ofRecord() bool {
	return r.A.Verdict == strings.ToUpper(theRecord)
}

// theRecord is the verdict of a trace's own record.
const theRecord = "recorded"

// recorded makes a row what the trace recorded of request i, and reports whether it recorded a time.
func (w *row) recorded(t *trace.Trace, i int) bool {
	ms := func(column []int64) float64 {
		if column == nil || column[i] < 0 {
			return math.NaN()
		}
		return float64(column[i]) / 1e6
	}
	for l := range w.ms {
		w.ms[l] = math.NaN()
	}
	w.ok = true
	w.instance = ""
	w.doneS = math.NaN()
	w.chunks = math.NaN()
	w.met = math.NaN()
	w.cached = math.NaN()
	w.prompt = float64(t.InputTokens[i])
	w.output = float64(t.OutputTokens[i])
	w.ms[metrics.TTFT] = ms(t.TTFTNS)
	w.ms[metrics.E2E] = ms(t.TookNS)
	if w.output > 1 {
		w.ms[metrics.TPOT] = (w.ms[metrics.E2E] - w.ms[metrics.TTFT]) / (w.output - 1)
	}
	if t.Cached != nil && t.Cached[i] >= 0 {
		w.cached = float64(t.Cached[i])
	}
	return finite(w.ms[metrics.TTFT]) || finite(w.ms[metrics.E2E])
}
