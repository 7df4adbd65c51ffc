package metrics

import (
	"time"

	"github.com/fastreplay/fastreplay/engine/route"
)

// Schema is the version of summary.json.
const Schema = 1

// Summary is summary.json: everything that a run found out, in one object.
// Units are in the keys, ratios are 0..1, and a distribution or number that
// does not exist is null, never 0.
type Summary struct {
	Schema   int      `json:"schema"`
	Verdict  Verdict  `json:"verdict"`
	Run      Run      `json:"run"`
	Workload Workload `json:"workload"`
	Requests Requests `json:"requests"`

	DriftUS       *Percentiles `json:"drift_us"`
	TTFTMS        *Percentiles `json:"ttft_ms"`
	TTFTPlannedMS *Percentiles `json:"ttft_planned_ms"`
	TPOTMS        *Percentiles `json:"tpot_ms"`
	ITLMS         *Percentiles `json:"itl_ms"`
	E2EMS         *Percentiles `json:"e2e_ms"`
	E2EPlannedMS  *Percentiles `json:"e2e_planned_ms"`
	WireDriftUS   *Percentiles `json:"wire_drift_us"` // departed - planned, by the kernel's stamps
	UploadMS      *Percentiles `json:"upload_ms"`     // acked - sent

	Throughput  Throughput    `json:"throughput"`
	InFlight    *float64      `json:"in_flight_mean"`    // requests, failed ones too, over the run; null where that has no duration
	Goodput     *Goodput      `json:"goodput,omitempty"` // absent without an SLO
	Tokens      Tokens        `json:"tokens"`
	PrefixCache PrefixCache   `json:"prefix_cache"`
	Connections Connections   `json:"connections"`
	Writes      Writes        `json:"writes"`
	Targets     []Target      `json:"targets"`
	Instances   *Breakdown    `json:"instances,omitempty"`      // by who answered; absent where no answer says
	Peers       *Breakdown    `json:"peers,omitempty"`          // by address; absent where there is one
	Gateway     *Gateway      `json:"gateway,omitempty"`        // absent where none told its time
	Routing     *route.Oracle `json:"routing,omitempty"`        // hits by who routes; absent with one instance
	Servers     *Servers      `json:"server_metrics,omitempty"` // what the servers said of themselves; absent where none was asked
	Outages     []Outage      `json:"outages,omitempty"`        // absent where no target failed for a time
	Client      Client        `json:"client"`
	Cap         *Cap          `json:"cap"`               // null where any number of requests could be in flight
	Turns       *Turns        `json:"turns,omitempty"`   // absent where no request follows another
	History     *History      `json:"history,omitempty"` // absent where turns were sent as recorded
	Amplify     *Amplify      `json:"amplify,omitempty"` // absent where the load is as recorded
	BuildAhead  *BuildAhead   `json:"build_ahead"`       // null where all requests were built before the start
	Limits      Limits        `json:"limits"`
	Notes       []string      `json:"notes"` // worth knowing, without bearing on the verdict
}

// Run says when, where and how.
type Run struct {
	StartedAt        time.Time      `json:"started_at"` // wall clock, UTC
	MonotonicStartNS int64          `json:"monotonic_start_ns"`
	DurationS        float64        `json:"duration_s"` // from the start to the end of the last request
	Scale            float64        `json:"scale"`
	Pace             string         `json:"pace"`                  // "trace time", or what takes its place: "300 requests/s", "closed loop of 8"
	Arrival          *Arrival       `json:"arrival"`               // null where no rate released the requests
	Warmup           int64          `json:"warmup"`                // requests sent before, which nothing here counts
	Partial          bool           `json:"partial"`               // interrupted before its end
	SenderDied       string         `json:"sender_died,omitempty"` // which sending process ended during the run, and how; absent where none did
	Cut              bool           `json:"cut"`                   // what was in flight a while after the run's duration was ended
	Targets          []string       `json:"targets"`
	API              string         `json:"api"`
	Model            string         `json:"model"` // as sent; given or asked from the servers
	Version          string         `json:"version"`
	Host             Host           `json:"host"`
	Options          map[string]any `json:"options"` // flags as given, without secrets
}

