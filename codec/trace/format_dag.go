package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// dagJSONL is AIPerf's format of conversations that branch, a line a conversation:
//
//	{"session_id":"a","turns":[{"messages":[…],"max_tokens":128,"tools":[…],"extra":{…},"delay":20,
//	"forks":["b",{"child":"c","background":true}],"spawns":["d",{"children":["e","f"],"join_at":3}]}]}
//
// as https://github.com/ai-dynamo/aiperf (docs/benchmark-modes/dag.md) describes. Each turn is a request, with what was
// said before. A conversation that no other names is a job. One that is forked goes on from all that was said; one that
// is spawned begins anew, and the turn join_at (usually the next) waits for its end. It may be spawned several times.
// Delays are milliseconds since what a turn waits for. There are no timestamps.
func dagJSONL() *format {
	names := usual(sessionField, messagesField, toolsField, extraField)
	names[outputField] = "max_tokens"
	return &format{
		name:        "dag_jsonl",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       names,
		known:       hasKeys("session_id", "turns"),
		looks:       saysMessages,
		items:       func(*items, []byte) error { return nil }, // together reads them
		together:    readDAG,
	}
}

// saysMessages reports whether the first turn of a conversation has messages: those of multi_turn have texts.
func saysMessages(object []byte) bool {
	all, err := membersOf(object)
	found := false
	if err == nil {
		_ = listIn(all, "turns", func(_ int, turn []byte) error {
			found = slices.Contains(keysOf(turn, 0), "messages")
			return errEnoughKeys
		})
	}
	return found
}

// dagConversation is a line.
type dagConversation struct {
	name     string
	line     int
	turns    []dagTurn
	alone    bool // each turn has all of its messages: none is sent with those before
	first    []string
	forked   bool // by another conversation
	named    bool // forked or spawned
	sent     int  // times
	visiting bool
}

// dagTurn is a turn as it stands in the file.
type dagTurn struct {
	object   []member
	messages []byte // the inside of the list
	delayNS  int64
	forks    []string
	parallel bool // it goes on beside its forks
	spawns   []dagSpawn
}

type dagSpawn struct {
	children []string
	joinAt   int
}

// readDAG makes the rows of a file whose lines are conversations.
func readDAG(l *loader, lines []heldLine) {
	known := map[string]*dagConversation{}
	var all []*dagConversation
	for _, h := range lines {
		c, err := readDAGLine(h.text)
		if err == nil && known[c.name] != nil {
			err = &rowError{"session_id " + quote([]byte(c.name)) + " is that of line " + strconv.Itoa(known[c.name].line), "each conversation needs a name of its own"}
		}
		if err != nil {
			l.fileRows++
			l.fault(faultOf(l.name, h.line, err))
			continue
		}
		c.line = h.line
		known[c.name], all = c, append(all, c)
	}
	for _, c := range all {
		if err := c.link(known); err != nil {
			l.fileRows++
			l.fault(faultOf(l.name, c.line, err))
			c.turns, c.sent = nil, 1
		}
	}
	for _, c := range all {
		if !c.named && len(c.turns) > 0 {
			l.takeTree(c, known)
		}
	}
	for _, c := range all {
		if c.sent == 0 {
			l.fileRows++
			l.fault(Fault{File: l.name, Line: c.line, What: "no conversation that begins leads here", Fix: "one that no other forks or spawns begins, and its tree must be whole and without circles"})
		}
	}
}

// takeTree takes the rows of a conversation and of all that come from it.
func (l *loader) takeTree(root *dagConversation, known map[string]*dagConversation) {
	b := &dagBuilder{items: items{p: &l.parser, first: l.fileRows, within: l.within}, known: known, job: root.name}
	_, err := b.send(root, dagStart{session: root.name})
	for i := range b.rows {
		if err == nil {
			err = l.refuseRepairs(&b.rows[i])
		}
	}
	if err != nil {
		l.fileRows++
		l.fault(faultOf(l.name, root.line, err))
		return
	}
	l.fileRows += len(b.rows)
	for i := range b.rows {
		l.keep(&b.rows[i], b.first+i, b.lines[i])
	}
}

