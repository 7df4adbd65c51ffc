package samples_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestAgents asserts what the samples of agents are for: sub-agents, joins, requests that wait for nothing recorded as
// their end, and hits within a job.
func TestAgents(t *testing.T) {
	for path, made := range map[string][]byte{"agentic_mooncake.jsonl": samples.AgenticMooncake()} {
		checkFile(t, path, made)
		tr, err := trace.Open(path, trace.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		_, jobs := tr.JobNumbers()
		relations, triggers, deepest, joins := map[trace.Relation]int{}, map[trace.Trigger]int{}, int32(0), 0
		g := tr.Graph(tr.Len())
		for i := range tr.Len() {
			deepest, joins = max(deepest, tr.Depth[i]), max(joins, len(g.Of(i)))
			for _, w := range g.Of(i) {
				relations[w.Relation]++
				triggers[w.Trigger]++
			}
		}
		t.Logf("%s: %d requests of %d jobs in %d ms, %v, %v, depth %d, up to %d waits", path, tr.Len(), jobs, tr.SpanNS()/1e6, relations, triggers, deepest, joins)
		if tr.Len() < 30 || tr.Len() > 60 || jobs != 4 || tr.SpanNS() > 7e9 || deepest != 2 || joins < 3 || relations[trace.Spawn] < 10 || triggers[trace.OnDispatch] < 10 || len(tr.Lint.Notes()) > 0 {
			t.Errorf("%s: %q", path, tr.Lint.Notes())
		}
	}
}
