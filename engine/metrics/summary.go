// Package metrics says what a summary of a run is. It has the types of summary.json, the table of latencies, SLOs, and
// how the facts of several clients become one.
//
// It counts no records, which collect does, and judges nothing, which verdict does. It belongs to nobody: a Summary may
// be read from anywhere, and is changed by one goroutine at a time.
//
// The package is not an API: any release may change it.
package metrics

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/scrape"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Goodput is what the requests that met every bound make. The planned requests are requests + failed + those that
// were ok and missed a bound + requests.stopped. One that missed several counts in missed for each of them, so missed
// shows which bound limits goodput.
type Goodput struct {
	// the bounds in ms, as ttft_ms, tpot_ms, …, or of an owner's requests as "class=gold ttft_ms"; only in the run's
	// own, not in a target's
	SLO          map[string]float64 `json:"slo,omitempty"`
	Requests     int64              `json:"requests"`       // good ones: ok, and within every bound
	RequestsPerS float64            `json:"requests_per_s"` // good requests over the run's duration
	// of the planned requests without those of requests.stopped; of a target: of its requests
	Share      *float64         `json:"share"`
	Missed     map[string]int64 `json:"missed"`     // ok requests by the bound that they missed: ttft, tpot, …
	Unmeasured map[string]int64 `json:"unmeasured"` // requests of missed that have no such latency
	Failed     int64            `json:"failed"`     // requests that were not ok, and so in neither
}

// Gateway is what a gateway before the servers reported of its own time and of theirs, over ok requests.
type Gateway struct {
	Requests int64 `json:"requests"` // those whose gateway reported one of the two times
	// time that the gateway took itself; null if it does not report it
	OwnMS *stats.Percentiles `json:"own_ms"`
	// time that it waited for the head of the server's response; null if it does not report it
	UpstreamMS *stats.Percentiles `json:"upstream_ms"`
	// of TTFT: the time to the response head, less upstream_ms; null without these
	Share       *float64 `json:"gateway_share"`
	ServerShare *float64 `json:"server_share"` // of TTFT: upstream_ms
}

// History is what follow-up turns had of what the servers answered in the
// run. It counts those that were sent: turns = live + partly + recorded.
type History struct {
	Turns    int64 `json:"turns" merge:"sum"`    // follow-up turns that were sent
	Live     int64 `json:"live" merge:"sum"`     // turns in which all earlier answers are live
	Partly   int64 `json:"partly" merge:"sum"`   // turns in which some are; the others are as recorded
	Recorded int64 `json:"recorded" merge:"sum"` // turns in which none is
	Answers  int64 `json:"answers" merge:"sum"`  // live answers in all turns

	// Why the latest answer that was not live was not: of the turns of partly and recorded.
	Why HistoryGaps `json:"not_live" merge:"each"` // turns by why the latest answer that is not live is not

	// time from the end of a turn until the body of the next one was made
	MakeUS *stats.Percentiles `json:"make_us" merge:"worst"`
}

// HistoryGaps counts turns by why an answer in them is not live.
type HistoryGaps struct {
	Late   int64 `json:"late" merge:"sum"`       // the turn left before the answer was there
	Failed int64 `json:"failed" merge:"sum"`     // the request before failed
	NoText int64 `json:"no_text" merge:"sum"`    // the server answered without a text
	Tools  int64 `json:"tool_calls" merge:"sum"` // the server called a tool, or the recorded answer does
	Apart  int64 `json:"apart" merge:"sum"`      // the turn's messages do not begin with those of a turn before
}

// The values of Answers.Mode.
const (
	AnswersFree   = "free"
	AnswersForced = "forced"
)

// Answers is what servers answered in conversations whose prompts are made of tokens, and what of it is in later
// prompts.
type Answers struct {
	// free: the servers chose the tokens; forced: they were told
	Mode   string `json:"mode" merge:"first"`
	Forced int64  `json:"forced_tokens" merge:"sum"` // tokens that the servers were told
	// turns with a part of the answer before them in their prompts, as recorded
	Turns         int64 `json:"carried_turns" merge:"sum"`
	Carried       int64 `json:"carried_tokens" merge:"sum"`        // tokens of answers in these prompts, as recorded
	Prompt        int64 `json:"recorded_input_tokens" merge:"sum"` // of all requests
	WrongRequests int64 `json:"wrong_requests" merge:"records"`    // ok requests with tokens other than told
	WrongTokens   int64 `json:"wrong_tokens" merge:"records"`      // these tokens, missing ones too
	// the first of the first such request that ended, in words; "" if there is none
	First string `json:"first_wrong" merge:"records"`
}

// Servers is what the servers reported during the run. The summary has our own numbers beside it.
type Servers struct {
	scrape.Servers
	// every address that requests went to was read, so that counts compare with ours
	Whole bool `json:"whole"`
	// of several shards: what the counts have beside their requests, or lack of them; absent if nothing is known
	Apart string `json:"apart,omitempty"`
}

// Schema is the version of summary.json.
const Schema = 2

