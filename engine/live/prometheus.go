package live

import (
	"sort"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
)

// The histograms of a target.
const (
	ttftHistogram = iota
	tpotHistogram
	e2eHistogram
	lateHistogram
	histograms
)

// bucketsNS are the upper bounds of every histogram: 1, 2.5 and 5 times each power of ten from 10 µs to 1,000 s.
func bucketsNS() (bounds [buckets]int64) {
	i := 0
	for decade := int64(1e4); i < buckets; decade *= 10 {
		for _, tenths := range [...]int64{10, 25, 50} {
			if i < buckets {
				bounds[i] = decade * tenths / 10
				i++
			}
		}
	}
	return bounds
}

const buckets = 25

// totals count all values of a run.
type totals struct {
	cells [buckets + 1]int64 // the last is above all bounds
	sumNS int64
}

func (t *totals) add(ns int64) {
	bounds := bucketsNS()
	t.cells[sort.Search(buckets, func(i int) bool { return ns <= bounds[i] })]++
	t.sumNS += ns
}

// page gathers metrics in Prometheus' text format, version 0.0.4.
type page struct{ out []byte }

// head begins a metric.
func (p *page) head(name, kind, help string) {
	p.out = append(p.out, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// value appends a sample; labels are names and values in turn.
func (p *page) value(name string, v float64, labels ...string) {
	p.out = append(p.out, name...)
	for i := 0; i < len(labels); i += 2 {
		p.out = append(p.out, "{,"[min(i, 1)])
		p.out = append(append(p.out, labels[i]...), `="`...)
		p.out = append(append(p.out, escape(labels[i+1])...), '"')
	}
	if len(labels) > 0 {
		p.out = append(p.out, '}')
	}
	p.out = append(strconv.AppendFloat(append(p.out, ' '), v, 'g', -1, 64), '\n')
}

func escape(label string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(label, "\uFFFD"))
}

// one appends a metric of one sample.
func (p *page) one(name, kind, help string, v float64, labels ...string) {
	p.head(name, kind, help)
	p.value(name, v, labels...)
}

// AppendMetrics appends all that the meter has counted as a page for Prometheus.
func (m *Meter) AppendMetrics(dst []byte, c Counts) []byte {
	s := m.Snapshot(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &page{dst}
	p.one("fastreplay_info", "gauge", "The run.", 1, "version", s.Version, "run", s.Title)
	p.one("fastreplay_requests_planned", "gauge", "Requests of the whole run.", float64(s.Requests))
	p.one("fastreplay_requests_sent_total", "counter", "Requests sent, re-sends included.", float64(s.Sent))
	p.one("fastreplay_requests_in_flight", "gauge", "Requests that were sent and have not ended.", float64(s.InFlight))
	p.one("fastreplay_progress_ratio", "gauge", "Share of the run that is over, 0 to 1.", s.Share)
	if s.LeftNS >= 0 {
		p.one("fastreplay_remaining_seconds", "gauge", "Estimated time until the last request is sent.", seconds(s.LeftNS))
	}
	if s.ReleaseNS != nil {
		p.one("fastreplay_requests_due_total", "counter", "Requests whose planned time has come.", float64(m.at(s.NowNS).dueBy))
	}
	m.appendOutcomes(p)
	m.appendTokens(p)
	for i, h := range [histograms][2]string{
		{"fastreplay_time_to_first_token_seconds", "From sending to the first token, of requests that ended ok."},
		{"fastreplay_time_per_output_token_seconds", "Time for each token after the first, of requests that ended ok."},
		{"fastreplay_e2e_request_latency_seconds", "From sending to the last token, of requests that ended ok."},
		{"fastreplay_request_lateness_seconds", "How long after its planned time each request was sent."},
	} {
		p.head(h[0], "histogram", h[1])
		for j := range m.targets {
			p.histogram(h[0], m.plan.Targets[j], &m.targets[j].totals[i])
		}
	}
	s.appendServers(p)
	return p.out
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func (m *Meter) appendOutcomes(p *page) {
	const name = "fastreplay_requests_total"
	p.head(name, "counter", "Requests that ended, by target, outcome and HTTP status.")
	for i := -1; i < len(m.targets); i++ {
		t, url := &m.none, ""
		if i >= 0 {
			t, url = &m.targets[i], m.plan.Targets[i]
			p.value(name, float64(t.ok), "target", url, "outcome", record.OK.String(), "status", "200")
		}
		for _, e := range t.errors {
			status := ""
			if e.Status > 0 {
				status = strconv.FormatInt(e.Status, 10)
			}
			p.value(name, float64(e.Count), "target", url, "outcome", e.Outcome.String(), "status", status)
		}
	}
}

func (m *Meter) appendTokens(p *page) {
	for _, c := range []struct {
		name, help string
		of         func(*target) int64
	}{
		{"fastreplay_generation_tokens_total", "Completion tokens of requests that ended ok.", func(t *target) int64 { return t.generated }},
		{"fastreplay_prompt_tokens_total", "Prompt tokens of requests that ended ok, as servers counted them.", func(t *target) int64 { return t.prompt }},
		{"fastreplay_prompt_tokens_cached_total", "Of these the tokens that servers found in their prefix caches.", func(t *target) int64 { return t.cached }},
	} {
		p.head(c.name, "counter", c.help)
		for i := range m.targets {
			p.value(c.name, float64(c.of(&m.targets[i])), "target", m.plan.Targets[i])
		}
	}
}

func (p *page) histogram(name, url string, t *totals) {
	sum := int64(0)
	for i, bound := range bucketsNS() {
		sum += t.cells[i]
		p.value(name+"_bucket", float64(sum), "target", url, "le", strconv.FormatFloat(seconds(bound), 'g', -1, 64))
	}
	sum += t.cells[buckets]
	p.value(name+"_bucket", float64(sum), "target", url, "le", "+Inf")
	p.value(name+"_sum", seconds(t.sumNS), "target", url)
	p.value(name+"_count", float64(sum), "target", url)
}

func (s *Snapshot) appendServers(p *page) {
	for _, g := range []struct {
		name, help string
		of         func(*Target) *float64
	}{
		{"fastreplay_server_requests_running", "Requests that run, as the servers of the target report.", func(t *Target) *float64 { return t.Server.Running }},
		{"fastreplay_server_requests_waiting", "Requests in the queue, as the servers of the target report.", func(t *Target) *float64 { return t.Server.Waiting }},
		{"fastreplay_server_kv_cache_usage_ratio", "Share of the KV cache in use, 0 to 1, as the servers of the target report.", func(t *Target) *float64 { return t.Server.KVUsage }},
	} {
		p.head(g.name, "gauge", g.help)
		for i := range s.Targets {
			if v := g.of(&s.Targets[i]); v != nil {
				p.value(g.name, *v, "target", s.Targets[i].URL)
			}
		}
	}
}
