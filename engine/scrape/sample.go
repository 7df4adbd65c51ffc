package scrape

// Phase says when a sample was taken.
type Phase string

// The phases of a run.
const (
	Before Phase = "before" // the first request, and after probes, warm-up and flush
	During Phase = "during"
	After  Phase = "after" // the last request had ended
)

// Sample is what one server said at one moment: a line of server_metrics.jsonl.
type Sample struct {
	AtNS   int64   `json:"at_ns"` // when the answer was there; since the run's start
	Phase  Phase   `json:"phase"`
	Target string  `json:"target"` // as results name it; the page's own address where that was given
	URL    string  `json:"url"`    // of the page, with the address that was asked in place of the name
	TookMS float64 `json:"took_ms"`
	Error  string  `json:"error,omitempty"` // why there is no reading
	Reading
}