// Summary is summary.json: everything that a run found out, in one object.
// Units are in the keys, ratios are 0..1, and a distribution or number that
// does not exist is null, never 0.
//
// Merge tags say what several clients' values come to. merger has their list.
type Summary struct {
	Schema  int     `json:"schema" merge:"none"`  // version of this file: 2
	Verdict Verdict `json:"verdict" merge:"none"` // whether the numbers can be used, and if not, why
	Run     Run     `json:"run" merge:"each"`     // when, where and how
	// with report --from, --to or --steady: the part of the run that the numbers are of; absent otherwise
	Window   *Window  `json:"window,omitempty" merge:"none"`
	Workload Workload `json:"workload" merge:"none"` // what was to be replayed
	Requests Requests `json:"requests" merge:"each"` // how many requests were planned, sent, answered

	RunLatencies `merge:"records"`

	// how well percentiles are known, by latency; absent if too many requests were merged
	Intervals []Interval `json:"intervals,omitempty" merge:"records"`
	// what went one way over the run, so that percentiles depend on its length; absent if nothing did
	Trends []Trend `json:"trends,omitempty" merge:"records"`
	// what ok requests made of the run's duration
	Throughput Throughput `json:"throughput" merge:"records"`
	// the same without the time at the end in which only failing requests were waited for
	UnderLoad UnderLoad `json:"under_load" merge:"records"`
	// requests in flight on average over the run, failed ones too; null if the run has no duration
	InFlight *float64 `json:"in_flight_mean" merge:"records"`
	// how fast users get output; absent without any
	Interactivity *Interactivity `json:"interactivity,omitempty" merge:"records"`
	// throughput by GPUs; absent if their number is unknown
	PerGPU *PerGPU `json:"per_gpu,omitempty" merge:"none"`
	// with report --price-per-hour: what answers cost; absent otherwise
	Cost *Cost `json:"cost,omitempty" merge:"none"`
	// what the servers' GPUs took; absent if no page of metrics has it
	Energy *Energy `json:"energy,omitempty" merge:"none"`
	// requests that met every bound of --goodput; absent without one
	Goodput *Goodput `json:"goodput,omitempty" merge:"records"`
	Tokens  Tokens   `json:"tokens" merge:"each"` // tokens of ok requests
	// hits that an ideal cache would have had, and those that the servers report
	PrefixCache PrefixCache `json:"prefix_cache" merge:"each"`
	// how many were opened, and whether they were ready
	Connections Connections `json:"connections" merge:"each"`
	// how the kernel took the first write of each request
	Writes  Writes   `json:"writes" merge:"each"`
	Targets []Target `json:"targets" merge:"records"` // one for each URL of --url and --targets
	// by who answered, as a header or the answer names it; absent if no answer does
	Instances *Breakdown `json:"instances,omitempty" merge:"records"`
	// by who prefilled, where another one decodes; absent if no answer names it
	Prefills *Breakdown `json:"prefill_instances,omitempty" merge:"records"`
	// by whose requests they are; absent if the trace does not say
	Owners    *Owners    `json:"owners,omitempty" merge:"records"`
	Endpoints *Breakdown `json:"endpoints,omitempty" merge:"records"` // by address; absent if there is one
	// what a gateway reports that it took itself; absent if none does
	Gateway *Gateway `json:"gateway,omitempty" merge:"records"`
	// hits by who routes; absent with one instance
	Routing *route.Oracle `json:"routing,omitempty" merge:"none"`
	// what the servers report; absent if none was read
	Servers *Servers `json:"server_metrics,omitempty" merge:"none"`
	// targets that failed for a time; absent without one
	Outages []Outage `json:"outages,omitempty" merge:"records"`
	// with --at: commands that ran at instants of the run, and what they changed; absent otherwise
	Actions []Action `json:"actions,omitempty" merge:"none"`
	// with --targets watch:FILE: targets that joined or left during the run; absent without any
	TargetChanges []scrape.Event `json:"target_changes,omitempty" merge:"none"`
	// the machines whose results were merged; absent of one machine
	Shards []Shard `json:"shards,omitempty" merge:"none"`
	// what the client itself used, and what the machine took from it
	Client Client `json:"client" merge:"each"`
	// what a cap on the requests in flight held back; null without a cap
	Cap *Cap `json:"cap" merge:"each"`
	// of conversations; absent if no request follows another
	Turns *Turns `json:"turns,omitempty" merge:"each"`
	// results by job; absent if no request depends on another
	Jobs *Jobs `json:"jobs,omitempty" merge:"records"`
	// what was sent before the barrier; absent without any
	Preparation *Preparation `json:"preparation,omitempty" merge:"records"`
	// what caps of idle times cut during the run; absent without one
	IdleCuts *IdleCuts `json:"idle_cuts,omitempty" merge:"each"`
	// with --history live: which answers the turns carried; absent otherwise
	History *History `json:"history,omitempty" merge:"each"`
	// of conversations with made prompts: which tokens the servers answered; absent otherwise
	Answers *Answers `json:"answers,omitempty" merge:"each"`
	// models that answers name, if answers to one name name several; absent otherwise
	AnswerModels []AnswerModel `json:"answer_models,omitempty" merge:"first"`
	// with --amplify: the load before and after; absent otherwise
	Amplify *Amplify `json:"amplify,omitempty" merge:"none"`
	// how requests were built during the run; null if all were built before the start
	BuildAhead *BuildAhead `json:"build_ahead" merge:"each"`
	// how late the client was, and what that may have changed
	Lateness Lateness `json:"lateness" merge:"each"`
	// what requests.jsonl has; absent if records could not be written, or the run was killed
	Records *record.Lines `json:"records,omitempty" merge:"none"`
	Limits  Limits        `json:"limits" merge:"none"` // what the verdict was measured by
	// with --until: how well its percentile is known; absent otherwise
	Until *Until `json:"until,omitempty" merge:"none"`
	// sentences that are worth knowing and have no bearing on the verdict
	Notes []string `json:"notes" merge:"none"`
	// names the kind of each of notes: see [notes](#codes-of-notes); "" of one from a version that had none
	NoteCodes []string `json:"note_codes" merge:"none"`
}

