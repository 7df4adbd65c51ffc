package metrics

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Jobs is what became of jobs: tasks that were given to agents, each with all requests of its agents. If the trace has no jobs, each
// conversation is one. Distributions are over the finished ones. A job's critical path leads from its last answer back to the request
// that this one waited for longest, and so on. What is not service on it is waiting: tools, thinking, and what held requests back.
type Jobs struct {
	Jobs         int64              `json:"jobs"`               // with a request in this run; finished + with_failures + cut_off
	Finished     int64              `json:"finished"`           // all of their requests ended ok
	WithFailures int64              `json:"with_failures"`      // a request failed
	CutOff       int64              `json:"cut_off"`            // none failed, but the run ended before the last of their requests
	PerH         *float64           `json:"jobs_per_h"`         // finished, by the run's duration
	CompletionS  *stats.Percentiles `json:"completion_s"`       // last answer's end - first request's sending
	RecordedS    *stats.Percentiles `json:"recorded_s"`         // the same as recorded; to the last request, where the trace lacks the end of an answer
	Ratio        *stats.Percentiles `json:"completion_ratio"`   // measured / recorded, job by job, between the same two moments; the pace of the run is in it
	ServiceS     *stats.Percentiles `json:"critical_service_s"` // time in which the requests of a job's critical path were served
	WaitsS       *stats.Percentiles `json:"critical_waits_s"`   // time between them; both together are completion_s
	PathRequests *stats.Percentiles `json:"critical_requests"`  // how many requests the critical path has
	HeldS        *stats.Percentiles `json:"held_s"`             // how far a job fell behind its planned times, since its requests waited for others: the most that one of them was; null if none waited, and in a closed loop
	Depths       []Part             `json:"depths"`             // by depth: 0 are the jobs' first agents, 1 their sub-agents, 2 theirs; empty if the trace has no agents
	Sessions     []Part             `json:"sessions"`           // by conversation, each what one agent said: the 100 whose answers took longest in all; empty if the trace has no agents
	Longest      []Job              `json:"longest"`            // the 100 jobs that took longest
}

// Job is one of them. Times are from its first request's sending.
type Job struct {
	Name         string   `json:"name"`               // as the trace has it, or its number
	Requests     int64    `json:"requests"`           // in the trace's selection
	Agents       int64    `json:"agents"`             // its conversations
	State        string   `json:"state"`              // finished, failed or cut off
	CompletionS  float64  `json:"completion_s"`       // to the last answer's end
	RecordedS    *float64 `json:"recorded_s"`         // as recorded; see above
	Ratio        *float64 `json:"completion_ratio"`   // measured / recorded
	ServiceS     float64  `json:"critical_service_s"` // on the critical path
	WaitsS       float64  `json:"critical_waits_s"`   // likewise
	PathRequests int64    `json:"critical_requests"`  // likewise
	HeldS        *float64 `json:"held_s"`             // as above
}

// The states of jobs.
const (
	jobFinished = "finished"
	jobFailed   = "failed"
	jobCut      = "cut off"
)

// mostListed bounds the jobs and the conversations that a summary lists.
const mostListed = 100

// jobCounts keeps of the requests that are part of jobs what results by job need: 90 bytes each. It belongs to the recorder.
type jobCounts struct {
	requests         []jobRequest
	jobs             map[int64]jobName
	depths, sessions breakdown
}

type jobName struct {
	name     string
	requests int64
}

// jobRequest is a request. Instants and durations are in ns, record.None where there is none.
type jobRequest struct {
	job, number, session   int64
	waitsFor               string // see record.Record
	atNS, endNS            int64  // sent; the last instant known
	recordedNS, tookNS     int64
	heldNS                 int64
	ok, stopped, isLeftOut bool
}

