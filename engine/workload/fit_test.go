package workload_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// workOf plans rows of a trace as JSON lines.
func workOf(t *testing.T, rows string) *workload.Work {
	t.Helper()
	tr := must.Have(trace.Read(strings.NewReader(rows), "rows.jsonl", trace.Options{}))(t)
	plan := must.Have(sched.FromTrace(tr.ArrivalNS, 1, 0))(t)
	return &workload.Work{Trace: tr, Plan: plan}
}

func backendOf(t *testing.T, name string) api.Backend {
	t.Helper()
	b := must.Have(api.New(name, api.Options{Model: "m", ForceOutput: true}))(t)
	return b
}

// TestTooLong: prompt and output together may fill the context; of a verbatim prompt only the output is known, and of a
// whole body nothing.
func TestTooLong(t *testing.T) {
	w := workOf(t, `{"timestamp":0,"input_length":90,"output_length":10}
{"timestamp":1,"input_length":90,"output_length":11}
{"timestamp":2,"input_length":3,"output_length":95}
{"timestamp":3,"input_length":101,"output_length":1}
{"timestamp":4,"text_input":"a","output_length":99}
{"timestamp":5,"text_input":"a","output_length":100}
{"timestamp":6,"payload":{"max_tokens":1000}}
{"timestamp":7,"input_length":90,"output_length":50,"extra":{"max_tokens":5}}
`)
	chat := backendOf(t, "chat")
	for _, c := range []struct {
		overhead, context int
		want              []int32
	}{{0, 100, []int32{1, 3, 5}}, {5, 100, []int32{1, 2 /* 6 + 95 */, 3, 5}}, {0, 89, []int32{0, 1, 2, 3, 4, 5, 7}}, {0, 1 << 20, nil}} {
		w.Overhead = workload.Overhead{Head: c.overhead}
		expect.List(t, w.TooLong(c.context, chat), c.want, "overhead %d, context %d", c.overhead, c.context)
	}
}

// TestClip: the end of the prompt goes before the output does, everything then fits, and what prompts share stays
// shared.
func TestClip(t *testing.T) {
	w := workOf(t, `{"timestamp":0,"input_length":1500,"output_length":10,"hash_ids":[1,2,3]}
{"timestamp":1,"input_length":2048,"output_length":100,"hash_ids":[1,2,3,4]}
{"timestamp":2,"input_length":1000,"output_length":2000,"hash_ids":[1,2]}
`)
	w.Overhead = workload.Overhead{Head: 6, Tail: 4}
	chat := backendOf(t, "chat")
	const context = 1200
	before := w.TooLong(context, chat)
	tokens, ok := w.Clip(before, context, chat)
	if !ok || tokens != 310+948+1800 || len(w.TooLong(context, chat)) != 0 {
		t.Errorf("%v: %d tokens went, %v; still too long: %v", before, tokens, ok, w.TooLong(context, chat))
	}
	if in, out := w.Trace.InputTokens, w.Trace.OutputTokens; !slices.Equal(in, []int32{1190, 1100, 11}) || !slices.Equal(out, []int32{10, 100, 1189}) {
		t.Errorf("prompts %v, outputs %v", in, out)
	}
	if !slices.Equal(w.Trace.Blocks(0), []uint64{1, 2, 3}) || !slices.Equal(w.Trace.Blocks(1), []uint64{1, 2, 3}) || !slices.Equal(w.Trace.Blocks(2), []uint64{1}) {
		t.Errorf("blocks %v, %v, %v", w.Trace.Blocks(0), w.Trace.Blocks(1), w.Trace.Blocks(2))
	}
	if _, ok := w.Clip(w.TooLong(10, chat), 10, chat); ok {
		t.Error("10 tokens of context have no room beside 10 of a template")
	}
}

// TestLeaveOut: those that are left keep their rows and instants; each that is left out has a record with an id of its
// own.
func TestLeaveOut(t *testing.T) {
	w := workloadtest.Work(t, 20)
	builder := workloadtest.Builder(t, "", "00000000", 0)
	list := []int32{0, 7, 19}
	gone := w.LeaveOut(list, "00000000", builder.Backend, "too long")
	if w.Requests() != 17 || w.Trace.Len() != 17 || w.Trace.Row[0] != 1 || w.Trace.Row[6] != 8 || w.Plan.ReleaseNS[0] != 10e6 {
		t.Errorf("%d requests, rows %v, instants %v", w.Requests(), w.Trace.Row, w.Plan.ReleaseNS)
	}
	all := append(w.Records("00000000", workload.IdealHits{Least: make([]int64, 17), Most: make([]int64, 17)}, builder.Backend), gone...)
	rows, ids := map[int64]bool{}, map[string]bool{}
	for i := range all {
		rows[all[i].Row], ids[all[i].RequestID] = true, true
	}
	if len(rows) != 20 || len(ids) != 20 {
		t.Errorf("%d rows and %d ids in 20 records", len(rows), len(ids))
	}
	for k, r := range gone {
		if r.Row != int64(list[k]) || r.Outcome != record.NotSent || r.Error != "too long" || r.PlannedNS != int64(list[k])*10e6 || r.InputTokens == record.None || r.SentNS != record.None {
			t.Errorf("record %+v", r)
		}
	}
}
