package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/engine/scrape"
)

// TestScrape: what the servers count between the samples before and after is what their responses reported, to the token.
// Probes, a warm-up and an earlier run before it change nothing. Every sample is in the file.
func TestScrape(t *testing.T) {
	t.Parallel()
	load := generate(t, "--rows", "300", "--rate", "200", "--input-tokens", "1000:3000", "--output-tokens", "6", "--reuse", "0.5")
	const model = `odd "name", {v1}\`
	slow := []string{"--model", model, "--ttft", "150ms"} // so that some run in each sample
	mocks := []*mockServer{startMock(t, slow...), startMock(t, slow...)}
	for range 2 {
		var r *results
		quickEnough(t, func() string {
			r = run(t, "--trace", load, "--url", mocks[0].url, "--url", mocks[1].url, "--scrape-interval", "100ms", "--warmup", "20")
			for _, s := range r.summary.Servers.Targets {
				if s.Running == nil || s.Running.Max < 1 {
					return s.Target + " was never seen at work"
				}
			}
			return r.fewSamples()
		})
		r.sound(t)
		s := r.summary.Servers
		if s == nil || len(s.Targets) != 2 || s.IntervalS != 0.1 || !s.Whole {
			t.Fatalf("%+v", s)
		}
		for i, target := range append(s.Targets, s.All) {
			var hits, prompt, made, n float64
			for _, l := range r.lines {
				if l.Target == target.Target || i == 2 {
					hits, prompt, made, n = hits+float64(l.Cached), prompt+float64(l.Prompt), made+float64(l.Completion), n+1
				}
			}
			if hits == 0 || *target.PrefixHits != hits || *target.PrefixQueries != prompt || *target.PromptTokens != prompt || *target.GenerationTokens != made || *target.Requests != n || *target.Preemptions != 0 {
				t.Errorf("%s: hits %v of %v, %v and %v tokens, %v requests; responses: %v of %v, %v, %v", target.Target, *target.PrefixHits, *target.PrefixQueries,
					*target.PromptTokens, *target.GenerationTokens, *target.Requests, hits, prompt, made, n)
			}
			if target.Missed != 0 || target.Restarts != 0 || target.Incomplete || target.Engine != "vllm" || *target.RunningBefore != 0 || target.Running == nil || target.Running.Max < 1 {
				t.Errorf("%+v", target)
			}
		}
		proveSamples(t, r)
		for _, note := range r.summary.Notes {
			if strings.Contains(note, "the servers ") {
				t.Errorf("a contradiction where there is none: %s", note)
			}
		}
	}
}

// fewSamples says if a server's metrics took too long, or were read too seldom; "" = neither.
func (r *results) fewSamples(dead ...string) string {
	if r.slowPages(dead...) {
		return "the servers' metrics took too long"
	}
	for _, s := range r.summary.Servers.Targets {
		if !slices.Contains(dead, s.Target) && s.Samples < 3 {
			return fmt.Sprintf("%s was seen %d times", s.Target, s.Samples)
		}
	}
	return ""
}

// proveSamples reads server_metrics.jsonl.
func proveSamples(t *testing.T, r *results) {
	t.Helper()
	phases, last := map[string][]scrape.Phase{}, map[string]int64{}
	for _, m := range readLines[scrape.Sample](t, filepath.Join(r.dir, "server_metrics.jsonl")) {
		if n := len(phases[m.Target]); n > 0 && m.AtNS <= last[m.Target] || (m.Phase == scrape.Before) != (n == 0) || m.Running == nil || m.TookMS <= 0 {
			t.Errorf("%+v after %d", m, last[m.Target])
		}
		phases[m.Target], last[m.Target] = append(phases[m.Target], m.Phase), m.AtNS
	}
	for _, target := range r.summary.Servers.Targets {
		list := phases[target.Target]
		if int64(len(list)) != target.Samples || len(list) < 3 || list[len(list)-1] != scrape.After {
			t.Errorf("%s: %v, the summary has %d samples", target.Target, list, target.Samples)
		}
	}
}

// TestScrapeConfesses: others use the server, its queue is long, and it does not report what it counts.
func TestScrapeConfesses(t *testing.T) {
	t.Parallel()
	m := startMock(t, "--slots", "2", "--ttft", "30ms", "--quirk", "no-cached-tokens")
	other := startReplay(t, "--trace", steady(t, lasting, 40, 20), "--url", m.url, "--no-probe")
	m.untilRunning(t, 1)
	r := run(t, "--trace", steady(t, 60, 60, 20), "--url", m.url, "--no-probe", "--scrape", "on", "--scrape-interval", "100ms")
	other.signal(t, os.Interrupt)
	other.signal(t, os.Interrupt)
	other.wait(t)
	r.pagesInTime(t)
	notes := strings.Join(r.summary.Notes, "\n")
	for _, want := range []string{"before the first request the servers were running ", "requests waited in the servers' queues in ", "came in answers that ended ok: others use them, too", "responses report no cached tokens; by the servers' own counters "} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if !strings.Contains(r.stderr, "all.running.mean ") {
		t.Errorf("not on the page:\n%s", r.stderr)
	}
}

// TestScrapeElsewhere: behind a gateway the instances' pages are named. One that cannot be read is refused before anything is
// sent. If nothing is to be read, the results have nothing of it.
func TestScrapeElsewhere(t *testing.T) {
	t.Parallel()
	a, b := startMock(t), startMock(t)
	load := steady(t, 60, 200, 4)
	front := gateway(t, a.url, b.url)
	r := run(t, "--trace", load, "--url", front, "--no-probe", "--scrape-url", a.url, "--scrape-url", b.url+"/metrics")
	r.pagesInTime(t)
	s := r.summary.Servers
	if s == nil || len(s.Targets) != 2 || s.Targets[0].Target != a.url+"/metrics" || s.Whole || *s.All.Requests != 60 {
		t.Errorf("%+v", s)
	}
	silent := startMock(t, "--quirk", "no-metrics")
	for _, args := range [][]string{{"--url", silent.url}, {"--url", a.url, "--scrape", "off"}} {
		r := run(t, append(args, "--trace", load)...)
		if _, err := os.Stat(filepath.Join(r.dir, "server_metrics.jsonl")); err == nil || r.summary.Servers != nil || strings.Contains(r.stderr, "\n  servers") {
			t.Errorf("%v: %+v\n%s", args, r.summary.Servers, r.stderr)
		}
	}
}

// TestScrapeOfAServerThatHangs delays nothing and nobody.
func TestScrapeOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	m := startMock(t)
	var asked atomic.Int64 // twice each by the check and just before the start, then during the run
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 4 {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "vllm:num_requests_running 1\n")
	}))
	t.Cleanup(page.Close)
	load := steady(t, 300, 200, 4)
	var r *results
	quickEnough(t, func() string {
		asked.Store(0)
		r = run(t, "--trace", load, "--url", m.url, "--scrape-url", page.URL, "--scrape-url", m.url, "--scrape-interval", "100ms")
		return r.fewSamples(r.summary.Servers.Targets[0].Target)
	})
	r.prove(t)
	r.only(t, "ok")
	s := r.summary.Servers
	if s.Targets[0].Missed == 0 || !s.Targets[0].Incomplete || s.Targets[1].Missed != 0 || s.Targets[1].Samples < 3 {
		t.Errorf("%+v", s)
	}
	if want := fmt.Sprintf("%s/metrics did not answer ", page.URL); !strings.Contains(strings.Join(r.summary.Notes, "\n"), want) {
		t.Errorf("no %q in %q", want, r.summary.Notes)
	}
}

// TestScrapeBehindABalancer: each reading is another server's. That is said once, and nothing is summed, nor taken for a restart.
func TestScrapeBehindABalancer(t *testing.T) {
	t.Parallel()
	var readings, others atomic.Int64
	front := forward(t, func(r *http.Request) int {
		if r.URL.Path == "/metrics" {
			return int(readings.Add(1) % 3)
		}
		return int(others.Add(1) % 3)
	},
		startMock(t, "--quirk", "no-cached-tokens").url, startMock(t, "--quirk", "no-cached-tokens").url, startMock(t, "--quirk", "no-cached-tokens").url)
	r := run(t, "--trace", steady(t, 150, 100, 4), "--url", front, "--cold", "off", "--scrape-interval", "100ms")
	r.only(t, "ok")
	said := strings.Join(strings.Fields(r.stderr), " ")
	all := r.summary.Servers.All
	if !all.Alternates || all.GenerationTokens != nil || all.PrefixHitRatio != nil || all.Running != nil || all.Restarts != 0 || r.summary.PrefixCache.HitsFrom != "" {
		t.Errorf("%+v, hits from %q", all, r.summary.PrefixCache.HitsFrom)
	}
	if want := "each reading of the metrics of " + front + " is another server's"; strings.Count(said, want) != 1 || strings.Contains(said, "anew") || strings.Contains(said, "tokens made") {
		t.Errorf("want once %q, and no restart:\n%s", want, r.stderr)
	}
}
