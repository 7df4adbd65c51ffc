package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// metricsServer counts its scrapes, the most at once, and what else it was asked.
type metricsServer struct {
	*httptest.Server
	asked, now, most atomic.Int64
	secret           atomic.Int64 // requests that carried a credential
	answer           func(n int64, w http.ResponseWriter, r *http.Request)
}

// plainPage is what a healthy server answers the n-th time.
func plainPage(n int64, w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "vllm:num_requests_running{engine=\"0\"} %d\nvllm:prompt_tokens_total %d\n", n%3, 10*min(n, 5))
}

func newMetricsServer(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) *metricsServer {
	t.Helper()
	m := &metricsServer{answer: answer}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := m.now.Add(1)
		defer m.now.Add(-1)
		for most := m.most.Load(); now > most && !m.most.CompareAndSwap(most, now); most = m.most.Load() {
		}
		if r.Header.Get("Authorization") != "" {
			m.secret.Add(1)
		}
		m.answer(m.asked.Add(1), w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func scraperProber(t *testing.T, servers ...*metricsServer) *Prober {
	t.Helper()
	b := &Prober{ConnectTimeout: time.Second, Timeout: time.Second, Headers: []http1.Header{{Name: "Authorization", Value: "Bearer geheim-123"}}, Secrets: redact.NewRedactor([]http1.Header{{Name: "Authorization", Value: "Bearer geheim-123"}})}
	for _, s := range servers {
		target := must.Have(workload.ParseTarget(s.URL, "/v1/completions"))(t)
		b.Targets = append(b.Targets, target)
	}
	must.Do(t, Resolve(t.Context(), b.Targets))
	return b
}

// collected are the samples of a scraper by page.
type collected struct {
	mu sync.Mutex
	of map[int][]scrape.Sample
}

func (c *collected) sink(page int, s *scrape.Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[page] = append(c.of[page], *s)
}

func (c *collected) count(page int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of[page])
}

// TestScraper: one server is well, one hangs from its third scrape on, one answers with errors, with too much and with
// something else.
func TestScraper(t *testing.T) {
	release := make(chan struct{})
	// The first two pages are equal, so that the sample before the run is at rest.
	well := newMetricsServer(t, func(n int64, w http.ResponseWriter, r *http.Request) { plainPage(max(2, n), w, r) })
	hangs := newMetricsServer(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n > 2 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		plainPage(max(2, n), w, r)
	})
	odd := newMetricsServer(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 3:
			http.Error(w, "geheim-123", 500)
		case 4:
			fmt.Fprint(w, strings.Repeat("vllm:x 1\n", maxAnswerBytes/9+1))
		case 5:
			fmt.Fprint(w, "<html>")
		case 6:
			fmt.Fprint(w, "up 1\n")
		default:
			plainPage(max(2, n), w, r)
		}
	})
	b := scraperProber(t, well, hangs, odd)
	s, silent, err := b.Scraper(t.Context(), nil, 20*time.Millisecond)
	if err != nil || len(silent) != 0 || len(s.Targets()) != 3 {
		t.Fatalf("%v, %v", silent, err)
	}
	clock := sched.NewMonotonic()
	clock.Start(0)
	c := &collected{of: map[int][]scrape.Sample{}}
	s.Start(clock, c.sink)
	for deadline := time.Now().Add(time.Minute); c.count(0) < 10 || c.count(2) < 7; {
		if time.Now().After(deadline) {
			t.Fatalf("%d and %d samples", c.count(0), c.count(2))
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	s.Stop()
	for page, server := range []*metricsServer{well, hangs, odd} {
		list := c.of[page]
		if server != odd && server.most.Load() != 1 { // odd may still write what is too much when it is asked again
			t.Errorf("page %d: %d scrapes at once", page, server.most.Load())
		}
		if first, last := list[0], list[len(list)-1]; first.Phase != scrape.Before || last.Phase != scrape.After || first.AtNS >= 0 && page == 0 && first.AtNS >= list[1].AtNS {
			t.Errorf("page %d: from %+v to %+v", page, first, last)
		}
		for i, m := range list {
			if m.Target != server.URL || m.URL != server.URL+"/metrics" || i > 0 && (m.AtNS < list[i-1].AtNS || m.Phase == scrape.Before) {
				t.Errorf("page %d: sample %d is %+v", page, i, m)
			}
			expect.Lacks(t, m.Error, "geheim", "an error repeats a secret")
		}
	}
	var errors []string
	for _, m := range c.of[2][1:5] {
		errors = append(errors, m.Error)
	}
	for i, want := range []string{"HTTP 500", "body size exceeds", "not Prometheus text: line 1", "has none of the names"} {
		expect.Contains(t, errors[i], want, "error %d", i)
	}
	if m := c.of[2][5]; m.Error != "" || m.PromptTokens == nil {
		t.Errorf("it was well again: %+v", m)
	}
}

// TestScraperOfOthers: pages elsewhere are read without credentials, and those without known metrics are named.
func TestScraperOfOthers(t *testing.T) {
	own := newMetricsServer(t, plainPage)
	exporter := newMetricsServer(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/custom/page" || r.URL.Path == "/metrics" || r.URL.Path == "/prometheus/metrics" && r.URL.Query().Get("k") == "v" {
			plainPage(n, w, r)
			return
		}
		http.NotFound(w, r)
	})
	b := scraperProber(t, own)
	for _, u := range []string{exporter.URL, exporter.URL + "/metrics", exporter.URL + "/custom/page", exporter.URL + "/prometheus/metrics?k=v", strings.TrimPrefix(exporter.URL, "http://")} {
		s, silent, err := b.Scraper(t.Context(), []string{u}, time.Hour)
		if err != nil || len(silent) > 0 || s == nil {
			t.Fatalf("%s: %v, %v", u, silent, err)
		}
		if name := s.Targets()[0]; !strings.HasPrefix(name, exporter.URL+"/") || strings.Contains(name, "?") {
			t.Errorf("%s is called %s", u, name)
		}
		c := &collected{of: map[int][]scrape.Sample{}}
		s.Start(sched.NewMonotonic(), c.sink)
		s.Stop() // before the first interval is over: what was before and after is there
		expect.Equal(t, len(c.of[0]), 2, "%s: samples: one before, one after", u)
	}
	if exporter.secret.Load() > 0 {
		t.Error("another host got the credentials")
	}
	if _, silent, err := b.Scraper(t.Context(), []string{exporter.URL + "/none"}, time.Hour); err != nil || len(silent) != 1 || !strings.Contains(silent[0].Error(), "/none: HTTP 404") {
		t.Errorf("%v, %v", silent, err)
	}
	if _, _, err := b.Scraper(t.Context(), []string{"ftp://x"}, time.Hour); err == nil || !strings.Contains(err.Error(), "--scrape-url") {
		t.Error(err)
	}
	if s, _, err := b.Scraper(context.Background(), nil, time.Hour); err != nil || s == nil || own.secret.Load() == 0 {
		t.Errorf("the target's own page is read with the run's headers: %v", err)
	}
}

