package metrics

// Amplify says what --amplify made of a load. It stands in summary.json and in what inspect prints as JSON.
type Amplify struct {
	Factor       float64 `json:"factor"`
	Seed         uint64  `json:"seed"`
	Sessions     int64   `json:"sessions"`      // recorded ones
	Inferred     bool    `json:"inferred"`      // from the blocks that requests have in common; the file names no sessions
	SharedBlocks int64   `json:"shared_blocks"` // distinct leading blocks that all clones share
	Before       Load    `json:"before"`
	After        Load    `json:"after"`
}

// Load is what of a load must not change by accident when it grows.
type Load struct {
	Requests     int64    `json:"requests"`
	SpanS        float64  `json:"span_s"`
	RequestsPerS *float64 `json:"requests_per_s"`            // requests / span; null where the span is 0, and of an untimed trace
	Peak         *int64   `json:"peak_requests_in_1s"`       // most within any second; null of an untimed trace
	GapCV        *float64 `json:"interarrival_cv"`           // standard deviation / mean of the gaps; null where the span is 0
	ReuseP50     *float64 `json:"reuse_distance_tokens_p50"` // of the other blocks used since a repeated block was; null without any
	ReuseP90     *float64 `json:"reuse_distance_tokens_p90"`
	HitRatio     *float64 `json:"ideal_hit_ratio"` // of the input tokens, in an unlimited cache; null without block ids
}
