package bench

import (
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
	p := start(t, nil, "compare", alone.dir, whole.dir, "--full")
	expect.Equal(t, p.wait(t), 0, "%s", p.stderr.String())
	expect.Contains(t, p.stdout.String(), "A was sent without class=free")
	for value, words := range map[string]string{"class=none": "0 of 300", "colour=red": "want FIELD=VALUE"} {
		expect.Contains(t, refused(t, append(args, "--url", mock.url, "--without", value)...), words)
	}
}