func (c *jobCounts) add(r *record.Record) {
	if r.Job == record.None {
		return
	}
	if c.jobs == nil {
		c.jobs = map[int64]jobName{}
	}
	session := cmp.Or(r.SessionName, strconv.FormatInt(r.Session, 10))
	if _, known := c.jobs[r.Job]; !known {
		c.jobs[r.Job] = jobName{cmp.Or(r.JobName, session), r.JobRequests}
	}
	if r.Depth != record.None {
		c.depths.add(strconv.FormatInt(r.Depth, 10), r)
		c.sessions.add(session, r)
	}
	number, _ := strconv.ParseInt(r.RequestID[strings.LastIndexByte(r.RequestID, '-')+1:], 10, 64)
	c.requests = append(c.requests, jobRequest{
		job: r.Job, number: number, session: r.Session, waitsFor: r.WaitsFor, atNS: r.SentNS,
		endNS: max(r.SentNS, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS), recordedNS: r.RecordedNS, tookNS: r.RecordedTookNS, heldNS: r.HeldNS,
		ok: r.Outcome == record.OK, stopped: stopped(r.Outcome), isLeftOut: r.LeftOut(),
	})
}

// summary is nil if no request is part of a job. If the run was over before its requests, those that it ended did not fail.
func (c *jobCounts) summary(durationS float64, over bool) *Jobs {
	if len(c.requests) == 0 {
		return nil
	}
	slices.SortFunc(c.requests, func(a, b jobRequest) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.number, b.number)) })
	s := &Jobs{Depths: partsBy(&c.depths, over, false), Sessions: partsBy(&c.sessions, over, true), Longest: []Job{}}
	var completed, recorded, service, waits, path, held []int64
	var ratios []float64
	for from := 0; from < len(c.requests); {
		to := from + 1
		for to < len(c.requests) && c.requests[to].job == c.requests[from].job {
			to++
		}
		j := newJob(c.requests[from:to], c.jobs[c.requests[from].job], over)
		from = to
		s.Jobs++
		switch j.State {
		case jobFailed:
			s.WithFailures++
		case jobCut:
			s.CutOff++
		default:
			s.Finished++
			completed, service, waits = append(completed, j.completionNS), append(service, j.completionNS-j.waitsNS), append(waits, j.waitsNS)
			path = append(path, j.PathRequests)
			if j.recordedNS > 0 {
				recorded, ratios = append(recorded, j.recordedNS), append(ratios, *j.Ratio)
			}
			if j.heldNS != record.None {
				held = append(held, j.heldNS)
			}
		}
		s.Longest = append(s.Longest, j.Job)
	}
	slices.SortStableFunc(s.Longest, func(a, b Job) int { return cmp.Compare(b.CompletionS, a.CompletionS) })
	s.Longest = slices.Clip(s.Longest[:min(len(s.Longest), mostListed)])
	s.CompletionS, s.RecordedS, s.Ratio = stats.Describe(completed, 1e9), stats.Describe(recorded, 1e9), stats.Describe(ratios, 1)
	s.ServiceS, s.WaitsS, s.PathRequests, s.HeldS = stats.Describe(service, 1e9), stats.Describe(waits, 1e9), stats.Describe(path, 1), stats.Describe(held, 1e9)
	if durationS > 0 {
		s.PerH = new(float64(s.Finished) / durationS * 3600)
	}
	return s
}

// partsBy are the parts with the hits that were expected of them; those that took longest in all come first, or else all by name.
func partsBy(b *breakdown, over, longest bool) []Part {
	all := b.summary(1, over)
	if all == nil {
		return []Part{}
	}
	for i := range all.Parts {
		p := &all.Parts[i]
		if c := &b.parts[p.Name].cache; c.ideals > 0 && c.ideals == p.OK {
			p.ExpectedHitRatio = ratio(c.expected, c.prompt)
		}
	}
	if longest {
		slices.SortStableFunc(all.Parts, func(x, y Part) int { return cmp.Compare(b.parts[y.Name].e2e.sum, b.parts[x.Name].e2e.sum) })
		all.Parts = all.Parts[:min(len(all.Parts), mostListed)]
	}
	return all.Parts
}

// jobTimes is a job with its times in ns; recordedNS is 0 where nothing recorded can be compared.
type jobTimes struct {
	Job
	completionNS, recordedNS, waitsNS, heldNS int64
}

