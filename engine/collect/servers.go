package collect

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// What counts as a contradiction between a server's counters and what was received from it.
const (
	hitTolerance   = 0.01 // of the prefix hit ratio
	tokenTolerance = 0.01 // of the tokens that were received
	longQueue      = 0.5  // of the samples found a queue
)

// agree reports whether a server's count and ours are the same, but for a tolerance.
func agree(theirs *float64, ours int64) bool {
	return theirs != nil &&
		math.Abs(*theirs-float64(ours)) <= tokenTolerance*max(*theirs, float64(ours))
}

// CountedHits returns, by target, how many prompt tokens of our requests its server counted as prefix hits. It is
// record.None if the responses report hits themselves, or if the counters do not cover the run. It is also record.None
// if they disagree with the tokens that we received: then others used the server, too. Call it after the last Add.
func (c *Collector) CountedHits(servers *metrics.Servers) []int64 {
	hits := make([]int64, len(c.targets))
	for i := range c.targets {
		hits[i] = record.None
		if t := &c.targets[i]; servers != nil && servers.Whole &&
			servers.Apart == "" && t.Cache.Reports == 0 {
			at := slices.IndexFunc(servers.Targets, func(s scrape.Server) bool { return s.Target == c.urls[i] })
			if at >= 0 && coversUsAlone(&servers.Targets[at], &t.Tokens.Tokens) {
				hits[i] = int64(math.Round(*servers.Targets[at].PrefixHitRatio * float64(t.Tokens.Prompt)))
			}
		}
	}
	return hits
}

// setTransfers sets how long KV transfers took at the instances that pages of metrics are of.
func setTransfers(servers *metrics.Servers, instances *metrics.Breakdown) {
	if servers == nil || instances == nil {
		return
	}
	for i := range instances.Parts {
		part := &instances.Parts[i]
		pages := 0
		for _, s := range servers.Targets {
			if stats.OrZero(s.Transfers) > 0 && s.TransferS != nil && isOf(s.Target, part.Name) {
				pages++
				part.KVTransferMS = new(*s.TransferS / *s.Transfers * 1e3)
			}
		}
		if pages > 1 { // any of them may be the instance's
			part.KVTransferMS = nil
		}
	}
}

// isOf reports whether the server at a URL may be the instance of that name: its URL, its address or its host. It may
// be the first part of its host's name, too, which is that of the pod in a StatefulSet of Kubernetes.
func isOf(at, instance string) bool {
	where, err := url.Parse(at)
	if err != nil {
		return false
	}
	names := []string{at, where.Host, where.Hostname()}
	if _, err := netip.ParseAddr(where.Hostname()); err != nil {
		pod, _, _ := strings.Cut(where.Hostname(), ".")
		names = append(names, pod)
	}
	return slices.Contains(names, instance)
}

// coversUsAlone reports whether a server's counters are of the whole run and of our requests only. An old vLLM counts
// hits in blocks, so that its queries are no tokens and disagree.
func coversUsAlone(s *scrape.Server, ours *metrics.Tokens) bool {
	return !s.Incomplete && s.Restarts == 0 && s.PrefixHitRatio != nil &&
		agree(s.GenerationTokens, ours.Completion) &&
		agree(s.PrefixQueries, ours.Prompt) && (s.PromptTokens == nil || agree(s.PromptTokens, ours.Prompt))
}

// serverNotes names where the servers' own numbers and ours contradict each other, and the faults that the servers
// report.
func serverNotes(s *metrics.Summary) metrics.Notes {
	if s.Servers == nil {
		return nil
	}
	var out metrics.Notes
	add := out.Add
	all := &s.Servers.All
	running := stats.OrZero(all.RunningBefore)
	preempted := stats.OrZero(all.Preemptions)
	add(running > 0,
		"running_before",
		"before the first request the servers were running %s already: others use them, or their gauges lag behind",
		format.Requests(int64(running)))
	for _, t := range s.Servers.Targets {
		add(t.Alternates,
			"metrics_alternate",
			"each reading of the metrics of %s is another server's, as behind a load balancer, so nothing is "+
				"summed: give each server's own page with --scrape-url",
			t.Target)
		add(t.Restarts > 0,
			"server_restarted",
			"the counters of %s fell %s: it was restarted, and what it counted since the sample before is missing",
			t.Target, format.Many(t.Restarts, "time"))
		down := slices.ContainsFunc(s.Outages, func(o metrics.Outage) bool { return o.Target == t.Target })
		add(t.Missed > 0 && !down, "metrics_missed", "%s did not answer %d of %s of its metrics, the last one: %s",
			t.Target, t.Missed, format.Many(t.Missed+t.Samples, "scrape"), format.Quote(t.Error))
	}
	add(s.Servers.Apart != "", "counts_apart", "the servers' counts are not those of this run: %s", s.Servers.Apart)
	add(preempted > 0,
		"preempted", "the servers preempted requests (%s): their KV caches were too small for what ran at once",
		format.Many(int64(preempted), "time"))
	if drafts := stats.OrZero(all.DraftTokens); drafts > 0 {
		made := ""
		if s.Workload.Verbatims < s.Workload.Requests {
			made = "; of prompts made of random tokens that says nothing about real text, and nor do TPOT and ITL"
		}
		add(true, "speculative", "speculative decoding: the servers' models accepted %s of %s%s",
			format.Percent(stats.OrZero(all.AcceptedTokens)/drafts),
			format.Many(int64(drafts), "draft token"), made)
	}
	if w := all.WaitingShare; w != nil && *w > longQueue {
		add(true,
			"servers_queued",
			"requests waited in the servers' queues in %s of the samples (%s on average): more were sent than they "+
				"serve at once",
			format.Percent(*w), format.Number(all.Waiting.Mean, 3))
	}
	out = append(out, hitNotes(s)...)
	return append(out, tokenNotes(s)...)
}

