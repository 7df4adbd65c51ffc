package formats

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
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
func weka() *Format {
	w := &wekaReader{traces: map[string]bool{}}
	return &Format{
		Name: "weka",
		Layout: rows.Layout{Names: rows.Names{
			rows.TimestampField: "t",
			rows.InputField:     "in",
			rows.OutputField:    "out",
			rows.HashIDsField:   "hash_ids",
		}},
		Unit:        time.Second,
		OneUnit:     true,
		BlockTokens: 64,
		LastBlock:   HasNoID,
		Import: &Importer{
			Match: func(keys []string) bool {
				return hasAny(keys, "requests") && hasAny(keys, "block_size", "hash_id_scope")
			},
			Read:      ofObject(w.read),
			Documents: true,
		},
	}
}

const (
	// maxSpanNS bounds a time in the file: 36 years in ns, of which a few can be added.
	maxSpanNS = 1 << 60
	// mostNested is how deep sub-agents may stand in each other in one object: it is read once for each.
	mostNested = 100
	// wekaClockSkewNS is how exact instants are: some of the public set are whole seconds.
	wekaClockSkewNS = int64(time.Second)
)

// wekaReader is what is known of the traces before.
type wekaReader struct {
	traces map[string]bool // by name
	global bool            // ids are those of all traces
	scopes agents.Scopes
	budget agents.Budget
}

// wekaTrace is a trace that is read.
type wekaTrace struct {
	*Batch
	names uniqueNames // of sub-agents
}

// subagentStub is a sub-agent as it stands in the list of its parent's requests.
type subagentStub struct {
	agent  *agents.Node
	atNS   int64
	tookNS int64 // agents.None = not recorded
	inside []subagentStub
}

func (w *wekaReader) read(b *Batch, o object) {
	t := &wekaTrace{Batch: b, names: uniqueNames{}}
	job := &agents.Node{Name: w.readHead(b, o)}
	o.Need("requests", "it is the list of what was sent")
	stubs := t.readRequests(job, o)
	if o.OK() {
		t.place(job, 0, stubs)
	}
	if !o.OK() {
		return
	}
	calls := make([]agents.Call, len(b.Rows))
	for i := range b.Rows {
		r := &b.Rows[i]
		r.Job = job.Name
		if !w.global {
			w.scopes.Renumber(job.Name, r.IDs)
		}
		calls[i] = r.Call()
	}
	w.scopes.Forget(job.Name)
	budget := w.budget
	links, err := agents.Link([]*agents.Node{job}, calls, wekaClockSkewNS, &budget, b.First)
	b.note(err)
	if err != nil {
		return
	}
	w.budget = budget
	if len(b.Rows) > 0 {
		w.traces[job.Name] = true
	}
	b.SubAgents.Background = links.Background
	for i, waits := range links.Dependencies {
		for n := range waits {
			waits[n].On += int32(b.First)
		}
		b.Rows[i].Dependencies = waits
	}
}

// readHead returns a name of the trace that no other has. It notes the scope of the trace's ids.
func (w *wekaReader) readHead(b *Batch, o object) string {
	name := fmt.Sprintf("trace-%d", b.First)
	if o.Has("id") {
		name = o.Name("id", "it names the trace")
	}
	if w.traces[name] {
		o.Fail("id "+rows.Quote(name)+" is the name of an earlier trace too",
			"each needs a name of its own; a file is replayed twice with --repeat")
	}
	global := o.Is("hash_id_scope", "global")
	if o.Has("hash_id_scope") && !global && !o.Is("hash_id_scope", "local") {
		o.Fail("hash_id_scope is "+rows.Clip(o.Value("hash_id_scope")), `it is "local" or "global"`)
	}
	if global != w.global && len(w.traces) > 0 {
		o.Fail("hash_id_scope is not that of the traces before", "replay local and global traces by themselves")
	}
	w.global = global
	if o.Has("block_size") {
		b.BlockTokens = o.Blocks("block_size")
	}
	return name
}

// readRequests reads the requests of an agent, with those of its sub-agents.
func (t *wekaTrace) readRequests(agent *agents.Node, o object) (stubs []subagentStub) {
	o.Each("requests", func(_ int, o object) {
		if o.Is("type", "subagent") {
			stubs = append(stubs, t.readSubAgent(agent, o))
			return
		}
		r := t.add()
		r.SetSession([]byte(agent.Name))
		r.Depth = agent.Depth
		agent.Calls = append(agent.Calls, int32(len(t.Rows)-1))
		t.setNeeded(r, o, rows.TimestampField, rows.InputField, rows.OutputField)
		t.setAll(r, o, rows.HashIDsField)
		wekaSpan(o, "t", 9)
		r.TookNS = wekaSpan(o, "api_time", 9)
		r.TTFTNS = wekaSpan(o, "ttft", 9)
	})
	return stubs
}

