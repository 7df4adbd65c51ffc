// Package trace turns a file of recorded LLM requests into columns that can be replayed.
//
// It owns the trace formats, which no other package names, their detection, writers and generator. It owns the linter
// that refuses a wrong replay before anything is sent. It owns the selection of rows, which of them belong together,
// and copies of rows. It does not own the time of day, the plan, prompts or sockets.
//
// Reading and writing happen on the caller's goroutine. A Trace is plain data that is never changed after it was made:
// any number of goroutines may read it. Only [Trace.CountAnswers] starts goroutines, which end with it. A Trace takes
// 32 bytes a row, 62 with conversations, 4 more with copies, and 8 bytes a block id. Jobs of agents take 12 bytes a row
// more and 24 a dependency, and 36 a row with all that was recorded of them. While it is read, it takes up to twice
// that, and the names of requests.
package trace

import (
	"reflect"
	"slices"
	"time"
)

// Options are how to read a trace. The zero value detects the format and takes every row.
type Options struct {
	Format      string            // "" = detect; otherwise a name of [Formats]
	Fields      map[string]string // what fields are called in the file, such as timestamp: ts, where not as the format has it
	TimeUnit    time.Duration     // 0 = the format's own; Nanosecond, Microsecond, Millisecond or Second
	BlockTokens int               // tokens a hash id stands for; 0 = the format's own
	Lenient     bool              // drop bad rows and count them
	Strict      bool              // refuse repairs too
	Collect     bool              // for analysis: instead of an error, note refusals in Lint.Refusals and leave out bad rows
	Limit       int               // rows, the first of the selection in time order; 0 = all
	From, To    time.Duration     // trace time since the earliest row, From included, To not; To 0 = the end
	FileTime    bool              // From and To are times of the file itself, not since its earliest row
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
	Row          []int32 // place in the file, or in the files one after the other, from 0; blank lines and a CSV head take no number, bad rows do
	Clone        []int32 // which of several copies of a row a request is, 0 the recorded one; nil where there are no copies, see Copies

	Session []int64  // the conversation's own number, a hash of its name, or the chat id of its first request; nil where the file has none
	Turn    []int32  // nil where the file has none
	Chat    []int64  // the request's own chat id; nil where the file has none
	Parent  []int64  // chat id of the turn before, -1 = none; nil where the file has none
	DelayNS []int64  // recorded time since the turn before, -1 = not recorded; nil where the file has none
	Type    []uint16 // index into Types; nil where the format has none
	Types   []string // kinds of requests, "" for rows that name none
	Agents

	Lint Lint

	ids          idStore
	dependencies *listStore[Dependency] // nil where the file has none
	verbatims    *verbatimStore         // nil where there are none
	answers      *textStore             // nil where there are none
	sessionNames map[int64]string       // of Session where it is a hash
	repeated     bool                   // rows occur several times, see Repeat
	agentic      *agenticRows           // while it is written as agentic_mooncake
	words        Words                  // for formats that have what was said; see With
}

// Len is the number of selected requests.
func (t *Trace) Len() int { return len(t.ArrivalNS) }

// Blocks returns request i's block ids in prompt order, at most ceil(InputTokens/BlockTokens). Where there are fewer,
// the rest of the prompt is unique to the row. The slice aliases the trace and must not be changed.
func (t *Trace) Blocks(i int) []uint64 { return t.ids.row(i) }

// SessionName returns the name of request i's conversation in the file; "" if it has none or if the name is the number
// in Session.
func (t *Trace) SessionName(i int) string {
	if t.Session == nil {
		return ""
	}
	return t.sessionNames[t.Session[i]]
}

// BlockRefs is the number of block ids in the whole selection.
func (t *Trace) BlockRefs() int {
	n := 0
	for _, r := range t.ids.rows {
		n += int(r.n)
	}
	return n
}

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
	before, g := slices.Repeat([]int32{NoTurn}, n), t.Graph(n)
	for i := range before {
		for _, w := range g.Of(i) {
			if w.Relation == Sequence {
				before[i] = w.On
			}
		}
	}
	return before
}

// slabBytes is the size of a slab.
const slabBytes = 1 << 20

