package live

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

// samples returns the values of a page by names with their labels, after the parser of servers' pages took it.
func samples(t *testing.T, page []byte) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	must.Do(t, scrape.Lines(page, func(name []byte, labels scrape.Labels, value float64) {
		key := string(name)
		if len(labels) > 0 {
			key += "{" + strings.TrimRight(string(labels), "}") + "}"
		}
		out[key] = value
	}))
	return out
}

// TestMetrics reads the page with the parser of servers' pages, and compares it with what was added.
func TestMetrics(t *testing.T) {
	m := NewMeter(Plan{Title: "a\"b\\c\nd", Version: "1", Targets: []string{"http://a", "http://b"}, ReleaseNS: []int64{0, 1e9, 3e9}, UntilNS: math.MaxInt64, Requests: 12})
	ttfts := []int64{9_000, 10_000, 10_001, 30e6, 2000e9}
	sum := 0.0
	for _, ns := range ttfts {
		m.Add(1e9, completed(0, 1_000_000, ns, 10, 5e6), 0)
		sum += float64(ns) / 1e9
	}
	m.Add(1e9, failed(0, 1, 503), 1)
	m.Sample(0, sampled("http://b", 3, 2, 0.25))
	got := samples(t, m.Snapshot(Counts{NowNS: 2e9, Sent: 6, OK: 5, InFlight: 1, Left: 2}).Metrics())
	want := map[string]float64{
		`fastreplay_info{version="1",run="a\"b\\c\\nd"}`: 1, "fastreplay_requests_planned": 12, "fastreplay_requests_sent_total": 6,
		"fastreplay_requests_in_flight": 1, "fastreplay_requests_due_total": 2, "fastreplay_progress_ratio": 0.5,
		`fastreplay_requests_total{target="http://a",outcome="ok",status="200"}`: 5, `fastreplay_requests_total{target="http://b",outcome="ok",status="200"}`: 0,
		`fastreplay_requests_total{target="http://b",outcome="http_error",status="503"}`: 1,
		`fastreplay_generation_tokens_total{target="http://a"}`:                          50, `fastreplay_prompt_tokens_total{target="http://a"}`: 5000,
		`fastreplay_prompt_tokens_cached_total{target="http://a"}`:        2700,
		`fastreplay_server_requests_running{target="http://b"}`:           3,
		`fastreplay_server_requests_waiting{target="http://b"}`:           2,
		`fastreplay_server_kv_cache_usage_ratio{target="http://b"}`:       0.25,
		`fastreplay_request_lateness_seconds_count{target="http://a"}`:    5,
		`fastreplay_time_to_first_token_seconds_count{target="http://a"}`: 5,
		`fastreplay_time_per_output_token_seconds_sum{target="http://a"}`: 0.025,
	}
	for _, bound := range bucketsNS() {
		n := 0
		for _, ns := range ttfts {
			if ns <= bound {
				n++
			}
		}
		want[fmt.Sprintf(`fastreplay_time_to_first_token_seconds_bucket{target="http://a",le="%g"}`, float64(bound)/1e9)] = float64(n)
	}
	want[`fastreplay_time_to_first_token_seconds_bucket{target="http://a",le="+Inf"}`] = 5
	for key, v := range want {
		if value, there := got[key]; !there || value != v {
			t.Errorf("%s is %g (%t), want %g", key, value, there, v)
		}
	}
	expect.Near(t, got[`fastreplay_time_to_first_token_seconds_sum{target="http://a"}`], sum, 1e-9, "the sum")
}

// of is the record of a class.
func of(class string, r *record.Record) *record.Record {
	r.Class, r.Model = class, "lora\"1"
	return r
}

