package samples_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestJobs: the samples with a job an object are what their recipes say, and have jobs, sub-agents and joins.
func TestJobs(t *testing.T) {
	for path, c := range map[string]struct {
		made       []byte
		format     string
		rows, jobs int
		spawns     int
		joins      int
	}{
		"dynamo.jsonl": {samples.Dynamo(), "dynamo", 91, 8, 4, 4},
		"satf.json":    {samples.SATF(), "satf", 86, 8, 0, 0},
		"weka.jsonl":   {samples.Weka(), "weka", 107, 10, 9, 8},
	} {
		checkFile(t, path, c.made)
		tr, err := trace.Open(path, trace.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		relations := map[trace.Relation]int{}
		for i := range tr.Len() {
			for _, d := range tr.Dependencies(i) {
				relations[d.Relation]++
			}
		}
		if tr.Format != c.format || tr.Len() != c.rows || len(tr.Jobs) != c.jobs || relations[trace.Spawn] != c.spawns || relations[trace.Join] != c.joins || len(tr.Lint.Notes()) != 0 {
			t.Errorf("%s: %s, %d rows of %d jobs, %d spawns, %d joins, %+v, notes %q", path, tr.Format, tr.Len(), len(tr.Jobs), relations[trace.Spawn], relations[trace.Join], tr.SubAgents, tr.Lint.Notes())
		}
		if span := float64(tr.SpanNS()) / 1e9; span < 5 || span > 8 || tr.Untimed {
			t.Errorf("%s spans %.2f s, want 5 to 8", path, span)
		}
	}
}