// TestScraperFindsThePage: trtllm-serve has its metrics at another path.
func TestScraperFindsThePage(t *testing.T) {
	m := newMetricsServer(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/prometheus/metrics" {
			fmt.Fprintln(w, "trtllm_num_requests_running 3")
			return
		}
		fmt.Fprint(w, `[{"iter":1}]`)
	})
	s, silent, err := scraperProber(t, m).Scraper(t.Context(), nil, time.Hour)
	if err != nil || len(silent) > 0 || s.pages[0].before.Engine != "trtllm" || !strings.HasSuffix(s.pages[0].url, "/prometheus/metrics") {
		t.Fatalf("%v, %v", silent, err)
	}
}

// TestScraperCountsAServerOnce, however many targets it is.
func TestScraperCountsAServerOnce(t *testing.T) {
	one, other := newMetricsServer(t, plainPage), newMetricsServer(t, plainPage)
	b := scraperProber(t, one, other, one)
	s, silent, err := b.Scraper(t.Context(), nil, time.Hour)
	if err != nil || len(silent) != 0 || len(s.pages) != 2 {
		t.Fatalf("%+v, %v, %v; want two pages", s, silent, err)
	}
	urls := []string{one.URL, one.URL + "/metrics", other.URL}
	if s, silent, err = b.Scraper(t.Context(), urls, time.Hour); err != nil || len(silent) != 0 || len(s.pages) != 2 {
		t.Fatalf("%+v, %v, %v; want two pages", s, silent, err)
	}
}
