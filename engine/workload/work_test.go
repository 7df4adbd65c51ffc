package workload_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// TestTurnsBefore finds them again by looking back row by row.
func TestTurnsBefore(t *testing.T) {
	made := must.Have(trace.Generate(trace.Gen{Format: "bailian", ArrivalNS: workloadtest.Spaced(300, 100), InputTokens: trace.Range{Min: 64, Max: 4000}, OutputTokens: trace.Range{Min: 1, Max: 60}, Turns: trace.Range{Min: 1, Max: 6}, Active: 40}))(t)
	twice := must.Have(made.Repeat(2))(t)
	a := sched.AssumedLatency{TTFT: 100 * time.Millisecond, TPOT: 5 * time.Millisecond}
	before := twice.TurnsBefore(500)
	pause := workload.FollowPolicy{Think: true, Assumed: a, Speed: 2}
	think := pause.Dependencies(twice, 500)
	followUps := 0
	for i := range 500 {
		want := int32(trace.NoTurn)
		for j := i - 1; j >= 0 && want == trace.NoTurn && twice.Parent[i] >= 0; j-- {
			if twice.Chat[j] == twice.Parent[i] {
				want = int32(j)
			}
		}
		must.Equal(t, before[i], want, "request %d follows", i)
		if want == trace.NoTurn {
			if len(think.Of(int32(i))) > 0 {
				t.Errorf("request %d follows nobody and waits for %v", i, think.Of(int32(i)))
			}
			continue
		}
		followUps++
		expect.Equal(t, int(want)/300, i/300, "request %d follows %d of another repetition", i, want)
		gap := twice.ArrivalNS[i] - twice.ArrivalNS[want] - 100e6 - int64(twice.OutputTokens[want]-1)*5e6
		if got := think.Of(int32(i)); len(got) != 1 || got[0] != (sched.Dependency{DelayNS: (max(0, gap) + 1) / 2, On: want}) {
			t.Errorf("request %d waits for %v, want half of %d after %d", i, got, max(0, gap), want)
		}
	}
	if followUps < 100 {
		t.Errorf("only %d follow-up turns to look at", followUps)
	}
	twice.DelayNS = slices.Repeat([]int64{7}, twice.Len())
	pause.Speed = 1
	if got := pause.Dependencies(twice, 500).List; len(got) != followUps || got[0].DelayNS != 7 {
		t.Errorf("a recorded delay is not taken: %v", got)
	}
	if new(trace.Trace).TurnsBefore(0) != nil {
		t.Error("a trace without conversations has turns")
	}
}

// TestRecordsOfJobs: the first record of a job has how many requests it has, and how long it takes by the plan with the
// recorded durations.
func TestRecordsOfJobs(t *testing.T) {
	const file = `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"test","digest":"1"}}
{"request_id":"1","play_id":"a","session_id":"s","model":"m","input_length":9,"output_length":2,"timestamp":0,"not_before_ms":0,"recorded_api_time_ms":100,"dependencies":[]}
{"request_id":"2","play_id":"b","session_id":"t","model":"m","input_length":9,"output_length":2,"timestamp":100,"not_before_ms":0,"recorded_api_time_ms":900,"dependencies":[]}
{"request_id":"3","play_id":"b","session_id":"t","model":"m","input_length":9,"output_length":2,"timestamp":400,"not_before_ms":0,"dependencies":[{"request_id":"2","trigger":"dispatch","delay_ms":1,"relation":"sequence"}]}
{"request_id":"4","play_id":"a","session_id":"s","model":"m","input_length":9,"output_length":2,"timestamp":1000,"not_before_ms":0,"recorded_api_time_ms":300,"dependencies":[{"request_id":"1","trigger":"completion","delay_ms":1,"relation":"sequence"}]}
{"request_id":"5","play_id":"a","session_id":"u","model":"m","input_length":9,"output_length":2,"timestamp":1200,"not_before_ms":0,"recorded_api_time_ms":50,"dependencies":[{"request_id":"1","trigger":"completion","delay_ms":1,"relation":"spawn"},{"request_id":"4","trigger":"dispatch","delay_ms":1,"relation":"join"}]}
`
	tr, err := trace.Read(strings.NewReader(file), "a.jsonl", trace.Options{})
	must.Do(t, err)
	w := &workload.Work{Trace: tr, Routing: workload.Routing{Late: true}}
	if w.Plan, err = sched.FromTrace(tr.ArrivalNS, 2, 0); err != nil {
		t.Fatal(err)
	}
	backend := must.Have(api.New("completions", api.Options{Model: "m"}))(t)
	type said struct {
		job                  int64
		name                 string
		requests, recordedNS int64
		waitsFor             string
	}
	var got []said
	for _, r := range w.Records("run", workload.IdealHits{}, backend) {
		got = append(got, said{r.Job, r.JobName, r.JobRequests, r.JobRecordedNS, r.WaitsFor})
	}
	none := int64(record.None)
	want := []said{{0, "a", 3, 800e6, ""}, {1, "b", 2, none, ""}, {1, "", none, none, "1s"}, {0, "", none, none, "0"}, {0, "", none, none, "0 3s"}}
	expect.List(t, got, want)
	// lanes have no planned times, and the same distances
	w.Plan = must.Have(sched.Closed(tr.Len(), 1, 0))(t)
	w.Speed = 2
	expect.Equal(t, w.Records("run", workload.IdealHits{}, backend)[0].JobRecordedNS, 800e6)
	// nothing of a is in flight from 100 to 500 ms; cut to 150, its answers end at 550 and 400
	for mostMS, want := range map[int64]int64{150: 550e6, 399: 799e6, 400: 800e6} {
		w.Plan.Dependencies = &sched.Dependencies{TreeIdleNS: mostMS * 1e6}
		expect.Equal(t, w.Records("run", workload.IdealHits{}, backend)[0].JobRecordedNS, want, "idle for at most %d ms", mostMS)
	}
}
