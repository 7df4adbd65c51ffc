package trace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// weka is the format of the traces of coding agents that Weka published, an object a trace:
//
//	{"id":"trace_0001","block_size":64,"hash_id_scope":"local","requests":[
//	  {"t":0,"type":"n","in":200,"out":16,"hash_ids":[1,2,3],"api_time":7.3,"think_time":0},
//	  {"t":14.2,"type":"s","ttft":1.9,"in":…},
//	  {"t":79.2,"type":"subagent","agent_id":"agent_001","duration_ms":59750,"requests":[…]}]}
//
// as https://github.com/callanjfox/kv-cache-tester describes. Times are decimal seconds since the trace began. An id
// stands for a block together with all before it, and a last, partial block has none. Ids of local scope are the
// trace's own.
//
// A sub-agent has one instant, which is its end in that set. In others it is its begin, and requests have the clock of
// the whole trace (AIPerf, docs/tutorials/weka-trace.md). It is decided for each: see placeOf.
func weka() *format {
	return &format{
		name:        "weka",
		unit:        time.Second,
		surely:      true,
		blockTokens: 64,
		names:       fieldNames{timestampField: "t", inputField: "in", outputField: "out", idsField: "hash_ids"},
		known: func(keys []string) bool {
			return hasAny(keys, "requests") && hasAny(keys, "block_size", "hash_id_scope")
		},
		floor: true,
		whole: true,
		items: ofObject(readWeka),
	}
}

// maxSpanNS bounds a time in the file: 36 years in ns, of which a few can be added.
const maxSpanNS = 1 << 60

// mark is a sub-agent as it stands in the list of its parent's requests.
type mark struct {
	agent  *asker
	atNS   int64
	tookNS int64 // noValue = not recorded
	inside []mark
}

func readWeka(out *items, o object) {
	main := wekaJob(out, o)
	if o.has("block_size") {
		out.blocks = o.blocks("block_size")
	}
	o.need("requests", "it is the list of what was sent")
	marks := wekaRequests(out, main, o)
	if o.ok() {
		out.place(main, 0, marks)
	}
	if !o.ok() {
		return
	}
	for i := range out.rows {
		out.rows[i].agent.job = main.name
		if !out.l.scopes.global {
			out.l.scopes.renumber(main.name, out.rows[i].ids)
		}
	}
	out.l.scopes.forget(main.name)
	out.early = int64(time.Second) // some instants of the public set are whole seconds
	waits := out.l.waits
	if out.linkRequests(main); out.fault != nil { // nothing of the trace is taken
		out.l.waits = waits
	}
}

// wekaJob is the main agent of a trace, with a name that no other has. It notes the scope of the trace's ids.
func wekaJob(out *items, o object) *asker {
	name := fmt.Sprintf("trace-%d", out.first)
	if o.has("id") {
		name = o.name("id", "it names the trace")
	}
	if _, twice := out.l.agents.jobs.numbers[name]; twice {
		o.fail("id "+quote(name)+" is the name of an earlier trace too", "each needs a name of its own; a file is replayed twice with --repeat")
	}
	global := o.is("hash_id_scope", "global")
	if o.has("hash_id_scope") && !global && !o.is("hash_id_scope", "local") {
		o.fail("hash_id_scope is "+clip(o.value("hash_id_scope")), `it is "local" or "global"`)
	}
	if global != out.l.scopes.global && len(out.l.agents.jobs.names) > 0 {
		o.fail("hash_id_scope is not that of the traces before", "replay local and global traces by themselves")
	}
	out.l.scopes.global = global
	return &asker{name: name}
}

// wekaRequests reads the requests of an agent, with those of its sub-agents.
func wekaRequests(out *items, agent *asker, o object) (marks []mark) {
	o.each("requests", func(_ int, o object) {
		if o.is("type", "subagent") {
			marks = append(marks, wekaSubAgent(out, agent, o))
			return
		}
		r := out.add()
		r.setSession([]byte(agent.name))
		r.agent.depth = agent.depth
		agent.rows = append(agent.rows, int32(len(out.rows)-1))
		out.setNeeded(r, o, timestampField, inputField, outputField)
		out.setAll(r, o, idsField)
		wekaSpan(o, "t", 9)
		r.agent.tookNS, r.agent.ttftNS = wekaSpan(o, "api_time", 9), wekaSpan(o, "ttft", 9)
	})
	return marks
}