// newJob makes a job of its requests, which are in order of their numbers.
func newJob(requests []jobRequest, of jobName, over bool) jobTimes {
	j := jobTimes{Job: Job{Name: of.name, Requests: of.requests, State: jobFinished}, heldNS: record.None}
	first, last, end := int64(math.MaxInt64), int64(record.None), -1 // sent; the place of the last answer
	recordedFirst, recordedLast, recordedEnd := int64(math.MaxInt64), int64(record.None), int64(record.None)
	ok, leftOut, sessions, ended := int64(0), int64(0), map[int64]bool{}, true
	for i := range requests {
		r := &requests[i]
		sessions[r.session] = true
		switch {
		case r.ok:
			ok++
		case r.isLeftOut:
			leftOut++
		case !over || !r.stopped:
			j.State = jobFailed
		}
		if r.atNS == record.None {
			continue
		}
		first, last = min(first, r.atNS), max(last, r.atNS)
		if end < 0 || r.endNS > requests[end].endNS {
			end = i
		}
		j.heldNS = max(j.heldNS, r.heldNS)
		if r.recordedNS == record.None {
			recordedFirst = record.None
		}
		recordedFirst, recordedLast = min(recordedFirst, r.recordedNS), max(recordedLast, r.recordedNS)
		if ended = ended && r.tookNS != record.None; ended {
			recordedEnd = max(recordedEnd, r.recordedNS+r.tookNS)
		}
	}
	if j.Agents = int64(len(sessions)); j.State == jobFinished && ok+leftOut < of.requests {
		j.State = jobCut
	}
	if end < 0 {
		return j
	}
	j.completionNS = requests[end].endNS - first
	j.waitsNS, j.PathRequests = criticalPath(requests, end, first)
	j.CompletionS, j.WaitsS, j.ServiceS = seconds(j.completionNS), seconds(j.waitsNS), seconds(j.completionNS-j.waitsNS)
	if j.heldNS != record.None {
		j.HeldS = new(seconds(j.heldNS))
	}
	measured := j.completionNS
	if !ended {
		measured, recordedEnd = last-first, recordedLast
	}
	if recordedFirst != record.None && recordedEnd > recordedFirst && j.State == jobFinished {
		j.recordedNS = recordedEnd - recordedFirst
		j.RecordedS, j.Ratio = new(seconds(j.recordedNS)), new(float64(measured)/float64(j.recordedNS))
	}
	return j
}

// criticalPath leads from the request that ended last back to one that waited for none. It returns how long it waited on the way, from
// the job's first sending on, and how many requests are on it. If a request was sent before what it depends on had ended, it did not
// wait, and only the time before its sending counts as the other's service.
func criticalPath(requests []jobRequest, end int, firstNS int64) (waitsNS, n int64) {
	bounds := make([]bound, end+1)
	for i := range bounds {
		bounds[i] = boundOf(requests, i, bounds)
	}
	for at := end; ; at = bounds[at].on {
		n++
		if bounds[at].on < 0 {
			return waitsNS + requests[at].atNS - firstNS, n
		}
		waitsNS += max(0, requests[at].atNS-bounds[at].untilNS)
	}
}

// bound is what a request waited for longest, and until when; on is below 0 if it waited for nothing that was sent.
type bound struct {
	on      int
	untilNS int64
}

// boundOf finds that of request at; bounds has those of the requests before it. In place of a request that was not sent stands what
// that one waited for.
func boundOf(requests []jobRequest, at int, bounds []bound) bound {
	found := bound{on: -1}
	for word := range strings.FieldsSeq(requests[at].waitsFor) {
		digits, dispatch := strings.CutSuffix(word, "s")
		number, err := strconv.ParseInt(digits, 10, 64)
		i, there := slices.BinarySearchFunc(requests[:at], number, func(r jobRequest, n int64) int { return cmp.Compare(r.number, n) })
		if err != nil || !there {
			continue // in another job, or not in this run
		}
		b := bound{i, requests[i].endNS}
		switch {
		case requests[i].atNS == record.None:
			b = bounds[i]
		case dispatch:
			b.untilNS = requests[i].atNS
		}
		if b.on >= 0 && (found.on < 0 || b.untilNS > found.untilNS) {
			found = b
		}
	}
	return found
}
