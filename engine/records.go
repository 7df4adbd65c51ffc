package engine

import (
	"sync/atomic"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/audit"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// records are those of a run's requests. They are made before the run. In a closed loop whose requests wait for no
// others, each is made soon before its request leaves. It is used again once the sink has seen it. So 200,000 of them
// take 22 MB with their fates, not 168. Nobody looks at the record of a request that has ended, but the recorder.
type records struct {
	runID string
	ideal workload.IdealHits
	of    []atomic.Pointer[record.Record] // nil = not made yet, or used again
	all   []record.Record                 // nil if they are made during the run
	fates []audit.Fate                    // of those that the sink has seen
	names audit.Names

	// What follows belongs to Run.recordAll.
	next     int // the next one to be made ahead
	spare    *record.Record
	ids      string // of idsAtOnce requests
	idsBegin int    // the first of these
}

const (
	// recordsAhead are made beyond the requests in flight: those that leave within 0.1 s, ten times recordTick.
	recordsAhead = 4096
	// idsAtOnce are the request ids that are made at a time.
	idsAtOnce = 1024
)

// makeRecords makes all records, or the first of them.
func (r *Run) makeRecords(runID string, ideal workload.IdealHits) {
	w := r.work
	n := r.work.Requests()
	r.records = records{
		runID: runID,
		ideal: ideal,
		of:    make([]atomic.Pointer[record.Record], n),
		fates: make([]audit.Fate, n),
	}
	if !w.Plan.Open() && w.Plan.Dependencies == nil && w.Numbers == nil && !w.Routing.Late &&
		r.cfg.History == nil {
		for range w.Plan.Concurrency + recordsAhead {
			r.makeNext()
		}
		return
	}
	r.records.all = w.Records(runID, ideal, r.cfg.Backend)
	for i := range r.records.all {
		r.records.of[i].Store(&r.records.all[i])
	}
}

// recordOf is the record of request i, which has not ended. It makes the record if the recorder is late.
func (r *Run) recordOf(i int32) *record.Record {
	of := &r.records.of[i]
	if of.Load() == nil {
		rec := new(record.Record)
		r.describe(rec, i, workload.RequestIDs(r.records.runID, int(i), 1))
		of.CompareAndSwap(nil, rec)
	}
	return of.Load()
}

// describe makes rec the record of request i, which is to leave.
func (r *Run) describe(rec *record.Record, i int32, id string) {
	r.work.Describe(rec, int(i), r.records.ideal, r.cfg.Backend)
	p := r.poolOf(i)
	rec.RequestID = id
	rec.Target = p.url
	rec.Endpoint = p.name
}

// ready makes the record of request i ready to leave for plannedNS. If records are used again, the recorder has cleared
// it on another processor. So all cache lines that a response fills are written at once, with what they have already.
// One by one, atomic operations behind the writes waited for each: 0.4 µs a request.
func (r *Run) ready(i int32, plannedNS int64) {
	rec := r.recordOf(i)
	rec.PlannedNS = plannedNS
	if r.records.all == nil {
		rec.WrittenNS = record.None
		rec.DoneNS = record.None
		rec.PromptTokens = record.None
		rec.FinishReason = ""
		rec.CachedTokens = record.None
		rec.Status = record.None
		rec.BytesReceived = 0
	}
}

// giveBack ends the use of the record of request i, which the sink has seen.
func (r *Run) giveBack(i int32) {
	if s := &r.records; s.all == nil {
		s.spare = s.of[i].Load()
		s.of[i].Store(nil)
		r.makeNext()
	}
}

// makeNext makes the next record that nobody has made.
func (r *Run) makeNext() {
	s := &r.records
	for s.next < len(s.of) && (r.recorded[s.next] || s.of[s.next].Load() != nil) {
		s.next++
	}
	if s.next == len(s.of) {
		return
	}
	if s.ids == "" || s.next >= s.idsBegin+idsAtOnce {
		s.ids = workload.RequestIDs(s.runID, s.next, idsAtOnce)
		s.idsBegin = s.next
	}
	each := len(s.ids) / idsAtOnce
	id := s.ids[each*(s.next-s.idsBegin):][:each]
	rec := s.spare
	if rec == nil {
		rec = new(record.Record)
	}
	s.spare = nil
	r.describe(rec, int32(s.next), id)
	s.of[s.next].CompareAndSwap(nil, rec)
	s.next++
}

// Records are those of all requests, in the plan's order, as they are after Do; nil of some closed loops, see Fates.
func (r *Run) Records() []record.Record { return r.records.all }

// Fates tells what became of each request, in the plan's order, and who answered. Call it after Do.
func (r *Run) Fates() ([]audit.Fate, *audit.Names) { return r.records.fates, &r.records.names }

// fillFates adds the fates of requests that took no part, after the last record.
func (r *Run) fillFates() {
	var none record.Record
	none.Clear()
	for i, seen := range r.recorded {
		if !seen {
			r.records.fates[i] = r.records.names.FateOf(&none)
		}
	}
}

// Forget lets go of records, fates and all else that the run has of each request. Call it when nobody needs them any
// more, and nothing but Clock, Progress and counts after it.
func (r *Run) Forget() {
	r.records = records{}
	r.recorded = nil
	r.pacer = nil
}
