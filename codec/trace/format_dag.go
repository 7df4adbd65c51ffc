package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
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
	return &format{
		name:  "dag_jsonl",
		names: fieldNames{sessionField: "session_id", messagesField: "messages", outputField: "max_tokens", toolsField: "tools", extraField: "extra"},
		known: hasKeys("session_id", "turns"),
		looks: func(text []byte) (messages bool) { // where multi_turn has texts
			var err error
			objectOf(text, &err).each("turns", func(_ int, turn object) { messages = messages || turn.has("messages") })
			return messages
		},
		items:    func(*items, []byte) {}, // together reads them
		together: readDAG,
	}
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
	known, all := map[string]*dagConversation{}, []*dagConversation(nil)
	bad := func(line int, err error) {
		l.FileRows++
		l.fault(faultOf(l.name, line, err))
	}
	for _, h := range lines {
		var err error
		o := objectOf(h.text, &err)
		c := readDAGLine(o, h.line)
		if before := known[c.name]; before != nil {
			o.fail(fmt.Sprintf("session_id %s is that of line %d", quote(c.name), before.line), "each conversation needs a name of its own")
		}
		if err != nil {
			bad(h.line, err)
		} else {
			known[c.name], all = c, append(all, c)
		}
	}
	for _, c := range all {
		if err := c.link(known); err != nil {
			bad(c.line, err)
			c.turns, c.sent = nil, 1
		}
	}
	b := &dagBuilder{known: known}
	for _, c := range all {
		if !c.named && len(c.turns) > 0 {
			b.items, b.job = l.newItems(), c.name
			before := b.again
			if b.send(c, dagStart{session: c.name}); b.fault != nil {
				b.again = before // nothing of the job is taken
			}
			l.takeRows(&b.items, c.line)
		}
	}
	for _, c := range all {
		if c.sent == 0 && !b.full {
			bad(c.line, &rowError{"no conversation that begins leads here", "one that no other forks or spawns begins, and its tree must be whole and without circles"})
		}
	}
}

// dagBuilder makes the rows of a file, one job after the other.
type dagBuilder struct {
	items
	known map[string]*dagConversation
	job   string
	again dagSize // of what does not stand in the file: conversations sent again, and what was said before a fork
	full  bool    // some of it was refused
}

// dagSize is a number of requests and the bytes of their messages.
type dagSize struct{ requests, bytes int }

// dagStart is how a conversation begins.
type dagStart struct {
	session string
	said    []byte  // before
	after   []int64 // rows
	why     Relation
	depth   int32
}

// A conversation can be spawned by many, each of which may be spawned by many, and all that was said before is said again
// where one forks. So a file of 5 kB can describe any number of requests. These bound those that do not stand in it.
const (
	mostDAGRequests = 1 << 16
	mostDAGBytes    = 1 << 28
	mostDAGDepth    = 1 << 12 // conversations that come from each other; see send, which calls itself for each
)

// count counts what does not stand in the file, and refuses too much of it.
func (b *dagBuilder) count(requests, bytes int) {
	b.again.requests += requests
	if b.again.requests > mostDAGRequests {
		b.refuse(fmt.Sprintf("conversations that are spawned again make more than %d further requests", mostDAGRequests), "let fewer conversations spawn each other")
	}
	b.again.bytes += bytes
	if b.again.bytes > mostDAGBytes {
		b.refuse(fmt.Sprintf("conversations that fork or are spawned again say more than %d MiB again", mostDAGBytes>>20), "let fewer of them say so much")
	}
}

func (b *dagBuilder) refuse(what, fix string) {
	b.note(&rowError{what, fix})
	b.full = true
}