// Unlike says what a file of records has that differs from what the run wrote; "" if nothing. seen are the lines of
// all of it.
func (s *Summary) Unlike(seen record.Lines) string {
	want := record.Lines{Count: s.Requests.Planned, Sum: seen.Sum} // of a version that kept no sum
	if s.Records != nil {
		want = *s.Records
	} else if s.Run.Partial || s.Requests.Unwritten > 0 || len(s.Shards) > 0 { // nobody knows
		return ""
	}
	has := format.Many(seen.Count, "record")
	wrote := format.Many(want.Count, "record")
	switch {
	case seen.Count < want.Count:
		return format.Count(seen.Count) + " of the " + wrote + " that the run wrote"
	case seen.Count > want.Count:
		return has + ", and the run wrote " + format.Count(want.Count)
	case seen.Sum != want.Sum:
		return has + ", but others than the run wrote"
	}
	return ""
}

// Run is when, where and how.
type Run struct {
	StartedAt        time.Time `json:"started_at" merge:"none"`         // wall clock, UTC
	MonotonicStartNS int64     `json:"monotonic_start_ns" merge:"none"` // CLOCK_MONOTONIC at the start
	// from the start to the end of the last request; of a window its length
	DurationS float64 `json:"duration_s" merge:"max"`
	// likewise, to the end of the last one that ended ok: the objective coverage is its share of duration_s; absent if
	// none did
	AnsweredS float64 `json:"answered_s,omitempty" merge:"records"`
	Scale     float64 `json:"scale" merge:"none"` // speed: 2 is twice as fast as recorded
	// "trace time", or the rate or closed loop in its place: "300 requests/s", "closed loop of 8", "8 lanes"
	Pace string `json:"pace" merge:"none"`
	// slots of a closed loop; 0 if requests have planned times
	Concurrency int64 `json:"concurrency" merge:"none"`
	Lanes       int64 `json:"lanes,omitempty" merge:"none"` // jobs that run at a time; absent without lanes
	// how requests came at a rate; null if no rate released them
	Arrival *Arrival `json:"arrival" merge:"none"`
	// requests sent before the measurement; no other number counts them
	Warmup int64 `json:"warmup" merge:"none"`
	// the run was interrupted, or a sending process died
	Partial bool `json:"partial" merge:"or"`
	// why --abort-if ended the run early; absent if it did not
	Aborted string `json:"aborted,omitempty" merge:"none"`
	// which sending process ended during the run, and how; absent where none did
	SenderDied string `json:"sender_died,omitempty" merge:"first"`
	// why a request failed that was to fill the servers' caches, which ended the run; absent if none did
	PrimerFailed string `json:"primer_failed,omitempty" merge:"first"`
	// there was no --url: the requests went to a mock of our own
	Demo bool `json:"demo" merge:"none"`
	// what was still in flight was ended after --duration and --grace
	Cut     bool     `json:"cut" merge:"or"`
	Targets []string `json:"targets" merge:"none"` // URLs
	API     string   `json:"api" merge:"none"`     // as in --api
	Model   string   `json:"model" merge:"none"`   // as sent; given by --model or asked from the servers
	// that requests ask for, those of rows and bodies too; absent if unknown
	AskedModels []string `json:"asked_models,omitempty" merge:"none"`
	// answers were asked for whole, by --no-stream or an API without streams; absent otherwise
	AskedWhole bool           `json:"asked_whole,omitempty" merge:"none"`
	Version    string         `json:"version" merge:"none"` // of fastreplay
	Host       Host           `json:"host" merge:"none"`    // the machine that sent the load
	Options    map[string]any `json:"options" merge:"none"` // flags as given; secrets are not among them
}

// Arrival is the process by which requests were released at a rate.
type Arrival struct {
	Process string `json:"process"` // constant, poisson or gamma
	// requests per second at the start of a ramp; without one the rate itself
	FromPerS   float64  `json:"from_per_s"`
	PerS       float64  `json:"requests_per_s"` // requests per second after the ramp
	RampS      float64  `json:"ramp_s"`         // how long the ramp took; 0 without one
	Burstiness *float64 `json:"burstiness"`     // shape of the gamma distribution of the gaps; null for other processes
	Seed       *uint64  `json:"seed"`           // of random gaps; null if gaps are constant
}

// TraceTime is the pace of a run that sends at the trace's own times.
const TraceTime = "trace time"

// Host is the machine that sent the load.
type Host struct {
	Name        string `json:"name"`                   // host name
	OS          string `json:"os"`                     // operating system, as Go names it
	Arch        string `json:"arch"`                   // processor architecture, as Go names it
	Kernel      string `json:"kernel,omitempty"`       // release of the kernel
	CPU         string `json:"cpu,omitempty"`          // model of the processor
	CPUs        int    `json:"cpus"`                   // processors that the client could use
	MemoryBytes int64  `json:"memory_bytes,omitempty"` // memory of the machine
	Go          string `json:"go"`                     // version of the toolchain
}

