package collect

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// jobRun is a run by hand, one request after the other: each leaves a delay after all that it depends on, and is served
// for a time.
type jobRun struct {
	records []record.Record
	longest []jobPath // of each request, forwards: the longest way that leads to its end
}

type jobPath struct{ endNS, waitsNS, requests int64 }

// request sends one more of a job, a delay after the others; dispatch counts from their sending.
func (run *jobRun) request(job, session, depth, delayNS, serviceNS int64, dispatch bool, on ...int) *record.Record {
	var r record.Record
	r.Clear()
	i := len(run.records)
	r.Row, r.RequestID, r.Job, r.Session, r.SessionName, r.Depth = int64(i), fmt.Sprintf("run-%09d", i), job, session, fmt.Sprint("agent ", session), depth
	way, words := jobPath{waitsNS: delayNS, endNS: delayNS}, []string{}
	for k, j := range on {
		since, before := run.longest[j].endNS, run.longest[j]
		words = append(words, fmt.Sprint(j))
		if dispatch {
			since = run.records[j].SentNS
			words[k] += "s"
		}
		if since+delayNS > way.endNS || k == 0 {
			way = jobPath{since + delayNS, before.waitsNS + delayNS, before.requests}
		}
	}
	r.WaitsFor, r.PlannedNS, r.SentNS, r.DoneNS, r.LastTokenNS, r.FirstTokenNS = strings.Join(words, " "), way.endNS, way.endNS, way.endNS+serviceNS, way.endNS+serviceNS, way.endNS
	r.Outcome, r.Status, r.InputTokens, r.PromptTokens = record.OK, 200, 100, 100
	way.endNS, way.requests = r.DoneNS, way.requests+1
	run.records, run.longest = append(run.records, r), append(run.longest, way)
	return &run.records[i]
}

// head notes at a job's first request what only its record has.
func (run *jobRun) head(i int, requests, recordedNS int64) {
	r := &run.records[i]
	r.JobName, r.JobRequests, r.JobRecordedNS = fmt.Sprint("job ", r.Job), requests, recordedNS
}

func (run *jobRun) summary(over bool) *metrics.Summary {
	c := NewCollector(nil)
	for i := range run.records {
		c.Add(&run.records[i], 0)
	}
	return c.Summary(metrics.Summary{Run: metrics.Run{DurationS: 7200, Cut: over}}, Probed{})
}

// TestCriticalPath compares with the longest way through each random graph, found forwards while the run was made.
func TestCriticalPath(t *testing.T) {
	for seed := range uint64(50) {
		rng, run := rand.New(rand.NewPCG(seed, 0)), jobRun{}
		var of [3][]int // requests of each job
		for range 90 {
			job := rng.IntN(len(of))
			var on []int
			for _, j := range of[job] {
				if rng.IntN(4) == 0 {
					on = append(on, j)
				}
			}
			delay := rng.Int64N(1e9) // in ns, so that no two ways are equally long
			if len(of[job]) == 0 {
				delay = 0 // completion counts from the first sending
			}
			dispatch := rng.IntN(3) == 0
			of[job] = append(of[job], len(run.records))
			run.request(int64(job), 0, 0, delay, 1+rng.Int64N(1e9), dispatch, on...)
		}
		for job, list := range of { // requests that wait for nothing leave at their delay, the first at 0
			last := slices.MaxFunc(list, func(a, b int) int { return int(run.longest[a].endNS - run.longest[b].endNS) })
			run.head(list[0], int64(len(list)), record.None)
			want := run.longest[last]
			got := run.summary(false).Jobs.Longest
			j := got[slices.IndexFunc(got, func(j metrics.Job) bool { return j.Name == fmt.Sprint("job ", job) })]
			if j.CompletionS != seconds(want.endNS) || j.WaitsS != seconds(want.waitsNS) || j.PathRequests != want.requests {
				t.Fatalf("seed %d, job %d: %+v, want %+v", seed, job, j, want)
			}
		}
	}
}

