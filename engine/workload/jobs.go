package workload

import (
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// jobs is what records say of the jobs that requests are part of, and of what was recorded of them.
type jobs struct {
	trace    *trace.Trace
	number   []int32  // of each request's job; nil if no request depends on another and the trace has no jobs
	requests []int64  // of each job
	waitsFor []string // of each request of the plan, as a record has it
}

func (w *Work) jobs() *jobs {
	j := &jobs{trace: w.Trace}
	graph := w.Trace.Graph(w.Requests())
	if graph == nil || w.Trace.Job == nil && !hasWaits(graph) {
		return j
	}
	n := 0
	j.number, n = w.Trace.JobNumbers()
	j.requests = make([]int64, n)
	for _, job := range j.number {
		j.requests[job]++
	}
	var all []byte
	ends := make([]int, w.Requests())
	for i := range ends {
		for k, wait := range graph.Of(i) {
			if k > 0 {
				all = append(all, ' ')
			}
			if all = strconv.AppendInt(all, int64(wait.On), 10); wait.Trigger == trace.OnDispatch {
				all = append(all, 's')
			}
		}
		ends[i] = len(all)
	}
	text, from := string(all), 0 // one string for all, of which each request has a piece
	for _, to := range ends {
		j.waitsFor = append(j.waitsFor, text[from:to])
		from = to
	}
	return j
}

func hasWaits(g *trace.Graph) bool {
	for i := range g.Len() {
		if len(g.Of(i)) > 0 {
			return true
		}
	}
	return false
}

// describe notes what is known of request i before it is sent. What the trace does not have stays absent.
func (j *jobs) describe(r *record.Record, i int) {
	t := j.trace
	if t.Cached != nil && t.Cached[i] >= 0 {
		r.RecordedCachedTokens = int64(t.Cached[i])
	}
	if t.TookNS != nil && t.TookNS[i] >= 0 {
		r.RecordedTookNS = t.TookNS[i]
	}
	if j.number == nil {
		return
	}
	job := j.number[i]
	r.Job, r.JobRequests, r.WaitsFor = int64(job), j.requests[job], j.waitsFor[i]
	if !t.Untimed {
		r.RecordedNS = t.ArrivalNS[i]
	}
	if t.Job != nil {
		r.JobName, r.Depth = t.JobName(i), 0
	}
	if t.Depth != nil {
		r.Depth = int64(t.Depth[i])
	}
}