// TestOwnedMetrics: requests are counted by whose they are, and none of nobody's; those of owners beyond the bound count
// together.
func TestOwnedMetrics(t *testing.T) {
	m := NewMeter(Plan{Targets: []string{"http://a"}, Requests: 12})
	m.Add(1e9, completed(0, 0, 7e6, 10, 5e6), 0)
	if page := m.Snapshot(Counts{}).Metrics(); strings.Contains(string(page), "owner") {
		t.Errorf("nobody's requests have an owner:\n%s", page)
	}
	for range 3 {
		m.Add(1e9, of("gold", completed(0, 0, 7e6, 10, 5e6)), 0)
	}
	m.Add(1e9, of("gold", failed(0, 1, 503)), 0)
	for i := range mostOwned + 10 {
		m.Add(1e9, of(fmt.Sprint("class-", i), completed(0, 0, 7e6, 10, 5e6)), 0)
	}
	got := samples(t, m.Snapshot(Counts{NowNS: 2e9}).Metrics())
	const gold = `class="gold",tenant="",model="lora\"1",priority=""`
	for key, want := range map[string]float64{
		"fastreplay_owner_requests_total{" + gold + `,outcome="ok"}`:                            3,
		"fastreplay_owner_requests_total{" + gold + `,outcome="failed"}`:                        1,
		"fastreplay_owner_time_to_first_token_seconds_bucket{" + gold + `,le="0.005"}`:          0,
		"fastreplay_owner_time_to_first_token_seconds_bucket{" + gold + `,le="0.01"}`:           3,
		"fastreplay_owner_time_to_first_token_seconds_count{" + gold + `}`:                      3,
		`fastreplay_owner_requests_total{class="",tenant="",model="",priority="",outcome="ok"}`: 11,
	} {
		if value, there := got[key]; !there || value != want {
			t.Errorf("%s is %g (%t), want %g", key, value, there, want)
		}
	}
}

// TestJoinedTargets: what joins during the run is a target of its own, with what its server says; what fails without a
// target is none's.
func TestJoinedTargets(t *testing.T) {
	m := NewMeter(Plan{Targets: []string{"http://a"}, Requests: 12})
	joined := completed(0, 0, 7e6, 10, 5e6)
	joined.Target = "http://new"
	m.Add(1e9, joined, 5)
	m.Add(1e9, joined, 5)
	m.Add(1e9, failed(0, 1, 503), -1)
	m.Sample(3, sampled("http://new", 3, 2, 0.25))
	m.Sample(4, sampled("http://elsewhere", 3, 2, 0.25))
	got := samples(t, m.Snapshot(Counts{NowNS: 2e9}).Metrics())
	for key, want := range map[string]float64{
		`fastreplay_requests_total{target="http://new",outcome="ok",status="200"}`: 2,
		`fastreplay_requests_total{target="http://a",outcome="ok",status="200"}`:   0,
		`fastreplay_requests_total{target="",outcome="http_error",status="503"}`:   1,
		`fastreplay_server_requests_running{target="http://new"}`:                  3,
		`fastreplay_time_to_first_token_seconds_count{target="http://new"}`:        2,
	} {
		if value, there := got[key]; !there || value != want {
			t.Errorf("%s is %g (%t), want %g", key, value, there, want)
		}
	}
}

// TestDashboard: the page has every metric that the dashboard uses, and the dashboard uses every metric of the page.
func TestDashboard(t *testing.T) {
	text := must.Have(os.ReadFile("../../scripts/grafana/fastreplay.json"))(t)
	m, c := steady(2, 40, false)
	m.Add(1e9, of("gold", completed(0, 1e6, 1e6, 10, 5e6)), 0)
	served := map[string]bool{}
	for key := range samples(t, m.Snapshot(c).Metrics()) {
		name, _, _ := strings.Cut(key, "{")
		served[name] = true
	}
	used := regexp.MustCompile(`fastreplay_\w+`).FindAllString(string(text), -1)
	for _, name := range used {
		if !served[name] {
			t.Errorf("the dashboard uses %s, which is not served", name)
		}
	}
	for name := range served {
		if !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") && !slices.Contains(used, name) {
			t.Errorf("%s is served, and not on the dashboard", name)
		}
	}
}
