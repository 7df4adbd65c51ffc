package workload

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// describeJobs notes which jobs requests are part of, what they depend on, and what was recorded of them. What the
// trace does not have stays absent. Nothing is noted of jobs if no request depends on another and the trace has no
// jobs.
func (w *Work) describeJobs(records []record.Record) {
	t := w.Trace
	graph := t.Graph(len(records))
	if t.Job == nil && !graph.Waits() {
		return
	}
	at := w.Plan.ReleaseNS
	if !w.Plan.Open() {
		at = nil
		for _, ns := range t.ArrivalNS {
			at = append(at, int64(float64(ns)/cmp.Or(w.Speed, 1)))
		}
	}
	mostIdleNS := int64(math.MaxInt64) // of a job, which the run shortens its idle times to
	if d := w.Plan.Dependencies; d != nil && d.TreeIdleNS > 0 {
		mostIdleNS = d.TreeIdleNS
	}
	number, n := t.JobNumbers()
	jobs := make([]struct {
		first                 *record.Record
		beginNS, endNS, cutNS int64
	}, n)
	for i, job := range number {
		j := &jobs[job]
		if j.first == nil && i < len(records) {
			j.first = &records[i]
			j.beginNS = at[i]
			j.endNS = at[i]
			j.first.JobRequests = 0
			j.first.JobName = t.JobName(i)
			if w.Before != nil && w.Before[i] > 0 {
				j.first.JobBefore = int64(w.Before[i])
			}
		}
		if j.first == nil {
			continue
		}
		j.first.JobRequests++ // of those too that the plan has no time for
		j.first.JobRecordedNS = record.None
		known := !t.Untimed && t.TookNS != nil && t.TookNS[i] >= 0
		if known && i < len(records) {
			j.cutNS += max(0, at[i]-j.cutNS-j.endNS-mostIdleNS)
			j.endNS = max(j.endNS, at[i]-j.cutNS+t.TookNS[i])
			j.first.JobRecordedNS = j.endNS - j.beginNS
		}
	}
	for i := range records {
		r := &records[i]
		r.Job = int64(number[i])
		if t.Job != nil {
			r.Depth = 0
		}
		if t.Depth != nil {
			r.Depth = int64(t.Depth[i])
		}
		r.WaitsFor = waitsFor(graph.Of(i))
	}
}

// waitsFor lists requests, with an s behind those of which only the dispatch is waited for.
func waitsFor(waits []trace.Dependency) string {
	var list []string
	for _, wait := range waits {
		on := strconv.Itoa(int(wait.On))
		if wait.Trigger == trace.OnDispatch {
			on += "s"
		}
		list = append(list, on)
	}
	return strings.Join(list, " ")
}