// Arrival is the process by which requests were released at a rate.
type Arrival struct {
	Process    string   `json:"process"`        // constant, poisson or gamma
	FromPerS   float64  `json:"from_per_s"`     // at the start of a ramp; else as PerS
	PerS       float64  `json:"requests_per_s"` // after the ramp
	RampS      float64  `json:"ramp_s"`         // how long the rate took from one to the other; 0 = it was steady
	Burstiness *float64 `json:"burstiness"`     // of gamma; else null
	Seed       *uint64  `json:"seed"`           // of the gaps; null where they are constant
}

// TraceTime is the pace of a run that sends at the trace's own instants.
const TraceTime = "trace time"

// Host is the machine that sent the load.
type Host struct {
	Name        string `json:"name"`
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Kernel      string `json:"kernel,omitempty"`
	CPU         string `json:"cpu,omitempty"` // model
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Go          string `json:"go"` // version of the toolchain
}

// Workload is what was to be replayed. Tokens are those of the plan, as
// recorded in the trace.
type Workload struct {
	Trace        string `json:"trace"`
	Format       string `json:"format"`
	Rows         int64  `json:"rows"`                       // in the file
	Requests     int64  `json:"requests"`                   // selected, each repetition
	Repeat       int64  `json:"repeat"`                     // how often the selection was replayed in a row
	Literals     int64  `json:"literal_requests,omitempty"` // with a prompt or body that is there word for word; input_tokens has none of theirs
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	BlockTokens  int64  `json:"block_tokens"`
	RepairedRows int64  `json:"repaired_rows"`
	DroppedRows  int64  `json:"dropped_rows"`                // bad rows left out by --lenient
	RefusedRows  int64  `json:"refused_rows"`                // selected rows that were not replayed
	ShortRows    int64  `json:"short_rows"`                  // rows not longer than what the servers add to a prompt …
	ShortSurplus int64  `json:"short_surplus_tokens"`        // … and how many tokens more than recorded their prompts have in all
	Context      int64  `json:"context_tokens,omitempty"`    // the servers' limit of prompt and output together; absent where no request was longer
	LeftOut      int64  `json:"left_out_requests,omitempty"` // longer, and not sent (--too-long drop): requests and records count them, these numbers and the verdict do not
	Clipped      int64  `json:"clipped_requests,omitempty"`  // longer, and shortened (--too-long clip) …
	ClippedOff   int64  `json:"clipped_tokens,omitempty"`    // … by so many tokens in all
	Fingerprint  string `json:"fingerprint"`                 // "sha256:…"
}

// Requests counts requests: planned = ok + failed = the sum of by_outcome.
type Requests struct {
	Planned   int64            `json:"planned"`
	Sent      int64            `json:"sent"` // a first byte left
	OK        int64            `json:"ok"`
	Failed    int64            `json:"failed"` // every outcome but ok
	Resent    int64            `json:"resent"`
	Early     int64            `json:"early"`     // sent before their time: a bug of ours
	Unwritten int64            `json:"unwritten"` // records that requests.jsonl lacks
	ByOutcome map[string]int64 `json:"by_outcome"`
}

// Throughput is what OK requests made of the run's duration.
type Throughput struct {
	RequestsPerS     float64 `json:"requests_per_s"`
	InputTokensPerS  float64 `json:"input_tokens_per_s"`
	OutputTokensPerS float64 `json:"output_tokens_per_s"`
}

// Tokens is over OK requests.
type Tokens struct {
	Prompt           int64    `json:"prompt"`     // by the server, or as recorded where it counts none
	Completion       int64    `json:"completion"` // by the server, or chunks where it counts none
	FromUsage        int64    `json:"from_usage"` // requests
	FromChunks       int64    `json:"from_chunks"`
	PerChunk         *float64 `json:"per_chunk"` // mean; ITL is per chunk
	PromptMismatches int64    `json:"prompt_mismatches"`
	CutShort         int64    `json:"cut_short"`       // requests with fewer completion tokens than recorded
	OverLong         int64    `json:"over_long"`       // requests with more
	AtOnce           int64    `json:"at_once"`         // requests whose several tokens all came in one chunk, so that they have no TPOT
	SeveralChoices   int64    `json:"several_choices"` // requests that brought several choices; tokens and lengths are those of all
}

