package fault

import (
	"math"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Fault{
		"status:503@0.25":   {Status, 503, 0, 0.25},
		"status":            {Status, 500, 0, 1},
		"reset-after:7":     {ResetAfter, 7, 0, 1},
		" stall:0 ":         {Stall, 0, 0, 1},
		"slow-bytes:20us":   {SlowBytes, 0, 20 * time.Microsecond, 1},
		"idle-close":        {IdleClose, 0, 0, 1},
		"idle-close:3s@0":   {IdleClose, 0, 3 * time.Second, 0},
		"reset-before@1e-3": {ResetBefore, 0, 0, 0.001},
	} {
		expect.Equal(t, must.Have(Parse(text))(t), want, text)
	}
	for text, want := range map[string]string{
		"": "unknown", "nonsense:1": "known are status:N", "status:99": "between 200 and 599", "status:x": "argument", "status@2": "between 0 and 1",
		"status@x": "share", "status@NaN": "between 0 and 1", "reset-before:1": "no argument", "slow-bytes:-1s": "negative", "slow-bytes:5": "argument",
		"reset-after:-1": "between 0", "split:1": "between 2",
	} {
		expect.Refused(Parse(text))(t, want, text)
	}
}

// TestSharesOfAnyRow: of any n requests in a row a fault hits share × n, give or take one.
func TestSharesOfAnyRow(t *testing.T) {
	for _, share := range []float64{0, 0.001, 0.15, 1.0 / 3, 0.5, 0.97, 1} {
		var s Shares
		var hits []int // so far, before each request
		for sum := 0; len(hits) < 3000; {
			hits = append(hits, sum)
			if s.Next(Fault{Kind: Stall, Share: share}) {
				sum++
			}
		}
		for n := 1; n < 1000; n += 7 {
			for from := 0; from+n < len(hits); from += 13 {
				if got := float64(hits[from+n] - hits[from]); math.Abs(got-share*float64(n)) > 1.000001 {
					t.Fatalf("share %v: %v of %d requests from %d on", share, got, n, from)
				}
			}
		}
	}
}
