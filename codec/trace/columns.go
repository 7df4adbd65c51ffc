package trace

import (
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// columns are all good rows so far, with the files' own instants, and what a Trace does not keep of them. A column that
// a file need not have begins with the first row that has a value in it.
type columns struct {
	Trace
	line    []int32
	types   numbering[string]
	owners  numbering[rows.Owner]
	latest  map[int64]int32 // row with ids of a conversation
	timed   int             // rows with a timestamp
	growths []agents.Growth // nil as long as no prompt is known by its length alone

	jobs     numbering[string]
	parents  map[int64]string  // conversations, by the number of one that they began
	requests numbering[string] // names that rows have, and those that they only depend on
	named    []int32           // row that has a request's name; agents.None = none
	twice    []repeatedName
}

// repeatedName is a row's name that an earlier row has already.
type repeatedName struct {
	row  int32
	name string
}

// keep appends a row, but for its type.
func (c *columns) keep(r *rows.Row, number, line int) {
	n := len(c.ArrivalNS)
	c.keepConversation(r, number)
	c.keepVerbatim(r)
	addList(&c.answers, r.Answer, n)
	addList(&c.answerIDs, r.AnswerIDs, n)
	addTo(&c.Guessed, r.Guessed, n, false)
	c.keepAgent(r)
	c.keepOwner(r)
	addTo(&c.growths, r.Growth, n, agents.Growth{})
	if r.Seen.Has(rows.ChatField) {
		c.Chat = append(c.Chat, r.Chat)
		c.Parent = append(c.Parent, r.Parent)
		c.Turn = append(c.Turn, r.Turn)
	}
	if r.Seen.Has(rows.TimestampField) {
		c.timed++
	} else {
		r.TimeNS = agents.NoTime
	}
	c.ArrivalNS = append(c.ArrivalNS, r.TimeNS)
	c.InputTokens = append(c.InputTokens, r.InputTokens)
	c.OutputTokens = append(c.OutputTokens, r.OutputTokens)
	c.Row = append(c.Row, int32(number))
	c.line = append(c.line, int32(line))
	c.keepIDs(r)
}

// keepIDs appends block ids, which mostly begin with those of the row before in their conversation.
func (c *columns) keepIDs(r *rows.Row) {
	before := c.ids.Len() - 1
	if r.Seen.Has(rows.SessionField) && len(r.IDs) > 0 {
		if latest, known := c.latest[r.Session]; known {
			before = int(latest)
		}
		if c.latest == nil {
			c.latest = map[int64]int32{}
		}
		c.latest[r.Session] = int32(c.ids.Len())
	}
	c.ids.AddShared(r.IDs, before)
}

// noSession is the conversation of a row that is part of none: one of its own, by a number that no other has.
func noSession(number int) int64 { return -1 - int64(number) }

// conversation is the number of row i's conversation, one of its own where it has none.
func (c *columns) conversation(i int32) int64 {
	if c.Session == nil {
		return noSession(int(i))
	}
	return c.Session[i]
}

// keepConversation appends to the columns of named conversations, if there are any.
func (c *columns) keepConversation(r *rows.Row, number int) {
	if r.Seen.Has(rows.SessionField) && c.Session == nil {
		c.Session = []int64{}
		for _, row := range c.Row {
			c.Session = append(c.Session, noSession(int(row)))
		}
	}
	if c.Session != nil {
		if !r.Seen.Has(rows.SessionField) {
			r.Session = noSession(number)
		} else if r.SessionName != nil && c.sessionNames[r.Session] == "" {
			if c.sessionNames == nil {
				c.sessionNames = map[int64]string{}
			}
			c.sessionNames[r.Session] = string(r.SessionName)
		}
		c.Session = append(c.Session, r.Session)
	}
	if !r.Seen.Has(rows.DelayField) {
		r.DelayNS = agents.NoDelay
	}
	addTo(&c.DelayNS, r.DelayNS, len(c.ArrivalNS), agents.NoDelay)
}

// keepVerbatim appends a row's verbatim content, if there is any.
func (c *columns) keepVerbatim(r *rows.Row) {
	if c.verbatims == nil {
		if r.Verbatim.Kind == NoVerbatim && r.Verbatim.Extra == nil {
			return
		}
		c.verbatims = newVerbatimStore()
		for range c.ArrivalNS {
			c.verbatims.add(Verbatim{}, false)
		}
	}
	c.verbatims.add(r.Verbatim, r.Longer)
}

// keepOwner appends whose a row is.
func (c *columns) keepOwner(r *rows.Row) {
	owner := int32(agents.None)
	if r.Owner != (rows.Owner{}) {
		owner = c.owners.number(r.Owner)
	}
	addTo(&c.Owner, owner, len(c.ArrivalNS), agents.None)
}

// keepAgent appends what a row says of agents.
func (c *columns) keepAgent(r *rows.Row) {
	n := len(c.ArrivalNS)
	job := int32(agents.None)
	if r.Job != "" {
		job = c.jobs.number(r.Job)
	}
	addTo(&c.Job, job, n, agents.None)
	addTo(&c.Depth, r.Depth, n, 0)
	addTo(&c.NotBeforeNS, r.NotBeforeNS, n, agents.None)
	addTo(&c.TookNS, r.TookNS, n, agents.None)
	addTo(&c.TTFTNS, r.TTFTNS, n, agents.None)
	addTo(&c.Cached, r.CachedTokens, n, agents.None)
	if r.ParentSession != "" {
		if c.parents == nil {
			c.parents = map[int64]string{}
		}
		c.parents[r.Session] = r.ParentSession
	}
	if r.Request != "" {
		number := c.request(r.Request)
		if c.named[number] == agents.None {
			c.named[number] = int32(n)
		} else {
			c.twice = append(c.twice, repeatedName{int32(n), r.Request})
		}
	}
	for _, d := range r.Named {
		d.On = firstName - c.request(d.Request)
		r.Dependencies = append(r.Dependencies, d.Dependency)
	}
	addList(&c.dependencies, r.Dependencies, n)
}

// request is the number of a request's name.
func (c *columns) request(name string) int32 {
	n := c.requests.number(name)
	if int(n) == len(c.named) {
		c.named = append(c.named, agents.None)
	}
	return n
}

// addTo appends the value of a row behind n others to a column. The column begins with the first row that has a value
// in it; none is the value of other rows.
func addTo[T comparable](column *[]T, value T, n int, none T) {
	if *column == nil {
		if value == none {
			return
		}
		*column = slices.Repeat([]T{none}, n)
	}
	*column = append(*column, value)
}

// addList is addTo for a list, where nil is none.
func addList[T comparable](store **lists.Store[T], list []T, n int) {
	if *store == nil {
		if list == nil {
			return
		}
		*store = new(lists.Store[T])
		for range n {
			(*store).Add(nil)
		}
	}
	(*store).Add(list)
}
