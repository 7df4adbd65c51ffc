package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// TestScrape: what the servers count between the samples before and after is what their responses reported, to the
// token. Probes, a warm-up and an earlier run before it change nothing. Every sample is in the file.
func TestScrape(t *testing.T) {
	t.Parallel()
	load := generate(t, "--rows", "300", "--rate", "200", "--input-tokens", "1000:3000", "--output-tokens", "6", "--reuse", "0.5")
	const model = `odd "name", {v1}\`
	_, urls := startMocks(t, 2, "--model", model, "--ttft", "150ms") // so that some run in each sample
	for range map[bool]int{false: 2, true: 1}[testing.Short()] {
		var r *results
		quickEnough(t, func() string {
			r = run(t, with(urls, "--trace", load, "--scrape-interval", "100ms", "--warmup", "20")...)
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
			expect.Lacks(t, note, "the servers ", "a contradiction where there is none")
		}
	}
}

// fewSamples says if a server's metrics took too long, or were read too seldom; "" = neither.
func (r *results) fewSamples(dead ...string) string {
	if tooSlow := r.slowPages(dead...); tooSlow != "" {
		return tooSlow
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

// TestScrapeElsewhere: behind a gateway the instances' pages are named. One that cannot be read is refused before
// anything is sent. If nothing is to be read, the results have nothing of it.
func TestScrapeElsewhere(t *testing.T) {
	t.Parallel()
	a, b := startMock(t), startMock(t)
	load := steady(t, 60, 200, 4)
	front := gateway(t, a.url, b.url)
	quickEnough(t, func() string {
		r := run(t, "--trace", load, "--url", front, "--no-probe", "--scrape-url", a.url, "--scrape-url", b.url+"/metrics")
		s := r.summary.Servers
		if s == nil || len(s.Targets) != 2 || s.Targets[0].Target != a.url+"/metrics" || s.Whole || r.slowPages() == "" && *s.All.Requests != 60 {
			t.Errorf("%+v", s)
		}
		return r.slowPages()
	})
	silent := startMock(t, "--quirk", "no-metrics")
	for _, args := range [][]string{{"--url", silent.url}, {"--url", a.url, "--scrape", "off"}} {
		r := run(t, append(args, "--trace", load)...)
		if _, err := os.Stat(filepath.Join(r.dir, "server_metrics.jsonl")); err == nil || r.summary.Servers != nil || strings.Contains(r.stderr, "\n  servers") {
			t.Errorf("%v: %+v\n%s", args, r.summary.Servers, r.stderr)
		}
	}
}
