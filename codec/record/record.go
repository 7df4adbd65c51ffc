// Package record is the result of one request: the Record, its Outcome, and its form as one line of JSON, out and in.
//
// It owns the names and units of requests.jsonl and the arithmetic that turns instants into drift, TTFT, TPOT and E2E.
// It does not own measuring, nor statistics over many records.
//
// A Record is plain data: one goroutine at a time. AppendJSON and the accessors allocate nothing; Parse and Reader
// allocate for each line.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// None stands for an absent instant or number; it is null in JSON, never 0.
const None = math.MinInt64

// Float is n, or NaN if it is None.
func Float(n int64) float64 {
	if n == None {
		return math.NaN()
	}
	return float64(n)
}

// Record is one planned request and what became of it. Instants are nanoseconds since the start of the run on its
// monotonic clock. Any number may be None and any string "", meaning absent.
//
// The zero value is not an empty record: call Clear first. The tags are the keys of a line, of which those that may be
// empty are left out where there is no value. Keys has them, and what follows from them.
type Record struct {
	// row in the trace file, from 0; with --amplify the row of which the request is a copy
	Row       int64  `json:"row"`
	RequestID string `json:"request_id"` // as sent in X-Request-Id
	// conversation: the first chat_id of its chain, or the number or a hash of the name in the file; null if the trace
	// has none
	Session int64 `json:"session"`
	// the conversation's name if that is no number; absent otherwise
	SessionName string `json:"session_name,omitempty"`
	Turn        int64  `json:"turn"` // turn in the conversation
	// number of the task that it is part of (see the results by job), or of its conversation if the trace has no jobs.
	// Absent unless requests depend on others
	Job int64 `json:"job,omitempty"`
	// 0 = the job's first agent, 1 = its sub-agents, 2 = theirs; absent if the trace has no agents
	Depth int64 `json:"depth,omitempty"`
	// requests that it depends on, by the numbers that end their request_id, with spaces. An s behind one: it depends
	// on the sending, not on the end. Absent if it depends on none
	WaitsFor string `json:"waits_for,omitempty"`
	// of the job's first request alone: its name, or that of the conversation, in the trace; absent if it has none
	JobName string `json:"job_name,omitempty"`
	// likewise: how many requests of the job were selected from the trace
	JobRequests int64 `json:"job_requests,omitempty"`
	// likewise: how many others of the job came before the snapshot at which its lane began; absent if it began with
	// the first
	JobBefore int64 `json:"job_before,omitempty"`
	// likewise: how long the job takes if each request leaves when planned, and takes as long as recorded. Absent if
	// the trace lacks the end of the last one
	JobRecordedNS int64  `json:"job_recorded_ns,omitempty"`
	Type          string `json:"type,omitempty"`     // kind of request in the trace; absent if it has none
	Tenant        string `json:"tenant,omitempty"`   // whose request it is; absent if the trace does not say
	Model         string `json:"model,omitempty"`    // the row's own model or adapter; likewise
	Class         string `json:"class,omitempty"`    // class of service; likewise
	Priority      string `json:"priority,omitempty"` // a whole number; likewise
	// primer or warmup, of a request before the barrier. It only prepares what is measured, and its instants are below
	// 0. Or unreleased, of one that lanes had no time for: nothing counts it. Absent otherwise
	Phase    Phase  `json:"phase,omitempty"`
	Target   string `json:"target"`             // URL it was sent to
	Endpoint string `json:"endpoint"`           // address that was used
	Instance string `json:"instance,omitempty"` // who answered, by header or answer; absent if neither names it
	// likewise who prefilled, where another one decodes
	PrefillInstance string `json:"prefill_instance,omitempty"`
	// with --history live, of a follow-up turn: live (all answers in it are), partly or recorded; absent otherwise
	History string `json:"history,omitempty"`

	PlannedNS int64 `json:"planned_ns"` // when it was to leave
	// just before the write of its first byte; of the last attempt, if it was sent again
	SentNS int64 `json:"sent_ns"`
	// sent_ns as a date, UTC, in µs: the wall clock at the start of the run, and the monotonic one from there on. So no
	// clock step is in it
	SentAt            Wall  `json:"sent_at"`
	ConnWaitNS        int64 `json:"conn_wait_ns"`        // how long it waited for a connection
	WrittenNS         int64 `json:"written_ns"`          // the kernel had taken the last byte
	WrittenFirstBytes int64 `json:"written_first_bytes"` // bytes that the first write took
	// with --kernel-timestamps sent: the kernel handed the first write to the network device; null if that was longer
	// than one flight (10 segments, RFC 6928)
	DepartedNS int64 `json:"departed_ns"`
	// with --kernel-timestamps sent: our kernel had processed the acknowledgement of the last byte
	AckedNS      int64 `json:"acked_ns"`
	HeadersNS    int64 `json:"headers_ns"`     // the response head was complete
	FirstTokenNS int64 `json:"first_token_ns"` // first token chunk
	FirstTextNS  int64 `json:"first_text_ns"`  // first token chunk with text in it
	// first token chunk of the answer itself, a tool call's too: after the reasoning, if there is any; null if nothing
	// else came
	FirstOutputNS int64 `json:"first_output_ns"`
	LastTokenNS   int64 `json:"last_token_ns"` // last token chunk
	// from the first token chunk to the second, in which prefill hands over to decode; absent unless an answer of one
	// choice names its instance
	SecondGapNS int64 `json:"second_gap_ns,omitempty"`
	// end of the response body; of a request that failed or was cut off before it, when that was seen
	DoneNS int64 `json:"done_ns"`
	// duration that a gateway (LiteLLM) reports for itself; absent if none does
	GatewayNS int64 `json:"gateway_ns,omitempty"`
	// duration for which a gateway (LiteLLM, Envoy) reports to have waited for the head of the server's response;
	// absent if none does
	UpstreamNS int64 `json:"upstream_ns,omitempty"`

	// prompt length in the trace; null if the trace has the prompt verbatim
	InputTokens  int64 `json:"recorded_input_tokens"`
	PromptTokens int64 `json:"prompt_tokens"`          // prompt length as the server counted it
	OutputTokens int64 `json:"recorded_output_tokens"` // completion length in the trace, which is asked for
	// completion length as the server counted it, or token chunks
	CompletionTokens int64 `json:"completion_tokens"`
	// of these, reasoning that the server counted and did not send; absent if there is none
	HiddenTokens int64 `json:"hidden_tokens,omitempty"`
	// usage, or chunks if the server sent no usage and chunks were counted
	TokensFrom TokensFrom `json:"tokens_from"`
	Chunks     int64      `json:"chunks"`            // token chunks that came
	Choices    int64      `json:"choices,omitempty"` // how many choices came; absent if one
	// duration from the first token chunk of a choice to its last, all choices summed; absent if one came
	DecodeNS     int64  `json:"decode_ns,omitempty"`
	FinishReason string `json:"finish_reason"` // as the server gave it
	// with --force-answers: tokens of the answer other than told, missing ones too; absent if there are none
	WrongTokens int64 `json:"wrong_tokens,omitempty"`
	WrongAt     int64 `json:"wrong_at,omitempty"`  // place in the answer of the first of them, from 0
	WrongGot    int64 `json:"wrong_got,omitempty"` // the id that came there; absent if none did
	// the id that the server was told; absent if the answer was to be over
	WrongWant int64 `json:"wrong_want,omitempty"`

	// prompt tokens that the recorded server found in its cache; absent if the trace does not have it
	RecordedCachedTokens int64 `json:"recorded_cached_tokens,omitempty"`
	// prompt tokens that an ideal prefix cache would have held; null if unknown
	ExpectedCachedTokens int64 `json:"expected_cached_tokens"`
	// prompt tokens that the server found in its cache, as it reported
	CachedTokens int64 `json:"cached_tokens"`
	// of these, in the accelerator's memory; absent if the server does not tell tiers apart
	CachedDeviceTokens int64 `json:"cached_device_tokens,omitempty"`
	CachedHostTokens   int64 `json:"cached_host_tokens,omitempty"` // likewise in the host's memory
	// likewise beyond the engine: in SGLang's storage, or wherever vLLM's KV connector had them
	CachedExternalTokens int64 `json:"cached_external_tokens,omitempty"`

	// BuiltTokens is the prompt length that the request was built for: the recorded one, or more where the server's
	// template alone is longer. It stays in memory.
	BuiltTokens int64 `json:"-"`

	// AskedChoices is how many answers the request asks for (n, or the candidates of best_of); 0 of one. It stays in
	// memory.
	AskedChoices int64 `json:"-"`

	// LeastCachedTokens and MostCachedTokens bound what an ideal prefix cache would have had, where the template hides
	// the exact number. They stay in memory.
	LeastCachedTokens int64 `json:"-"`
	MostCachedTokens  int64 `json:"-"`

	// AnswerModel is the model that the answer names; "" if it names none. It stays in memory.
	AnswerModel string `json:"-"`

	// FirstSlackNS, OutputSlackNS and LastSlackNS tell how much earlier than its instant a token chunk may have come.
	// The chunks are the first, the first of the answer itself, and the last. They are above 0 if the client read late,
	// and found more after the chunk: the kernel has one stamp for all. They are so, too, if the server may have waited
	// before for room in the receive buffer. They stay in memory.
	FirstSlackNS  int64 `json:"-"`
	OutputSlackNS int64 `json:"-"`
	LastSlackNS   int64 `json:"-"`

	Status        int64   `json:"status"`         // HTTP status
	Outcome       Outcome `json:"outcome"`        // how it ended: one of the outcomes below
	Error         string  `json:"error"`          // the server's message, or ours; null if there is none
	Resent        int64   `json:"resent"`         // 1 if it was sent again on a fresh connection
	BytesSent     int64   `json:"bytes_sent"`     // on the wire, heads included
	BytesReceived int64   `json:"bytes_received"` // on the wire, heads included
}

