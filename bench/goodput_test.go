package bench

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
)

// within says for each SLO of a line, by name and in ms, whether the line keeps it and whether it has such a latency.
func (l *line) within(slo map[string]float64) (met, measured map[string]bool) {
	met, measured = map[string]bool{}, map[string]bool{}
	for name, ms := range slo {
		from, to, over := l.Sent, l.LastToken, int64(1)
		switch name {
		case "ttft":
			to = l.FirstToken
		case "ttft_planned":
			from, to = l.Planned, l.FirstToken
		case "e2e_planned":
			from = l.Planned
		case "tpot":
			from, over = l.FirstToken, l.Completion-1
		}
		measured[name] = from != absent && to != absent && over >= 1
		met[name] = measured[name] && math.Round(float64(to-from)/float64(over)) <= ms*1e6
	}
	return met, measured
}

// goodput fails unless g is what the lines (of one target, or of all for "") say about these SLOs.
func (r *results) goodput(t *testing.T, g *metrics.Goodput, target string, slo map[string]float64) {
	t.Helper()
	var good, failed, requests int64
	missed, unmeasured := map[string]int64{}, map[string]int64{}
	for name := range slo {
		missed[name], unmeasured[name] = 0, 0
	}
	for _, l := range r.lines {
		if target != "" && l.Target != target {
			continue
		}
		requests++
		if !l.ok() {
			failed++
			continue
		}
		met, measured := l.within(slo)
		all := true
		for name := range slo {
			if !met[name] {
				missed[name]++
				all = false
			}
			if !measured[name] {
				unmeasured[name]++
			}
		}
		if all {
			good++
		}
	}
	if g == nil || g.Requests != good || g.Failed != failed || !maps.Equal(g.Missed, missed) || !maps.Equal(g.Unmeasured, unmeasured) {
		t.Errorf("target %q: goodput %+v; the lines say %d good, %d failed, missed %v, of them unmeasured %v", target, g, good, failed, missed, unmeasured)
		return
	}
	if want := float64(good) / float64(requests); *g.Share != want || g.RequestsPerS != float64(good)/r.summary.Run.DurationS {
		t.Errorf("target %q: share %v, %v requests/s; want %v, and %d in %v s", target, *g.Share, g.RequestsPerS, want, good, r.summary.Run.DurationS)
	}
	for name, ms := range slo {
		if target == "" && (len(g.SLO) != len(slo) || g.SLO[name+"_ms"] != ms) {
			t.Errorf("the summary has the SLOs %v, want %v", g.SLO, slo)
		}
	}
}

// everywhere checks the goodput of the run and of each target.
func (r *results) everywhere(t *testing.T, s *metrics.Summary, slo map[string]float64) {
	t.Helper()
	r.goodput(t, s.Goodput, "", slo)
	for i := range s.Targets {
		r.goodput(t, s.Targets[i].Goodput, s.Targets[i].URL, slo)
	}
}

// reported is the summary that `fastreplay report` makes of the results.
func (r *results) reported(t *testing.T, args ...string) *metrics.Summary {
	t.Helper()
	p := start(t, nil, append([]string{"report", r.dir, "--json"}, args...)...)
	if code := p.wait(t); code != 0 {
		t.Fatalf("report %v: exit %d\n%s", args, code, p.stderr.String())
	}
	s := new(metrics.Summary)
	if err := json.Unmarshal([]byte(p.stdout.String()), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGoodput: of two servers one makes half of the requests slow and the other refuses half. What the server made slow is
// never good, nor what failed; the numbers are those that the lines give, also by other SLOs afterwards.
func TestGoodput(t *testing.T) {
	t.Parallel()
	slow, refusing := startMock(t, "--fault", "slow-bytes:1ms@0.5"), startMock(t, "--fault", "status:503@0.5")
	r := run(t, "--trace", steady(t, 120, 400, 4), "--url", slow.url, "--url", refusing.url, "--no-probe", "--max-error-rate", "1",
		"--goodput", "e2el:300 time_to_first_token:250", "--goodput", "tpot:1.5")
	r.only(t, "ok", "http_error")
	r.everywhere(t, &r.summary, map[string]float64{"ttft": 250, "tpot": 1.5, "e2e": 300})
	missed, faults := r.summary.Targets[0].Goodput.Missed["e2e"], int64(0)
	for _, l := range slow.stop(t) {
		if l[0].Fault != "" { // an answer is more than 300 bytes
			faults++
		}
	}
	if faults == 0 || missed < faults || r.summary.Goodput.Failed == 0 {
		t.Errorf("%d of the slow server's answers were slow, %d missed; %d failed", faults, missed, r.summary.Goodput.Failed)
	}
	t.Logf("%+v", r.summary.Goodput)
	for _, words := range []string{"\ngoodput\n", "slo.ttft_ms 250", "slo.tpot_ms 1.500", "slo.e2e_ms 300", " goodput.requests"} {
		if !strings.Contains(r.stderr, words) {
			t.Errorf("the terminal does not show %q:\n%s", words, r.stderr)
		}
	}
	if own := r.reported(t); own.Goodput == nil || len(own.Goodput.SLO) != 3 {
		t.Errorf("reported: %+v, want the run's own", own.Goodput)
	} else {
		r.everywhere(t, own, map[string]float64{"ttft": 250, "tpot": 1.5, "e2e": 300})
	}
	generous := r.reported(t, "--goodput", "e2e_planned:1e8,inter_token_latency:1e8")
	r.everywhere(t, generous, map[string]float64{"tpot": 1e8, "e2e_planned": 1e8})
	if ok := generous.Requests.OK; generous.Goodput.Requests != ok || ok == 0 {
		t.Errorf("%d of %d ok requests are within 28 hours", generous.Goodput.Requests, ok)
	}
}
