package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
	}, urls...).URL
}

// forward is a server that hands each request on to the URL that pick names.
func forward(t *testing.T, pick func(*http.Request) int, urls ...string) *httptest.Server {
	t.Helper()
	var proxies []*httputil.ReverseProxy
	for _, u := range urls {
		p := httputil.NewSingleHostReverseProxy(must.Have(url.Parse(u))(t))
		p.FlushInterval = -1
		proxies = append(proxies, p)
	}
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	expect.Contains(t, p.stdout.String(), "\n  pod-b ", "from the records alone:\n%s", &p.stderr)
}

// transfersPage serves vLLM's metrics of a server that has moved one more KV cache at each reading, in so many seconds.
// It returns the address.
func transfersPage(t *testing.T, tookS float64) (address string) {
	t.Helper()
	var readings atomic.Int64
	return strings.TrimPrefix(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := float64(readings.Add(1))
		fmt.Fprintf(w, "vllm:nixl_xfer_time_seconds_count %v\nvllm:nixl_xfer_time_seconds_sum %v\n", n, n*tookS)
	}), "http://")
}

// TestPrefillAndDecode: an instance decodes what three others prefill, whose blocks it gets after the first token. Each
// record names who prefilled as the server's log does, and its second token comes as late as there; results have both
// by instance. How long transfers took is what the page of each instance that decodes says.
func TestPrefillAndDecode(t *testing.T) {
	t.Parallel()
	mocks := []*mockServer{}
	args := []string{"--trace", steady(t, 90, 60, 4), "--model", "mock", "--scrape-interval", "200ms"}
	var decodes []string
	for i := range 2 {
		decodes = append(decodes, transfersPage(t, 0.007+0.02*float64(i)))
		m := startMock(t, "--prefill-instances", "3", "--kv-transfer", "30ms", "--log-all", "--header", "target-pod: "+decodes[i])
		mocks = append(mocks, m)
		args = append(args, "--url", m.url, "--scrape-url", "http://"+decodes[i]+"/metrics")
	}
	r := run(t, args...)
	type entry struct {
		ID      string  `json:"request_id"`
		Prefill int64   `json:"prefill_instance"`
		Tokens  []int64 `json:"token_ns"`
		decode  string
	}
	log := map[string]entry{}
	for i, m := range mocks {
		m.stop(t)
		for _, e := range readLines[entry](t, m.log) {
			e.decode = decodes[i]
			log[e.ID] = e
		}
	}
	gaps, requests, agree := map[string][]float64{}, map[string]int64{}, 0
	for _, rec := range recordsOf(t, r.dir) {
		e := log[rec.RequestID]
		expect.Equal(t, [2]string{rec.PrefillInstance, rec.Instance}, [2]string{fmt.Sprint("prefill-", e.Prefill), e.decode}, "row", rec.Row)
		must.Equal(t, len(e.Tokens), 4, "tokens of row %d", rec.Row)
		if off := rec.SecondGapNS - (e.Tokens[1] - e.Tokens[0]); off > -5e6 && off < 5e6 {
			agree++
		}
		for _, name := range []string{rec.PrefillInstance, rec.Instance} {
			requests[name]++
			gaps[name] = append(gaps[name], float64(rec.SecondGapNS)/1e6)
		}
	}
	if agree < 60 { // a machine with other work stamps some of them late
		t.Errorf("%d of 90 second tokens came as by the server's log", agree)
	}
	must.Equal(t, r.summary.Prefills != nil && r.summary.Instances != nil, true, "by instance")
	parts := slices.Concat(r.summary.Prefills.Parts, r.summary.Instances.Parts)
	expect.Equal(t, len(parts), 5, "three that prefill, two that decode: %+v", parts)
	for _, part := range parts {
		slices.Sort(gaps[part.Name])
		expect.Equal(t, part.Requests, requests[part.Name], part.Name)
		expect.Near(t, part.SecondGapMS.Max, gaps[part.Name][len(gaps[part.Name])-1], 1e-3, part.Name)
		switch i := slices.Index(decodes, part.Name); {
		case i >= 0 && part.KVTransferMS != nil:
			expect.Near(t, *part.KVTransferMS, 7+20*float64(i), 1e-6, "a transfer to %s", part.Name)
		default:
			expect.Equal(t, i >= 0 || part.KVTransferMS != nil, false, "a transfer of %s: %v", part.Name, part.KVTransferMS)
		}
		expect.Near(t, part.SecondGapMS.P50, gaps[part.Name][(len(gaps[part.Name])-1)/2], 1e-3, part.Name)
	}
	expect.Contains(t, r.stderr, "2nd token +", "the screen")
	expect.Contains(t, r.stderr, "27.0 ms a KV transfer", "the screen")
	expect.Contains(t, string(readFile(t, filepath.Join(r.dir, "report.html"))), "prefill_instances", "the page")
}
