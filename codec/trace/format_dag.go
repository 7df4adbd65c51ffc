package trace

import (
	"bytes"
	"cmp"
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
		items:       func(*items, []byte) {}, // together reads them
		together:    readDAG,
	}
}

// saysMessages reports whether the first turn of a conversation has messages: those of multi_turn have texts.
func saysMessages(text []byte) (found bool) {
	var err error
	objectOf(text, &err).each("turns", func(i int, turn object) { found = found || i == 0 && turn.has("messages") })
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
	object   object
	messages []byte // the inside of the list
	delayNS  int64
	children []dagChild // forks first
}

// dagChild is a conversation that comes from a turn.
type dagChild struct {
	name   string
	fork   bool // it goes on from all that was said; else it begins anew
	beside bool // the conversation that is forked goes on, too
	joinAt int  // turn that waits for its end, if it begins anew
}

// readDAG makes the rows of a file whose lines are conversations.
func readDAG(l *loader, lines []heldLine) {
	known := map[string]*dagConversation{}
	var all []*dagConversation
	bad := func(line int, err error) {
		l.fileRows++
		l.fault(faultOf(l.name, line, err))
	}
	for _, h := range lines {
		var err error
		c := readDAGLine(objectOf(h.text, &err))
		if before := known[c.name]; err == nil && before != nil {
			err = &rowError{"session_id " + quote([]byte(c.name)) + " is that of line " + strconv.Itoa(before.line), "each conversation needs a name of its own"}
		}
		if err != nil {
			bad(h.line, err)
			continue
		}
		c.line = h.line
		known[c.name], all = c, append(all, c)
	}
	for _, c := range all {
		if err := c.link(known); err != nil {
			bad(c.line, err)
			c.turns, c.sent = nil, 1
		}
	}
	for _, c := range all {
		if c.named || len(c.turns) == 0 {
			continue
		}
		b := &dagBuilder{items: items{p: &l.parser, first: l.fileRows}, known: known, job: c.name}
		b.send(c, dagStart{session: c.name})
		for i := range b.rows {
			b.note(l.refuseRepairs(&b.rows[i]))
		}
		if b.fault != nil {
			bad(c.line, b.fault)
			continue
		}
		l.fileRows += len(b.rows)
		for i := range b.rows {
			l.keep(&b.rows[i], b.first+i, b.lines[i])
		}
	}
	for _, c := range all {
		if c.sent == 0 {
			bad(c.line, &rowError{"no conversation that begins leads here", "one that no other forks or spawns begins, and its tree must be whole and without circles"})
		}
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
func (b *dagBuilder) send(c *dagConversation, from dagStart) (ends []int64) {
	switch {
	case c.visiting:
		b.note(&rowError{"conversation " + quote([]byte(c.name)) + " comes from itself", "a conversation must not fork or spawn one that it comes from"})
	case len(c.turns) == 0:
		b.note(&rowError{"conversation " + quote([]byte(c.name)) + " is bad itself", "mend its line"})
	}
	if b.fault != nil {
		return nil
	}
	c.visiting = true
	defer func() { c.visiting = false }()
	c.sent++
	spawn := func(name string, after []int64) []int64 { // a conversation that begins anew
		session := b.job + "/" + name
		if sent := b.known[name].sent; sent > 0 {
			session = fmt.Sprintf("%s.%d", session, sent+1)
		}
		return b.send(b.known[name], dagStart{session, nil, after, Spawn, from.depth + 1})
	}
	for _, name := range c.first {
		spawn(name, from.after)
	}
	joins := map[int][]int64{} // of turns: the rows of others that they wait for
	said := from.said
	for at, turn := range c.turns {
		if len(b.rows) >= mostDAGRows {
			b.note(&rowError{fmt.Sprintf("more than %d requests come from it", mostDAGRows), "let fewer conversations spawn each other"})
		}
		if b.fault != nil {
			return nil
		}
		if c.alone {
			said = nil
		}
		said = append(comma(slices.Clone(said)), turn.messages...)
		r := b.add()
		b.lines = append(b.lines, c.line)
		b.setAll(r, turn.object, outputField, toolsField, extraField)
		b.fault = inside(fmt.Sprintf("turns[%d]", at), b.fault)
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
		end := false
		for _, child := range turn.children {
			if child.fork {
				forked = append(forked, b.send(b.known[child.name], dagStart{from.session, said, ends, Sequence, from.depth + 1})...)
				end = end || !child.beside
			} else {
				joins[child.joinAt] = append(joins[child.joinAt], spawn(child.name, ends)...)
			}
		}
		if end {
			ends = forked
		}
	}
	return ends
}

// readDAGLine reads a conversation.
func readDAGLine(o object) *dagConversation {
	c := &dagConversation{name: o.name("session_id", "it names the conversation"), alone: o.is("context_mode", "message_array_with_responses")}
	if o.value("orchestrator", "rounds") != nil {
		o.fail("an orchestrator, which sends nothing itself", "give its conversations turns of their own: rounds are not read")
	}
	c.first = namesIn(o, "pre_session_spawns")
	o.each("turns", func(at int, o object) { c.turns = append(c.turns, readDAGTurn(o, at)) })
	if len(c.turns) == 0 {
		o.fail("missing turns", "they are the requests of the conversation")
	}
	return c
}

// readDAGTurn reads a turn. At is its place.
func readDAGTurn(o object, at int) dagTurn {
	turn := dagTurn{object: o, delayNS: max(0, o.span("delay", 6))}
	if messages := o.need("messages", "they are what is sent"); messages != nil {
		r := row{}
		o.note(r.setVerbatim(messagesField, "messages", messages))
		turn.messages = r.verbatim.Content
	}
	eachName(o, "forks", func(name string, more object) {
		if more.text != nil {
			name = more.name("child", "it names the conversation that goes on")
		}
		turn.children = append(turn.children, dagChild{name: name, fork: true, beside: string(more.value("background")) == "true"})
	})
	eachName(o, "spawns", func(name string, more object) {
		names, join := []string{name}, int64(noValue)
		if more.text != nil {
			names, join = namesIn(more, "children"), more.count("join_at", maxTokens)
		}
		if join == noValue {
			join = int64(at + 1)
		}
		for _, name := range names {
			turn.children = append(turn.children, dagChild{name: name, joinAt: int(join)})
		}
	})
	return turn
}

// eachName calls each with the strings of a list, or with what is an object in it.
func eachName(o object, key string, each func(name string, more object)) {
	o.values(key, `["…",…]`, func(i int, value []byte) {
		if value[0] == '{' {
			each("", objectOf(value, o.fault))
			*o.fault = inside(fmt.Sprintf("%s[%d]", key, i), *o.fault)
			return
		}
		item := object{members: []member{{key, value}}, fault: o.fault}
		each(item.name(key, "it names a conversation"), object{fault: o.fault})
	})
}

// namesIn is the strings of the list under a key.
func namesIn(o object, key string) (names []string) {
	eachName(o, key, func(name string, more object) {
		if more.text != nil {
			o.fail("an object, not a string", `write it as "…"`)
		}
		names = append(names, name)
	})
	return names
}

// link checks what a conversation leads to.
func (c *dagConversation) link(known map[string]*dagConversation) (err error) {
	fail := func(what, fix string) { err = cmp.Or[error](err, &rowError{what, fix}) }
	meet := func(place, name string, fork bool) {
		child := known[name]
		switch {
		case child == nil:
			fail(place+": no line has the session_id "+quote([]byte(name)), "add the conversation, or leave it out here")
		case fork && child.forked:
			fail(place+": "+quote([]byte(name))+" is forked twice", "what is said before it must be one thing")
		default:
			child.forked, child.named = child.forked || fork, true
		}
	}
	for _, name := range c.first {
		meet("pre_session_spawns", name, false)
	}
	last := len(c.turns) - 1
	for at, turn := range c.turns {
		place := fmt.Sprintf("turns[%d]: ", at)
		for _, child := range turn.children {
			switch {
			case child.fork && !child.beside && at < last:
				fail(place+"forks end the conversation, but turns follow", `write {"child":"…","background":true}`)
			case child.fork:
				meet(place+"forks", child.name, true)
			case child.joinAt <= at || child.joinAt > max(last, at+1):
				fail(fmt.Sprintf("%sjoin_at is %d", place, child.joinAt), fmt.Sprintf("it must be a later turn, the last is %d", last))
			default:
				meet(place+"spawns", child.name, false)
			}
		}
	}
	return err
}