// Workload is what was to be replayed. Tokens are those of the plan, as
// recorded in the trace.
type Workload struct {
	Trace    string `json:"trace"`    // file name, as given
	Format   string `json:"format"`   // format of the trace
	Rows     int64  `json:"rows"`     // rows in the file
	Requests int64  `json:"requests"` // requests that were selected, each repetition counted
	Repeat   int64  `json:"repeat"`   // how often the selection was replayed in a row (--repeat)
	// requests with a prompt or body that the trace has verbatim; input_tokens leaves theirs out; absent if none
	Verbatims    int64 `json:"verbatim_requests,omitempty"`
	InputTokens  int64 `json:"input_tokens"`  // as recorded
	OutputTokens int64 `json:"output_tokens"` // as recorded
	BlockTokens  int64 `json:"block_tokens"`  // tokens that a hash id stands for
	RepairedRows int64 `json:"repaired_rows"` // rows whose number of ids or length was corrected
	DroppedRows  int64 `json:"dropped_rows"`  // bad rows that --bad-rows drop left out
	RefusedRows  int64 `json:"refused_rows"`  // rows that were selected, but not replayed
	// rows that are not longer than what the servers add to a prompt
	ShortRows int64 `json:"short_rows"`
	// how many tokens more than recorded the prompts of short_rows have together
	ShortSurplus int64 `json:"short_surplus_tokens"`
	// the servers' limit of prompt and output together; absent where no request was longer
	Context int64 `json:"context_tokens,omitempty"`
	// longer, and not sent (--too-long drop): requests and records count them, these numbers and the verdict do not
	LeftOut    int64 `json:"left_out_requests,omitempty"`
	Clipped    int64 `json:"clipped_requests,omitempty"` // longer, and shortened (--too-long clip) …
	ClippedOff int64 `json:"clipped_tokens,omitempty"`   // … by so many tokens in all
	// SHA-256 over what was sent and when, "sha256:…"; hosts, keys, request ids and the salt's value are left out
	Fingerprint string `json:"fingerprint"`
}

// Requests counts requests: planned = ok + failed + stopped = the sum of by_outcome.
type Requests struct {
	Planned int64 `json:"planned" merge:"records"` // = ok + failed + stopped
	Sent    int64 `json:"sent" merge:"records"`    // a first byte left
	OK      int64 `json:"ok" merge:"records"`      // the whole answer arrived
	Failed  int64 `json:"failed" merge:"records"`  // every outcome but ok, without those of stopped
	// did not fail. It was not sent or cut off, since the run ended before, or left out by --too-long drop. Or it goes
	// back to a request that was refused, for its context was too long
	Stopped int64 `json:"stopped" merge:"records"`
	// sent a second time on a fresh connection (--resend)
	Resent int64 `json:"resent" merge:"records"`
	Early  int64 `json:"early" merge:"sum"` // sent before their time: a bug of fastreplay
	// sent later after their time than limits.max_drift_ms or, without one, than lateness.displaced_after_ms; in a
	// closed loop 1 ms
	Late      int64            `json:"late" merge:"records"`
	Unwritten int64            `json:"unwritten" merge:"sum"`      // records that requests.jsonl lacks
	ByOutcome map[string]int64 `json:"by_outcome" merge:"records"` // requests by outcome; their sum is planned
	// failed requests by outcome, phase and status, the most frequent first
	Failures []Failure `json:"failures" merge:"records"`
}

// Throughput is what ok requests made of the run's duration.
type Throughput struct {
	RequestsPerS     float64 `json:"requests_per_s"`      // ok requests
	InputTokensPerS  float64 `json:"input_tokens_per_s"`  // prompt tokens of ok requests
	OutputTokensPerS float64 `json:"output_tokens_per_s"` // completion tokens of ok requests
}

// UnderLoad is throughput until the last request had left and the last ok one had ended. What came after it is
// waiting for requests that failed. A single one that hangs makes that as long as --timeout.
type UnderLoad struct {
	UntilS  float64 `json:"until_s"` // seconds from the start until then
	Waiting int64   `json:"waiting"` // requests that failed after the last ok one had ended
	Throughput
}

// Tokens is over ok requests.
type Tokens struct {
	// prompt tokens, as the server counts them, or as recorded if it counts none
	Prompt int64 `json:"prompt" merge:"sum,records"`
	// completion tokens, as the server counts them, or chunks if it counts none
	Completion int64 `json:"completion" merge:"sum,records"`
	// requests whose completion tokens the server counted
	FromUsage int64 `json:"from_usage" merge:"sum,records"`
	// requests whose token chunks were counted instead
	FromChunks int64 `json:"from_chunks" merge:"sum,records"`
	// requests of these with fewer chunks than tokens were asked for: chunks have several, or the answer is short
	FewerChunks int64 `json:"fewer_chunks" merge:"sum,records"`
	// completion tokens per token chunk, mean; ITL is per chunk
	PerChunk *float64 `json:"per_chunk" merge:"records"`
	// requests of which the server counted other prompt tokens than were sent
	PromptMismatches int64 `json:"prompt_mismatches" merge:"sum"`
	// requests with fewer completion tokens than recorded
	CutShort int64 `json:"cut_short" merge:"sum,records"`
	OverLong int64 `json:"over_long" merge:"sum"` // requests with more
	// tokens of those above what they were told to make
	OverLongTokens int64 `json:"over_long_tokens" merge:"sum"`
	// requests that were answered whole, so that they have no TTFT, TPOT or ITL
	Whole int64 `json:"whole" merge:"sum,records"`
	// requests whose several tokens all came at one instant, so that they have no TPOT
	AtOnce int64 `json:"at_once" merge:"sum,records"`
	// requests whose first chunk had no text, if nothing shows that a token was in it. Text came later by more than 5 %
	// of TTFT and 1 ms. Or, if there are more chunks than tokens, it came in less than half of a token's time
	EmptyFirst int64 `json:"empty_first" merge:"sum,records"`
	// requests that brought several choices; tokens and lengths are those of all
	SeveralChoices int64 `json:"several_choices" merge:"sum,records"`
}

