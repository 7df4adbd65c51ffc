package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// dagJSONL is AIPerf's format of conversations that branch, a line a conversation:
//
//	{"session_id":"a","turns":[{"messages":[…],"max_tokens":128,"tools":[…],"extra":{…},"delay":20,
//	"forks":["b",{"child":"c","background":true}],"spawns":["d",{"children":["e","f"],"join_at":3}]}]}
//
// as https://github.com/ai-dynamo/aiperf (docs/benchmark-modes/dag.md) describes. Each turn is a request, with what was
// said before. A conversation that no other names is a job. One that is forked goes on from all that was said. One that
// is spawned begins anew, and the turn join_at (usually the next) waits for its end. It may be spawned several times.
// Delays are milliseconds since what a turn waits for. There are no timestamps.
func dagJSONL() *Format {
	r := &dagReader{}
	return &Format{
		Name: "dag_jsonl",
		Layout: rows.Layout{Names: rows.Names{
			rows.SessionField:  "session_id",
			rows.MessagesField: "messages",
			rows.OutputField:   "max_tokens",
			rows.ToolsField:    "tools",
			rows.ExtraField:    "extra",
		}},
		Import: &Importer{
			Match: hasKeys("session_id", "turns"),
			Looks: func(text []byte) (messages bool) { // where multi_turn has texts
				var err error
				rows.ObjectOf(text, &err).Each("turns", func(_ int, turn object) {
					messages = messages || turn.Has("messages")
				})
				return messages
			},
			ReadText: r.hold,
			End:      r.end,
		},
	}
}

// dagReader holds the lines of a file until all are there, since they name each other.
type dagReader struct{ lines []heldLine }

type heldLine struct {
	text []byte
	line int
}

func (r *dagReader) hold(b *Batch, text []byte) {
	r.lines = append(r.lines, heldLine{bytes.Clone(text), b.Line})
	b.note(errNoRow)
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

// end makes the rows of a file whose lines are conversations.
func (r *dagReader) end(batch *Batch) {
	known := map[string]*dagConversation{}
	all := []*dagConversation(nil)
	bad := func(line int, err error) {
		batch.note(err)
		batch.flush(line)
	}
	for _, h := range r.lines {
		var err error
		o := rows.ObjectOf(h.text, &err)
		c := readDAGLine(o, h.line)
		if before := known[c.name]; before != nil {
			o.Fail(fmt.Sprintf("session_id %s is that of line %d", rows.Quote(c.name), before.line),
				"each conversation needs a name of its own")
		}
		if err != nil {
			bad(h.line, err)
		} else {
			known[c.name] = c
			all = append(all, c)
		}
	}
	r.lines = nil
	for _, c := range all {
		if err := c.link(known); err != nil {
			bad(c.line, err)
			c.turns = nil
			c.sent = 1
		}
	}
	b := &dagBuilder{Batch: batch, known: known}
	for _, c := range all {
		if !c.named && len(c.turns) > 0 {
			before := b.again
			b.job = c.name
			b.send(c, dagStart{session: c.name})
			if b.Fault != nil {
				b.again = before // nothing of the job is taken
			}
			b.flush(c.line)
		}
	}
	for _, c := range all {
		if c.sent == 0 && !b.full {
			bad(c.line, rows.Bad("no conversation that begins leads here",
				"one that no other forks or spawns begins, and its tree must be whole and without circles"))
		}
	}
}

// dagBuilder makes the rows of a file, one job after the other.
type dagBuilder struct {
	*Batch
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
	said    []byte // before
	after   []int  // rows
	why     agents.Relation
	depth   int32
}

// A conversation can be spawned by many, each of which may be spawned by many. All that was said before is said again
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
		b.refuse(fmt.Sprintf("conversations that are spawned again make more than %d further requests",
			mostDAGRequests), "let fewer conversations spawn each other")
	}
	b.again.bytes += bytes
	if b.again.bytes > mostDAGBytes {
		b.refuse(fmt.Sprintf("conversations that fork or are spawned again say more than %d MiB again",
			mostDAGBytes>>20), "let fewer of them say so much")
	}
}

func (b *dagBuilder) refuse(what, fix string) {
	b.note(rows.Bad(what, fix))
	b.full = true
}

