package main

import (
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestMadeTrace: a trace that is described has the rows, lengths, conversations and common beginnings that were asked
// for.
func TestMadeTrace(t *testing.T) {
	made := must.Have(madeTrace("rows=12,input-tokens=lognormal:264:0,output-tokens=10,turns=3,turn-tokens=200,active=1,reuse=1,system-tokens=64,turn-delay=100ms,block-tokens=16", 1, trace.Options{Limit: 9}))(t)
	if made.Len() != 9 || made.FileRows != 12 || !made.Untimed || made.BlockTokens != 16 {
		t.Errorf("%d of %d rows, untimed %v, %d tokens a block", made.Len(), made.FileRows, made.Untimed, made.BlockTokens)
	}
	before := made.TurnsBefore(made.Len())
	for i := range made.Len() {
		turn := i % 3
		if want := int32(264 + 210*turn); made.InputTokens[i] != want || made.OutputTokens[i] != 10 {
			t.Errorf("row %d: %d and %d tokens; want %d and 10", i, made.InputTokens[i], made.OutputTokens[i], want)
		}
		if follows := before[i] >= 0 && before[i] == int32(i-1); follows != (turn > 0) || turn > 0 && made.DelayNS[i] != int64(100*time.Millisecond) {
			t.Errorf("row %d follows %d, after %v", i, before[i], made.DelayNS[i])
		}
		if turn == 0 && i > 0 { // the prefix of 64 tokens, and no more
			a, b := made.Blocks(0), made.Blocks(i)
			if !slices.Equal(a[:4], b[:4]) || a[4] == b[4] {
				t.Errorf("row %d begins with %v, row 0 with %v", i, b[:5], a[:5])
			}
		}
	}
	timed, err := madeTrace("rows=50,rate=10,arrival=constant,input-tokens=90:110", 1, trace.Options{})
	if err != nil || timed.Untimed || timed.ArrivalNS[49] != int64(4900*time.Millisecond) || slices.Min(timed.InputTokens) < 90 || slices.Max(timed.InputTokens) > 110 {
		t.Errorf("%v, %+v", err, timed)
	}
}
