package bench

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestGatewayTime: a proxy that keeps requests for longer than the server takes, and says of the server as Envoy does, is named.
func TestGatewayTime(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "1ms", "--itl", "1ms", "--header", "X-Envoy-Upstream-Service-Time: 1")
	gateway := forward(t, func(r *http.Request) int {
		if r.Method == http.MethodPost {
			time.Sleep(100 * time.Millisecond) // its queue
		}
		return 0
	}, m.url)
	r := run(t, steady(t, 10, 100, 2), "--url", gateway, "--cold", "off")
	for _, l := range r.lines {
		if l.Upstream != 1_000_000 {
			t.Errorf("row %d: upstream_ns is %d", l.Row, l.Upstream)
		}
	}
	g := r.summary.Gateway
	if g == nil || g.Requests != int64(len(r.lines)) || g.OwnMS != nil || g.UpstreamMS.P99 != 1 || g.Share == nil || *g.Share < 0.5 || *g.ServerShare > 0.01 {
		t.Errorf("%+v", g)
	}
	if !strings.Contains(strings.Join(r.summary.Notes, " "), "the gateway took ") || !strings.Contains(r.stderr, "\ngateway\n") {
		t.Errorf("it is not named in %q and\n%s", r.summary.Notes, r.stderr)
	}
	m.stop(t)
}
