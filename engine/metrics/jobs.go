package metrics

import (
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Jobs is what became of jobs: tasks that were given to agents, each with all requests of its agents. If the trace
// has no jobs, each conversation is one. Distributions are over the finished whole ones. A job's critical path leads
// from its last answer back to the request that this one waited for longest, and so on. What is not service on it is
// waiting: tools, thinking, and what held requests back.
type Jobs struct {
	// with a measured request in this run; finished + finished_parts + with_failures + cut_off
	Jobs     int64 `json:"jobs"`
	Finished int64 `json:"finished"` // whole: all of their requests were measured and ended ok
	// of which lanes began amid the job, or warmed up with its first requests: all others ended ok; absent if none
	FinishedParts int64 `json:"finished_parts,omitempty"`
	WithFailures  int64 `json:"with_failures"` // a request failed
	// none failed, but the run ended before the last of their requests
	CutOff int64 `json:"cut_off"`
	// with lanes: that a lane took after it had ended another; absent if none
	Recycled int64 `json:"recycled,omitempty"`
	// of the trace that were measured and ended ok, each once however often its job was taken; workload.rows has all
	Rows        int64              `json:"rows"`
	PerH        *float64           `json:"jobs_per_h"`   // finished, parts too, by the run's duration
	CompletionS *stats.Percentiles `json:"completion_s"` // last answer's end - first request's sending
	// the same if each request left when planned, which --scale and --idle-cap change, and took as long as recorded. It
	// is null, too, if idle times of all jobs together were cut
	RecordedS *stats.Percentiles `json:"recorded_s"`
	Ratio     *stats.Percentiles `json:"completion_ratio"` // completion_s / recorded_s, job by job
	// time of a job between the requests of its critical path; the rest of completion_s is their service
	WaitsS       *stats.Percentiles `json:"critical_waits_s"`
	PathRequests *stats.Percentiles `json:"critical_requests"` // how many requests the critical path has
	// by depth: 0 are the jobs' first agents, 1 their sub-agents, 2 theirs; empty if the trace has no agents
	Depths []Part `json:"depths"`
	// by the type of requests in the trace, in Weka's the kind of the agent (main, Explore, …); empty if it has none
	Types []Part `json:"types"`
	// by conversation, each what one agent said: the 100 whose answers took longest in all; empty if the trace has no
	// agents
	Sessions []Part `json:"sessions"`
	Longest  []Job  `json:"longest"` // the 100 jobs that took longest
}

// Job is one of them. Times are from its first request's sending.
type Job struct {
	Name        string  `json:"name"`         // as the trace has it, or its number
	Requests    int64   `json:"requests"`     // in the trace's selection
	Agents      int64   `json:"agents"`       // its conversations
	State       string  `json:"state"`        // finished, finished part, failed or cut off
	CompletionS float64 `json:"completion_s"` // to the last answer's end
	// as recorded, see above; null if its lane began at a snapshot, or the trace lacks the end of its last answer
	RecordedS    *float64 `json:"recorded_s"`
	WaitsS       float64  `json:"critical_waits_s"`  // on the critical path
	PathRequests int64    `json:"critical_requests"` // requests on the critical path
}

// The states of jobs.
const (
	JobFinished     = "finished"
	JobFinishedPart = "finished part"
	JobFailed       = "failed"
	JobCut          = "cut off"
)

// Preparation is what was sent before the barrier. Nothing else counts it but the states of jobs.
type Preparation struct {
	Primers int64 `json:"primers"` // requests that fill the servers' caches
	Warmup  int64 `json:"warmup"`  // requests that bring load
	Failed  int64 `json:"failed"`  // of both, those that did not end ok and were not left out
	// from the first sending to the barrier, from which all instants count; null if the run ended before
	DurationS *float64 `json:"duration_s"`
}

// Requests is how many requests prepared.
func (p *Preparation) Requests() int64 { return p.Primers + p.Warmup }
