// Package inspect finds out what is in a trace, without traffic: arrivals, lengths, conversations, what prefix caches of
// every size would have held, what a replay would need and what is wrong with the trace; and it prints that as a page for
// a terminal, as HTML and, by the tags of [Report], as JSON.
//
// It does not read files: traces come from codec/trace. Functions are pure but for the writer they are given, and may be
// called by any number of goroutines. An analysis takes about 120 bytes for a distinct block, 8 for a repeated
// one and 40 for a row.
package inspect

import (
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/route"
)

// Document is what `inspect --json` prints.
type Document struct {
	Schema int       `json:"schema"` // 1
	Traces []*Report `json:"traces"`
}

// Report is what is in one trace. Ratios are 0..1, units are in the names, and a pointer or list that is nil (null)
// is about something that the trace does not have.
type Report struct {
	Trace       string    `json:"trace"`        // file name
	Format      string    `json:"format"`       // a name of trace.Formats
	TimeUnit    string    `json:"time_unit"`    // of the file's timestamps: ns, us, ms or s
	BlockTokens int       `json:"block_tokens"` // tokens that a hash id stands for
	FileRows    int64     `json:"file_rows"`    // rows in the file, bad ones included
	Rows        int64     `json:"rows"`         // rows analysed: good and selected
	Untimed     bool      `json:"untimed"`      // no row says when it arrived
	Literal     *Literal  `json:"literal"`      // prompts and bodies that are there word for word
	Replayable  bool      `json:"replayable"`   // a replay with the same flags would take the trace
	Findings    []Finding `json:"findings"`     // the worst first; empty for a clean trace

	// Amplify says what the load was before it was multiplied: all else here is about what it is. Absent where it was not.
	Amplify *metrics.Amplify `json:"amplify,omitempty"`

	Arrivals     Arrivals        `json:"arrivals"`
	InputTokens  Lengths         `json:"input_tokens"`
	OutputTokens Lengths         `json:"output_tokens"`
	TotalTokens  *Distribution   `json:"total_tokens"` // input and output of a row together
	Types        []Type          `json:"types"`
	Sessions     *Sessions       `json:"sessions"`
	Blocks       *Blocks         `json:"blocks"`
	Cache        *Cache          `json:"prefix_cache"`
	Reuse        *Reuse          `json:"reuse_distance"`
	Routing      []*route.Oracle `json:"routing,omitempty"` // hits by who routes, a part for each size of caches; absent unless instances were asked for
	Context      *Context        `json:"context"`
	Replay       Replay          `json:"replay"`
}

// Literal is what is there word for word. How many tokens it has, and how much of it a cache would hold, only the server can
// tell: such rows are in the lengths where they say them, and in no cache.
type Literal struct {
	Texts    int64 `json:"texts"`
	Messages int64 `json:"messages"`
	Payloads int64 `json:"payloads"`
	Bytes    int64 `json:"bytes"` // as JSON
}

// Severity says what a finding means for a replay.
type Severity string

// The severities, the worst first.
const (
	Refusal Severity = "refusal" // a replay refuses the trace
	BadRow  Severity = "bad_row" // a row that cannot be replayed; left out here
	Note    Severity = "note"    // worth knowing
)

// Finding is something about the trace that people should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"` // what, where, and what to do about it
}

// Arrivals is when the rows come. Instants count from the first row.
type Arrivals struct {
	SpanS            float64       `json:"span_s"`              // first to last row
	RowsPerS         *float64      `json:"rows_per_s"`          // rows / span; nil where the span is 0
	InputTokensPerS  *float64      `json:"input_tokens_per_s"`  // nil where the span is 0
	OutputTokensPerS *float64      `json:"output_tokens_per_s"` // nil where the span is 0
	Instants         int64         `json:"distinct_instants"`
	LargestBurst     int64         `json:"largest_burst"`         // most rows at one instant
	LargestBurstAtS  float64       `json:"largest_burst_at_s"`    // the first such instant
	PeakRows         int64         `json:"peak_rows_in_1s"`       // most rows within [t, t + 1 s), any t
	PeakAtS          float64       `json:"peak_at_s"`             // the first such t that is an arrival
	GapS             *Distribution `json:"interarrival_s"`        // from a row to the next, 0 within a burst; nil below 2 rows
	GapCV            *float64      `json:"interarrival_cv"`       // standard deviation / mean of the gaps; nil where the span is 0
	BinS             float64       `json:"timeline_bin_s"`        // width of a bin of Timeline
	Timeline         []int64       `json:"timeline_rows_per_bin"` // rows by time, the last bin closed at the end
}

// Lengths is the tokens of all rows that say them.
type Lengths struct {
	Total int64 `json:"total"`
	Distribution
	Histogram []Bin `json:"histogram"` // by powers of two
}

