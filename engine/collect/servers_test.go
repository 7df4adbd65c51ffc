package collect

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// agreeing is a run whose servers report what was received from them.
func agreeing() *metrics.Summary {
	all := scrape.Server{
		RunningBefore: new(0.0), WaitingShare: new(0.2), Waiting: &scrape.Gauge{Mean: 0.3, Max: 4}, PrefixHitRatio: new(0.4),
		Counts: scrape.Counts{Preemptions: new(0.0), GenerationTokens: new(10_000.0)},
	}
	return &metrics.Summary{
		Servers:     &metrics.Servers{Servers: scrape.Servers{All: all, Targets: []scrape.Server{{Target: "http://a", Samples: 9}}}, Whole: true},
		Tokens:      metrics.Tokens{Completion: 10_000},
		PrefixCache: metrics.PrefixCache{ReportedHitRatio: new(0.4), ExpectedHitRatio: new(0.5)},
	}
}

// TestServerNotes: there is a note for each contradiction, with its most likely cause, and none without one.
func TestServerNotes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *metrics.Summary)
		want   string // "" = nothing
	}{
		{"nobody was read", func(s *metrics.Summary) { s.Servers = nil }, ""},
		{"all agree", func(*metrics.Summary) {}, ""},
		{"nearly", func(s *metrics.Summary) {
			s.Servers.All.PrefixHitRatio, s.Servers.All.GenerationTokens = new(0.409), new(10_050.0)
		}, ""},
		{"nothing is known", func(s *metrics.Summary) { s.Servers.All = scrape.Server{} }, ""},
		{"busy before", func(s *metrics.Summary) { s.Servers.All.RunningBefore = new(3.0) }, "before the first request the servers were running 3 requests already: others use them, or their gauges lag behind"},
		{"preempted", func(s *metrics.Summary) { s.Servers.All.Preemptions = new(12.0) }, "the servers preempted requests (12 times): their KV caches were too small for what ran at once"},
		{"speculative decoding", func(s *metrics.Summary) {
			s.Servers.All.DraftTokens, s.Servers.All.AcceptedTokens, s.Workload.Requests = new(400.0), new(100.0), 5
		}, "accepted 25 % of 400 draft tokens; of prompts made of random tokens that says nothing"},
		{"speculative decoding of text", func(s *metrics.Summary) {
			s.Servers.All.DraftTokens, s.Servers.All.AcceptedTokens, s.Workload.Requests, s.Workload.Verbatims = new(400.0), new(100.0), 5, 5
		}, "accepted 25 % of 400 draft tokens"},
		{"no drafts", func(s *metrics.Summary) { s.Servers.All.DraftTokens, s.Servers.All.AcceptedTokens = new(0.0), new(0.0) }, ""},
		{"a queue", func(s *metrics.Summary) { s.Servers.All.WaitingShare, s.Servers.All.Waiting.Mean = new(0.75), 6.5 }, "requests waited in the servers' queues in 75 % of the samples (6.50 on average): more were sent than they serve at once"},
		{"restarted", func(s *metrics.Summary) { s.Servers.Targets[0].Restarts = 1 }, "the counters of http://a fell 1 time: it was restarted"},
		{"missed", func(s *metrics.Summary) { s.Servers.Targets[0].Missed, s.Servers.Targets[0].Error = 1, "timeout" }, `http://a did not answer 1 of 10 scrapes of its metrics, the last one: "timeout"`},
		{"missed in an outage", func(s *metrics.Summary) {
			s.Servers.Targets[0].Missed, s.Outages = 1, []metrics.Outage{{Target: "http://a"}}
		}, ""},
		{"other hits", func(s *metrics.Summary) { s.Servers.All.PrefixHitRatio = new(0.3) }, "the servers count 30 % prefix hits during the run, the responses report 40 %; they count the requests of others, too, and those that they put back into the queue"},
		{"other hits, failures", func(s *metrics.Summary) { s.Servers.All.PrefixHitRatio, s.Requests.Failed = new(0.3), 5 }, "the responses report 40 %; they count the failed ones, too"},
		{"other hits, failures after a crash", func(s *metrics.Summary) {
			s.Servers.All.PrefixHitRatio, s.Requests.Failed, s.Servers.All.Incomplete = new(0.3), 5, true
		}, "the responses report 40 %; there is no reading of them after the run"},
		{"other hits, failures at a restart", func(s *metrics.Summary) {
			s.Servers.All.PrefixHitRatio, s.Requests.Failed, s.Servers.All.Restarts = new(0.3), 5, 1
		}, "the responses report 40 %; what they had counted just before one was restarted is missing"},
		{"other hits, answers without usage", func(s *metrics.Summary) { s.Servers.All.PrefixHitRatio, s.PrefixCache.UnreportedRequests = new(0.3), 5 }, "the responses report 40 %; they count 5 requests whose answers do not report hits, too"},
		{"other hits, some unread", func(s *metrics.Summary) { s.Servers.All.PrefixHitRatio, s.Servers.Whole = new(0.3), false }, "the responses report 40 %; not all of the servers were read"},
		{"other hits, a connector's", func(s *metrics.Summary) {
			s.Servers.All.PrefixHitRatio, s.PrefixCache.Tiers = new(0.3), &metrics.CacheTiers{ExternalTokens: new(int64(9))}
		}, "the responses report 40 %; vLLM's counters are of its own memory alone, the responses have what its connector brought, too"},
		{"other hits, a connector's too", func(s *metrics.Summary) {
			s.Servers.All.PrefixHitRatio, s.PrefixCache.Tiers = new(0.3), &metrics.CacheTiers{ExternalTokens: new(int64(9))}
			s.Servers.All.ExternalHits, s.Requests.Failed = new(9.0), 5
		}, "the responses report 40 %; they count the failed ones, too"},
		{"hits not reported", func(s *metrics.Summary) { s.PrefixCache.ReportedHitRatio = nil }, "responses report no cached tokens; by the servers' own counters 40 % of the prompt tokens hit, where an ideal cache has 50 %"},
		{"more made", func(s *metrics.Summary) { s.Servers.All.GenerationTokens = new(12_000.0) }, "the servers made 12,000 tokens during the run, and 10,000 came in answers that ended ok: others use them, too"},
		{"more made, failures", func(s *metrics.Summary) {
			s.Servers.All.GenerationTokens, s.Requests.Sent = new(12_000.0), s.Requests.OK+7
		}, "it went to 7 requests that failed, or others use them, too"},
		{"more made, re-sent", func(s *metrics.Summary) { s.Servers.All.GenerationTokens, s.Requests.Resent = new(12_000.0), 7 }, "7 requests sent twice, or others use them, too"},
		{"fewer made", func(s *metrics.Summary) { s.Servers.All.GenerationTokens = new(5_000.0) }, "they count otherwise, or not all that serve were read"},
		{"fewer made, so whose hits these are is unknown", func(s *metrics.Summary) {
			s.Servers.All.GenerationTokens, s.Servers.All.PrefixHitRatio, s.PrefixCache.ReportedHitRatio = new(5_000.0), new(0.9), nil
		}, "they count otherwise, or not all that serve were read"},
		{"fewer made, other hits", func(s *metrics.Summary) {
			s.Servers.All.GenerationTokens, s.Servers.All.PrefixHitRatio = new(5_000.0), new(0.9)
		},
			"they count otherwise, or not all that serve were read"},
		{"one target reports, the counters tell of the other", func(s *metrics.Summary) {
			s.PrefixCache.ReportedHitRatio, s.PrefixCache.HitRatio, s.PrefixCache.CountedTokens = new(0.2), new(0.4), new(int64)
		}, ""},
		{"more made, but some unread", func(s *metrics.Summary) { s.Servers.All.GenerationTokens, s.Servers.Whole = new(12_000.0), false }, ""},
		{"more made, but not to the end", func(s *metrics.Summary) {
			s.Servers.All.GenerationTokens, s.Servers.All.Incomplete = new(12_000.0), true
		}, ""},
		{"more made, but restarted", func(s *metrics.Summary) { s.Servers.All.GenerationTokens, s.Servers.All.Restarts = new(12_000.0), 1 }, ""},
	} {
		s := agreeing()
		c.change(s)
		got := texts(serverNotes(s))
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCountedHits: counters stand for what responses do not report only where they are of the whole run and of nobody
// else.
func TestCountedHits(t *testing.T) {
	// counted is a server, all that were read, and a request that it answered.
	type counted struct {
		scrape.Server
		all *metrics.Servers
		r   *record.Record
	}
	for name, c := range map[string]struct {
		change func(c *counted)
		want   int64 // record.None = unknown
	}{
		"agreeing": {func(c *counted) {}, 600},
		"nearly": {func(c *counted) {
			c.PrefixQueries, c.PrefixHitRatio = new(1005.0), new(0.6)
		}, 600},
		"without their prompt": {func(c *counted) { c.PromptTokens = nil }, 600},
		"responses report":     {func(c *counted) { c.r.CachedTokens = 0 }, record.None},
		"not all were read":    {func(c *counted) { c.all.Whole = false }, record.None},
		"not to the end":       {func(c *counted) { c.Incomplete = true }, record.None},
		"started anew":         {func(c *counted) { c.Restarts = 1 }, record.None},
		"others' answers":      {func(c *counted) { c.GenerationTokens = new(120.0) }, record.None},
		"others' prompts":      {func(c *counted) { c.PromptTokens = new(1200.0) }, record.None},
		"blocks, not tokens":   {func(c *counted) { c.PrefixQueries = new(62.0) }, record.None},
		"no answers counted":   {func(c *counted) { c.GenerationTokens = nil }, record.None},
		"no hits counted":      {func(c *counted) { c.PrefixHitRatio = nil }, record.None},
		"another target":       {func(c *counted) { c.Target = "http://b" }, record.None},
	} {
		var r record.Record
		r.Clear()
		r.Outcome, r.PromptTokens, r.CompletionTokens, r.TokensFrom, r.LeastCachedTokens, r.MostCachedTokens = record.OK, 1000, 100, record.TokensFromUsage, 512, 512
		of := counted{all: &metrics.Servers{Whole: true}, r: &r, Server: scrape.Server{Target: "http://a", PrefixHitRatio: new(0.6), Counts: scrape.Counts{PrefixQueries: new(1000.0), PromptTokens: new(1000.0), GenerationTokens: new(100.0)}}}
		c.change(&of)
		all := of.all
		all.Targets = []scrape.Server{of.Server}
		m := NewCollector([]string{"http://a"})
		m.Add(&r, 0)
		if got := m.CountedHits(all); got[0] != c.want {
			t.Errorf("%s: %d, want %d", name, got[0], c.want)
		}
		sum := m.Summary(metrics.Summary{Requests: metrics.Requests{Planned: 1}, Servers: all, Limits: metrics.DefaultLimits()}, Probed{NoteUnlessReported: "cache_salt unproven"})
		notes := strings.Join(sum.Notes, "\n")
		if open := strings.Contains(notes, "cache_salt"); open != (c.want == record.None && name != "responses report") {
			t.Errorf("%s: whether the salt works is open: %v; %q", name, open, sum.Notes)
		}
		warm := strings.Contains(strings.Join(said(sum.Verdict), "\n"), "by the server counters requests hit 88 tokens more than an ideal cold cache could")
		if cache := sum.PrefixCache; warm != (c.want == 600) || warm && (*cache.HitRatio != 0.6 || cache.HitsFrom != "server counters" || cache.UnreportedRequests != 0) {
			t.Errorf("%s: %+v, %q", name, cache, sum.Verdict.Reasons)
		}
	}
	if got := NewCollector([]string{"http://a"}).CountedHits(nil); got[0] != record.None {
		t.Errorf("nobody was read: %d", got[0])
	}
}

// TestTransfersByInstance: how long transfers took stands with the instance that the page is of, by its address or by the
// first part of its host's name, and with none if that may be several.
func TestTransfersByInstance(t *testing.T) {
	page := func(url string, transfers, tookS float64) scrape.Server {
		return scrape.Server{Target: url, Counts: scrape.Counts{Transfers: &transfers, TransferS: &tookS}}
	}
	pages := []scrape.Server{
		page("http://decode-0.llm.svc:8000", 40, 0.5),
		page("http://prefill-1.llm.svc:8000/metrics", 10, 0.3),
		page("http://10.0.0.7:8000", 4, 0.02),
		page("http://10.0.0.8:8000", 4, 0.04),
		page("http://10.0.0.8:9000", 4, 0.08),
		page("http://[fd00::1]:8000", 5, 0.01),
		page("http://10.0.0.9:8000", 0, 0),
		{Target: "http://idle.llm.svc:8000"},
	}
	want := map[string]float64{
		"decode-0": 12.5, "prefill-1": 30, "10.0.0.7:8000": 5, "10.0.0.7": 5, "10.0.0.8:9000": 20, "10.0.0.8:8000": 10,
		"fd00::1": 2, "[fd00::1]:8000": 2, "http://10.0.0.7:8000": 5, "10.0.0.8": 0, "10": 0, "decode": 0, "decode-00": 0, "idle": 0, "10.0.0.9": 0, "8000": 0,
	}
	c := NewCollector([]string{"http://gateway"})
	for name := range want {
		for _, prefills := range []bool{false, true} {
			r := sentAt(0, record.OK, 20*ms)
			r.Instance = name
			if prefills {
				r.Instance, r.PrefillInstance = "other", name
			}
			c.Add(r, 0)
		}
	}
	s := c.Summary(metrics.Summary{Servers: &metrics.Servers{Servers: scrape.Servers{Targets: pages}}}, Probed{})
	for _, parts := range [][]metrics.Part{s.Instances.Parts, s.Prefills.Parts} {
		for _, part := range parts {
			got := 0.0
			if part.KVTransferMS != nil {
				got = *part.KVTransferMS
			}
			expect.Near(t, got, want[part.Name], 1e-9, "the transfers of %q", part.Name)
		}
	}
	expect.Equal(t, len(s.Prefills.Parts), len(want), "instances that prefilled")
}