// TestPreparationIsNotMeasured: requests before the barrier change nothing but what tells of them, and of their jobs
// how many requests there are. A job is whole with them, and its time counts from its first profiled request.
func TestPreparationIsNotMeasured(t *testing.T) {
	var run jobRun
	for job := range int64(3) {
		at := len(run.records)
		run.request(job, job, 0, 0, 100*ms, false)
		run.request(job, job, 0, 20*ms, 300*ms, false, at)
		run.request(job, job, 0, 30*ms, 200*ms, false, at+1)
		run.head(at, 3, 600*ms)
	}
	whole := run.summary(true)
	prepared := jobRun{}
	for i, r := range run.records {
		if i%3 == 0 && i < 6 { // the first job has been primed, the second one has also been warmed up
			early := r
			early.Phase, early.SentNS, early.DoneNS, early.LastTokenNS = record.Primer, -5e9, -4e9, -4e9
			if early.Row = int64(100 + i); i > 0 {
				early.Phase, early.Outcome = record.Warmup, record.HTTPError
			}
			early.RequestID, early.WaitsFor, early.JobRequests = fmt.Sprintf("run-%09d", 100+i), "", 4
			prepared.records = append(prepared.records, early)
			r.JobRequests, r.JobName, r.WaitsFor = record.None, "", fmt.Sprint(100+i)
		}
		prepared.records = append(prepared.records, r)
	}
	s := prepared.summary(true)
	if p := s.Preparation; p == nil || p.Primers != 1 || p.Warmup != 1 || p.Failed != 1 || p.DurationS == nil || *p.DurationS != 5 || whole.Preparation != nil {
		t.Errorf("%+v", s.Preparation)
	}
	j := s.Jobs
	if j.Jobs != 3 || j.Finished != 1 || j.FinishedParts != 1 || j.WithFailures != 1 || j.CompletionS.Count != 1 || j.Ratio.Count != 1 || j.Longest[0].Requests != 4 && j.Longest[1].Requests != 4 {
		t.Errorf("%+v", j)
	}
	if j.Longest[0].CompletionS != whole.Jobs.Longest[0].CompletionS || j.Longest[0].WaitsS != whole.Jobs.Longest[0].WaitsS {
		t.Errorf("%+v, want the times of %+v", j.Longest[0], whole.Jobs.Longest[0])
	}
	s.Preparation, s.Jobs, whole.Jobs = nil, nil, nil
	if !reflect.DeepEqual(s, whole) {
		t.Errorf("measured %+v\nwant %+v", s, whole)
	}
}

// TestPartsOfJobs: a job that its lane began at a snapshot is no whole one, also if nothing of it was left to prepare. It
// counts by the hour, but a whole job costs what its lane's time does.
func TestPartsOfJobs(t *testing.T) {
	var run jobRun
	for job, before := range []int64{record.None, 7, 1, record.None} {
		run.request(int64(job), int64(job), 0, 0, 1000*ms, false)
		run.head(job, 1, 500*ms)
		run.records[job].JobBefore = before
	}
	run.records[2].Outcome = record.Reset
	c := NewCollector(nil)
	for i := range run.records {
		c.Add(&run.records[i], 0)
	}
	s := c.Summary(metrics.Summary{Run: metrics.Run{DurationS: 3600, Lanes: 2}, Turns: &metrics.Turns{}}, Probed{})
	j := s.Jobs
	if j.Finished != 2 || j.FinishedParts != 1 || j.WithFailures != 1 || *j.PerH != 3 || j.CompletionS.Count != 2 || j.Ratio.Count != 2 {
		t.Errorf("%+v", j)
	}
	for _, one := range j.Longest {
		part := one.Name == "job 1" || one.Name == "job 2"
		if part != (one.RecordedS == nil) || (one.Name == "job 1") != (one.State == metrics.JobFinishedPart) {
			t.Errorf("%+v", one)
		}
	}
	if s.Price(7200); *s.Cost.PerJob != 1 {
		t.Errorf("a job of 1 s in one of two lanes, at 2 a second, costs %v", *s.Cost.PerJob)
	}
}

