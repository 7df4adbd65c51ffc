package workload_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/engine/workload/workloadtest"
	"github.com/fastreplay/fastreplay/sched"
)

// TestTurnsBefore finds them again by looking back row by row.
func TestTurnsBefore(t *testing.T) {
	made, err := trace.Generate(trace.Gen{Format: "bailian", ArrivalNS: workloadtest.Spaced(300, 100), InputTokens: trace.Range{Min: 64, Max: 4000}, OutputTokens: trace.Range{Min: 1, Max: 60}, Turns: trace.Range{Min: 1, Max: 6}, Active: 40})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := made.Repeat(2)
	if err != nil {
		t.Fatal(err)
	}
	a := sched.Assumed{TTFT: 100 * time.Millisecond, TPOT: 5 * time.Millisecond}
	before := twice.TurnsBefore(500)
	pause := workload.Pause{Think: true, Assumed: a, Speed: 2}
	think := pause.Turns(twice, 500)
	followUps := 0
	for i := range 500 {
		want := int32(trace.NoTurn)
		for j := i - 1; j >= 0 && want == trace.NoTurn && twice.Parent[i] >= 0; j-- {
			if twice.Chat[j] == twice.Parent[i] {
				want = int32(j)
			}
		}
		if before[i] != want {
			t.Fatalf("request %d follows %d, want %d", i, before[i], want)
		}
		if want == trace.NoTurn {
			if len(think.Of(int32(i))) > 0 {
				t.Errorf("request %d follows nobody and waits for %v", i, think.Of(int32(i)))
			}
			continue
		}
		followUps++
		if int(want)/300 != i/300 {
			t.Errorf("request %d follows %d of another repetition", i, want)
		}
		gap := twice.ArrivalNS[i] - twice.ArrivalNS[want] - 100e6 - int64(twice.OutputTokens[want]-1)*5e6
		if got := think.Of(int32(i)); len(got) != 1 || got[0] != (sched.Wait{DelayNS: (max(0, gap) + 1) / 2, On: want}) {
			t.Errorf("request %d waits for %v, want half of %d after %d", i, got, max(0, gap), want)
		}
	}
	if followUps < 100 {
		t.Errorf("only %d follow-up turns to look at", followUps)
	}
	twice.DelayNS = slices.Repeat([]int64{7}, twice.Len())
	pause.Speed = 1
	if got := pause.Turns(twice, 500).Waits; len(got) != followUps || got[0].DelayNS != 7 {
		t.Errorf("a recorded delay is not taken: %v", got)
	}
	if new(trace.Trace).TurnsBefore(0) != nil {
		t.Error("a trace without conversations has turns")
	}
}