// PrefixCache compares the ideal prefix cache with what the servers report,
// over OK requests. The reported half is about targets that ever reported and
// their answers that told usage: of those an absent number is 0, of others it
// is unknown.
type PrefixCache struct {
	ExpectedHitRatio   *float64    `json:"expected_hit_ratio"`
	ExpectedRange      *[2]float64 `json:"expected_hit_ratio_range"` // where the template hides the exact one: at least, at most
	ReportedHitRatio   *float64    `json:"reported_hit_ratio"`
	ExpectedTokens     *int64      `json:"expected_tokens"`
	ReportedTokens     *int64      `json:"reported_tokens"`
	CountedTokens      *int64      `json:"counted_tokens"`      // hits by the counters of servers whose responses report none; null where no such counters are of our requests alone
	HitRatio           *float64    `json:"hit_ratio"`           // by the one or the other
	HitsFrom           string      `json:"hits_from"`           // "responses", "server counters", "responses and server counters", or "" where no hits are known
	UnreportedRequests int64       `json:"unreported_requests"` // OK ones whose hits are unknown
	AboveIdealTokens   int64       `json:"above_ideal_tokens"`  // summed over single requests; above the most that the ideal could be
	AboveIdealRequests int64       `json:"above_ideal_requests"`
	OvertakenTokens    int64       `json:"overtaken_tokens"` // of those above the ideal: found because requests overtook each other
	Shortfall          *Shortfall  `json:"shortfall"`        // null where nothing exact was expected
}

// Shortfall is what the servers had less than expected, summed over the OK
// requests that had less, and why.
type Shortfall struct {
	Tokens            int64 `json:"tokens"`              // the sum of all below
	InPrefillTokens   int64 `json:"in_prefill_tokens"`   // the earlier request had not brought its first token yet, or failed before
	ElsewhereTokens   int64 `json:"elsewhere_tokens"`    // another instance behind the same address had them than the one that answered
	EvictedTokens     int64 `json:"evicted_tokens"`      // a cache of the server's capacity would have dropped them
	CacheOffTokens    int64 `json:"cache_off_tokens"`    // the server says that it caches nothing
	NotReportedTokens int64 `json:"not_reported_tokens"` // the server never reports cached tokens, or the answer told no usage
	UnexplainedTokens int64 `json:"unexplained_tokens"`
}

// Connections is what the pools went through.
type Connections struct {
	Dialled    int64   `json:"dialled"`
	NotReady   int64   `json:"not_ready"`   // requests that had to wait for one at their deadline
	MaxWaitMS  float64 `json:"max_wait_ms"` // the longest wait in any record; found by the Collector
	ClosedIdle int64   `json:"closed_idle"` // closed by the server between requests
}

// Writes is how the kernel took the first write of each request that was sent, re-sends included. Failed ones are in neither.
type Writes struct {
	Whole   int64 `json:"whole"`   // it took all
	Partial int64 `json:"partial"` // it took a part, and the rest had to follow
}

// Target is one instance. Its distributions are as those of the summary.
type Target struct {
	URL              string       `json:"url"`
	Requests         int64        `json:"requests"`
	OK               int64        `json:"ok"`
	Failed           int64        `json:"failed"`
	DriftUS          *Percentiles `json:"drift_us"`
	TTFTMS           *Percentiles `json:"ttft_ms"`
	TPOTMS           *Percentiles `json:"tpot_ms"`
	ITLMS            *Percentiles `json:"itl_ms"`
	E2EMS            *Percentiles `json:"e2e_ms"`
	ReportedHitRatio *float64     `json:"reported_hit_ratio"`
	CountedHitRatio  *float64     `json:"counted_hit_ratio"` // by the server's counters, where its responses report none
	Goodput          *Goodput     `json:"goodput,omitempty"`
}

// Part is the share of the requests that one instance or one address got.
type Part struct {
	Name             string       `json:"name"`     // of the instance, as its answers say; of an address, itself
	Requests         int64        `json:"requests"` // that it answered; of an address, that were sent to it
	OK               int64        `json:"ok"`
	Failed           int64        `json:"failed"`
	PromptTokens     int64        `json:"prompt_tokens"` // of its ok requests
	Share            float64      `json:"share"`         // of the requests of all parts
	TTFTMS           *Percentiles `json:"ttft_ms"`
	TPOTMS           *Percentiles `json:"tpot_ms"`
	E2EMS            *Percentiles `json:"e2e_ms"`
	ReportedHitRatio *float64     `json:"reported_hit_ratio"`
}

