package bench

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// gateway sends 17 of 20 requests to the first server and 3 to the second, the split of a real case that nobody had
// noticed.
func gateway(t *testing.T, urls ...string) string {
	t.Helper()
	var n atomic.Int64
	return forward(t, func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/completions") && n.Add(1)%20 < 3 {
			return 1
		}
		return 0
	}, urls...)
}

// forward hands each request on to the URL that pick names.
func forward(t *testing.T, pick func(*http.Request) int, urls ...string) string {
	t.Helper()
	var proxies []*httputil.ReverseProxy
	for _, u := range urls {
		to := must.Have(url.Parse(u))(t)
		p := httputil.NewSingleHostReverseProxy(to)
		p.FlushInterval = -1
		proxies = append(proxies, p)
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		i := pick(r)
		body, err := io.ReadAll(r.Body) // net/http closes what is not read when the answer begins
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxies[i].ServeHTTP(w, r)
	})
}

// TestInstancesBehindAGateway: who answered is in the records, in the summary and on the page, and an uneven split is
// named.
func TestInstancesBehindAGateway(t *testing.T) {
	t.Parallel()
	a := startMock(t, "--header", "X-Served-By: pod-a", "--ttft", "2ms", "--itl", "1ms")
	b := startMock(t, "--header", "X-Served-By: pod-b", "--header", "Target-Pod: x", "--ttft", "2ms", "--itl", "1ms")
	r := run(t, steady(t, 400, 200, 4), "--url", gateway(t, a.url, b.url), "--no-probe", "--instance-header", "x-served-by")
	r.only(t, "ok")
	served := map[string]map[string][]served{"pod-a": a.stop(t), "pod-b": b.stop(t)}
	counts := map[string]int64{}
	for _, l := range r.lines {
		counts[l.Instance]++
		expect.Equal(t, len(served[l.Instance][l.ID]), 1, "row %d: %q answered it, its log says otherwise", l.Row, l.Instance)
	}
	parts := r.summary.Instances.Parts
	if len(parts) != 2 || parts[0].Name != "pod-a" || parts[0].Requests != counts["pod-a"] || parts[1].Requests != counts["pod-b"] || parts[0].TTFTMS == nil {
		t.Errorf("%+v, want %v", parts, counts)
	}
	for _, text := range []string{"requests are spread unevenly over 2 instances: pod-a answered 8", "\ninstances.parts\n", "\n  pod-a ", "\n  pod-b "} {
		expect.Contains(t, strings.ReplaceAll(r.stderr, "\n        ", " "), text, "it said:\n%s", r.stderr)
	}
	must.Do(t, os.Remove(filepath.Join(r.dir, "summary.json")))
	p := start(t, nil, "report", "--full", r.dir)
	p.wait(t)
	expect.Contains(t, p.stdout.String(), "\n  pod-b ", "from the records alone:\n%s", p.stderr.String())
}
