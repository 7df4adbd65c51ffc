package formats

import (
	"fmt"
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
// A sub-agent has one instant, which is its end in that set, and its requests have times since its begin. In others the
// instant is its begin, and requests have the clock of the whole trace (AIPerf, docs/tutorials/weka-trace.md). Which it
// is shows only when all is read: see Nested.
func weka() *Format {
	w := &wekaReader{traces: map[string]bool{}}
	return &Format{
		Name: "weka",
		Layout: rows.Layout{Names: rows.Names{
			rows.TimestampField: "t",
			rows.InputField:     "in",
			rows.OutputField:    "out",
			rows.HashIDsField:   "hash_ids",
			rows.TypeField:      "subagent_type",
		}},
		Unit:        time.Second,
		BlockTokens: 64,
		LastBlock:   HasNoID,
		Agents:      true,
		ClockSkewNS: wekaClockSkewNS,
		Import: &Importer{
			Match:     anyOf(hasKeys("requests", "block_size"), hasKeys("requests", "hash_id_scope")),
			Read:      w.read,
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
}

// wekaTrace is a trace that is read.
type wekaTrace struct {
	*Batch
	names uniqueNames // of sub-agents
}

func (w *wekaReader) read(b *Batch, o object) {
	t := &wekaTrace{Batch: b, names: uniqueNames{}}
	job := &agents.Node{Name: w.readHead(b, o), Kind: "main"}
	o.Need("requests", "it is the list of what was sent")
	b.Nested = &Nested{Agent: job, inside: t.readRequests(job, o, 0)}
	if !o.OK() {
		return
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		r.Job = job.Name
		if !w.global {
			w.scopes.Renumber(job.Name, r.IDs)
		}
	}
	w.scopes.Forget(job.Name)
	if len(b.Rows) > 0 {
		w.traces[job.Name] = true
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

// readRequests reads the requests of an agent, with those of its sub-agents. Its times begin reach after those of the
// trace at most.
func (t *wekaTrace) readRequests(agent *agents.Node, o object, reach int64) (inside []*Nested) {
	o.Each("requests", func(_ int, o object) {
		if o.Is("type", "subagent") {
			inside = append(inside, t.readSubAgent(agent, o, reach))
			return
		}
		r := t.add()
		r.SetSession([]byte(agent.Name))
		r.Depth = agent.Depth
		r.Type = []byte(agent.Kind)
		agent.Calls = append(agent.Calls, int32(len(t.Rows)-1))
		t.setNeeded(r, o, rows.TimestampField, rows.InputField, rows.OutputField)
		t.setAll(r, o, rows.HashIDsField)
		wekaSpan(o, "t", 9)
		r.TookNS = wekaSpan(o, "api_time", 9)
		r.TTFTNS = wekaSpan(o, "ttft", 9)
	})
	return inside
}

// readSubAgent reads a sub-agent, whose requests may have times of their own.
func (t *wekaTrace) readSubAgent(parent *agents.Node, o object, reach int64) *Nested {
	sub := &agents.Node{Depth: parent.Depth + 1, Kind: "sub-agent"}
	s := &Nested{Agent: sub}
	if sub.Depth > mostNested {
		o.Fail(fmt.Sprintf("sub-agents are nested more than %d deep", mostNested), "let fewer start each other")
		return s
	}
	name := "subagent-" + strconv.Itoa(len(parent.Subs)+1)
	if o.Has("agent_id") {
		name = o.Name("agent_id", "it names the sub-agent")
	}
	sub.Name = t.names.pick(parent.Name + "/" + name)
	if o.Has("subagent_type") {
		sub.Kind = o.Name("subagent_type", "it is the kind of the agent")
	}
	parent.Subs = append(parent.Subs, sub)
	o.Need("t", "it is the time of the sub-agent")
	s.atNS = wekaSpan(o, "t", 9)
	s.tookNS = wekaSpan(o, "duration_ms", 6)
	reach += s.atNS + max(0, s.tookNS)
	if reach > maxSpanNS {
		o.Fail("the times of nested sub-agents add up to more than 36 years", "check t and duration_ms")
		return s
	}
	s.inside = t.readRequests(sub, o, reach)
	return s
}

// wekaSpan is the ns of a duration or an instant, at most so many that a few can be added.
func wekaSpan(o object, key string, digits int) int64 {
	ns := o.Span(key, digits)
	if ns > maxSpanNS {
		o.Fail(key+" "+rows.Clip(o.Value(key))+" is out of range (36 years)", "check its unit")
	}
	return ns
}
