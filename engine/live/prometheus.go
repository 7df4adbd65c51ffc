package live

import (
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

const buckets = 25

// bucketsNS are the upper bounds of every histogram: 1, 2.5 and 5 times each power of ten from 10 µs to 1,000 s.
func bucketsNS() (bounds [buckets]int64) {
	first := []int64{10_000, 25_000, 50_000}
	for i := range bounds {
		bounds[i] = int64(math.Pow10(i/3)) * first[i%3]
	}
	return bounds
}

// Histogram counts all values of a run, as Prometheus wants them.
type Histogram struct {
	Cells [buckets + 1]int64 // the last is above all bounds
	SumNS int64
}

// bounds are bucketsNS, which nobody changes: to compute them takes longer than to count a request.
var bounds = bucketsNS()

func (h *Histogram) add(ns int64) {
	cell := sort.Search(buckets, func(i int) bool {
		return ns <= bounds[i]
	})
	h.Cells[cell]++
	h.SumNS += ns
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Metrics returns the run as a page for Prometheus.
func (s *Snapshot) Metrics() []byte {
	p := &format.Exposition{}
	left := seconds(s.LeftNS)
	if s.LeftNS < 0 {
		left = math.NaN()
	}
	p.Value(p.Head("info", "", "The run."), 1, "version", s.Version, "run", s.Title)
	for _, m := range []struct {
		name, help string
		value      float64
	}{
		{"requests_planned", "Requests of the whole run.", float64(s.Requests)},
		{"requests_sent_total", "Requests sent.", float64(s.Sent)},
		{"requests_due_total", "Requests whose planned time has come.", s.Due},
		{"requests_in_flight", "Requests that were sent and have not ended.", float64(s.InFlight)},
		{"progress_ratio", "Share of the run that is over, 0 to 1.", s.Share},
		{"remaining_seconds", "Estimated time until the last request is sent.", left},
	} {
		name := p.Head(m.name, "", m.help)
		p.Value(name, m.value)
	}
	name := p.Head("requests_total", "", "Requests that ended, by target, outcome and HTTP status.")
	for _, t := range s.Targets {
		ok := record.OK.String()
		p.Value(name, float64(t.OK), "target", t.URL, "outcome", ok, "status", "200")
		for _, k := range t.kinds() {
			status := ""
			if k.Status > 0 {
				status = strconv.FormatInt(k.Status, 10)
			}
			n := float64(t.Errors[k])
			p.Value(name, n, "target", t.URL, "outcome", k.Outcome.String(), "status", status)
		}
	}
	for _, m := range []struct {
		name, help string
		of         func(*Target) float64
	}{
		{"generation_tokens_total", "Completion tokens of requests that ended ok.",
			func(t *Target) float64 { return float64(t.Generated) }},
		{"prompt_tokens_total", "Prompt tokens of requests that ended ok, as servers counted them.",
			func(t *Target) float64 { return float64(t.Prompt) }},
		{"prompt_tokens_cached_total", "Of these the tokens that servers found in their prefix caches.",
			func(t *Target) float64 { return float64(t.Cached) }},
		{"server_requests_running", "Requests that run, as the servers of the target report.",
			func(t *Target) float64 { return t.Running }},
		{"server_requests_waiting", "Requests in the queue, as the servers of the target report.",
			func(t *Target) float64 { return t.Waiting }},
		{"server_kv_cache_usage_ratio",
			"Share of the KV cache in use, 0 to 1, as the servers of the target report.",
			func(t *Target) float64 { return t.KVUsage }},
	} {
		name := p.Head(m.name, "", m.help)
		for _, t := range s.Targets {
			p.Value(name, m.of(&t), "target", t.URL)
		}
	}
	s.histograms(p)
	s.owners(p)
	return []byte(p.String())
}

func (s *Snapshot) histograms(p *format.Exposition) {
	for i, l := range metrics.Latencies() {
		if l.LiveName == "" {
			continue
		}
		name := p.Head(l.LiveName, "histogram", l.LiveHelp)
		for _, t := range s.Targets {
			t.Histograms[i].write(p, name, "target", t.URL)
		}
	}
}

// write appends the samples of a histogram with these labels.
func (h *Histogram) write(p *format.Exposition, name string, labels ...string) {
	var sum int64
	for j, n := range h.Cells {
		bound := "+Inf"
		if j < buckets {
			bound = strconv.FormatFloat(seconds(bounds[j]), 'g', -1, 64)
		}
		sum += n
		p.Value(name+"_bucket", float64(sum), slices.Concat(labels, []string{"le", bound})...)
	}
	p.Value(name+"_sum", seconds(h.SumNS), labels...)
	p.Value(name+"_count", float64(sum), labels...)
}

// owners appends what became of the requests of each owner. Beyond the first 1,024 all labels are empty.
func (s *Snapshot) owners(p *format.Exposition) {
	if len(s.Owned) == 0 {
		return
	}
	labels := map[rows.Owner][]string{}
	for of := range s.Owned {
		for _, field := range rows.OwnerFields() {
			labels[of] = append(labels[of], field, of.Value(field))
		}
	}
	sorted := slices.SortedFunc(maps.Keys(labels), func(x, y rows.Owner) int {
		return slices.Compare(labels[x], labels[y])
	})
	name := p.Head("owner_requests_total", "", "Requests that ended, by whose they are and outcome.")
	for _, of := range sorted {
		own := s.Owned[of]
		p.Value(name, float64(own.OK), append(labels[of], "outcome", record.OK.String())...)
		p.Value(name, float64(own.Failed), append(labels[of], "outcome", "failed")...)
	}
	name = p.Head("owner_time_to_first_token_seconds", "histogram", "TTFT by whose requests they are.")
	for _, of := range sorted {
		own := s.Owned[of]
		own.TTFT.write(p, name, labels[of]...)
	}
}
