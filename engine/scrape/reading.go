// Package scrape reads what inference servers report in Prometheus' text format. It parses their pages, has one table
// of their names for the same things, and sums up a run's samples.
//
// It opens no sockets (probe.Scraper does) and writes no files. A Reader or a Watch belongs to one goroutine. A Reader
// allocates for a series that it has not read before, and for what it returns. A Watch keeps no samples.
//
// The package is not an API: any release may change it.
package scrape

import (
	"math"
	"strings"
)

// Values are the quantities by name; nil = the server does not report it.
type Values struct {
	Running *float64 `json:"running"` // requests that run
	Waiting *float64 `json:"waiting"` // requests in the queue
	// share of the KV cache in use, 0 to 1, mean over the engines of the page
	KVUsage *float64 `json:"kv_usage"`
	PowerW  *float64 `json:"power_w,omitempty"` // power of all GPUs of the page, in W; absent if it has none
	Counts
}

// Counts are those of the quantities that only grow.
type Counts struct {
	PrefixHits       *float64 `json:"prefix_hits"`       // prompt tokens found in any tier of the prefix cache
	PrefixQueries    *float64 `json:"prefix_queries"`    // prompt tokens looked up in the prefix cache
	Preemptions      *float64 `json:"preemptions"`       // requests put back into the queue
	PromptTokens     *float64 `json:"prompt_tokens"`     // prompt tokens read
	GenerationTokens *float64 `json:"generation_tokens"` // tokens made
	Requests         *float64 `json:"requests"`          // requests that ended
	DraftTokens      *float64 `json:"draft_tokens"`      // tokens that speculative decoding proposed
	AcceptedTokens   *float64 `json:"accepted_tokens"`   // proposed tokens that the model accepted
	// of prefix_hits, those found in the host's memory; absent if no page has it
	HostHits *float64 `json:"host_hits,omitempty"`
	// of prefix_hits, those found beyond the engine and its host; in a sample of vLLM's with those of the host; absent
	// likewise
	ExternalHits *float64 `json:"external_hits,omitempty"`
	// transfers of KV caches between prefill and decode (vLLM's NIXL connector, SGLang); absent likewise
	Transfers *float64 `json:"kv_transfers,omitempty"`
	TransferS *float64 `json:"kv_transfer_s,omitempty"` // how long these took, summed; absent likewise
}

// at is the place of a quantity.
func (v *Values) at(q Quantity) **float64 {
	if q >= firstCounter {
		return v.Counts.at(q)
	}
	return [firstCounter]**float64{&v.Running, &v.Waiting, &v.KVUsage, &v.PowerW}[q]
}

// at is the place of a quantity from firstCounter on.
func (c *Counts) at(q Quantity) **float64 {
	return [Quantities - int(firstCounter)]**float64{
		&c.PrefixHits, &c.PrefixQueries, &c.Preemptions, &c.PromptTokens, &c.GenerationTokens, &c.Requests,
		&c.DraftTokens, &c.AcceptedTokens, &c.HostHits, &c.ExternalHits, &c.Transfers, &c.TransferS,
	}[q-firstCounter]
}

// Reading is what one page reports. Over the engines of a page counts are summed.
type Reading struct {
	// vllm, sglang, tgi, trtllm, triton, dynamo or, of GPUs alone, dcgm; "" if none of their names is on the page
	Engine  string `json:"engine"`
	Engines int    `json:"engines"`        // how many engines the page describes
	GPUs    int    `json:"gpus,omitempty"` // how many GPUs the page has the power of
	Values
	MostKVUsage *float64 `json:"kv_usage_max"` // share of the KV cache in use of the engine with the most
	// when the server's process began, Unix time; null if the page does not report it
	BeganS *float64 `json:"began_s"`
	// LoRA adapters that requests ran with since the reading before, with commas between them (vLLM); absent if it
	// reports none
	Adapters string `json:"adapters,omitempty"`
}

// maxValue bounds what a server can mean, so that sums stay finite. What is beyond, below 0 or no number counts as not
// reported.
const maxValue = 1e18

// maxSeries bounds the series of a family that are distinguished.
const maxSeries = 4096

// Reader reads pages. Make it with NewReader.
type Reader struct {
	families []family
	named    map[string][]int // places in families
	found    []found          // by family
	pages    int
	key      []byte
	began    *float64 // of the page; nil = not reported
	adapters string   // likewise
	saidAtS  float64  // the latest time that the page has of adapters, Unix time
	sinceS   float64  // that of the page before
}

// runningAdapters is vLLM's name of a series for each set of LoRA adapters that ever ran together. Its value is when
// they last did, Unix time (vllm/v1/metrics/loggers.py).
const runningAdapters = "vllm:lora_requests_info"

// processBegan is the process collector's name, in Python's client and in others
// (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics).
const processBegan = "process_start_time_seconds"

// found is what the page has of a family.
type found struct {
	series map[string]*series // by the labels that distinguish them
	page   int                // the last page that had one
}