// Breakdown is how requests were spread over instances or addresses.
type Breakdown struct {
	Parts          []Part   `json:"parts"`     // by name
	CV             *float64 `json:"cv"`        // coefficient of variation of their requests (population standard deviation / mean); null below two parts
	TokensCV       *float64 `json:"tokens_cv"` // likewise of the prompt tokens of ok requests
	tokensByChance float64  // the variation of tokens that chance would give to equal parts
	direct         bool     // of instances: each has an address of its own, so that it was us who gave it its requests

	Rest int64 `json:"rest"` // requests of parts beyond the first 1,024, which are not listed
}

// Turns is what became of the turns of conversations.
type Turns struct {
	Sessions     string       `json:"sessions"`       // strict, gated or think
	FollowUps    int64        `json:"followup_turns"` // requests that follow another of the run
	Overtaking   int64        `json:"overtaking"`     // of those: sent before that one had ended
	OvertakingMS *Percentiles `json:"overtaking_ms"`  // how long before; of those
	LaterMS      *Percentiles `json:"later_ms"`       // how long after their own instants follow-up turns were released; null where they did not wait, and in a closed loop
}

// Cap is a bound on the requests in flight, and what it did to a plan.
type Cap struct {
	InFlight int64        `json:"in_flight"` // the bound
	Held     int64        `json:"held_back"` // requests that could not leave at their instants
	HeldMS   *Percentiles `json:"held_ms"`   // for how long; of those
}

// BuildAhead is how requests were built during the run, where memory did not
// hold all of them.
type BuildAhead struct {
	WindowBytes int64    `json:"window_bytes"`  // room for requests at a time
	LeastLeadMS *float64 `json:"least_lead_ms"` // the shortest time between a request's building and when it could leave; null where all were built before the start
	Late        int64    `json:"late"`          // requests that could leave before they were built: those of a lead below 0
}

// Client is what the load generator itself used.
type Client struct {
	CPUS         float64      `json:"cpu_s"` // processor time during the replay
	MaxRSSBytes  int64        `json:"max_rss_bytes"`
	GCCycles     int64        `json:"gc_cycles"`
	Lanes        int          `json:"lanes"`
	LaneProcess  bool         `json:"lane_process"` // the sending thread had a process of its own
	Realtime     bool         `json:"realtime"`
	SpinUS       float64      `json:"spin_us"`
	LoadS        float64      `json:"load_s"`     // reading the trace
	PrebuildS    float64      `json:"prebuild_s"` // building the requests
	WireBytes    int64        `json:"wire_bytes"`
	ReceiveLagUS *Percentiles `json:"receive_lag_us"` // reader behind the kernel's receive stamp

	// What the machine took from it during the replay.
	StolenS       *float64 `json:"stolen_s"`                  // processor time that the hypervisor gave to others, all cores together
	StolenShare   *float64 `json:"stolen_share"`              // of all cores' time
	StolenWorst   *float64 `json:"stolen_share_worst_second"` // of all cores' time
	ThrottledS    *float64 `json:"throttled_s"`               // by a control group's CPU limit, all cores together
	RunQueueS     *float64 `json:"run_queue_delay_s"`         // its threads were ready and waited for a core, all together
	LaneRunQueueS *float64 `json:"lane_run_queue_delay_s"`    // of the sending threads, all together
	Late          *Late    `json:"late"`                      // null where nobody watched

	Stamps *Stamps `json:"kernel_timestamps"`
}

// Stamps says how far the kernel's timestamps were what instants come from.
type Stamps struct {
	Received   bool    `json:"received"`        // of what came
	Sent       bool    `json:"sent"`            // of what left and was acknowledged
	Reads      int64   `json:"reads"`           // that the kernel stamped
	Unstamped  int64   `json:"unstamped_reads"` // their instants are the reader's
	Dropped    int64   `json:"dropped"`         // stamps not used, since the wall clock had just been set
	ClockSteps int64   `json:"clock_steps"`     // how often it was
	StepMS     float64 `json:"largest_step_ms"`
}