// send makes the rows of a conversation, and of those that come from it. Ends are its last rows.
func (b *dagBuilder) send(c *dagConversation, from dagStart) []int64 {
	switch {
	case c.visiting:
		b.note(&rowError{"conversation " + quote(c.name) + " comes from itself", "a conversation must not fork or spawn one that it comes from"})
	case from.depth > mostDAGDepth:
		b.refuse(fmt.Sprintf("conversations come from each other more than %d deep", mostDAGDepth), "let fewer conversations spawn or fork each other")
	case len(c.turns) == 0:
		b.note(&rowError{"conversation " + quote(c.name) + " is bad itself", "mend its line"})
	}
	if b.fault != nil {
		return nil
	}
	b.count(0, len(from.said))
	c.visiting, c.sent = true, c.sent+1
	spawn := func(name string, after []int64) []int64 { // a conversation that begins anew
		child, session := b.known[name], b.job+"/"+name
		if child.sent > 0 {
			session = fmt.Sprintf("%s.%d", session, child.sent+1)
		}
		return b.send(child, dagStart{session, nil, after, Spawn, from.depth + 1})
	}
	for _, name := range c.first {
		spawn(name, from.after)
	}
	joins := map[int][]int64{} // of turns: the rows of others that they wait for
	said, ends, why := slices.Clip(from.said), from.after, from.why
	for at, turn := range c.turns {
		if c.alone {
			said = nil
		}
		messages := unquoted(turn.object.value("messages"))
		if c.sent > 1 {
			b.count(1, len(messages))
		}
		if b.fault != nil {
			break
		}
		said = append(comma(said), messages...)
		r := b.add()
		b.setAll(r, turn.object, outputField, toolsField, extraField)
		b.fault = inside(fmt.Sprintf("turns[%d]", at), b.fault)
		r.verbatim.Kind, r.verbatim.Content = VerbatimMessages, slices.Clip(said)
		if n := len(b.rows); n > 1 {
			r.longer = bytes.HasPrefix(said, b.rows[n-2].verbatim.Content)
		}
		r.setSession([]byte(from.session))
		r.agent.job, r.agent.depth, r.line = b.job, from.depth, c.line
		r.agent.after(why, turn.delayNS, ends...)
		r.agent.after(Join, turn.delayNS, joins[at]...)
		ends, why = []int64{int64(b.first + len(b.rows) - 1)}, Sequence
		var forked []int64
		for _, child := range turn.children {
			if !child.fork {
				joins[child.joinAt] = append(joins[child.joinAt], spawn(child.name, ends)...)
				continue
			}
			last := b.send(b.known[child.name], dagStart{from.session, said, ends, Sequence, from.depth + 1})
			if !child.beside {
				forked = append(forked, last...)
			}
		}
		if forked != nil {
			ends = forked
		}
	}
	c.visiting = false
	return ends
}

// readDAGLine reads a conversation.
func readDAGLine(o object, line int) *dagConversation {
	c := &dagConversation{line: line, name: o.name("session_id", "it names the conversation"), alone: o.is("context_mode", "message_array_with_responses")}
	if o.value("orchestrator", "rounds") != nil {
		o.fail("an orchestrator, which sends nothing itself", "give its conversations turns of their own: rounds are not read")
	}
	c.first = o.names("pre_session_spawns", "it names a conversation")
	o.each("turns", func(at int, o object) {
		turn := dagTurn{object: o, delayNS: max(0, o.span("delay", 6))}
		if messages := o.need("messages", "they are what is sent"); messages != nil {
			o.note(new(row).setVerbatim(messagesField, "messages", messages))
		}
		o.values("forks", `["…",…]`, func(_ int, value []byte) {
			more := o.item("child", value)
			turn.children = append(turn.children, dagChild{more.name("child", "it names the conversation that goes on"), true, string(more.value("background")) == "true", 0})
		})
		o.values("spawns", `["…",…]`, func(_ int, value []byte) {
			more := o.item("children", value)
			join := more.count("join_at", maxTokens)
			if join == noValue {
				join = int64(at + 1)
			}
			for _, name := range more.names("children", "it names a conversation") {
				turn.children = append(turn.children, dagChild{name: name, joinAt: int(join)})
			}
		})
		c.turns = append(c.turns, turn)
	})
	if len(c.turns) == 0 {
		o.fail("missing turns", "they are the requests of the conversation")
	}
	return c
}

// link checks what a conversation leads to.
func (c *dagConversation) link(known map[string]*dagConversation) (err error) {
	fail := func(what, fix string) { err = cmp.Or[error](err, &rowError{what, fix}) }
	meet := func(place, name string, fork bool) {
		child := known[name]
		switch {
		case child == nil:
			fail(place+": no line has the session_id "+quote(name), "add the conversation, or leave it out here")
		case fork && child.forked:
			fail(place+": "+quote(name)+" is forked twice", "what is said before it must be one thing")
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