// Clear makes every field absent; the outcome becomes NotSent, which is what a request is until somebody sends it.
// Counters (Resent, bytes, Chunks) become 0, for they are known from the start.
func (r *Record) Clear() {
	*r = Record{
		Row: None, Session: None, Turn: None, Job: None, JobRequests: None, JobBefore: None,
		JobRecordedNS: None, Depth: None,
		PlannedNS: None, SentNS: None, SentAt: None, ConnWaitNS: None, WrittenNS: None, WrittenFirstBytes: None,
		DepartedNS: None, AckedNS: None, HeadersNS: None, FirstTokenNS: None, FirstTextNS: None, FirstOutputNS: None,
		LastTokenNS: None, DoneNS: None,
		SecondGapNS: None, GatewayNS: None, UpstreamNS: None, DecodeNS: None,
		InputTokens: None, PromptTokens: None, OutputTokens: None, CompletionTokens: None, HiddenTokens: None,
		RecordedCachedTokens: None, ExpectedCachedTokens: None, CachedTokens: None, CachedDeviceTokens: None,
		CachedHostTokens: None, CachedExternalTokens: None, LeastCachedTokens: None,
		MostCachedTokens: None, BuiltTokens: None,
		WrongTokens: None, WrongAt: None, WrongGot: None, WrongWant: None,
		Status: None, Outcome: NotSent,
	}
}