// PrefixCache compares the ideal prefix cache with what the servers report, over ok requests. The reported half covers
// targets that ever reported, and their answers that had usage. For those an absent number is 0; for others it is
// unknown.
type PrefixCache struct {
	// share of the prompt tokens that an ideal cache would have held; null if unknown
	ExpectedHitRatio *float64 `json:"expected_hit_ratio" merge:"records"`
	// at least and at most; null unless the template hides the exact ratio
	ExpectedRange *[2]float64 `json:"expected_hit_ratio_range" merge:"records"`
	// reported_tokens as a share of the prompt tokens of the same requests; null if no server ever reports any
	ReportedHitRatio *float64 `json:"reported_hit_ratio" merge:"records"`
	// prompt tokens that an ideal cache would have held; null if unknown
	ExpectedTokens *int64 `json:"expected_tokens" merge:"records"`
	// of expected_tokens what primers and warm-up requests had brought there; absent if there were none
	PrimedTokens *int64 `json:"primed_tokens,omitempty" merge:"none"`
	// cached tokens by the answers of servers that ever report any, of answers that have usage
	ReportedTokens *int64 `json:"reported_tokens" merge:"records"`
	// hits by the counters of servers whose answers report none; null if no such counters are of this run's requests
	// alone
	CountedTokens *int64 `json:"counted_tokens" merge:"records"`
	// hits by the answers or the counters, as a share of the prompt tokens; null if no hits are known
	HitRatio *float64 `json:"hit_ratio" merge:"records"`
	// "responses", "server counters", "responses and server counters", or "" if no hits are known
	HitsFrom           string `json:"hits_from" merge:"records"`
	UnreportedRequests int64  `json:"unreported_requests" merge:"records"` // ok requests whose hits are unknown
	// tokens above the most that the ideal can be, summed over single requests
	AboveIdealTokens int64 `json:"above_ideal_tokens" merge:"sum"`
	// requests with more hits than the ideal can be
	AboveIdealRequests int64 `json:"above_ideal_requests" merge:"sum"`
	// tokens of above_ideal_tokens that were found because requests overtook each other
	OvertakenTokens int64 `json:"overtaken_tokens" merge:"sum"`
	// hits of the recorded server beside those of this run; absent if the trace does not have them
	Recorded *RecordedHits `json:"recorded,omitempty" merge:"records"`
	// hits by the tier of the servers' caches; absent if no answer tells tiers apart
	Tiers *CacheTiers `json:"tiers,omitempty" merge:"records"`
	// why the servers had less than expected; null if nothing exact is expected
	Shortfall *Shortfall `json:"shortfall" merge:"none"`
}

// CacheTiers is what each tier of the servers' caches gave, over the ok requests whose answers told.
type CacheTiers struct {
	Requests int64 `json:"requests"` // how many
	// prompt tokens that the accelerator's memory had; null if no answer tells of it
	DeviceTokens *int64 `json:"device_tokens"`
	HostTokens   *int64 `json:"host_tokens"` // that the host's memory had; null likewise
	// that were beyond the engine: in SGLang's storage, or wherever vLLM's KV connector had them; null likewise
	ExternalTokens *int64 `json:"external_tokens"`
	// the same a second, over the run; null likewise, and if the run took no time
	DeviceTokensPerS   *float64 `json:"device_tokens_per_s"`
	HostTokensPerS     *float64 `json:"host_tokens_per_s"`     // likewise of the host
	ExternalTokensPerS *float64 `json:"external_tokens_per_s"` // likewise of what is beyond the engine
	// with report --kv-bytes: bytes a second that the host's memory gave; absent otherwise
	HostBytesPerS     *float64 `json:"host_bytes_per_s,omitempty"`
	ExternalBytesPerS *float64 `json:"external_bytes_per_s,omitempty"` // likewise what is beyond the engine
	// the requests by the slowest tier that gave something: external, host, device, or none
	BySlowest []Part `json:"by_slowest"`
}

// RecordedHits compares hits over the same ok requests: those whose recorded hits are known, and whose prompts are
// not verbatim. Shares are of their prompt tokens.
type RecordedHits struct {
	Requests         int64    `json:"requests"`           // how many
	PromptTokens     int64    `json:"prompt_tokens"`      // of these
	RecordedHitRatio *float64 `json:"recorded_hit_ratio"` // in the recorded server's cache
	ExpectedHitRatio *float64 `json:"expected_hit_ratio"` // in an ideal cache; null if unknown of one of them
	ReportedHitRatio *float64 `json:"reported_hit_ratio"` // as answers reported; null if one does not
}

