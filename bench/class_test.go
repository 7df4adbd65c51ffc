package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestObjectivesOfClasses: of made tenants and their classes an objective is judged by its own requests alone, whose
// number is that of the records. The servers see prompts that tenants do not share.
func TestObjectivesOfClasses(t *testing.T) {
	t.Parallel()
	mock := startMock(t)
	args := []string{"samples/bailian.jsonl", "--rate", "100", "--url", mock.url, "--tenants", "2:0.5,0.5", "--map", "tenant=tenant-1:gold,tenant-2:free",
		"--goodput", "e2e:100000s", "--require", "class=gold error_rate<=0", "--require", "class=gold goodput>=100%", "--require", "class=free ttft.p50<1us"}
	res := run(t, args...)
	expect.Equal(t, res.code, 3, "exit code")
	met := []bool{}
	for _, o := range res.summary.Verdict.Objectives {
		met = append(met, o.Met)
	}
	expect.List(t, met, []bool{true, true, false})
	o := res.summary.Owners
	must.Equal(t, o != nil && len(o.Classes.Parts) == 2 && o.Classes.JainTTFT != nil, true, "owners %+v", o)
	if j := *o.Classes.JainTTFT; j < 0.5 || j > 1 {
		t.Errorf("Jain's index %v", j)
	}
	free := int64(0)
	for _, rec := range recordsOf(t, res.dir) {
		free += map[string]int64{"free": 1}[rec.Class]
	}
	bounds := []string{"--goodput", "e2e:100000s", "--goodput", "class=free e2e:10us"}
	g := res.reported(t, bounds...).Goodput
	expect.Equal(t, [2]int64{g.Missed["e2e"], g.Requests}, [2]int64{free, res.summary.Requests.OK - free}, "%+v", g)
	expect.Equal(t, g.SLO["class=free e2e_ms"], 0.01, "%v", g.SLO)
	again := run(t, append(args[:len(args)-8:len(args)-8], bounds...)...)
	expect.Equal(t, again.summary.Goodput.SLO["class=free e2e_ms"], 0.01, "of the run itself")
	expect.Equal(t, *again.summary.Owners.Classes.Parts[0].GoodShare, 0.0, "free ones within 10 µs")
	expect.Contains(t, refused(t, append(args, "--goodput", "class=silver ttft:1s")...), `--goodput "class=silver ttft": no row of the trace has the class`)
	salted := run(t, append(args, "--tenant-salt")...)
	most, least := res.summary.PrefixCache.ExpectedHitRatio, salted.summary.PrefixCache.ExpectedHitRatio
	if *least >= *most || salted.summary.PrefixCache.AboveIdealTokens > salted.summary.PrefixCache.OvertakenTokens {
		t.Errorf("expected hits %v, and %v of tenants apart", *most, *least)
	}
	expect.Contains(t, refused(t, append(args, "--require", "class=silver ttft.p99<1s")...), `no row of the trace has the class "silver"`)
}

// TestWithoutAClass: a run without a class sends all others when and as a whole run does, and compare pairs them.
func TestWithoutAClass(t *testing.T) {
	t.Parallel()
	args := []string{"samples/bailian.jsonl", "--rate", "100", "--arrival", "poisson", "--tenants", "2", "--map", "tenant=tenant-1:gold,tenant-2:free"}
	byRow := map[int64]line{}
	free := 0
	mock := startMock(t)
	whole := run(t, append(args, "--url", mock.url)...)
	for _, l := range whole.lines {
		byRow[l.Row] = l
	}
	for _, part := range whole.summary.Owners.Classes.Parts {
		if part.Name == "free" {
			free = int(part.Requests)
		}
	}
	alone := run(t, append(args, "--url", mock.url, "--without", "class=free")...)
	left := 0
	for _, l := range alone.lines {
		switch w := byRow[l.Row]; {
		case l.Outcome == "not_sent":
			left++
		case !l.ok() || l.Planned != w.Planned || l.Prompt != w.Prompt:
			t.Errorf("row %d: %+v, and in the whole run %+v", l.Row, l, w)
		}
	}
	expect.Equal(t, left, free, "left out")
	expect.Equal(t, alone.summary.Requests.Failed, int64(0), "failed")
	expect.Contains(t, succeeds(t, "compare", alone.dir, whole.dir, "--full"), "A was sent without class=free")
}

// TestPriorities: at a server whose queue goes by priority those that are to come first wait least, by the server's own
// log: no request begins while one waits that has gone before it in the order.
func TestPriorities(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for i := range 240 {
		fmt.Fprintf(&rows, "{\"timestamp\":%d,\"input_length\":100,\"output_length\":2,\"hash_ids\":[%d],\"class\":\"p%d\",\"priority\":%d}\n", i*5, i, i%3, i%3)
	}
	file := newFile(t, "priorities.jsonl", rows.String())
	type at struct{ priority, arrived, first int64 }
	const prefillNS = 25e6 // of one request, at most, so that what began in the meantime does not count
	var res *results
	quickEnough(t, func() string { // a mock without a core reads a request long after it came
		mock := startMock(t, "--slots", "2", "--ttft", "20ms", "--priorities")
		res = run(t, "--trace", file, "--url", mock.url)
		log := mock.stop(t)
		var all []at
		for _, l := range res.lines {
			s := log[l.ID]
			must.Equal(t, len(s), 1, "row %d at the server", l.Row)
			all = append(all, at{l.Row % 3, s[0].Arrived, s[0].First})
		}
		for _, x := range all {
			for _, y := range all {
				if y.priority < x.priority && y.arrived < x.first-2*prefillNS && y.first > x.first+2*prefillNS {
					return fmt.Sprintf("%+v came before %+v, which had waited for long", x, y)
				}
			}
		}
		return ""
	})
	parts := res.summary.Owners.Classes.Parts
	must.Equal(t, len(parts), 3, "classes")
	if parts[0].TTFTMS.P50 > parts[2].TTFTMS.P50/2 {
		t.Errorf("TTFT p50 of priority 0 is %v ms, of 2 %v ms", parts[0].TTFTMS.P50, parts[2].TTFTMS.P50)
	}
}