// hitNotes compares the prefix hits that the servers counted with those that their responses reported. If they made
// fewer tokens than arrived, other servers answered, too, whose hits nobody counted. tokenNotes has a note on that.
func hitNotes(s *metrics.Summary) metrics.Notes {
	counted := s.Servers.All.PrefixHitRatio
	reported := s.PrefixCache.ReportedHitRatio
	// of some targets: what the responses of the others report is no share of all
	if s.PrefixCache.CountedTokens != nil {
		reported = s.PrefixCache.HitRatio
	}
	made := s.Servers.All.GenerationTokens
	switch {
	case counted == nil, s.Window != nil: // its requests are not those between two samples
		return nil
	case tokensCompare(s.Servers) && *made < float64(s.Tokens.Completion) &&
		!agree(made, s.Tokens.Completion):
		return nil
	case reported == nil && s.PrefixCache.CountedTokens == nil && s.PrefixCache.ExpectedHitRatio != nil:
		return metrics.NotesOf(
			"hits_unreported",
			"responses report no cached tokens; by the servers' own counters %s of the prompt tokens hit, where "+
				"an ideal cache has %s",
			format.Percent(*counted), format.Percent(*s.PrefixCache.ExpectedHitRatio),
		)
	case reported == nil || math.Abs(*counted-*reported) <= hitTolerance:
		return nil
	}
	why := ""
	switch {
	case s.Servers.Apart != "":
		why = "; " + s.Servers.Apart
	case s.Servers.All.Incomplete:
		why = "; there is no reading of them after the run"
	case s.Servers.All.Restarts > 0:
		why = "; what they had counted just before one was restarted is missing"
	case s.Servers.All.ExternalHits == nil && fromConnector(s.PrefixCache.Tiers):
		why = "; vLLM's counters are of its own memory alone, the responses have what its connector brought, too"
	case s.Requests.Failed > 0:
		why = "; they count the failed ones, too"
	case s.PrefixCache.UnreportedRequests > 0:
		why = fmt.Sprintf("; they count %s whose answers do not report hits, too",
			format.Requests(s.PrefixCache.UnreportedRequests))
	case s.Servers.Whole:
		why = "; they count the requests of others, too, and those that they put back into the queue"
	default:
		why = "; not all of the servers were read"
	}
	return metrics.NotesOf(
		"hits_differ", "the servers count %s prefix hits during the run, the responses report %s%s",
		format.Percent(*counted), format.Percent(*reported), why)
}

// fromConnector reports whether answers tell of tokens that a connector brought as vLLM's do, which know no host tier.
func fromConnector(t *metrics.CacheTiers) bool {
	return t != nil && t.HostTokens == nil && t.ExternalTokens != nil && *t.ExternalTokens > 0
}

// tokensCompare reports whether the servers count the tokens that they made, from the start to the end of the run.
func tokensCompare(s *metrics.Servers) bool {
	return s.All.GenerationTokens != nil && s.Whole && s.Apart == "" &&
		!s.All.Incomplete && s.All.Restarts == 0
}

// tokenNotes compares the tokens that the servers made with those that came.
func tokenNotes(s *metrics.Summary) metrics.Notes {
	all := &s.Servers.All
	if !tokensCompare(s.Servers) {
		return nil
	}
	made := *all.GenerationTokens
	came := float64(s.Tokens.Completion)
	if agree(all.GenerationTokens, s.Tokens.Completion) {
		return nil
	}
	why := "others use them, too"
	switch {
	case made < came:
		why = "they count otherwise, or not all that serve were read (--scrape-url)"
	case s.Requests.Sent > s.Requests.OK:
		why = fmt.Sprintf("it went to %s that failed, or others use them, too",
			format.Requests(s.Requests.Sent-s.Requests.OK))
	case s.Requests.Resent > 0:
		why = fmt.Sprintf("%s sent twice, or others use them, too", format.Requests(s.Requests.Resent))
	}
	return metrics.NotesOf(
		"tokens_differ", "the servers made %s tokens during the run, and %s came in answers that ended ok: %s",
		format.Count(int64(made)), format.Count(int64(came)), why)
}