type series struct {
	page  int
	value float64
}

// NewReader returns a reader of any server's page.
func NewReader() *Reader {
	r := &Reader{families: families(), named: map[string][]int{}}
	r.found = make([]found, len(r.families))
	for i, f := range r.families {
		r.named[f.name] = append(r.named[f.name], i)
		r.found[i].series = map[string]*series{}
	}
	return r
}

// Read returns what a page reports; a page without any known name is not an error, a page of another format is.
func (r *Reader) Read(page []byte) (Reading, error) {
	r.pages++
	r.began = nil
	r.adapters = ""
	r.sinceS = r.saidAtS
	if err := Lines(page, r.add); err != nil {
		return Reading{}, err
	}
	out := Reading{BeganS: r.began, Adapters: r.adapters}
	for i, f := range r.families {
		if out.Engine == "" && r.found[i].page == r.pages {
			out.Engine = f.engine
		}
		if to := out.at(f.of); (f.engine == out.Engine || f.of == GPUPower) && *to == nil {
			r.fold(i, &out)
		}
	}
	if out.Engine == "vllm" && out.PrefixHits != nil && out.ExternalHits != nil { // which are not among vLLM's own
		*out.PrefixHits += *out.ExternalHits
	}
	return out, nil
}

// add keeps a sample of a known family.
func (r *Reader) add(name []byte, labels Labels, value float64) {
	if string(name) == processBegan && value > 0 && value <= maxValue {
		r.began = new(value)
	}
	if string(name) == runningAdapters && value > r.sinceS && value <= maxValue {
		r.adapters = strings.Trim(r.adapters+","+labels.Get("running_lora_adapters"), ",")
		r.saidAtS = max(r.saidAtS, value)
	}
	for _, i := range r.named[string(name)] {
		f := &r.families[i]
		at := &r.found[i]
		if !(value >= 0 && value <= maxValue) || f.label != "" && labels.Get(f.label) != f.value {
			continue
		}
		r.key = appendKey(r.key[:0], labels)
		if id := labels.Get(f.by); id != "" {
			r.key = append(r.key[:0], id...)
		}
		s := at.series[string(r.key)]
		if s == nil {
			if len(at.series) == maxSeries {
				continue
			}
			s = &series{}
			at.series[string(r.key)] = s
		}
		if s.page != r.pages || value > s.value {
			s.value = value
		}
		s.page = r.pages
		at.page = r.pages
	}
}

// appendKey appends the labels that distinguish a series from those of other engines.
func appendKey(dst []byte, labels Labels) []byte {
	for name, value := range labels.each {
		switch string(name) {
		case "tp_rank", "pp_rank", "moe_ep_rank", "pid":
			// of workers of one engine, which all report the same: one of them counts
		default:
			dst = append(append(append(append(dst, name...), '='), value...), 0)
		}
	}
	return dst
}

// fold makes one number of a family's series on the page, if there are any.
func (r *Reader) fold(i int, out *Reading) {
	sum := 0.0
	most := math.Inf(-1)
	n := 0
	for _, s := range r.found[i].series {
		if s.page == r.pages {
			sum += s.value
			most = max(most, s.value)
			n++
		}
	}
	if n == 0 {
		return
	}
	switch f := &r.families[i]; {
	case f.of == KVUsage:
		sum /= float64(n)
		out.MostKVUsage = &most
	case f.most:
		sum = most
	case f.inMS:
		sum /= 1e3
	}
	switch r.families[i].of {
	case Running, KVUsage:
		out.Engines = max(out.Engines, n)
	case GPUPower:
		out.GPUs = n
	}
	*out.at(r.families[i].of) = &sum
}

// Total sums a quantity over what pages report, and counts those that have it; NaN if none does.
func Total[K comparable](pages map[K]Reading, q Quantity) (sum, n float64) {
	for _, r := range pages {
		if v := *r.at(q); v != nil {
			sum += *v
			n++
		}
	}
	if n == 0 {
		return math.NaN(), 0
	}
	return sum, n
}

// Phase is when a sample was taken.
type Phase string

// The phases of a run.
const (
	Before Phase = "before" // the first request, and after probes, warm-up and flush
	During Phase = "during"
	After  Phase = "after" // the last request had ended
)

// Sample is what one server reported at one moment: a line of server_metrics.jsonl.
type Sample struct {
	// when the answer was there, since the start of the run; -1 s if before it, when nobody knows yet how long. The
	// first sample of a server that joins is from the moment before it joined
	AtNS int64 `json:"at_ns"`
	// before (the first request to the server, after probes and warm-up), during, or after (the last request)
	Phase  Phase   `json:"phase"`
	Target string  `json:"target"`          // URL as results name it, or the page of --scrape-url
	URL    string  `json:"url"`             // the page, with the address that was asked in place of the name
	TookMS float64 `json:"took_ms"`         // from the question to the whole answer
	Error  string  `json:"error,omitempty"` // why there is no reading; absent otherwise
	Reading
}
