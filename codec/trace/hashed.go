package trace

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Own is the name of fastreplay's own format, the one of traces that [Trace.Hashed] makes. The rest are values of
// [Head].Mode and Scope.
const (
	Own        = formats.Own
	KeyedMode  = formats.KeyedMode
	TakenMode  = formats.TakenMode
	FileScope  = formats.FileScope
	EpochScope = formats.EpochScope
)

// Hashed is what takes the place of a request's text and names.
type Hashed struct {
	InputTokens, OutputTokens int32
	IDs                       []uint64
	AnswerIDs                 []uint64
	Session                   string // "" = none
	Guessed                   bool   // the session is not recorded
	Owner                     rows.Owner
	Extra                     []byte // as that of [Verbatim]
}

// Renumber makes ids numbers in order of their first appearance.
func Renumber(all []Hashed) {
	var scopes agents.Scopes
	for _, h := range all {
		scopes.Renumber("", h.IDs)
		scopes.Renumber("", h.AnswerIDs)
	}
}

// Hashed returns the trace of the requests in order, with what takes the place of their text. Nothing stays of their
// words and names. The head says how that was made.
func (t *Trace) Hashed(order []int32, all []Hashed, head Head) *Trace {
	var c columns
	for n, i := range order {
		h := &all[n]
		r := rows.NewRow()
		r.Seen = rows.SetOf(rows.TimestampField, rows.DelayField)
		r.TimeNS = t.ArrivalNS[i]
		r.DelayNS = valueAt(t.DelayNS, int(i))
		r.TookNS = valueAt(t.TookNS, int(i))
		r.TTFTNS = valueAt(t.TTFTNS, int(i))
		r.CachedTokens = valueAt(t.Cached, int(i))
		r.InputTokens = h.InputTokens
		r.OutputTokens = h.OutputTokens
		r.IDs = h.IDs
		r.AnswerIDs = h.AnswerIDs
		r.Guessed = h.Guessed
		r.Owner = h.Owner
		r.Verbatim.Extra = h.Extra
		if h.Session != "" {
			r.SetSession([]byte(h.Session))
			r.SessionName = []byte(h.Session) // though it be a number
		}
		c.keep(&r, int(t.Row[i]), 0)
	}
	head.Source = cmp.Or(head.Source, t.Format)
	out := &c.Trace
	out.Name = t.Name
	out.Format = Own
	out.TimeUnit = t.TimeUnit
	out.BlockTokens = head.BlockSize
	out.FileRows = t.FileRows
	out.Untimed = t.Untimed
	out.Owners = c.owners.names
	out.Heads = []Head{head}
	out.Lint = t.Lint
	out.Lint.Dropped, out.Lint.Failed, out.Lint.Unanswered = 0, 0, 0 // the head counts them
	return out
}

// regroupedFor returns the trace with ids of the blocks of a format, each made of several: its id is that of the last.
// It is t itself if ids do not stand for a block with all before it, or if no number of them makes a block.
func (t *Trace) regroupedFor(f *formats.Format) *Trace {
	blockTokens := f.BlockTokens
	chained := len(t.Heads) > 0 && !slices.ContainsFunc(t.Heads, func(h Head) bool { return !h.Chained })
	if !chained || f.Write.Graph || blockTokens <= t.BlockTokens || blockTokens%t.BlockTokens != 0 {
		return t
	}
	out := *t
	every := blockTokens / t.BlockTokens
	out.BlockTokens = blockTokens
	out.answerIDs = nil
	out.ids = lists.Store[uint64]{}
	for i := range t.Len() {
		ids := t.Blocks(i)
		var large []uint64
		for at := every; at < len(ids)+every; at += every {
			large = append(large, ids[min(at, len(ids))-1])
		}
		out.ids.Add(large)
	}
	return &out
}

// Head is that of the file that the trace was read from, and what was lost since. Other files, and several, were not
// all made alike. Of them it says only what every trace has, and what was lost on the way to it.
func (t *Trace) Head() Head {
	if len(t.Heads) == 1 {
		head := t.Heads[0]
		head.Lost = maps.Clone(head.Lost)
		t.Lint.CountLost(&head)
		return head
	}
	head := Head{
		Mode:      TakenMode,
		BlockSize: t.BlockTokens,
		Unit:      "token",
		Source:    t.Format,
		TimeUnit:  "ms",
		Sessions:  "as_in",
		Dropped:   []string{},
		Lost:      map[string]int{},
	}
	for _, of := range t.Heads {
		head.Dropped = append(head.Dropped, of.Dropped...)
		for why, n := range of.Lost {
			head.Lost[why] += n
		}
	}
	if t.Type != nil {
		head.Dropped = append(head.Dropped, "types")
	}
	if t.HasDependencies() {
		head.Dropped = append(head.Dropped, "dependencies")
	}
	if t.hasHeaders() {
		head.Dropped = append(head.Dropped, "headers")
	}
	slices.Sort(head.Dropped)
	head.Dropped = slices.Compact(head.Dropped)
	t.Lint.CountLost(&head)
	return head
}

// hasHeaders reports whether some row tells headers of its request.
func (t *Trace) hasHeaders() bool {
	return slices.ContainsFunc(t.Owners, func(o rows.Owner) bool { return o.Headers != "" })
}

// CountLost counts in a head what was left out when the trace was read.
func (l *Lint) CountLost(head *Head) {
	head.Lost["malformed"] += l.Dropped
	head.Lost["failed"] += l.Failed
	head.Lost["unanswered"] += l.Unanswered
}