// Bin is a bar of a histogram: From <= value < To.
type Bin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

// Type is a kind of request.
type Type struct {
	Name       string  `json:"type"` // "" for rows that name none
	Rows       int64   `json:"rows"`
	Share      float64 `json:"share"` // of the rows
	MeanInput  float64 `json:"mean_input_tokens"`
	MeanOutput float64 `json:"mean_output_tokens"`
}

// Sessions is the conversations. A trace has no ends of requests, so whether a turn began before the one before it had
// ended depends on how fast one assumes the server was: a turn lasts AssumedTTFTS + (output tokens - 1) * AssumedTPOTS.
type Sessions struct {
	Sessions  int64         `json:"sessions"`
	MultiTurn int64         `json:"multi_turn_sessions"` // of two rows or more
	Turns     *Distribution `json:"turns_per_session"`   // rows of a session in the selection
	Followups int64         `json:"followup_turns"`      // rows whose parent comes before them in the selection
	Orphans   int64         `json:"orphan_turns"`        // rows that name a parent that does not

	GapS   *Distribution `json:"turn_gap_s"`     // parent's arrival to the turn's; nil without follow-ups
	AtOnce int64         `json:"turns_at_once"`  // follow-ups that do not arrive after their parent
	TTFTS  float64       `json:"assumed_ttft_s"` // what the next three were computed with
	TPOTS  float64       `json:"assumed_tpot_s"`
	// Overlaps counts follow-ups that arrive before their parent ended, OverlapShare is their share of all follow-ups.
	Overlaps     int64         `json:"overlapping_turns"`
	OverlapShare *float64      `json:"overlapping_share"`
	ThinkS       *Distribution `json:"think_time_s"` // parent's end to the turn's arrival, of those that do not overlap
}

// Blocks is the hash ids.
type Blocks struct {
	References  int64  `json:"references"`         // ids in all rows
	Distinct    int64  `json:"distinct_ids"`       // different ids
	DistinctAll int64  `json:"distinct_prefixes"`  // different ids together with all before them: what a prefix cache holds
	WithoutID   int64  `json:"blocks_without_id"`  // blocks of prompts beyond their ids: unique to their row
	BareRows    int64  `json:"rows_without_ids"`   // rows that have no ids at all
	TwoLengths  int64  `json:"ids_of_two_lengths"` // ids that stand for a different number of tokens in different places
	ManyBefore  int64  `json:"ids_after_different_ids"`
	Names       string `json:"ids_name"` // "prefixes" where each id always follows the same id, otherwise "contents"
}

// Cache is what prefix caches would have held when each row arrived. A block is an id together with all before it.
type Cache struct {
	Infinite Infinite `json:"infinite"`
	// LRU is a row for each capacity asked for, Curve the same at many, for a plot. Definition says what a hit is.
	LRU              []Capacity `json:"lru"`
	Curve            []Capacity `json:"lru_curve"`
	SaturationTokens int64      `json:"lru_saturation_tokens"` // the smallest capacity that holds as much as an unlimited one, in order
	Definition       string     `json:"lru_definition"`

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
	Tokens          int64   `json:"capacity_tokens"`
	BlockRatio      float64 `json:"block_ratio"`
	TokenRatio      float64 `json:"token_ratio"`
	TailFirstBlocks float64 `json:"tail_first_block_ratio"`
	TailFirstTokens float64 `json:"tail_first_token_ratio"`
}

// Reuse is how far back the last use of a repeated block lies.
type Reuse struct {
	References      int64         `json:"references"` // repeated blocks
	TimeS           *Distribution `json:"time_s"`     // nil without any
	Tokens          *Distribution `json:"tokens"`     // of the other blocks used since, each a whole block; nil without any
	TimeHistogram   []Bin         `json:"time_histogram"`
	TokensHistogram []Bin         `json:"tokens_histogram"`
}

// Context is the rows that a model's context cannot hold.
type Context struct {
	MaxModelLen int64   `json:"max_model_len"`
	RowsOver    int64   `json:"rows_over"` // input and output above it
	Share       float64 `json:"share"`
	FirstRow    *int64  `json:"first_row"` // its place in the file, from 0; nil = none
}

// Replay is what a replay has to hold in memory, by --prompt.
type Replay struct {
	TokenIDs Volume `json:"token_ids"`
	Text     Volume `json:"text"` // with the built-in vocabulary
}

// Volume is the size of all prompts as they stand in the request bodies.
type Volume struct {
	PromptBytes  int64 `json:"prompt_bytes"`
	LargestBytes int64 `json:"largest_prompt_bytes"`
	MemoryBytes  int64 `json:"memory_bytes"` // with what stands around the prompts, about
}
