package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// TestPrintServers: what servers say stands beside what we saw, and what they do not say is left out.
func TestPrintServers(t *testing.T) {
	p := func(v float64) *float64 { return &v }
	s := &metrics.Summary{
		InFlight: p(61.46), Tokens: metrics.Tokens{Completion: 72_468}, PrefixCache: metrics.PrefixCache{ReportedHitRatio: p(0.5)},
		Servers: &metrics.Servers{Servers: scrape.Servers{All: scrape.Server{
			Running: &scrape.Gauge{Mean: 61.83, Max: 77}, Waiting: &scrape.Gauge{}, KVUsage: &scrape.Gauge{Mean: 0.25, Max: 0.5},
			PrefixHitRatio: p(0.4994), Counts: scrape.Counts{Preemptions: p(3), GenerationTokens: p(72_500)},
		}}},
	}
	print := func() string {
		var out bytes.Buffer
		if err := Print(&out, s, PrintOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	want := "servers running 61.8 mean, 77 max waiting 0 mean, 0 max in flight 61.5 mean KV use 25 % mean, 50 % max 49.94 % hits counted, 50 % reported 3 preempted 72,500 tokens made 72,468 received"
	if got := print(); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	s.Servers.All, s.PrefixCache.ReportedHitRatio = scrape.Server{PrefixHitRatio: p(0.25)}, nil
	if got := print(); !strings.Contains(got, "servers in flight 61.5 mean 25 % hits counted 72,468 received") {
		t.Error(got)
	}
	s.Servers = nil
	if got := print(); strings.Contains(got, "servers ") {
		t.Error(got)
	}
}
