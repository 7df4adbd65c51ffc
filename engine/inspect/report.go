// Package inspect analyses a trace, without traffic: arrivals, lengths, conversations, and what prefix caches of every
// size would have held. It finds what a replay would need and what is wrong with the trace. It prints that as a page
// for a terminal, as HTML and, by the tags of [Report], as JSON.
//
// It does not read files: traces come from codec/trace. Functions are pure but for the writer they are given, and may
// be called by any number of goroutines. An analysis takes about 120 bytes for a distinct block and 40 for a row.
//
// The package is not an API: any release may change it.
package inspect

import (
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Document is what `inspect --json` prints.
type Document struct {
	Schema int       `json:"schema"` // version of this document: 1
	Traces []*Report `json:"traces"` // one for each trace
}

// Report is what is in one trace. Ratios are 0..1, units are in the names, and what the trace does not have is null.
type Report struct {
	Trace       string    `json:"trace"`        // file name
	Format      string    `json:"format"`       // a name of trace.Formats
	TimeUnit    string    `json:"time_unit"`    // of the file's timestamps: ns, us, ms or s
	BlockTokens int       `json:"block_tokens"` // tokens that a hash id stands for
	FileRows    int64     `json:"file_rows"`    // rows in the file, bad ones included
	Rows        int64     `json:"rows"`         // rows analysed: good and selected
	Untimed     bool      `json:"untimed"`      // no row has its time of arrival
	Verbatim    *Verbatim `json:"verbatim"`     // prompts and bodies that the trace has verbatim; null if none
	Replayable  bool      `json:"replayable"`   // a replay with the same flags would take the trace
	Findings    []Finding `json:"findings"`     // the worst first; empty for a clean trace

	// the load multiplied, as in summary.json; all else here is about the load after it; absent without --amplify
	Amplify *metrics.Amplify `json:"amplify,omitempty"`

	Arrivals     Arrivals           `json:"arrivals"`        // rates and bursts
	InputTokens  Lengths            `json:"input_tokens"`    // prompt lengths
	OutputTokens Lengths            `json:"output_tokens"`   // completion lengths
	TotalTokens  *stats.Percentiles `json:"total_tokens"`    // input and output of a row together
	Types        []Type             `json:"types"`           // kinds of requests; null if no row names one
	Sessions     *Sessions          `json:"sessions"`        // conversations; null if no row is part of one
	Agents       *Agents            `json:"agents"`          // jobs and their agents; null if the trace has no jobs
	Blocks       *Blocks            `json:"blocks"`          // hash ids; null if no row has any
	Cache        *Cache             `json:"prefix_cache"`    // hits of caches of any size; null without blocks
	Tiers        *Tiers             `json:"tiers,omitempty"` // hits of a cache of several tiers; absent without --tiers
	// what lies between two uses of a block; null without blocks
	Reuse *Reuse `json:"reuse_distance"`
	// with --instances: hits by who routes, as routing of summary.json without actual: a part for caches without a
	// limit and one for each of --cache-tokens; absent otherwise
	Routing []*route.Oracle `json:"routing,omitempty"`
	Context *Context        `json:"context"` // with --max-model-len: rows that exceed it; null otherwise
	Replay  Replay          `json:"replay"`  // bytes that a replay needs

	pictures *pictures
}

// Verbatim is what the trace has verbatim. Only the server knows how many tokens that is, and how much of it a cache
// would hold. So such rows are in the lengths if they have them, and in no cache.
type Verbatim struct {
	Texts    int64 `json:"texts"`    // rows with a text
	Messages int64 `json:"messages"` // rows with messages
	Payloads int64 `json:"payloads"` // rows with a whole body
	Bytes    int64 `json:"bytes"`    // size of all of them as JSON
}

// Severity is what a finding means for a replay.
type Severity string

// The severities, the worst first.
const (
	Refusal Severity = "refusal" // a replay refuses the trace
	BadRow  Severity = "bad_row" // a row that cannot be replayed; left out here
	Note    Severity = "note"    // worth knowing
)

// Finding is something about the trace that people should know.
type Finding struct {
	Severity Severity `json:"severity"` // refusal (a replay would refuse the trace), bad_row or note
	Text     string   `json:"text"`     // what, where, and what to do about it
}

// Arrivals is when the rows come. Instants count from the first row.
type Arrivals struct {
	SpanS            float64  `json:"span_s"`              // first to last row
	RowsPerS         *float64 `json:"rows_per_s"`          // rows / span; null if the span is 0
	InputTokensPerS  *float64 `json:"input_tokens_per_s"`  // null if the span is 0, or no row tells its tokens
	OutputTokensPerS *float64 `json:"output_tokens_per_s"` // null if the span is 0, or no row tells its tokens
	Instants         int64    `json:"distinct_instants"`   // different timestamps
	LargestBurst     int64    `json:"largest_burst"`       // most rows with the same timestamp
	LargestBurstAtS  float64  `json:"largest_burst_at_s"`  // the first such timestamp
	PeakRows         int64    `json:"peak_rows_in_1s"`     // most rows within [t, t + 1 s), any t
	PeakAtS          float64  `json:"peak_at_s"`           // the first such t that is an arrival
	// from a row to the next, 0 within a burst; null below 2 rows
	GapS *stats.Percentiles `json:"interarrival_s"`
	// standard deviation / mean of the gaps; null if the span is 0
	GapCV    *float64 `json:"interarrival_cv"`
	BinS     float64  `json:"timeline_bin_s"`        // width of a bin of timeline_rows_per_bin
	Timeline []int64  `json:"timeline_rows_per_bin"` // rows by time in 64 bins, the last one closed at the end
}

// Lengths is the tokens of all rows that have them.
type Lengths struct {
	Total int64 `json:"total"` // sum over all rows
	stats.Percentiles
	Histogram []Bin `json:"histogram"` // by powers of two
}

// Bin is a bar of a histogram: From <= value < To.
type Bin struct {
	From  float64 `json:"from"`  // smallest value of the bin
	To    float64 `json:"to"`    // end of the bin: values are below it
	Count int64   `json:"count"` // values in it
}

// Type is a kind of request.
type Type struct {
	Name       string  `json:"type"`               // name; "" for rows that name none
	Rows       int64   `json:"rows"`               // rows of the type
	Share      float64 `json:"share"`              // of the rows
	MeanInput  float64 `json:"mean_input_tokens"`  // mean prompt length
	MeanOutput float64 `json:"mean_output_tokens"` // mean completion length
}

// Sessions is the conversations. Most traces have no ends of requests. Then whether a turn began before the previous
// one had ended depends on an assumed speed of the server. A turn lasts as long as recorded, or else assumed_ttft_s +
// (output tokens - 1) × assumed_tpot_s.
type Sessions struct {
	Sessions  int64              `json:"sessions"`            // conversations
	MultiTurn int64              `json:"multi_turn_sessions"` // of two rows or more
	Turns     *stats.Percentiles `json:"turns_per_session"`   // rows of a session in the selection
	Followups int64              `json:"followup_turns"`      // rows whose parent comes before them in the selection
	Orphans   int64              `json:"orphan_turns"`        // rows that name a parent that does not

	// arrival of a turn's parent to its own; null without follow-ups
	GapS     *stats.Percentiles `json:"turn_gap_s"`
	AtOnce   int64              `json:"turns_at_once"`  // follow-ups that do not arrive after their parent
	TTFTS    float64            `json:"assumed_ttft_s"` // what the last three were computed with (--assume-latency)
	TPOTS    float64            `json:"assumed_tpot_s"` // likewise (--assume-latency)
	Recorded int64              `json:"recorded_ends"`  // follow-ups whose parent's end is recorded
	// Overlaps counts follow-ups that arrive before their parent ended, OverlapShare is their share of all follow-ups.
	Overlaps     int64    `json:"overlapping_turns"` // follow-ups that arrive before their parent ended
	OverlapShare *float64 `json:"overlapping_share"` // overlapping_turns as a share of followup_turns
	// end of the last answer that a row waits for to its arrival: thinking and tools; of rows that arrive after it
	ThinkS *stats.Percentiles `json:"think_time_s"`
}

// Blocks is the hash ids.
type Blocks struct {
	References int64 `json:"references"`   // ids in all rows
	Distinct   int64 `json:"distinct_ids"` // different ids
	// different ids together with all before them: what a prefix cache holds
	DistinctAll int64 `json:"distinct_prefixes"`
	WithoutID   int64 `json:"blocks_without_id"` // blocks of prompts beyond their ids: unique to their row
	BareRows    int64 `json:"rows_without_ids"`  // rows that have no ids at all
	// ids that stand for a different number of tokens in different places
	TwoLengths int64 `json:"ids_of_two_lengths"`
	ManyBefore int64 `json:"ids_after_different_ids"` // ids that follow different ids in different places
	// "prefixes" if each id always follows the same id, else "contents"
	Names string `json:"ids_name"`
}

// Cache is what prefix caches would have held when each row arrived. A block is an id together with all before it.
type Cache struct {
	Infinite Infinite `json:"infinite"` // hits of an unlimited cache
	// LRU is a row for each capacity asked for, Curve the same at many, for a plot. Definition describes what a hit is.
	LRU   []Capacity `json:"lru"`       // hits of LRU caches of the capacities of --cache-tokens
	Curve []Capacity `json:"lru_curve"` // the same at more capacities, for plots
	// the smallest capacity that holds as much as an unlimited one, in order
	SaturationTokens int64  `json:"lru_saturation_tokens"`
	Definition       string `json:"lru_definition"` // how the caches work, in a sentence

	at func(tokens int64) Capacity // any capacity
}

// Infinite is the hits of an unlimited cache that begins empty.
type Infinite struct {
	Blocks      float64 `json:"block_ratio"`        // blocks seen before / blocks
	Tokens      float64 `json:"token_ratio"`        // tokens seen before / input tokens
	FullBlocks  float64 `json:"full_block_ratio"`   // whole blocks seen before whole / whole blocks
	MeanRequest float64 `json:"mean_request_ratio"` // mean over the rows of tokens seen before / input tokens
	IDs         float64 `json:"id_ratio"`           // ids seen before anywhere, whatever preceded them / blocks
}

// Capacity is the hits of an LRU cache of one size.
type Capacity struct {
	Tokens     int64   `json:"capacity_tokens"` // room of the cache
	BlockRatio float64 `json:"block_ratio"`     // share of the blocks that hit, in order
	TokenRatio float64 `json:"token_ratio"`     // share of the input tokens that hit, in order
	// share of the blocks that hit if a row's blocks are touched from last to first
	TailFirstBlocks float64 `json:"tail_first_block_ratio"`
	TailFirstTokens float64 `json:"tail_first_token_ratio"` // likewise of the input tokens
}

// Reuse is how far back the last use of a repeated block lies.
type Reuse struct {
	References int64              `json:"references"` // repeated blocks
	TimeS      *stats.Percentiles `json:"time_s"`     // time since the last use of a block; null without any
	// tokens in the other blocks used since, each a whole block; null without any
	Tokens          *stats.Percentiles `json:"tokens"`
	TimeHistogram   []Bin              `json:"time_histogram"`   // of the times, s
	TokensHistogram []Bin              `json:"tokens_histogram"` // of the tokens
}

// Context is the rows that a model's context cannot hold.
type Context struct {
	MaxModelLen int64   `json:"max_model_len"` // as given
	RowsOver    int64   `json:"rows_over"`     // rows whose input and output together exceed it
	Share       float64 `json:"share"`         // rows_over as a share of the rows
	FirstRow    *int64  `json:"first_row"`     // place of the first such row in the file, from 0; null if there is none
}

// Replay is what a replay has to hold in memory, by --prompt.
type Replay struct {
	TokenIDs Volume `json:"token_ids"` // with prompts of token ids
	Text     Volume `json:"text"`      // with prompts of words of the built-in vocabulary
}

// Volume is the size of all prompts as they stand in the request bodies.
type Volume struct {
	PromptBytes  int64 `json:"prompt_bytes"`         // of all prompts, as they stand in the bodies; exact
	LargestBytes int64 `json:"largest_prompt_bytes"` // of the largest prompt
	// of all requests: about 350 bytes each beside the prompts; blocks that prompts share are held once if that saves
	// enough
	MemoryBytes int64 `json:"memory_bytes"`
}
