package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/engine/redact"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Limits of one scrape.
const (
	scrapeTimeout = 2 * time.Second
	scrapeIdle    = 4 * time.Second // below the 5 s after which vLLM's server closes an idle connection
)

// metricsPaths are where servers have their metrics; the second is trtllm-serve's.
var metricsPaths = [...]string{"/metrics", "/prometheus/metrics"}

// Counters may lag behind the answers that they count, also those of a warm-up. So they are read before and after the
// run until they do not change any more.
const (
	settleEvery = 100 * time.Millisecond
	settleTimes = 10
)

// ScrapeSink takes the samples of all pages, one at a time; page counts as Scraper.Targets does.
type ScrapeSink func(page int, s *scrape.Sample)

// Scraper samples the servers' metrics (/metrics) before, during and after a run. Each page has a goroutine of its own,
// so that one that hangs delays no other, and has one request at a time. Make it with Prober.Scraper, which takes the
// samples before the run. Then call Start and Stop, once each.
type Scraper struct {
	interval time.Duration
	pages    []*scrapePage
	clock    sched.Clock
	sink     ScrapeSink
	mu       sync.Mutex // over sink
	asking   context.Context
	cancel   context.CancelFunc
	halt     chan struct{}
	ended    sync.WaitGroup
}

// scrapePage is one page. One goroutine uses it.
type scrapePage struct {
	target  string // as results name it
	url     string // of the page, for records: without a query
	client  *fasthttp.HostClient
	timeout time.Duration // of one sample
	req     *fasthttp.Request
	resp    *fasthttp.Response
	reader  *scrape.Reader
	hide    *redact.Redactor

	before scrape.Sample
	took   time.Time // when before was
}

// Scraper reads the metrics of every address of the targets, or the pages of urls instead. It returns a scraper of the
// pages with known metrics; nil if there are none. silent has the reason of each other page. Credentials are sent to
// the targets only, not to other hosts.
func (b *Prober) Scraper(
	ctx context.Context, urls []string, interval time.Duration,
) (s *Scraper, silent []error, err error) {
	asking := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // an interrupted run has its last samples, too
	defer context.AfterFunc(asking, cancel)()                     // but who interrupts the first ones waits for none
	defer func() {
		if s == nil {
			cancel()
		}
	}()
	candidates, err := b.scrapePages(ctx, urls)
	if err != nil {
		return nil, nil, err
	}
	pages := make([]*scrapePage, len(candidates))
	errs := make([]error, len(candidates))
	var asked sync.WaitGroup
	for i, alternatives := range candidates {
		asked.Go(func() {
			most := time.Duration(len(alternatives)) * scrapeTimeout
			defer b.waiting("GET "+alternatives[0].url, most, "the limit of a scrape")()
			pages[i], errs[i] = firstKnown(alternatives)
		})
	}
	asked.Wait()
	if asking.Err() != nil {
		return nil, nil, asking.Err()
	}
	silent = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	pages = slices.DeleteFunc(pages, func(p *scrapePage) bool { return p == nil })
	if len(pages) == 0 {
		return nil, silent, nil
	}
	return &Scraper{
		interval: interval,
		asking:   ctx,
		cancel:   cancel,
		halt:     make(chan struct{}),
		pages:    pages,
	}, silent, nil
}

// Again takes the samples before the run anew, and returns when the earliest was taken. One that fails, or is not there
// when ctx ends, stays as it was. Call it before Start.
func (s *Scraper) Again(ctx context.Context) (first time.Time) {
	var asked sync.WaitGroup
	for _, p := range s.pages {
		asked.Go(func() {
			began := time.Now()
			patience := p.timeout
			if end, bounded := ctx.Deadline(); bounded {
				p.timeout = max(1, min(patience, time.Until(end)))
			}
			var m scrape.Sample
			p.atRest(scrape.Before, &m)
			if p.timeout = patience; m.Error == "" {
				p.before = m
				p.took = began
			}
		})
	}
	asked.Wait()
	first = s.pages[0].took
	for _, p := range s.pages {
		if p.took.Before(first) {
			first = p.took
		}
	}
	return first
}

// firstKnown returns the first page with known metrics, after it took its sample before the run; else the first page's
// error.
func firstKnown(alternatives []*scrapePage) (*scrapePage, error) {
	var why error
	for _, p := range alternatives {
		p.atRest(scrape.Before, &p.before)
		p.took = time.Now()
		if p.before.Error == "" {
			return p, nil
		}
		why = cmp.Or(why, fmt.Errorf("%s: %s", p.url, p.before.Error))
	}
	return nil, why
}