// readSubAgent reads a sub-agent, whose requests have times of their own.
func (t *wekaTrace) readSubAgent(parent *agents.Node, o object) subagentStub {
	sub := &agents.Node{Depth: parent.Depth + 1}
	if sub.Depth > mostNested {
		o.Fail(fmt.Sprintf("sub-agents are nested more than %d deep", mostNested), "let fewer start each other")
		return subagentStub{}
	}
	name := "subagent-" + strconv.Itoa(len(parent.Subs)+1)
	if o.Has("agent_id") {
		name = o.Name("agent_id", "it names the sub-agent")
	}
	sub.Name = t.names.pick(parent.Name + "/" + name)
	parent.Subs = append(parent.Subs, sub)
	o.Need("t", "it is the time of the sub-agent")
	return subagentStub{
		agent:  sub,
		atNS:   wekaSpan(o, "t", 9),
		tookNS: wekaSpan(o, "duration_ms", 6),
		inside: t.readRequests(sub, o),
	}
}

// wekaSpan is the ns of a duration or an instant, at most so many that a few can be added.
func wekaSpan(o object, key string, digits int) int64 {
	ns := o.Span(key, digits)
	if ns > maxSpanNS {
		o.Fail(key+" "+rows.Clip(o.Value(key))+" is out of range (36 years)", "check its unit")
	}
	return ns
}

// place gives the requests of an agent's sub-agents, and of theirs, instants of the whole trace. The agent's own have
// such already; its stubs count from base.
func (t *wekaTrace) place(agent *agents.Node, base int64, stubs []subagentStub) {
	own := t.timesOf(agent)
	for _, s := range stubs {
		if base > maxSpanNS || base < -maxSpanNS {
			t.note(rows.Bad("the times of nested sub-agents add up to more than 36 years", "check t and duration_ms"))
			return
		}
		p := t.placementOf(own, base, s)
		for _, i := range s.agent.Calls {
			t.Rows[i].TimeNS += p.shift
		}
		if len(s.agent.Calls) > 0 {
			*p.count++
		}
		s.agent.EndNS = p.end
		if s.tookNS < 0 {
			s.agent.EndNS = agents.NoTime
		}
		t.place(s.agent, p.shift, s.inside)
	}
}

// times are when the requests of an agent began and ended, each in order.
type times struct{ begins, ends []int64 }

func (t *wekaTrace) timesOf(a *agents.Node) (own times) {
	for _, i := range a.Calls {
		call := t.Rows[i].Call()
		own.begins = append(own.begins, call.BeganNS)
		own.ends = append(own.ends, call.EndNS())
	}
	slices.Sort(own.begins)
	slices.Sort(own.ends)
	return own
}

// anyWithin reports whether one of some instants in order lies from one instant on and before another.
func anyWithin(at []int64, from, before int64) bool {
	n, _ := slices.BinarySearch(at, from)
	return n < len(at) && at[n] < before
}

// placement is where a sub-agent may lie: when it began and ended, and what is added to the times of its requests.
type placement struct {
	begin, end, shift int64
	count             *int
}

// placementOf decides what the instant of a sub-agent is. Its requests must lie between its begin and its end. Then it
// begins at the end of a request of its parent, and the next request of the parent comes after its end. Of 48
// sub-agents of the public set 44 have a duration, and the first placement meets all three. The other 4 began at their
// instant.
func (t *wekaTrace) placementOf(parent times, base int64, s subagentStub) placement {
	const tolerance = agents.SpawnTolerance
	at := base + s.atNS
	took := s.tookNS
	end := int64(math.MaxInt64)
	sure := &t.SubAgents
	var possible []placement
	if took >= 0 {
		end = at + took
		possible = append(possible, placement{at - took, at, at - took, &sure.EndedThen})
	}
	possible = append(possible, placement{at, end, at, &sure.BegunThen})
	possible = append(possible, placement{at, end, base, &sure.OwnClock})
	own := t.timesOf(s.agent)
	first := int64(maxSpanNS)
	last := int64(0)
	if len(own.begins) > 0 {
		first = min(first, own.begins[0])
		last = max(last, own.ends[len(own.ends)-1])
	}
	best := 0
	most := -1
	for n, p := range possible {
		fit := 0
		endsIn := p.end == math.MaxInt64 || last+p.shift <= p.end+tolerance
		if endsIn && first+p.shift >= p.begin-tolerance {
			fit += 4
		}
		if anyWithin(parent.ends, p.begin-tolerance, p.begin+tolerance+1) {
			fit += 2
		}
		if !anyWithin(parent.begins, p.begin+1, p.end-tolerance) {
			fit++
		}
		if fit > most {
			best = n
			most = fit
		}
	}
	return possible[best]
}