// wekaSpan is the ns of a duration or an instant, at most so many that a few can be added.
func wekaSpan(o object, key string, digits int) int64 {
	ns := o.span(key, digits)
	if ns > maxSpanNS {
		o.fail(key+" "+clip(o.value(key))+" is out of range (36 years)", "check its unit")
	}
	return ns
}

// wekaSubAgent reads a sub-agent, whose requests have times of their own.
func wekaSubAgent(out *items, parent *asker, o object) mark {
	sub := &asker{depth: parent.depth + 1}
	if sub.depth > mostNested {
		o.fail(fmt.Sprintf("sub-agents are nested more than %d deep", mostNested), "let fewer start each other")
		return mark{}
	}
	name := "subagent-" + strconv.Itoa(len(parent.subs)+1)
	if o.has("agent_id") {
		name = o.name("agent_id", "it names the sub-agent")
	}
	sub.name = parent.nameSub(parent.name + "/" + name)
	parent.subs = append(parent.subs, sub)
	o.need("t", "it is the time of the sub-agent")
	return mark{sub, wekaSpan(o, "t", 9), wekaSpan(o, "duration_ms", 6), wekaRequests(out, sub, o)}
}

// nameSub is a name for a sub-agent that none before has: the one that is asked for, or that with a number behind it.
func (a *asker) nameSub(asked string) string {
	if a.named == nil {
		a.named = map[string]int{}
	}
	name := asked
	for a.named[name] > 0 {
		a.named[asked]++
		name = fmt.Sprintf("%s~%d", asked, a.named[asked])
	}
	a.named[name]++
	return name
}

// place gives the requests of an agent's sub-agents, and of theirs, instants of the whole trace. The agent's own have
// such already; its marks count from base.
func (m *items) place(agent *asker, base int64, marks []mark) {
	own := m.timesOf(agent)
	for _, s := range marks {
		if base > maxSpanNS || base < -maxSpanNS {
			m.note(&rowError{"the times of nested sub-agents add up to more than 36 years", "check t and duration_ms"})
			return
		}
		g := m.placeOf(own, base, s)
		for _, i := range s.agent.rows {
			m.rows[i].timeNS += g.shift
		}
		if len(s.agent.rows) > 0 {
			*g.count++
		}
		if s.agent.endNS = g.end; s.tookNS < 0 {
			s.agent.endNS = noTime
		}
		m.place(s.agent, g.shift, s.inside)
	}
}

// times are when the requests of an agent began and ended, each in order.
type times struct{ begins, ends []int64 }

func (m *items) timesOf(a *asker) (own times) {
	for _, i := range a.rows {
		own.begins = append(own.begins, m.rows[i].timeNS)
		own.ends = append(own.ends, m.rows[i].endNS())
	}
	slices.Sort(own.begins)
	slices.Sort(own.ends)
	return own
}

// anyFrom reports whether one of some instants in order lies from one instant on and before another.
func anyFrom(at []int64, from, before int64) bool {
	n, _ := slices.BinarySearch(at, from)
	return n < len(at) && at[n] < before
}

// guess is where a sub-agent may lie: when it began and ended, and what is added to the times of its requests.
type guess struct {
	begin, end, shift int64
	count             *int
}

// placeOf decides what the instant of a sub-agent is. Its requests must lie between its begin and its end. Then it
// begins at the end of a request of its parent, and the next request of the parent comes after its end. Of 48 sub-agents
// of the public set 44 have a duration, and the first guess meets all three. The other 4 began at their instant.
func (m *items) placeOf(parent times, base int64, s mark) guess {
	at, took, end, sure := base+s.atNS, s.tookNS, int64(math.MaxInt64), &m.l.SubAgents
	var guesses []guess
	if took >= 0 {
		end = at + took
		guesses = append(guesses, guess{at - took, at, at - took, &sure.EndedThen})
	}
	guesses = append(guesses, guess{at, end, at, &sure.BegunThen}, guess{at, end, base, &sure.OwnClock})
	first, last := int64(maxSpanNS), int64(0)
	for _, i := range s.agent.rows {
		first, last = min(first, m.rows[i].timeNS), max(last, m.rows[i].endNS())
	}
	best, most := 0, -1
	for n, g := range guesses {
		fit := 0
		if first+g.shift >= g.begin-soon && (g.end == math.MaxInt64 || last+g.shift <= g.end+soon) {
			fit += 4
		}
		if anyFrom(parent.ends, g.begin-soon, g.begin+soon+1) {
			fit += 2
		}
		if !anyFrom(parent.begins, g.begin+1, g.end-soon) {
			fit++
		}
		if fit > most {
			best, most = n, fit
		}
	}
	return guesses[best]
}