// scrapePages lists the pages to try of each address, or URL. The first of them with known metrics counts.
func (b *Prober) scrapePages(ctx context.Context, urls []string) (candidates [][]*scrapePage, err error) {
	asker := *b
	asker.Timeout = min(b.Timeout, scrapeTimeout)
	asker.ConnectTimeout = min(b.ConnectTimeout, asker.Timeout)
	if len(urls) == 0 {
		for _, at := range serversOf(b.Targets) {
			var c []*scrapePage
			for _, path := range metricsPaths {
				c = append(c, asker.scrapePage(ctx, at, at.URL, at.Base+path))
			}
			candidates = append(candidates, c)
		}
		return distinct(candidates), nil
	}
	for _, raw := range urls {
		t, page, err := parseScrapeURL(ctx, raw)
		if err != nil {
			return nil, err
		}
		name := workload.WithoutSecrets(t.URL + t.Path)
		for _, at := range serversOf([]workload.Target{t}) {
			page := asker.scrapePage(ctx, at, name, page)
			candidates = append(candidates, []*scrapePage{page})
		}
	}
	return distinct(candidates), nil
}

// distinct removes pages that are listed twice: a server may be several targets, and is counted once.
func distinct(candidates [][]*scrapePage) [][]*scrapePage {
	seen := map[string]bool{}
	return slices.DeleteFunc(candidates, func(c []*scrapePage) bool {
		page := c[0].client.Addr + " " + c[0].url
		again := seen[page]
		seen[page] = true
		return again
	})
}

// ParseScrapeTarget reads a --scrape-url. It sends nothing.
func ParseScrapeTarget(raw string) (workload.Target, error) {
	t, err := workload.ParseTarget(raw, metricsPaths[0])
	if err != nil {
		return t, fmt.Errorf("--scrape-%s", strings.TrimPrefix(err.Error(), "--"))
	}
	return t, nil
}

// parseScrapeURL reads a --scrape-url: host:port, or the URL of a page, by default /metrics.
func parseScrapeURL(ctx context.Context, raw string) (t workload.Target, page string, err error) {
	t, err = ParseScrapeTarget(raw)
	if err != nil {
		return t, "", err
	}
	path := strings.TrimSuffix(withoutQuery(raw), "/")
	if t.Base != t.URL && !strings.HasSuffix(path, metricsPaths[0]) {
		t.Path = strings.TrimPrefix(t.Base, t.URL) // a page of another name
	}
	targets := []workload.Target{t}
	if err := Resolve(ctx, targets); err != nil {
		return t, "", err
	}
	return targets[0], t.URL + t.Path + t.Query, nil
}

func withoutQuery(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url
}

func (b *Prober) scrapePage(ctx context.Context, at server, target, url string) *scrapePage {
	p := &scrapePage{
		target:  target,
		client:  b.client(ctx, at),
		timeout: b.Timeout,
		req:     &fasthttp.Request{},
		resp:    &fasthttp.Response{},
		reader:  scrape.NewReader(),
		hide:    b.Secrets,
	}
	p.client.MaxConns = 1
	p.client.MaxIdleConnDuration = scrapeIdle
	p.client.MaxIdemponentCallAttempts = 2 // the second where the server had closed the connection
	scheme, _, _ := strings.Cut(at.URL, "://")
	path := strings.TrimPrefix(withoutQuery(url), at.URL)
	p.url = scheme + "://" + at.addr.String() + path
	p.req.SetRequestURI(url)
	own := func(t workload.Target) bool {
		return t.URL == at.URL
	}
	if slices.ContainsFunc(b.Targets, own) { // to which credentials go anyway
		for _, h := range b.Headers {
			p.req.Header.Set(h.Name, h.Value)
		}
	}
	p.req.Header.SetMethod(fasthttp.MethodGet)
	p.req.Header.Set("Accept", "text/plain;version=0.0.4")
	p.req.Header.Del("Content-Type")
	return p
}

// errNothingKnown is a page without a name that the table has.
var errNothingKnown = errors.New("the page has none of the names of vLLM, SGLang, TGI, TensorRT-LLM, Triton or Dynamo")