// TestRecycledJobs: those that a lane has taken after another are what is beyond the lanes.
func TestRecycledJobs(t *testing.T) {
	var run jobRun
	c := NewCollector(nil)
	for job := range int64(5) {
		c.Add(run.request(job, job, 0, 0, 100*ms, false), 0)
	}
	for lanes, want := range map[int64]int64{3: 2, 1: 4, 0: 0, 9: 0} {
		s := c.Summary(metrics.Summary{Run: metrics.Run{Lanes: lanes}, Turns: &metrics.Turns{}}, Probed{})
		expect.Equal(t, s.Jobs.Recycled, want, lanes, "lanes")
	}
}

// TestJobs is a parent with two sub-agents and a join, of which another job has failures and a third is cut off.
func TestJobs(t *testing.T) {
	var run jobRun
	for job := range int64(3) {
		at, agent := len(run.records), 10*job
		run.request(job, agent, 0, 0, 100*ms, false)
		run.request(job, agent+1, 1, 20*ms, 300*ms, false, at)   // 120 to 420
		run.request(job, agent+2, 1, 30*ms, 200*ms, false, at)   // 130 to 330
		run.request(job, agent+2, 1, 30*ms, 200*ms, false, at+2) // 360 to 560
		run.request(job, agent, 0, 40*ms, 50*ms, false, at+1, at+3)
		run.head(at, 5, 325*ms)
	}
	run.records[7].Outcome = record.Reset
	run.records = run.records[:14] // the last request of the third job was not released
	s := run.summary(true)
	j := s.Jobs
	if j == nil || j.Jobs != 3 || j.Finished != 1 || j.WithFailures != 1 || j.CutOff != 1 || *j.PerH != 0.5 {
		t.Fatalf("%+v", j)
	}
	want := func(v float64) *stats.Percentiles { return stats.Describe([]float64{v}, 1) }
	// The longer sub-agent ends at 560 ms, the join at 650.
	for name, c := range map[string][2]*stats.Percentiles{
		"completion": {j.CompletionS, want(0.65)}, "recorded": {j.RecordedS, want(0.325)}, "ratio": {j.Ratio, want(2)},
		"waits": {j.WaitsS, want(0.1)}, "requests": {j.PathRequests, want(4)},
	} {
		if !reflect.DeepEqual(c[0], c[1]) {
			t.Errorf("%s: %+v, want %+v", name, c[0], c[1])
		}
	}
	if len(j.Longest) != 3 || j.Longest[0].State != metrics.JobFinished || j.Longest[0].Agents != 3 || j.Longest[1].State != metrics.JobFailed || j.Longest[2].State != metrics.JobCut || j.Longest[2].Requests != 5 {
		t.Errorf("%+v", j.Longest)
	}
	if d := j.Depths; len(d) != 2 || d[0].Name != "0" || d[0].Requests != 5 || d[1].Requests != 9 || d[1].Failed != 1 || d[1].E2EMS.Max != 300 {
		t.Errorf("by depth: %+v", d)
	}
	if d := j.Sessions; len(d) != 9 || d[0].Name != "agent 2" && d[0].Name != "agent 22" || d[0].E2EMS.Mean != 200 {
		t.Errorf("by session: %+v", d)
	}
	var read jobRun // from the lines alone, in another order
	for i := range run.records {
		read.records = append(read.records, record.Record{})
		must.Do(t, record.Parse(run.records[len(run.records)-1-i].AppendJSON(nil), &read.records[i]))
	}
	if again := read.summary(true).Jobs; !reflect.DeepEqual(again, j) {
		t.Errorf("from lines: %+v, want %+v", again, j)
	}
	for cuts, known := range map[int64]bool{0: true, 1: false} { // which job they made shorter is unknown
		c := NewCollector(nil)
		for i := range run.records {
			c.Add(&run.records[i], 0)
		}
		jobs := c.Summary(metrics.Summary{IdleCuts: &metrics.IdleCuts{System: cuts, Trees: 7}}, Probed{}).Jobs
		expect.Equal(t, jobs.Ratio != nil && jobs.RecordedS != nil && jobs.Longest[0].RecordedS != nil, known, "%d cuts", cuts)
	}
	run.records[0].JobRecordedNS = record.None // of a trace without ends
	if j = run.summary(true).Jobs; j.RecordedS != nil || j.Ratio != nil || j.CompletionS == nil {
		t.Errorf("without ends: %+v, ratio %+v", j.RecordedS, j.Ratio)
	}
	run.records[0].JobRequests = record.None // its record is not on disk yet
	if j = run.summary(true).Jobs; j.Finished != 0 || j.CutOff != 2 {
		t.Errorf("without the first record: %+v", j)
	}
	if NewCollector(nil).Summary(metrics.Summary{}, Probed{}).Jobs != nil {
		t.Error("results by job of a run without jobs")
	}
}

