package collect

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// mostListed bounds the jobs and the conversations that a summary lists.
const mostListed = 100

// jobCounts keeps of the requests that are part of jobs what results by job need: 80 bytes each. It belongs to the
// recorder.
type jobCounts struct {
	requests                []jobRequest
	heads                   map[int64]jobHead
	shorter                 bool // the run cut idle times of all jobs together: by how much each job is unknown
	depths, types, sessions breakdown
}

// jobHead is what the record of a job's first request says of the job.
type jobHead struct {
	name                 string
	requests, recordedNS int64
	amid                 bool // its lane began at a snapshot
}

// jobRequest is a request. Instants are in ns, record.None where there is none.
type jobRequest struct {
	job, number, session   int64
	row                    int64
	waitsFor               string // see record.Record
	atNS, endNS            int64  // sent; the last instant known
	ok, stopped, isLeftOut bool
	prepares               bool
}

func countPrepared(p *metrics.Preparation, r *record.Record) {
	if r.Phase == record.Primer {
		p.Primers++
	} else {
		p.Warmup++
	}
	if r.Outcome != record.OK && !r.LeftOut() {
		p.Failed++
	}
	if r.SentNS == record.None || r.SentNS >= 0 {
		return
	}
	if before := seconds(-r.SentNS); p.DurationS == nil || before > *p.DurationS {
		p.DurationS = &before
	}
}

func (c *jobCounts) add(r *record.Record) {
	if r.Job == record.None {
		return
	}
	session := cmp.Or(r.SessionName, strconv.FormatInt(r.Session, 10))
	if r.JobRequests != record.None {
		if c.heads == nil {
			c.heads = map[int64]jobHead{}
		}
		c.heads[r.Job] = jobHead{
			name:       cmp.Or(r.JobName, session),
			requests:   r.JobRequests,
			recordedNS: r.JobRecordedNS,
			amid:       r.JobBefore != record.None,
		}
	}
	if r.Phase == record.Profiled {
		c.types.add(r.Type, r)
	}
	if r.Depth != record.None && r.Phase == record.Profiled {
		c.depths.add(strconv.FormatInt(r.Depth, 10), r)
		c.sessions.add(session, r)
	}
	number, _ := strconv.ParseInt(r.RequestID[strings.LastIndexByte(r.RequestID, '-')+1:], 10, 64)
	c.requests = append(c.requests, jobRequest{
		job:       r.Job,
		number:    number,
		session:   r.Session,
		row:       r.Row,
		waitsFor:  r.WaitsFor,
		atNS:      r.SentNS,
		endNS:     r.EndNS(),
		ok:        r.Outcome == record.OK,
		stopped:   stopped(r.Outcome),
		isLeftOut: r.LeftOut(),
		prepares:  r.Phase != record.Profiled,
	})
}

// summary is nil if no request is part of a job. If the run was over before its requests, those that it ended did not
// fail. lanes is how many jobs run at a time; 0 without lanes.
func (c *jobCounts) summary(durationS float64, over bool, lanes int64) *metrics.Jobs {
	if len(c.requests) == 0 {
		return nil
	}
	slices.SortFunc(c.requests, func(a, b jobRequest) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.number, b.number))
	})
	s := &metrics.Jobs{
		Depths:   partsBy(&c.depths, over, false),
		Types:    partsBy(&c.types, over, false),
		Sessions: partsBy(&c.sessions, over, true),
		Longest:  []metrics.Job{},
	}
	begun := int64(0) // jobs of which a request was sent
	rows := map[int64]bool{}
	var completed, recorded, ratios, waits, path []float64
	for rest := c.requests; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(r jobRequest) bool { return r.job != rest[0].job })
		if n < 0 {
			n = len(rest)
		}
		all := rest[:n]
		j := c.job(all, over)
		rest = rest[n:]
		if slices.ContainsFunc(all, func(r jobRequest) bool { return r.atNS != record.None }) {
			begun++
		}
		measured := func(r jobRequest) bool { return !r.prepares }
		if int64(len(all)) == c.heads[all[0].job].requests && !slices.ContainsFunc(all, measured) {
			continue // a lane has warmed up with all of it
		}
		for i := range all {
			if all[i].ok && !all[i].prepares {
				rows[all[i].row] = true
			}
		}
		s.Jobs++
		switch s.Longest = append(s.Longest, j); j.State {
		case metrics.JobFailed:
			s.WithFailures++
		case metrics.JobCut:
			s.CutOff++
		case metrics.JobFinishedPart:
			s.FinishedParts++
		default:
			s.Finished++
			completed = append(completed, j.CompletionS)
			waits = append(waits, j.WaitsS)
			path = append(path, float64(j.PathRequests))
			if j.RecordedS != nil {
				recorded = append(recorded, *j.RecordedS)
				ratios = append(ratios, j.CompletionS / *j.RecordedS)
			}
		}
	}
	slices.SortStableFunc(s.Longest, func(a, b metrics.Job) int { return cmp.Compare(b.CompletionS, a.CompletionS) })
	s.Longest = slices.Clip(s.Longest[:min(len(s.Longest), mostListed)])
	s.CompletionS = stats.Describe(completed, 1)
	s.RecordedS = stats.Describe(recorded, 1)
	s.Ratio = stats.Describe(ratios, 1)
	s.WaitsS = stats.Describe(waits, 1)
	s.PathRequests = stats.Describe(path, 1)
	s.Rows = int64(len(rows))
	if lanes > 0 {
		s.Recycled = max(0, begun-lanes)
	}
	if durationS > 0 {
		s.PerH = new(float64(s.Finished+s.FinishedParts) / durationS * 3600)
	}
	return s
}

