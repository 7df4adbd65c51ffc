package bench

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestGatewayTime: a proxy that keeps requests for longer than the server takes, and says of the server as Envoy does, is named.
func TestGatewayTime(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--ttft", "1ms", "--itl", "1ms")
	to, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("X-Envoy-Upstream-Service-Time", "1")
		return nil
	}
	gateway := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else the proxy may give up where an answer comes before it has passed the whole body on
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPost {
			time.Sleep(100 * time.Millisecond) // its queue
		}
		proxy.ServeHTTP(w, r)
	})
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
	if !strings.Contains(strings.Join(r.summary.Notes, " "), "the gateway took ") || !strings.Contains(r.stderr, "  gateway ") {
		t.Errorf("it is not named in %q and\n%s", r.summary.Notes, r.stderr)
	}
	m.stop(t)
}
