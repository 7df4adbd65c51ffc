package engine

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
)

// TestIdealFollowsTheOrderOfSending: of two equal prompts the one that leaves later finds the other, whichever was
// planned first.
func TestIdealFollowsTheOrderOfSending(t *testing.T) {
	turns := turnsAfter([]int32{trace.NoTurn, 0, 0}, []int64{0, int64(200 * time.Millisecond), 0})
	w, s := equalWork(t, 3, following(turns, 0, 0))
	w.Trace = must.Have(w.Trace.Plays(trace.Plays{
		Source: []int32{0, 1, 1}, Again: make([]int32, 3), ArrivalNS: w.Trace.ArrivalNS, OutputTokens: w.Trace.OutputTokens,
	}))(t)
	w.Prebuilt = workloadtest.Build(t, workloadtest.Builder(t, "", "a", 1), w)
	k := new(sink)
	do(t, s, newRun(t, oneThread, w, k))
	slices.SortFunc(k.records, func(a, b *record.Record) int { return cmp.Compare(a.SentNS, b.SentNS) })
	for i, want := range []int64{0, 0, 48} {
		if rec := k.records[i]; rec.ExpectedCachedTokens != want {
			t.Errorf("sent as number %d, row %d: %d cached tokens expected, want %d", i, rec.Row, rec.ExpectedCachedTokens, want)
		}
	}
}