// atRest takes the last of the samples that still differed from the one before. m.AtNS is left.
func (p *scrapePage) atRest(phase scrape.Phase, m *scrape.Sample) {
	began := time.Now()
	p.sample(phase, m)
	for range settleTimes {
		patience := min(scrapeTimeout, p.timeout)
		if m.Error != "" || time.Since(began) > patience {
			return
		}
		time.Sleep(settleEvery)
		var again scrape.Sample
		p.sample(phase, &again)
		if again.Error != "" {
			return
		}
		same := reflect.DeepEqual(again.Counts, m.Counts)
		*m = again
		if same {
			return
		}
	}
}

// sample asks once. m.AtNS is left.
func (p *scrapePage) sample(phase scrape.Phase, m *scrape.Sample) {
	*m = scrape.Sample{
		Phase:  phase,
		Target: p.target,
		URL:    p.url,
	}
	began := time.Now()
	err := p.client.DoTimeout(p.req, p.resp, p.timeout)
	m.TookMS = float64(time.Since(began)) / 1e6
	switch {
	case err != nil:
	case p.resp.StatusCode() != 200:
		err = fmt.Errorf("HTTP %d", p.resp.StatusCode())
	default:
		m.Reading, err = p.reader.Read(p.resp.Body())
		if err == nil && m.Engine == "" {
			err = errNothingKnown
		}
	}
	if err != nil {
		m.Reading = scrape.Reading{}
		m.Error = p.hide.Line(err.Error())
	}
}

// Targets are the pages' targets, as results name them.
func (s *Scraper) Targets() []string {
	names := make([]string, len(s.pages))
	for i, p := range s.pages {
		names[i] = p.target
	}
	return names
}

// Start calls sink with the samples before the run, with times of clock, and begins to sample. Pages take turns within
// the interval, so that their answers do not all come at once.
func (s *Scraper) Start(clock sched.Clock, sink ScrapeSink) {
	s.clock = clock
	s.sink = sink
	for i, p := range s.pages {
		turn := s.interval * time.Duration(i+1) / time.Duration(len(s.pages))
		s.ended.Go(func() { s.follow(i, p, turn) })
	}
}

// Look takes the first samples of a target of b that is about to take part. What its counters grow by from then on is
// ours. It reports whether all its pages can be read. When the target takes part, join begins to sample it, and calls
// joined for each page before its first sample. Call both between Start and Stop, from one goroutine.
func (s *Scraper) Look(b *Prober, t *workload.Target) (join func(joined func(target string)), all bool) {
	own := *b
	own.Targets = []workload.Target{*t}
	candidates, err := own.scrapePages(s.asking, nil)
	all = err == nil
	var pages []*scrapePage
	for _, alternatives := range candidates {
		p, err := firstKnown(alternatives)
		if err != nil {
			all = false
			continue
		}
		pages = append(pages, p)
	}
	return func(joined func(target string)) {
		for _, p := range pages {
			i := len(s.pages)
			s.pages = append(s.pages, p)
			s.mu.Lock()
			joined(p.target)
			s.mu.Unlock()
			s.ended.Go(func() { s.follow(i, p, 0) })
		}
	}, all
}

// follow samples a page, the first time in its turn.
func (s *Scraper) follow(i int, p *scrapePage, turn time.Duration) {
	wait := time.NewTimer(turn)
	defer wait.Stop()
	halted := false
	select {
	case <-s.halt:
		halted = true
	case <-wait.C:
	}
	s.emit(i, &p.before, p.took)
	tick := time.NewTicker(s.interval) // drops what a slow answer makes it miss
	defer tick.Stop()
	var m scrape.Sample
	for !halted {
		p.sample(scrape.During, &m)
		s.emit(i, &m, time.Now())
		select {
		case <-s.halt:
			halted = true
		case <-tick.C:
		}
	}
	p.atRest(scrape.After, &m)
	s.emit(i, &m, time.Now())
}

// emit calls the sink with a sample that was taken then.
func (s *Scraper) emit(i int, m *scrape.Sample, then time.Time) {
	age := time.Since(then) // before the clock is read: if the thread loses its core in between, samples stay in order
	m.AtNS = s.clock.Now() - int64(age)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink(i, m)
}

// Stop samples what is after the run, and returns when the sink has seen it.
func (s *Scraper) Stop() {
	close(s.halt)
	s.ended.Wait()
	s.cancel()
}