// partsBy are the parts with the hits that were expected of them; those that took longest in all come first, or else
// all by name.
func partsBy(b *breakdown, over, longest bool) []metrics.Part {
	all := b.summary(1, over)
	if all == nil {
		return []metrics.Part{}
	}
	for i := range all.Parts {
		p := &all.Parts[i]
		if c := &b.parts[p.Name].cache; c.Ideals > 0 && c.Ideals == p.OK {
			p.ExpectedHitRatio = stats.Ratio(c.Expected, c.Prompt)
		}
	}
	if longest {
		slices.SortStableFunc(all.Parts, func(x, y metrics.Part) int {
			sumNS := func(p metrics.Part) int64 { return b.parts[p.Name].latencies[metrics.E2E].SumNS() }
			return cmp.Compare(sumNS(y), sumNS(x))
		})
		all.Parts = all.Parts[:min(len(all.Parts), mostListed)]
	}
	return all.Parts
}

// job makes one of its requests, which are in order of their numbers. It is cut off if not all of them are there; the
// first one's record says how many there are.
func (c *jobCounts) job(requests []jobRequest, over bool) metrics.Job {
	head, known := c.heads[requests[0].job]
	j := metrics.Job{
		Name:     cmp.Or(head.name, strconv.FormatInt(requests[0].job, 10)),
		Requests: max(head.requests, int64(len(requests))),
		State:    metrics.JobFinished,
	}
	first, end := int64(math.MaxInt64), -1 // sent; the place of the last answer
	sessions := map[int64]bool{}
	if !known || int64(len(requests)) < head.requests {
		j.State = metrics.JobCut
	}
	for i := range requests {
		r := &requests[i]
		sessions[r.session] = true
		switch {
		case r.ok || r.isLeftOut:
		case !over || !r.stopped:
			j.State = metrics.JobFailed
		case j.State == metrics.JobFinished:
			j.State = metrics.JobCut
		}
		head.amid = head.amid || r.prepares
		if r.atNS == record.None || r.prepares {
			continue
		}
		if first = min(first, r.atNS); end < 0 || r.endNS > requests[end].endNS {
			end = i
		}
	}
	if head.amid && j.State == metrics.JobFinished {
		j.State = metrics.JobFinishedPart
	}
	j.Agents = int64(len(sessions))
	if end < 0 {
		return j
	}
	waits, n := criticalPath(requests, end, first)
	j.CompletionS = seconds(requests[end].endNS - first)
	j.WaitsS = seconds(waits)
	j.PathRequests = n
	if head.recordedNS > 0 && !head.amid && !c.shorter {
		j.RecordedS = new(seconds(head.recordedNS))
	}
	return j
}

// criticalPath leads from the request that ended last back to one that waited for none. It returns how long it waited
// on the way, from the job's first sending on, and how many requests are on it. If a request was sent before what it
// depends on had ended, it did not wait. Only the time before its sending then counts as the other's service.
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

// boundOf finds that of request at; bounds has those of the requests before it. In place of a request that was not
// sent stands what that one waited for.
func boundOf(requests []jobRequest, at int, bounds []bound) bound {
	found := bound{on: -1}
	for word := range strings.FieldsSeq(requests[at].waitsFor) {
		digits, dispatch := strings.CutSuffix(word, "s")
		number, err := strconv.ParseInt(digits, 10, 64)
		i, there := slices.BinarySearchFunc(requests[:at], number, func(r jobRequest, n int64) int {
			return cmp.Compare(r.number, n)
		})
		if err != nil || !there || requests[i].prepares {
			continue // in another job, not in this run, or before it
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
