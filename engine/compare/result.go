// Package compare says what changed from one run to another: by how much, how surely, and in which requests.
//
// Runs of the same workload send the same bytes at the same instants, so they pair request by request. The package
// reads results from disk and computes; it sends nothing and starts nothing.
//
// The package is not an API: any release may change it.
package compare

// Result is what changed from A to B.
type Result struct {
	Schema int      `json:"schema"` // version of this form
	A      Identity `json:"a"`      // with what B is compared
	B      Identity `json:"b"`      // what changed, or not
	Paired bool     `json:"paired"` // the workloads are equal, and values are compared request by request
	// pairs in which both are ok; without pairs, the lesser of both sides' ok requests
	Requests int64 `json:"requests"`
	// what the noise floor is from: a pair of runs of the same side (its directories), or "estimated"
	FloorFrom string     `json:"floor_from"`
	Metrics   []Metric   `json:"metrics"`   // all that is compared
	Explained []Culprits `json:"explained"` // of the metrics that changed
	Notes     []string   `json:"notes"`     // whole sentences
}

// Identity names a side and the workload that it was sent.
type Identity struct {
	Name        string   `json:"name"`        // as people call it: the target's URL, or the directory
	Dirs        []string `json:"dirs"`        // of its runs
	Fingerprint string   `json:"fingerprint"` // of what was sent, as in summary.json
	Verdict     string   `json:"verdict"`     // of the worst of its runs: VALID, LIMITED or INVALID
	Demo        bool     `json:"demo"`        // one of its runs went to the embedded mock, not to a server
}

// The changes of a metric. Better and worse follow from the metric: a longer time is worse, a higher rate is better.
const (
	Better  = "better"
	Worse   = "worse"
	Same    = "same"     // the interval holds 0
	InFloor = "in floor" // the interval excludes 0, but the noise floor reaches as far
	Unknown = "unknown"  // one side lacks the metric, there are too few values, or there is no floor
)

// Metric is one number of both sides. Its name is that of metrics.Quantities, such as ttft.p95, or, as ttft.paired, has
// the median of the ratios of pairs, B to A.
type Metric struct {
	Name     string   `json:"name"`     // such as ttft.p95
	Unit     string   `json:"unit"`     // ms, share or rate
	A        *float64 `json:"a"`        // its value in A, over the requests that are compared; null of .paired
	B        *float64 `json:"b"`        // and in B
	Change   *float64 `json:"change"`   // (B - A) / A; of shares B - A
	Low      *float64 `json:"low"`      // 95 % interval of Change
	High     *float64 `json:"high"`     // its other end
	Floor    *float64 `json:"floor"`    // how far Change is from 0 if nothing changed, in 95 % of cases
	Verdict  string   `json:"verdict"`  // better, worse, same, in floor or unknown
	Sentence string   `json:"sentence"` // such as: B's TTFT p95 is 1.8 % higher [1.1, 2.5]; the floor is 0.6 %
	Main     bool     `json:"main"`     // shown on one screen

	// "the client", if that may have moved the number further than noise does; else absent
	FloorFrom string `json:"floor_from,omitempty"`
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