// ToldUsage reports whether the server sent any count of its own. If such an answer leaves out a count that the server
// sends at other times, such as cached tokens, the count is 0. What any other answer leaves out is unknown.
func (r *Record) ToldUsage() bool {
	return r.TokensFrom == TokensFromUsage || r.PromptTokens != None || r.CachedTokens != None
}

// What the Error of a request ends with that counts as planned, but of which nobody failed.
const (
	// LeftOutWords: the user left it out of the run.
	LeftOutWords = "left out by --too-long drop"
	// WithoutWords: likewise, for whose it is.
	WithoutWords = "left out by --without"
	// StreamEndedWords: another request, to which it goes back, was refused, see ContextTooLong.
	StreamEndedWords = "so what comes after it was left out"
)

// LeftOut reports whether the request was left out: it counts as planned, but nobody failed.
func (r *Record) LeftOut() bool {
	return r.Outcome == NotSent &&
		(strings.HasSuffix(r.Error, LeftOutWords) || strings.HasSuffix(r.Error, StreamEndedWords) ||
			r.Error == WithoutWords)
}

// ContextTooLong reports whether the server refused the request since its context is too long, by the server's words.
func (r *Record) ContextTooLong() bool {
	if r.Outcome != HTTPError && r.Outcome != StreamError {
		return false
	}
	text := strings.ToLower(r.Error)
	for _, words := range []string{
		"context length",                                // vLLM, SGLang, OpenAI: maximum context length
		"context_length_exceeded",                       // OpenAI's code
		"context window",                                // OpenAI: exceeds the context window of this model
		"longer than the maximum model length",          // vLLM's engine
		"exceeds the maximum allowed length",            // SGLang
		"`inputs` tokens + `max_new_tokens` must be <=", // TGI
		"`inputs` must have less than",                  // TGI
		"context size",                                  // llama.cpp: exceeds the available context size
		"exceed_context_size_error",                     // llama.cpp's type
		"should not exceed max_seq_len",                 // TensorRT-LLM
		"prompt is too long",                            // Anthropic
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// DriftNS is sent - planned, in ns. It is never clamped: negative means that the request left early, which is a bug.
// None when it was not sent.
func (r *Record) DriftNS() int64 { return span(r.PlannedNS, r.SentNS) }

// WireDriftNS is departed - planned, in ns.
func (r *Record) WireDriftNS() int64 { return span(r.PlannedNS, r.DepartedNS) }

// UploadNS is acked - sent, in ns: until the peer's kernel had said that it has the whole request. A peer may delay
// that by up to 40 ms.
func (r *Record) UploadNS() int64 { return span(r.SentNS, r.AckedNS) }

// TTFTNS is the time to first token from the moment of sending, in ns.
func (r *Record) TTFTNS() int64 { return span(r.SentNS, r.FirstTokenNS) }

// TTFTPlannedNS is the time to first token from the planned moment, in ns. It contains the drift, so no lateness of
// ours can be left out of it.
func (r *Record) TTFTPlannedNS() int64 { return span(r.PlannedNS, r.FirstTokenNS) }

// TTFONS is the time to first output token from the moment of sending, in ns: that of the answer itself, after the
// reasoning. It is TTFTNS if there was no reasoning, and None if nothing but reasoning came.
func (r *Record) TTFONS() int64 { return span(r.SentNS, r.FirstOutputNS) }

// EmptyFirstNS is how much later than the first token chunk the first text came, if nothing shows that a token was in
// that chunk. Nothing does unless the server counts as many tokens as chunks. If it counts fewer, a gateway may have
// sent a space at once. So it is at least the time of a token if the chunk came in less than half of that. It is 0
// otherwise.
func (r *Record) EmptyFirstNS() int64 {
	counted := r.TokensFrom == TokensFromUsage
	if counted && r.CompletionTokens == r.Chunks {
		return 0
	}
	late := max(0, span(r.FirstTokenNS, r.FirstTextNS))
	each := r.TPOTNS()
	if counted && r.CompletionTokens < r.Chunks && 2*r.TTFTNS() < each {
		late = max(late, each)
	}
	return late
}

// TTFOPlannedNS is the same from the planned moment.
func (r *Record) TTFOPlannedNS() int64 { return span(r.PlannedNS, r.FirstOutputNS) }

// E2ENS is last token - sent, in ns.
func (r *Record) E2ENS() int64 { return span(r.SentNS, r.LastTokenNS) }

// E2EPlannedNS is last token - planned, in ns.
func (r *Record) E2EPlannedNS() int64 { return span(r.PlannedNS, r.LastTokenNS) }

// EndNS is the last instant that is known of the request since it was sent; None if it was not sent.
func (r *Record) EndNS() int64 {
	return max(r.SentNS, r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS)
}

// MoveInstants makes all instants ns earlier but the planned one, and SentAt, which is a date.
func (r *Record) MoveInstants(ns int64) {
	for _, at := range []*int64{
		&r.SentNS, &r.WrittenNS, &r.DepartedNS, &r.AckedNS, &r.HeadersNS,
		&r.FirstTokenNS, &r.FirstTextNS, &r.FirstOutputNS, &r.LastTokenNS, &r.DoneNS,
	} {
		if *at != None {
			*at -= ns
		}
	}
}

// TPOTNS is the time per output token after the first, in ns, rounded to the nearest. Of several choices it is the mean
// over these tokens of all. It is None with fewer than two completion tokens, and if they came AtOnce.
func (r *Record) TPOTNS() int64 {
	d, tokens := r.decoded()
	if d == None || tokens < 1 || r.AtOnce() {
		return None
	}
	return int64(math.Round(float64(d) / float64(tokens)))
}

// Whole reports whether the answer came as one document, and not as a stream.
func (r *Record) Whole() bool { return r.FirstTokenNS == None && r.LastTokenNS != None }

// AtOnce reports whether several tokens of a stream came in one chunk or at one instant, as from a proxy that buffers
// streams. Of several choices it asks that of each. How long the later ones took is unknown then.
func (r *Record) AtOnce() bool {
	ns, tokens := r.decoded()
	return tokens >= 1 && r.FirstTokenNS != None && (ns == 0 || r.Chunks > 0 && r.Chunks <= max(1, r.Choices))
}

// TPOTMostNS is the longest that TPOTNS can have been: that of tokens which took all of E2E. None if one of both is
// unknown.
func (r *Record) TPOTMostNS() int64 {
	_, tokens := r.decoded()
	ns := r.E2ENS()
	if ns == None || tokens < 1 {
		return None
	}
	return ns * max(1, r.Choices) / tokens
}

// SentTokens is how many of the completion tokens came.
func (r *Record) SentTokens() int64 {
	return max(0, r.CompletionTokens) - max(0, r.HiddenTokens)
}

// decoded is how long the tokens after the first took, and how many these are; of several choices all together.
func (r *Record) decoded() (ns, tokens int64) {
	ns = span(r.FirstTokenNS, r.LastTokenNS)
	tokens = r.SentTokens()
	if r.Choices > 1 {
		return r.DecodeNS, tokens - r.Choices
	}
	return ns, tokens - 1
}

// span returns to - from, or None when either end is absent.
func span(from, to int64) int64 {
	if from == None || to == None {
		return None
	}
	return to - from
}

// Wall is wall-clock time in µs since 1970, UTC, or None. In result files it is a date, such as
// 2026-01-02T15:04:05.000006Z.
type Wall int64

// UnmarshalJSON reads a date of RFC 3339, and leaves what is null as it was.
func (w *Wall) UnmarshalJSON(value []byte) error {
	date, err := textOf(value)
	if date == nil || err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339Nano, string(date))
	if *w = Wall(t.UnixMicro()); err == nil && (t.UTC().Year() < 0 || t.UTC().Year() > 9999) {
		err = fmt.Errorf("date %q is none of RFC 3339 in UTC", date)
	}
	return err
}

// Phase is what a request is sent for.
type Phase string

// The phases. A primer leaves in servers' caches what the profile begins with; a warm-up request brings load. An
// unreleased request was planned for lanes that are faster, and is no part of the run.
const (
	Profiled   Phase = ""
	Primer     Phase = "primer"
	Warmup     Phase = "warmup"
	Unreleased Phase = "unreleased"
)

// Outcome is how a planned request ended. Every planned request has exactly one.
type Outcome uint8

// The outcomes. Only OK requests enter a latency distribution.
const (
	OK           Outcome = iota // the whole answer arrived
	HTTPError                   // the server answered with a status other than 200
	ConnectError                // no connection could be made (dial, name, TLS)
	Reset                       // the peer broke the connection off
	Timeout                     // a limit on time was reached (whole request, or between bytes)
	Truncated                   // the answer ended before it was complete
	BadResponse                 // the answer is no HTTP, SSE or JSON that we can read
	StreamError                 // the server reported an error inside a 200 stream
	Cancelled                   // we broke it off, because the run was stopped
	NotSent                     // not a byte of it left

	// Outcomes is the number of outcomes; arrays are indexed by Outcome.
	Outcomes = int(NotSent) + 1
)

// outcomeNames returns the names as they stand in result files.
func outcomeNames() [Outcomes]string {
	return [Outcomes]string{
		OK: "ok", HTTPError: "http_error", ConnectError: "connect_error", Reset: "reset", Timeout: "timeout",
		Truncated: "truncated", BadResponse: "bad_response", StreamError: "stream_error", Cancelled: "cancelled",
		NotSent: "not_sent",
	}
}

// String returns the name as it stands in result files, such as "http_error".
func (o Outcome) String() string {
	if int(o) >= Outcomes {
		return "unknown"
	}
	return outcomeNames()[o]
}

// UnmarshalJSON is the inverse of String, and leaves what is null as it was.
func (o *Outcome) UnmarshalJSON(value []byte) error {
	name, err := textOf(value)
	if name == nil || err != nil {
		return err
	}
	for i, n := range outcomeNames() {
		if n == string(name) {
			*o = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("outcome %q is none of %v", name, outcomeNames())
}

// textOf is what a JSON string says, or nil of null. An UnmarshalText would not do: on arm64 the decoder of sonic
// writes eight bytes of zeros to what is null then, whatever its type.
func textOf(value []byte) (text []byte, err error) {
	last := len(value) - 1
	if last > 0 && value[0] == '"' && value[last] == '"' && !bytes.Contains(value, []byte{'\\'}) {
		return value[1:last], nil
	}
	var said *string
	if err = json.Unmarshal(value, &said); said != nil {
		text = []byte(*said)
	}
	return text, err
}

// TokensFrom is the source of the number of completion tokens.
type TokensFrom string

// The sources of a token count.
const (
	TokensUnknown    TokensFrom = ""       // nothing was counted; null in result files
	TokensFromUsage  TokensFrom = "usage"  // the server's usage.completion_tokens
	TokensFromChunks TokensFrom = "chunks" // the server sent no usage, so token chunks were counted
)
