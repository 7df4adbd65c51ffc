// Package compare says what changed from one run to another: by how much, how surely, and in which requests.
//
// Runs of the same workload send the same bytes at the same instants, so they pair request by request. The package
// reads results from disk and computes; it sends nothing and starts nothing.
//
// The package is not an API: any release may change it.
package compare

import "github.com/fastreplay/fastreplay/engine/metrics"

// Result is what changed from A to B.
type Result struct {
	Schema int      `json:"schema"` // version of this form
	A      Identity `json:"a"`      // with what B is compared
	B      Identity `json:"b"`      // what changed, or not
	Paired bool     `json:"paired"` // the workloads are equal, and values are compared request by request
	// those that are ok in all runs; without pairs, the fewest ok requests of a run
	Requests int64 `json:"requests"`
	// of what the intervals hold. "servers": several runs a side, so what differs from run to run is in them. "pair":
	// of these runs alone, since a side has one. "none": there are none
	Scope     string     `json:"scope"`
	Margin    float64    `json:"margin"`    // within which an interval is called same: 0.01 is 1 %, or 1 point of a share
	Metrics   []Metric   `json:"metrics"`   // all that is compared
	Owners    []Part     `json:"owners"`    // the same by class, tenant, model and priority, if rows say whose they are
	Actions   []Acted    `json:"actions"`   // of runs with --at
	Explained []Culprits `json:"explained"` // of the metrics that changed
	Notes     []string   `json:"notes"`     // whole sentences

	separate     bool            // the sides were run one behind the other, or nobody knows
	otherwise    string          // in what sides differ of which one was sent without some requests; "" = in that alone
	ofAll        []string        // owners of all requests, such as class=gold
	leftOut      []string        // owners that Owners does not have for the many that there are
	unlikeCaches string          // the flag by which runs began with other caches; "" if none
	shift        *metrics.Reason // why numbers of a run may be others; nil if none has it
	overloaded   []string        // the sides with a run whose servers could not carry the load
	outages      []string        // likewise, of which servers were down for a while
	bounds       []metrics.SLO   // of goodput
	failed       [2]int64        // requests of A and of B that error_rate counts as failed …
	counted      [2]int64        // … of all that it counts
}

// Identity names a side and the workload that it was sent.
type Identity struct {
	Name        string   `json:"name"`        // as people call it: the target's URL, or the directory
	Dirs        []string `json:"dirs"`        // of its runs
	Fingerprint string   `json:"fingerprint"` // of what was sent, as in summary.json
	Verdict     string   `json:"verdict"`     // of the worst of its runs: VALID, LIMITED or INVALID; RECORDED of a trace
	Demo        bool     `json:"demo"`        // one of its runs went to the embedded mock, not to a server
}

// The scopes of a result.
const (
	ScopeServers = "servers"
	ScopePair    = "pair"
	ScopeNone    = "none"
)

// The changes of a metric. Better and worse follow from the metric: a longer time is worse, a higher rate is better.
// A single run of a side never tells better, worse or same, since nobody knows what other runs would have shown.
const (
	Better  = "better"
	Worse   = "worse"
	Same    = "same"    // the interval holds 0, and lies within the margin
	Differs = "differs" // the interval excludes 0, and a side has a single run
	Unclear = "unclear" // the interval holds 0 and reaches beyond the margin, or a side has a single run
	// there is no interval, or it holds 0, and requests depend on each other for longer than one pair of runs allows
	Unknown = "unknown"
)

// Metric is one number of both sides. Its name is that of --require, such as ttft.p95, or, as ttft.paired, has
// the median of the ratios of pairs, B to A.
type Metric struct {
	Name   string   `json:"name"`   // such as ttft.p95
	Unit   string   `json:"unit"`   // ms, share, rate or tokens
	A      *float64 `json:"a"`      // its value in A, over the requests that are compared; null of .paired
	B      *float64 `json:"b"`      // and in B
	Change *float64 `json:"change"` // (B - A) / A; of shares B - A
	Low    *float64 `json:"low"`    // 95 % interval of Change
	High   *float64 `json:"high"`   // its other end
	// how far two runs without a change differ, in 95 % of cases; null of one pair of runs, which does not tell
	Floor    *float64 `json:"floor"`
	Verdict  string   `json:"verdict"`  // better, worse, same, differs, unclear or unknown
	Sentence string   `json:"sentence"` // such as: B's TTFT p95 is 1.8 % higher [1.1, 2.5]
	Main     bool     `json:"main"`     // shown on one screen
	// the interval is wider by what lateness of the client may have moved the number; else absent
	Client bool `json:"client,omitempty"`

	why    string // there is no interval, or it is wide
	brief  string // the same in two words
	gained bool   // it changed for the better, surely or not
}

// Culprits are groups of requests that account for a metric's change, the largest share first.
type Culprits struct {
	Metric string  `json:"metric"` // whose change it is
	By     string  `json:"by"`     // uncached tokens, input length, instance or time
	Groups []Group `json:"groups"` // none if no group accounts for more than its part
	Words  string  `json:"words"`  // one sentence
}

// Group is a part of the requests, and its part of the change.
type Group struct {
	Name     string  `json:"name"`     // such as: 4,096 to 8,191 uncached tokens
	Requests int64   `json:"requests"` // pairs in it
	Share    float64 `json:"share"`    // of the whole change, 1 = all; below 0 if the group changed the other way
	A        float64 `json:"a"`        // mean of the metric in A, in its unit
	B        float64 `json:"b"`        // and in B
}
