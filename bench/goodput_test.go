package bench

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// reported is the summary that `fastreplay report` makes of the results.
func (r *results) reported(t *testing.T, args ...string) *metrics.Summary {
	t.Helper()
	s := new(metrics.Summary)
	text := succeeds(t, append([]string{"report", r.dir, "--json"}, args...)...)
	must.Do(t, json.Unmarshal([]byte(text), s))
	return s
}

// TestGoodput: of two servers one makes half of the requests slow and the other refuses half. What the server made slow
// is never good, nor what failed, in the run and in reports of it, which may have other SLOs.
func TestGoodput(t *testing.T) {
	t.Parallel()
	slow, refusing := startMock(t, "--fault", "slow-bytes:1ms@0.5"), startMock(t, "--fault", "status:503@0.5")
	r := run(t, "--trace", steady(t, 120, 400, 4), "--url", slow.url, "--url", refusing.url, "--no-probe", "--max-error-rate", "1",
		"--goodput", "e2el:300 time_to_first_token:250", "--goodput", "tpot:1.5")
	r.only(t, "ok", "http_error")
	missed, faults := r.summary.Targets[0].Goodput.Missed["e2e"], int64(0)
	for _, l := range slow.stop(t) {
		if l[0].Fault != "" { // an answer is more than 300 bytes
			faults++
		}
	}
	if g := r.summary.Goodput; faults == 0 || missed < faults || g.Failed == 0 || g.Failed != r.summary.Requests.Failed || g.Requests > r.summary.Requests.OK-missed {
		t.Errorf("%d of the slow server's answers were slow, %d missed; %+v", faults, missed, g)
	}
	for _, words := range []string{"\ngoodput\n", "slo.ttft_ms 250", "slo.tpot_ms 1.500", "slo.e2e_ms 300", " goodput.requests"} {
		expect.Contains(t, r.stderr, words, "the terminal does not show")
	}
	if own := r.reported(t); !reflect.DeepEqual(own.Goodput, r.summary.Goodput) {
		t.Errorf("reported: %+v, want the run's own, %+v", own.Goodput, r.summary.Goodput)
	}
	generous := r.reported(t, "--goodput", "e2e_planned:1e8,inter_token_latency:1e8")
	if ok := generous.Requests.OK; generous.Goodput.Requests != ok || ok == 0 {
		t.Errorf("%d of %d ok requests are within 28 hours", generous.Goodput.Requests, ok)
	}
}
