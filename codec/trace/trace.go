// Package trace turns a file of recorded LLM requests into columns that can be replayed.
//
// It owns the files, the detection of their format, the generator, and the linter that refuses a wrong replay before
// anything is sent. It owns the selection of rows, which of them belong together, and copies of rows. It does not own
// the formats, which are in formats, nor the time of day, the plan, prompts or sockets.
//
// Reading and writing happen on the caller's goroutine. A Trace is plain data that is never changed after it was made:
// any number of goroutines may read it. Only [Trace.CountAnswers] starts goroutines, which end with it. A Trace takes
// 32 bytes a row, 62 with conversations, 4 more with copies, and 8 bytes a block id. Jobs of agents take 12 bytes a row
// more and 16 a dependency, and 36 a row with all that was recorded of them. While it is read, it takes up to twice
// that, and the names of requests.
package trace

import (
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Options are how to read a trace. The zero value detects the format and takes every row.
type Options struct {
	Format string // "" = detect; otherwise a name of [Formats]
	// what fields are called in the file, such as timestamp: ts, where not as the format has it
	Fields      map[string]string
	TimeUnit    time.Duration // 0 = the format's own; Nanosecond, Microsecond, Millisecond or Second
	BlockTokens int           // tokens a hash id stands for; 0 = the format's own
	Basis       Basis         // of the times of nested sub-agents; "" = AutoBasis
	Lenient     bool          // drop bad rows and count them
	Strict      bool          // refuse repairs too
	// for analysis: instead of an error, note refusals in Lint.Refusals and leave out bad rows
	Collect  bool
	Limit    int           // rows, the first of the selection in time order; 0 = all
	From, To time.Duration // trace time since the earliest row, From included, To not; To 0 = the end
	FileTime bool          // From and To are times of the file itself, not since its earliest row
	// what was said in conversations that servers keep, which goes on from trace to trace; nil = nothing yet
	History *chatml.History
}

// Trace holds the selected requests, a column for each property, in order of arrival.
type Trace struct {
	Name        string        // file name, for messages; of several files all, with commas
	Format      string        // a name of [Formats]
	Endpoint    string        // path that all rows name, such as /v1/chat/completions; "" where the file names none
	TimeUnit    time.Duration // unit of the file's timestamps
	BlockTokens int           // tokens a block id stands for
	FileRows    int           // data rows in the file or files, bad ones included

	Untimed      bool    // no row has a timestamp: ArrivalNS is all 0, and rows are in file order
	ArrivalNS    []int64 // ns since the first selected request, ascending; equal instants keep file order
	InputTokens  []int32 // tokens of the whole prompt, at least 1; 0 if the file has no number, as verbatim rows may
	OutputTokens []int32 // tokens to generate, at least 1; 0 likewise
	// place in the file, or in the files one after the other, from 0. Bad rows take a number, blank lines and a CSV
	// head do not
	Row []int32
	// which of several copies of a row a request is, 0 the recorded one; nil where there are no copies, see Copies
	Clone []int32

	// the conversation's own number, a hash of its name, or the chat id of its first request; nil where the file has
	// none
	Session []int64
	Turn    []int32  // nil where the file has none
	Chat    []int64  // the request's own chat id; nil where the file has none
	Parent  []int64  // chat id of the turn before, -1 = none; nil where the file has none
	DelayNS []int64  // recorded time since the turn before, -1 = not recorded; nil where the file has none
	Type    []uint16 // index into Types; nil where the format has none
	Types   []string // kinds of requests, "" for rows that name none
	Owner   []int32  // index into Owners, agents.None where a row does not say; nil where none says
	Owners  []rows.Owner
	// no request asks for the models of Owners: they are those of a recording, which a server under test need not have
	RecordedModels bool
	Agents
	// the conversation is not recorded, but was found by what prompts have in common; nil where all are recorded
	Guessed []bool
	Heads   []Head // of files of fastreplay's own format, one for each

	Lint Lint

	ids          lists.Store[uint64]
	dependencies *lists.Store[Dependency] // on rows by their numbers; nil where the file has none
	verbatims    *verbatimStore           // nil where there are none
	answers      *lists.Store[byte]       // nil where there are none
	answerIDs    *lists.Store[uint64]     // nil where there are none
	sessionNames map[int64]string         // of Session where it is a hash
	repeated     bool                     // rows occur several times, see Repeat
	words        Words                    // for formats that have what was said; see With
}

// Basis is what the times of nested sub-agents' requests count from.
type Basis = formats.Basis

// The bases; AutoBasis is the one that most sub-agents show.
const (
	AutoBasis     Basis = "auto"
	AbsoluteBasis       = formats.Absolute
	RelativeBasis       = formats.Relative
)

// Head says how the rows of a file of fastreplay's own format were made.
type Head = formats.Head

// Words are the text that [Write] puts into formats of text if the trace has numbers of tokens only.
type Words = formats.Words

// Formats lists the names that [Options].Format takes.
func Formats() []string { return formats.Names() }

// Written lists the names that [Write] and [Gen] take: those of [Formats] but for formats that are only read.
func Written() []string { return formats.Written() }

// Len is the number of selected requests.
func (t *Trace) Len() int { return len(t.ArrivalNS) }

// Blocks returns request i's block ids in prompt order, at most ceil(InputTokens/BlockTokens). Where there are fewer,
// the rest of the prompt is unique to the row. The slice aliases the trace and must not be changed.
func (t *Trace) Blocks(i int) []uint64 {
	return t.ids.Row(i)
}

// AnswerBlocks returns the ids of whole blocks of request i's prompt and answer. They are those that end in the answer,
// as far as the file has them. The slice aliases the trace and must not be changed.
func (t *Trace) AnswerBlocks(i int) []uint64 {
	if t.answerIDs == nil {
		return nil
	}
	return t.answerIDs.Row(i)
}

// SessionName returns the name of request i's conversation in the file; "" if it has none or if the name is the number
// in Session.
func (t *Trace) SessionName(i int) string {
	if t.Session == nil {
		return ""
	}
	return t.sessionNames[t.Session[i]]
}

// BlockRefs is the number of block ids in the whole selection.
func (t *Trace) BlockRefs() int { return t.ids.Total() }

// SpanNS is the time from the first to the last selected request in ns.
func (t *Trace) SpanNS() int64 {
	if len(t.ArrivalNS) == 0 {
		return 0
	}
	return t.ArrivalNS[len(t.ArrivalNS)-1]
}

// NoTurn means that no turn comes before.
const NoTurn = -1

// TurnsBefore returns, for each of the trace's first n requests, the request before it in its conversation, NoTurn for
// none. It returns nil for a trace without conversations. Where the file has dependencies, it is the one of which a
// request is the sequel.
func (t *Trace) TurnsBefore(n int) []int32 {
	if t.Parent == nil {
		return nil
	}
	before := slices.Repeat([]int32{NoTurn}, n)
	g := t.Graph(n)
	for i := range before {
		for _, w := range g.Of(i) {
			if w.Relation == Sequence {
				before[i] = w.On
			}
		}
	}
	return before
}

// AskedModel is the model that request i asks for; "" = that of the run.
func (t *Trace) AskedModel(i int) string {
	if t.RecordedModels {
		return ""
	}
	return t.OwnerOf(i).Model
}

// OwnerOf is whose request i is; zero where the trace does not say.
func (t *Trace) OwnerOf(i int) rows.Owner {
	if t.Owner == nil || t.Owner[i] == agents.None {
		return rows.Owner{}
	}
	return t.Owners[t.Owner[i]]
}