// send makes the rows of a conversation, and of those that come from it. Ends are its last rows.
func (b *dagBuilder) send(c *dagConversation, from dagStart) []int {
	switch {
	case c.visiting:
		b.note(rows.Bad("conversation "+rows.Quote(c.name)+" comes from itself",
			"a conversation must not fork or spawn one that it comes from"))
	case from.depth > mostDAGDepth:
		b.refuse(fmt.Sprintf("conversations come from each other more than %d deep", mostDAGDepth),
			"let fewer conversations spawn or fork each other")
	case len(c.turns) == 0:
		b.note(rows.Bad("conversation "+rows.Quote(c.name)+" is bad itself", "mend its line"))
	}
	if b.Fault != nil {
		return nil
	}
	b.count(0, len(from.said))
	c.visiting = true
	c.sent++
	spawn := func(name string, after []int) []int { // a conversation that begins anew
		child := b.known[name]
		session := b.job + "/" + name
		if child.sent > 0 {
			session = fmt.Sprintf("%s.%d", session, child.sent+1)
		}
		return b.send(child, dagStart{session, nil, after, agents.Spawn, from.depth + 1})
	}
	for _, name := range c.first {
		spawn(name, from.after)
	}
	joins := map[int][]int{} // of turns: the rows of others that they wait for
	said := slices.Clip(from.said)
	ends := from.after
	why := from.why
	for at, turn := range c.turns {
		if c.alone {
			said = nil
		}
		messages := rows.Unquoted(turn.object.Value("messages"))
		if c.sent > 1 {
			b.count(1, len(messages))
		}
		if b.Fault != nil {
			break
		}
		said = append(comma(said), messages...)
		r := b.add()
		b.setAll(r, turn.object, rows.OutputField, rows.ToolsField, rows.ExtraField)
		b.Fault = rows.Inside(fmt.Sprintf("turns[%d]", at), b.Fault)
		r.Verbatim.Kind = rows.VerbatimMessages
		r.Verbatim.Content = slices.Clip(said)
		n := len(b.Rows)
		if n > 1 {
			before := b.Rows[n-2].Verbatim.Content
			r.Longer = bytes.HasPrefix(said, before)
		}
		r.SetSession([]byte(from.session))
		r.Job = b.job
		r.Depth = from.depth
		r.Line = c.line
		r.After(why, turn.delayNS, ends...)
		r.After(agents.Join, turn.delayNS, joins[at]...)
		ends = []int{b.First + len(b.Rows) - 1}
		why = agents.Sequence
		var forked []int
		for _, child := range turn.children {
			if !child.fork {
				spawned := spawn(child.name, ends)
				joins[child.joinAt] = append(joins[child.joinAt], spawned...)
				continue
			}
			start := dagStart{from.session, said, ends, agents.Sequence, from.depth + 1}
			last := b.send(b.known[child.name], start)
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
	c := &dagConversation{
		line:  line,
		name:  o.Name("session_id", "it names the conversation"),
		alone: o.Is("context_mode", "message_array_with_responses"),
	}
	if o.Value("orchestrator", "rounds") != nil {
		o.Fail("an orchestrator, which sends nothing itself",
			"give its conversations turns of their own: rounds are not read")
	}
	c.first = o.Names("pre_session_spawns", "it names a conversation")
	o.Each("turns", func(at int, o object) {
		turn := dagTurn{object: o, delayNS: max(0, o.Span("delay", 6))}
		messages := o.Need("messages", "they are what is sent")
		if messages != nil {
			o.Note(new(row).SetVerbatim(rows.MessagesField, "messages", messages))
		}
		o.Values("forks", `["…",…]`, func(_ int, value []byte) {
			more := o.Item("child", value)
			turn.children = append(turn.children, dagChild{more.Name("child", "it names the conversation that goes on"),
				true, string(more.Value("background")) == "true", 0})
		})
		o.Values("spawns", `["…",…]`, func(_ int, value []byte) {
			more := o.Item("children", value)
			join := more.Count("join_at", rows.MaxTokens)
			if join == agents.None {
				join = int64(at + 1)
			}
			for _, name := range more.Names("children", "it names a conversation") {
				turn.children = append(turn.children, dagChild{name: name, joinAt: int(join)})
			}
		})
		c.turns = append(c.turns, turn)
	})
	if len(c.turns) == 0 {
		o.Fail("missing turns", "they are the requests of the conversation")
	}
	return c
}

// link checks what a conversation leads to.
func (c *dagConversation) link(known map[string]*dagConversation) (err error) {
	fail := func(what, fix string) {
		err = cmp.Or[error](err, rows.Bad(what, fix))
	}
	meet := func(place, name string, fork bool) {
		child := known[name]
		switch {
		case child == nil:
			fail(place+": no line has the session_id "+rows.Quote(name), "add the conversation, or leave it out here")
		case fork && child.forked:
			fail(place+": "+rows.Quote(name)+" is forked twice", "what is said before it must be one thing")
		default:
			child.forked = child.forked || fork
			child.named = true
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
				fail(fmt.Sprintf("%sjoin_at is %d", place, child.joinAt),
					fmt.Sprintf("it must be a later turn, the last is %d", last))
			default:
				meet(place+"spawns", child.name, false)
			}
		}
	}
	return err
}