// Shortfall is what the servers had less than expected, summed over the ok
// requests that had less, and why.
type Shortfall struct {
	Tokens int64 `json:"tokens"` // the sum of all below
	// the earlier request had not brought its first token yet, or failed before
	InPrefillTokens int64 `json:"in_prefill_tokens"`
	// another instance behind the same address had them than the one that answered
	ElsewhereTokens int64 `json:"elsewhere_tokens"`
	EvictedTokens   int64 `json:"evicted_tokens"`   // a cache of the server's capacity would have dropped them
	CacheOffTokens  int64 `json:"cache_off_tokens"` // the server reports that it caches nothing
	// the server never reports cached tokens, or the answer had no usage
	NotReportedTokens int64 `json:"not_reported_tokens"`
	// none of these. Causes are another block size or capacity, evictions while a request waited in the queue, a router
	// in between, or a server's fault
	UnexplainedTokens int64 `json:"unexplained_tokens"`
}

// Connections is how many connections the run opened, and whether they were ready in time. What a barrier stands before
// is not counted.
type Connections struct {
	Dialled int64 `json:"dialled" merge:"sum"` // connections that were opened
	// requests that had no open connection at their planned time; 0 in a closed loop
	NotReady   int64   `json:"not_ready" merge:"sum"`
	MaxWaitMS  float64 `json:"max_wait_ms" merge:"records"` // the longest that a request waited for a connection
	ClosedIdle int64   `json:"closed_idle" merge:"sum"`     // closed by the server between requests
	// closed within a second after an answer that had announced to keep them. From then on requests there have
	// connections of their own; also before the barrier
	ClosedEarly int64 `json:"closed_early" merge:"sum"`
	// requests that failed since the client's machine had no descriptor, port or memory for a connection
	NoResources int64 `json:"no_resources" merge:"sum"`
}

// Writes is how the kernel took the first write of each request that was sent, re-sends included. Failed ones are in
// neither, nor are those before a barrier.
type Writes struct {
	Whole   int64 `json:"whole" merge:"sum"`   // it took all
	Partial int64 `json:"partial" merge:"sum"` // it took a part, and the rest had to follow
}

// Target is one URL that requests went to. Its distributions are as those of the summary.
type Target struct {
	URL      string `json:"url"`      // as given
	Requests int64  `json:"requests"` // that were planned for it
	OK       int64  `json:"ok"`       // requests that ended ok
	Failed   int64  `json:"failed"`   // every outcome but ok, without those that did not fail, as in requests
	TargetLatencies
	ReportedHitRatio *float64 `json:"reported_hit_ratio"` // by its answers; null if they report none
	CountedHitRatio  *float64 `json:"counted_hit_ratio"`  // by the server's counters, if its answers report none
	// as that of the run, but share is of the target's requests, and slo is left out
	Goodput *Goodput `json:"goodput,omitempty"`
}

// Part is the share of the requests that one instance or one address got.
type Part struct {
	Name         string  `json:"name"`          // of the instance, as its answers name it; of an address, the address
	Requests     int64   `json:"requests"`      // that the instance answered, or that were sent to the address
	OK           int64   `json:"ok"`            // requests that ended ok
	Failed       int64   `json:"failed"`        // every outcome but ok, without those that did not fail, as in requests
	PromptTokens int64   `json:"prompt_tokens"` // of its ok requests
	Share        float64 `json:"share"`         // of the requests of all parts
	PartLatencies
	ReportedHitRatio *float64 `json:"reported_hit_ratio"` // by its answers; null if they report none
	// from the first token chunk to the second, in which prefill hands over to decode; only of instances, absent where
	// no answer has two
	SecondGapMS *stats.Percentiles `json:"second_gap_ms,omitempty"`
	// how long a transfer of a KV cache took on average, by the metrics of the instance. Absent if no page that is read
	// tells that, or if several may be of the instance
	KVTransferMS *float64 `json:"kv_transfer_ms,omitempty"`
	// of those that the run did not end early; absent without --goodput
	GoodShare *float64 `json:"goodput_share,omitempty"`
	// share of its prompt tokens that an ideal cache would have held; absent if unknown, and of instances and addresses
	ExpectedHitRatio *float64 `json:"expected_hit_ratio,omitempty"`
	// the longest that one of its requests waited for its first token, or without one for its failure; absent likewise
	LongestWaitMS *float64 `json:"longest_wait_ms,omitempty"`
	// of a model, the median TTFT of the first request for it at each target, which may have loaded it; absent else
	FirstTTFTMS *float64 `json:"first_ttft_ms,omitempty"`
}

// AnswerModel counts the ok requests to a target by the model that their answers name.
type AnswerModel struct {
	Target   string `json:"target"`          // URL
	Asked    string `json:"asked,omitempty"` // the row's own model; absent: that of the run
	Named    string `json:"named"`           // as the answers name it; from the fifth name of one model on, (further names)
	Requests int64  `json:"requests"`        // that ended ok
}

// Owners is what became of requests by what their rows say of whose they are.
type Owners struct {
	Tenants    *Breakdown `json:"tenants"`    // by tenant; null if no row names one
	Models     *Breakdown `json:"models"`     // by the model or adapter that a row has of its own; null likewise
	Classes    *Breakdown `json:"classes"`    // by class of service; null likewise
	Priorities *Breakdown `json:"priorities"` // by priority; null likewise
}

// OwnerOf is whose request a record is of.
func OwnerOf(r *record.Record) rows.Owner {
	return rows.Owner{Tenant: r.Tenant, Model: r.Model, Class: r.Class, Priority: r.Priority}
}

// Each yields the breakdowns that there are, by the fields of rows that they are by.
func (o *Owners) Each(yield func(field string, by *Breakdown) bool) {
	if o == nil {
		return
	}
	for _, of := range []struct {
		field string
		by    *Breakdown
	}{{"class", o.Classes}, {"tenant", o.Tenants}, {"model", o.Models}, {"priority", o.Priorities}} {
		if of.by != nil && !yield(of.field, of.by) {
			return
		}
	}
}

