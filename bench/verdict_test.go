package bench

import (
	"os"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// TestRequire: an objective that is missed is exit code 3, from disk too, and a measurement that is invalid stays 1.
func TestRequire(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	r := run(t, with(chat, "--url", m.url, "--require", "ttft.p50<1us", "--require", "e2e.max<600s")...)
	if o := r.summary.Verdict.Objectives; r.code != 3 || !r.summary.Verdict.Valid || len(o) != 2 || o[0].Met || !o[1].Met || *o[0].Value != r.summary.TTFTMS.P50 {
		t.Errorf("exit %d, %+v\n%s", r.code, r.summary.Verdict.Objectives, r.stderr)
	}
	for objective, code := range map[string]int{"ttft.p50<600s": 0, "tpot.p50<1us": 3, "goodput>1%": 3} {
		start(t, nil, "report", r.dir, "--require", objective).ends(t, code)
	}
	requests := requestsFile(r.dir)
	whole := readFile(t, requests)
	for _, left := range []int{len(whole) / 2, 0} {
		must.Do(t, os.Truncate(requests, int64(left)))
		start(t, nil, "report", r.dir, "--require", "ttft.p50<600s").ends(t, 2, "cut, edited")
	}
	wrong := startMock(t, "--template-tokens", "21,5")
	if r = run(t, with(chat, "--api", "chat", "--chat-overhead", "20,5", "--no-probe", "--model", "mock", "--url", wrong.url, "--require", "ttft.p50<1us")...); r.code != 1 || r.summary.Verdict.Valid || r.summary.Verdict.Missed() != 1 {
		t.Errorf("with other prompts: exit %d, %+v", r.code, r.summary.Verdict)
	}
}