// TestJobsOfUnsentRequests: a request that waited for one that was not sent waited for what that one waited for; one
// that was sent before the end of what it depends on waited for nothing.
func TestJobsOfUnsentRequests(t *testing.T) {
	var run jobRun
	run.request(0, 0, 0, 0, 100*ms, false)
	unsent := run.request(0, 0, 0, 10*ms, 100*ms, false, 0)
	unsent.SentNS, unsent.DoneNS, unsent.LastTokenNS, unsent.FirstTokenNS, unsent.Outcome = record.None, record.None, record.None, record.None, record.ConnectError
	after := run.request(0, 0, 0, 30*ms, 100*ms, false, 0)
	after.WaitsFor = "1"
	early := run.request(0, 0, 0, 0, 100*ms, false, 2) // 230 to 330, moved ahead by 60 ms
	early.SentNS, early.DoneNS = early.SentNS-60*ms, early.DoneNS-60*ms+ms*1000
	run.head(0, 4, record.None)
	j := run.summary(false).Jobs.Longest[0]
	if j.State != metrics.JobFailed || j.PathRequests != 3 || j.WaitsS != 0.03 || j.CompletionS != 1.27 {
		t.Errorf("%+v", j)
	}
}

// TestRecordedHits: shares are over the requests with made prompts whose recorded hits are known. One is null if it is
// unknown of one of them.
func TestRecordedHits(t *testing.T) {
	for _, unknown := range []string{"", "expected", "reported"} {
		c := NewCollector([]string{"a", "b"})
		var prompt, recorded, expected, reported, n int64
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 200 {
			var r record.Record
			r.Clear()
			r.Outcome, r.PromptTokens, r.TokensFrom = record.OK, 100+rng.Int64N(100), record.TokensFromUsage
			r.ExpectedCachedTokens, r.CachedTokens = rng.Int64N(100), rng.Int64N(100)
			if i%5 > 0 {
				r.InputTokens = 50 // else the prompt is verbatim
			}
			if rng.IntN(3) > 0 {
				r.RecordedCachedTokens = rng.Int64N(100)
			}
			if r.InputTokens != record.None && r.RecordedCachedTokens != record.None {
				n, prompt, recorded = n+1, prompt+r.PromptTokens, recorded+r.RecordedCachedTokens
				expected, reported = expected+r.ExpectedCachedTokens, reported+r.CachedTokens
			}
			switch target := i % 2; {
			case unknown == "expected" && i == 7:
				r.ExpectedCachedTokens = record.None
			case unknown == "reported" && target == 1:
				r.CachedTokens = record.None // which never reports
			}
			c.Add(&r, i%2)
		}
		got := planned(c, 0).PrefixCache.Recorded
		share := func(what string, n int64) *float64 {
			if what == unknown {
				return nil
			}
			return new(float64(n) / float64(prompt))
		}
		if want := (&metrics.RecordedHits{Requests: n, PromptTokens: prompt, RecordedHitRatio: share("recorded", recorded), ExpectedHitRatio: share("expected", expected), ReportedHitRatio: share("reported", reported)}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s unknown: %+v, want %+v", unknown, got, want)
		}
	}
}