// Breakdown is how requests were spread over instances, addresses or owners.
type Breakdown struct {
	Parts []Part `json:"parts"` // by name
	// coefficient of variation of their requests (population standard deviation / mean); null below two parts
	CV       *float64 `json:"cv"`
	TokensCV *float64 `json:"tokens_cv"` // likewise of the prompt tokens of ok requests

	// Jain's index of the parts' mean TTFT, (Σx)² / (N·Σx²): 1 if all are alike, 1/N if one waits for all. Null below
	// two parts, and if no request of one has a TTFT
	JainTTFT *float64 `json:"jain_ttft"`

	Rest int64 `json:"rest"` // requests of parts beyond the first 1,024, which are not listed
}

// Turns is what became of requests that depend on others, such as the turns of conversations.
type Turns struct {
	Sessions  string `json:"sessions" merge:"first"`     // the mode: strict, gated or think
	FollowUps int64  `json:"followup_turns" merge:"sum"` // requests that follow another of the run
	// of those: sent before that one had ended, or before its sending if they had only to follow that
	Overtaking int64 `json:"overtaking" merge:"sum"`
	// how long before, of those; if they depend on several, before the last
	OvertakingMS *stats.Percentiles `json:"overtaking_ms" merge:"worst"`
	// how long after their own planned times follow-up turns were released; null if they did not wait, and in a closed
	// loop
	LaterMS *stats.Percentiles `json:"later_ms" merge:"worst"`
}

// IdleCuts is how often nothing was in flight for as long as --idle-cap has it, so that what was still to come came
// earlier.
type IdleCuts struct {
	System  int64   `json:"system" merge:"sum"`   // of all jobs together: how often
	SystemS float64 `json:"system_s" merge:"sum"` // likewise: by how much earlier, in all
	Trees   int64   `json:"trees" merge:"sum"`    // of single jobs: how often
	TreesS  float64 `json:"trees_s" merge:"sum"`  // likewise: by how much earlier, in all
}

// Cap is a bound on the requests in flight, and what it did to a plan.
type Cap struct {
	InFlight int64              `json:"in_flight" merge:"sum"` // the cap: --concurrency
	Held     int64              `json:"held_back" merge:"sum"` // requests that could not leave at their planned times
	HeldMS   *stats.Percentiles `json:"held_ms" merge:"worst"` // for how long the requests of held_back waited
}

// BuildAhead is how requests were built during the run, where memory did not
// hold all of them.
type BuildAhead struct {
	WindowBytes int64 `json:"window_bytes" merge:"sum"` // room for the bytes of requests at a time
	// the shortest time between the end of a request's building and when it could leave. It could leave at its planned
	// time, or when a cap or the previous turn released it. null if all were built before the start
	LeastLeadMS *float64 `json:"least_lead_ms" merge:"min"`
	// requests that could leave before they were built: those of a lead below 0
	Late int64 `json:"late" merge:"sum"`
}

// Client is what the load generator itself used.
type Client struct {
	CPUS        float64 `json:"cpu_s" merge:"sum"`         // processor time during the replay
	MaxRSSBytes int64   `json:"max_rss_bytes" merge:"max"` // most memory of the process
	GCCycles    int64   `json:"gc_cycles" merge:"sum"`     // collections of garbage during the replay
	Senders     int     `json:"senders" merge:"sum"`       // sending threads
	// the sending threads had a process of their own
	SenderProcess bool `json:"sender_process" merge:"and"`
	Realtime      bool `json:"realtime" merge:"and"` // they had real-time priority
	// how long before a planned time they stopped sleeping, at the end of the run
	SpinUS    float64 `json:"spin_us" merge:"max"`
	LoadS     float64 `json:"load_s" merge:"max"`     // time to read the trace
	PrebuildS float64 `json:"prebuild_s" merge:"max"` // time to build the requests
	WireBytes int64   `json:"wire_bytes" merge:"sum"` // size of all requests
	// time for which connections were not read, since the memory for large answers was lent out
	AnswerWaitS float64 `json:"answer_wait_s" merge:"sum"`
	// reads behind the kernel's receive stamps: how far off latencies by the reader's own clock would be; null without
	// stamps
	ReceiveLagUS  *stats.Percentiles `json:"receive_lag_us" merge:"worst"`
	stats.Machine `merge:"each"`
	// how far times come from the kernel
	Stamps *Stamps `json:"kernel_timestamps" merge:"each"`
	// servers at addresses of the client's own machine; absent if there are none
	LocalServers *stats.LocalServers `json:"local_servers,omitempty" merge:"each"`
}

// Shard is one of several machines that sent a load together.
type Shard struct {
	Index    int64  `json:"index"`    // as in --shard
	State    string `json:"state"`    // whole; ended, before its run did; or missing
	Host     string `json:"host"`     // name of the machine; empty if it is missing
	Requests int64  `json:"requests"` // that it was to send; 0 if it is missing
	OK       int64  `json:"ok"`       // of those, as far as it has a summary
	// valid, limited or invalid: of its own run; empty without a summary
	Verdict string `json:"verdict"`
	// how much later than the agreed start it was ready; 0 if in time
	LateMS        float64  `json:"late_ms"`
	DriftP99US    *float64 `json:"drift_p99_us"`       // of its requests; null without a summary
	ReceiveLagP99 *float64 `json:"receive_lag_p99_us"` // of its reads; likewise
	CPUS          float64  `json:"cpu_s"`              // processor time of its client
	StolenShare   *float64 `json:"stolen_share"`       // of its processors' time, taken by its host; null if unknown
	// by how much its clock was ahead of that of shard 0, at most; null if they were not compared
	ClockUS       *float64 `json:"clock_us"`
	ClockWithinUS *float64 `json:"clock_within_us"` // how exactly that is known
}

