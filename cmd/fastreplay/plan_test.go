package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestPacing: when requests of a trace of 0, 10, 30 and 60 ns leave, how that is called, and what results have of it, as
// testdata/pacing.txt says of each command line.
func TestPacing(t *testing.T) {
	tr := &trace.Trace{ArrivalNS: []int64{0, 10, 30, 60}}
	for line := range strings.Lines(string(must.Have(os.ReadFile("testdata/pacing.txt"))(t))) {
		flags, want, is := strings.Cut(strings.TrimSpace(line), "→ ")
		if !is {
			continue
		}
		o := must.Have(given(t, "trace.jsonl "+flags))(t)
		plan := must.Have(o.Pacing.Plan(tr))(t)
		when := "closed"
		if plan.Open() {
			when = fmt.Sprint(plan.ReleaseNS)
		}
		if most := max(plan.Concurrency, plan.Cap); most > 0 {
			when += fmt.Sprintf(", %d in flight", most)
		}
		summary := must.Have(json.Marshal(o.Pacing.Summary()))(t)
		expect.Equal(t, fmt.Sprintf("%s: %s, %s", when, o.Pacing.Words(), summary), want, flags)
	}
}