// dagBuilder makes the rows of a job.
type dagBuilder struct {
	items
	known map[string]*dagConversation
	job   string
	lines []int
}

// dagStart is how a conversation begins.
type dagStart struct {
	session string
	said    []byte  // before
	after   []int64 // rows
	why     Relation
	depth   int32
}

// mostDAGRows bounds the requests of a job: a line can be spawned by many, each of which may be spawned by many.
const mostDAGRows = 1 << 20

// send makes the rows of a conversation, and of those that come from it. Ends are its last rows.
func (b *dagBuilder) send(c *dagConversation, from dagStart) (ends []int64, err error) {
	if c.visiting {
		return nil, &rowError{"conversation " + quote([]byte(c.name)) + " comes from itself", "a conversation must not fork or spawn one that it comes from"}
	}
	if len(c.turns) == 0 {
		return nil, &rowError{"conversation " + quote([]byte(c.name)) + " is bad itself", "mend its line"}
	}
	c.visiting = true
	defer func() { c.visiting = false }()
	c.sent++
	inner := func(name string, session string, said []byte, after []int64) ([]int64, error) {
		start := dagStart{session, said, after, Spawn, from.depth + 1}
		if session == from.session {
			start.why = Sequence // it goes on from there
		}
		return b.send(b.known[name], start)
	}
	fresh := func(name string) string { // a conversation that begins anew
		if child := b.known[name]; child.sent > 0 {
			return fmt.Sprintf("%s/%s.%d", b.job, name, child.sent+1)
		}
		return b.job + "/" + name
	}
	for _, name := range c.first {
		if _, err := inner(name, fresh(name), nil, from.after); err != nil {
			return nil, err
		}
	}
	joins := map[int][]int64{} // of turns: the rows of others that they wait for
	said := from.said
	for at, turn := range c.turns {
		if len(b.rows) >= mostDAGRows {
			return nil, &rowError{fmt.Sprintf("more than %d requests come from it", mostDAGRows), "let fewer conversations spawn each other"}
		}
		if c.alone {
			said = nil
		}
		said = append(comma(slices.Clone(said)), turn.messages...)
		r := b.add()
		b.lines = append(b.lines, c.line)
		if err := b.setAll(r, turn.object, outputField, toolsField, extraField); err != nil {
			return nil, inside(fmt.Sprintf("turns[%d]", at), err)
		}
		r.verbatim.Kind, r.verbatim.Content = VerbatimMessages, said
		if n := len(b.rows); n > 1 {
			r.longer = bytes.HasPrefix(said, b.rows[n-2].verbatim.Content)
		}
		r.setSession([]byte(from.session))
		r.agent.job, r.agent.depth = b.job, from.depth
		wait := func(on []int64, relation Relation) {
			for _, row := range on {
				r.agent.dependencies = append(r.agent.dependencies, Dependency{On: row, DelayNS: turn.delayNS, Relation: relation})
			}
		}
		if at > 0 {
			wait(ends, Sequence)
		} else {
			wait(from.after, from.why)
		}
		wait(joins[at], Join)
		ends = []int64{int64(b.first + len(b.rows) - 1)}
		var forked []int64
		for _, name := range turn.forks {
			last, err := inner(name, from.session, said, ends)
			if err != nil {
				return nil, err
			}
			forked = append(forked, last...)
		}
		for _, spawn := range turn.spawns {
			for _, name := range spawn.children {
				last, err := inner(name, fresh(name), nil, ends)
				if err != nil {
					return nil, err
				}
				joins[spawn.joinAt] = append(joins[spawn.joinAt], last...)
			}
		}
		if len(forked) > 0 && !turn.parallel {
			ends = forked
		}
	}
	return ends, nil
}