// The states of a shard.
const (
	ShardWhole   = "whole"
	ShardEnded   = "ended"
	ShardMissing = "missing"
)

// Stamps counts how many times come from the kernel's timestamps.
type Stamps struct {
	Received   bool    `json:"received" merge:"and"`          // what came was stamped
	Sent       bool    `json:"sent" merge:"and"`              // what left and was acknowledged was stamped
	Reads      int64   `json:"reads" merge:"sum"`             // reads with a stamp
	Unstamped  int64   `json:"unstamped_reads" merge:"sum"`   // reads without a stamp: their times are the reader's
	Dropped    int64   `json:"dropped" merge:"sum"`           // stamps not used, since the wall clock had just been set
	ClockSteps int64   `json:"clock_steps" merge:"sum"`       // how often the wall clock was set
	Ring       bool    `json:"ring" merge:"and"`              // a ring told the segments of one read apart
	RingMissed int64   `json:"ring_missed_reads" merge:"sum"` // reads of which the ring had not seen all segments
	RingLost   int64   `json:"ring_lost" merge:"sum"`         // segments that found no room in the ring
	StepMS     float64 `json:"largest_step_ms" merge:"max"`   // by how much at most
}

// Amplify is what --amplify made of a load. It is in summary.json and in what inspect prints as JSON.
type Amplify struct {
	Factor   float64 `json:"factor"`         // as given by --amplify
	Seed     uint64  `json:"seed"`           // as given by --seed
	Sessions int64   `json:"sessions"`       // conversations as recorded, or jobs of agents
	Jobs     bool    `json:"jobs,omitempty"` // sessions counts jobs; only there if it does
	// conversations were found by the blocks that requests share, since the file names none
	Inferred     bool  `json:"inferred"`
	SharedBlocks int64 `json:"shared_blocks"` // distinct leading blocks that all clones share
	Before       Load  `json:"before"`        // the load as recorded
	After        Load  `json:"after"`         // the load as sent
}

// Load is what of a load must not change by accident when it grows.
type Load struct {
	Requests int64   `json:"requests"` // how many
	SpanS    float64 `json:"span_s"`   // from the first request to the last
	// requests / span; null where the span is 0, and of an untimed trace
	RequestsPerS *float64 `json:"requests_per_s"`
	Peak         *int64   `json:"peak_requests_in_1s"` // most within any second; null of an untimed trace
	// standard deviation / mean of the gaps; null where the span is 0
	GapCV *float64 `json:"interarrival_cv"`
	// median of the tokens in other blocks used between two uses of a block; null without repeated blocks
	ReuseP50 *float64 `json:"reuse_distance_tokens_p50"`
	ReuseP90 *float64 `json:"reuse_distance_tokens_p90"` // likewise, the 90th percentile
	// of the input tokens, in an unlimited cache; null without block ids
	HitRatio *float64 `json:"ideal_hit_ratio"`
}

// PromptTokens is the server's count, or the trace's where it gave none; record.None without either.
func PromptTokens(r *record.Record) int64 {
	if r.PromptTokens != record.None {
		return r.PromptTokens
	}
	return r.InputTokens
}

// Unknown is what servers do not report.
type Unknown struct {
	What string // in a few words, with why, and the flag that helps
	Note string // in whole sentences
}

// Fold is a note of what is unknown: in whole sentences of one thing, as a list of several; none of nothing.
func Fold(all []Unknown) Notes {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return NotesOf("unreported", "%s", all[0].Note)
	}
	var what []string
	for _, u := range all {
		what = append(what, u.What)
	}
	return NotesOf("unreported_facts", "the server does not report: %s", strings.Join(what, ", "))
}

// Note is what is worth knowing of a run.
type Note struct {
	Code string `json:"code"` // names its kind: see [notes](#codes-of-notes)
	Text string `json:"text"` // a sentence; may have several lines
}

// Notes are notes in order.
type Notes []Note

// NotesOf is one note. The manual's list of codes is made of the calls of this and of Add.
func NotesOf(code, format string, args ...any) Notes {
	return Notes{{code, fmt.Sprintf(format, args...)}}
}

// Add adds a note if that holds.
func (all *Notes) Add(holds bool, code, format string, args ...any) {
	if holds {
		*all = append(*all, NotesOf(code, format, args...)...)
	}
}

// AddNotes puts notes behind the first so many that s has.
func (s *Summary) AddNotes(behind int, notes Notes) {
	s.Notes = append([]string{}, s.Notes...)
	s.NoteCodes = append(make([]string, 0, len(s.Notes)), s.NoteCodes...)
	for len(s.NoteCodes) < len(s.Notes) { // of a version that had none
		s.NoteCodes = append(s.NoteCodes, "")
	}
	for i, n := range notes {
		s.Notes = slices.Insert(s.Notes, behind+i, n.Text)
		s.NoteCodes = slices.Insert(s.NoteCodes, behind+i, n.Code)
	}
}
