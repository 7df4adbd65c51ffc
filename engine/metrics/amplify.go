package metrics

// Amplify says what --amplify made of a load. It stands in summary.json and in what inspect prints as JSON.
type Amplify struct {
	Factor       float64 `json:"factor"`        // as given by --amplify
	Seed         uint64  `json:"seed"`          // as given by --seed
	Sessions     int64   `json:"sessions"`      // conversations as recorded
	Inferred     bool    `json:"inferred"`      // conversations were told by the blocks that requests share, since the file names none
	SharedBlocks int64   `json:"shared_blocks"` // distinct leading blocks that all clones share
	Before       Load    `json:"before"`        // the load as recorded
	After        Load    `json:"after"`         // the load as sent
}

// Load is what of a load must not change by accident when it grows.
type Load struct {
	Requests     int64    `json:"requests"`                  // how many
	SpanS        float64  `json:"span_s"`                    // from the first request to the last
	RequestsPerS *float64 `json:"requests_per_s"`            // requests / span; null where the span is 0, and of an untimed trace
	Peak         *int64   `json:"peak_requests_in_1s"`       // most within any second; null of an untimed trace
	GapCV        *float64 `json:"interarrival_cv"`           // standard deviation / mean of the gaps; null where the span is 0
	ReuseP50     *float64 `json:"reuse_distance_tokens_p50"` // median of the tokens in other blocks used between two uses of a block; null without repeated blocks
	ReuseP90     *float64 `json:"reuse_distance_tokens_p90"` // likewise, the 90th percentile
	HitRatio     *float64 `json:"ideal_hit_ratio"`           // of the input tokens, in an unlimited cache; null without block ids
}
