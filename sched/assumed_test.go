package sched

import (
	"math"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
)

func TestAssumed(t *testing.T) {
	a := AssumedLatency{TTFT: 3, TPOT: 5}
	for tokens, want := range map[int32]int64{0: 3, 1: 3, 2: 8, 11: 53} {
		expect.Equal(t, a.LastNS(tokens), want, "%d tokens", tokens)
	}
	most := AssumedLatency{TTFT: maxTTFT, TPOT: maxTPOT}
	if most.Validate() != nil || (AssumedLatency{}).Validate() != nil || most.LastNS(1<<25) < 0 {
		t.Errorf("the most: %v, %d ns; none: %v", most.Validate(), most.LastNS(1<<25), AssumedLatency{}.Validate())
	}
	for _, bad := range []AssumedLatency{{TTFT: -1}, {TPOT: -1}, {TTFT: maxTTFT + 1}, {TPOT: maxTPOT + 1}, {TTFT: math.MinInt64}, {TPOT: time.Hour}} {
		if bad.Validate() == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