// listStore keeps a list for each of many rows, such as block ids, in slabs, so that appending never moves what is
// stored.
type listStore[T uint64 | byte | Dependency] struct {
	slabs [][]T
	rows  []span
	held  int                     // elements in all slabs
	room  map[[2]uint32][2]uint32 // of lists in the midst of a slab, by slab and begin: where they end, and where the room behind them does
}

type (
	idStore   = listStore[uint64]
	textStore = listStore[byte]
)

// span is where a row's list lies.
type span struct{ slab, from, n uint32 }

// add appends a row.
func (s *listStore[T]) add(list []T) {
	last := len(s.slabs) - 1
	if last < 0 || cap(s.slabs[last])-len(s.slabs[last]) < len(list) {
		s.slabs = append(s.slabs, make([]T, 0, max(slabBytes/int(reflect.TypeFor[T]().Size()), len(list))))
		last++
	}
	s.rows = append(s.rows, span{uint32(last), uint32(len(s.slabs[last])), uint32(len(list))})
	s.slabs[last] = append(s.slabs[last], list...)
	s.held += len(list)
}

// addShared appends a row that shares the place of an earlier one, before, if one of the two begins with the other. The
// prompts of an agent mostly do: 11 million ids of Weka's traces take 9 MB then, not 88 MB. -1 is no row.
func (s *listStore[T]) addShared(list []T, before int) {
	if before < 0 {
		s.add(list)
		return
	}
	old := s.row(before)
	switch n := min(len(old), len(list)); {
	case n == 0 || !slices.Equal(old[:n], list[:n]):
		s.add(list)
	case n == len(list):
		p := s.rows[before]
		s.rows = append(s.rows, span{p.slab, p.from, uint32(n)})
	default:
		s.addLonger(list, before)
	}
}

// addLonger appends a row that begins with an earlier one, whose place it shares where there is room behind that. If
// others came between, there will be room for half as much again.
func (s *listStore[T]) addLonger(list []T, before int) {
	p := s.rows[before]
	more, end, slab := list[p.n:], p.from+p.n, s.slabs[p.slab]
	n := uint32(len(more))
	place := [2]uint32{p.slab, p.from}
	room, inside := s.room[place]
	switch {
	case inside && room[0] == end && n <= room[1]-end:
		copy(slab[end:], more)
		s.room[place] = [2]uint32{end + n, room[1]}
	case int(end) == len(slab) && len(more) <= cap(slab)-len(slab):
		s.slabs[p.slab] = append(slab, more...)
		s.held += len(more)
	default:
		s.add(list)
		if before < len(s.rows)-2 {
			s.leaveRoom(s.rows[len(s.rows)-1])
		}
		return
	}
	s.rows = append(s.rows, span{p.slab, p.from, p.n + n})
}

// leaveRoom leaves room behind the list that was added last.
func (s *listStore[T]) leaveRoom(p span) {
	slab := s.slabs[p.slab]
	free := min(int(p.n)/2, cap(slab)-len(slab))
	s.slabs[p.slab] = slab[:len(slab)+free]
	s.held += free
	if s.room == nil {
		s.room = map[[2]uint32][2]uint32{}
	}
	s.room[[2]uint32{p.slab, p.from}] = [2]uint32{p.from + p.n, p.from + p.n + uint32(free)}
}

// row returns the list of a row.
func (s *listStore[T]) row(i int) []T {
	p := s.rows[i]
	return s.slabs[p.slab][p.from : p.from+p.n : p.from+p.n]
}

// chosen is the store of the rows in order, row i cut to at most most(row) elements. It shares the slabs, unless most
// of what they hold would be kept for nothing.
func (s *listStore[T]) chosen(order []int32, most func(row int32) int) listStore[T] {
	out := listStore[T]{slabs: s.slabs, rows: make([]span, len(order)), held: s.held}
	used := 0
	for i, r := range order {
		p := s.rows[r]
		p.n = min(p.n, uint32(most(r)))
		out.rows[i] = p
		used += int(p.n)
	}
	if used >= s.held/2 {
		return out
	}
	var small listStore[T]
	for i := range out.rows {
		small.add(out.row(i))
	}
	return small
}

// whole is chosen without cuts; nil stays nil.
func (s *listStore[T]) whole(order []int32) *listStore[T] {
	if s == nil {
		return nil
	}
	out := s.chosen(order, func(row int32) int { return int(s.rows[row].n) })
	return &out
}
