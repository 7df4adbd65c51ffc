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
	AtNS   int64   `json:"at_ns"`           // when the answer was there, since the start of the run
	Phase  Phase   `json:"phase"`           // before (the first request, after probes and warm-up), during, or after (the last request)
	Target string  `json:"target"`          // URL as results name it, or the page of --scrape-url
	URL    string  `json:"url"`             // the page, with the address that was asked in place of the name
	TookMS float64 `json:"took_ms"`         // from the question to the whole answer
	Error  string  `json:"error,omitempty"` // why there is no reading; absent otherwise
	Reading
}
