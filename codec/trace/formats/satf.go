package formats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// satf is version 2 of the agent traces that Dynamo's converter of request traces writes, one JSON document:
//
//	{"format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":64,"sessions":[{"session_id":"a",
//	 "nodes":[
//	  {"kind":"llm_infer","id":"1","duration_us":900,"min_start_delay_us":0,"payload":{"input_tokens_total":90,
//	 "output_tokens":5,"kv_block_ids":[1,2]}},
//	  {"kind":"tool_call","id":"2","payload":{…}},{"kind":"tool_result","id":"3","duration_us":70,"payload":{…}}],
//	 "edges":[{"from":"1","to":"2","delay_after_predecessor_us":3}]}]}
//
// as lib/data-gen of https://github.com/ai-dynamo/dynamo (satf) has it. A node begins when all nodes with an edge to it
// have ended, each with the delay of its edge. A request waits for those requests from which a path over tools leads to
// it. Min_start_delay_us is a bound since the trace began. Ids are the document's own, and the last, partial
// block has one too.
func satf() *Format {
	r := &satfReader{jobs: map[string]bool{}}
	return &Format{
		Name: "satf",
		Layout: rows.Layout{Names: rows.Names{
			rows.InputField:   "input_tokens_total",
			rows.OutputField:  "output_tokens",
			rows.HashIDsField: "kv_block_ids",
			rows.SessionField: "session_id",
		}},
		Unit:        time.Microsecond,
		BlockTokens: 64,
		LastBlock:   MayHaveID, // tokens of the document
		Import: &Importer{
			Match:     anyOf(hasKeys("format_version", "time_base"), hasKeys("format_version", "sessions")),
			Read:      r.read,
			Documents: true,
		},
	}
}

// satfReader is what is known of the documents before.
type satfReader struct {
	jobs   map[string]bool // by name
	scopes agents.Scopes
	budget agents.Budget
}

// satfDocument is a document that is read.
type satfDocument struct {
	*satfReader
	*Batch
	nodes    map[string]*agents.Node // by their names
	sessions map[string]bool         // that have been read
}

// satfNode is a node of a session.
type satfNode struct {
	id      string
	row     int32 // in the batch; agents.None = of a tool
	tookNS  int64 // of a tool
	boundNS int64 // the earliest instant; agents.None = none
	from    []satfEdge
	asked   bool            // whether after was asked for
	after   map[int32]int64 // requests for which it waits, each with the delay from its end on; nil = not known yet
}

// satfEdge is on another node, by its place.
type satfEdge struct {
	node    int
	delayNS int64
}

func (r *satfReader) read(b *Batch, o object) {
	check := func(key, begin string) {
		const fix = "only SATF 2 in µs can be read"
		value := o.Name(key, fix)
		if !strings.HasPrefix(value, begin) {
			o.Fail(fmt.Sprintf("%s is %s, not %q", key, rows.Quote(value), begin), fix)
		}
	}
	check("format", "satf")
	check("format_version", "2.")
	check("time_base", "us")
	b.BlockTokens = o.Blocks("block_size_tokens")
	d := &satfDocument{
		satfReader: r,
		Batch:      b,
		nodes:      map[string]*agents.Node{},
		sessions:   map[string]bool{},
	}
	o.Each("sessions", func(_ int, o object) {
		d.readSession(o)
	})
	jobs := map[string]bool{}
	for i := range b.Rows {
		made := &b.Rows[i]
		r.scopes.Renumber("", made.IDs)
		a := d.nodes[made.Job]
		a.Climb()
		if a.Circle {
			o.Fail("the parents of session "+rows.Quote(a.Name)+" lead back to themselves",
				"a job begins with a session without a parent")
		}
		made.Job = a.Root.Name
		made.Depth = a.Depth
		jobs[made.Job] = true
	}
	r.scopes.Forget("")
	if o.OK() {
		maps.Copy(r.jobs, jobs)
	}
}

// node is the agent with a name.
func (d *satfDocument) node(name string) *agents.Node {
	if d.nodes[name] == nil {
		d.nodes[name] = &agents.Node{Name: name}
	}
	return d.nodes[name]
}

// readSession reads what one agent did, and notes the session that started it.
func (d *satfDocument) readSession(o object) {
	name := o.Name("session_id", "it names the agent")
	agent := d.node(name)
	said := "session_id " + rows.Quote(name) + " is the name of "
	if d.sessions[name] {
		o.Fail(said+"an earlier session too", "each needs a name of its own")
	}
	d.sessions[name] = true
	parent := ofDynamo(o).TextOr("parent_session_id", "")
	if parent != "" {
		agent.Parent = d.node(parent)
	}
	if d.jobs[name] {
		o.Fail(said+"a job in another document", "replay the documents by themselves")
	}
	var nodes []*satfNode
	places := map[string]int{}
	o.Each("nodes", func(i int, o object) {
		n := d.readNode(o, name)
		_, twice := places[n.id]
		if twice {
			o.Fail("id "+rows.Quote(n.id)+" is the name of an earlier node too", "each needs a name of its own")
		}
		places[n.id] = i
		nodes = append(nodes, n)
	})
	o.Each("edges", func(_ int, o object) {
		end := func(key string) int {
			id := o.Name(key, "an edge leads from one node to another")
			at, known := places[id]
			if !known {
				o.Fail(key+" is "+rows.Quote(id)+", which no node is called", "leave the edge out, or add the node")
			}
			return at
		}
		from := end("from")
		to := end("to")
		if !o.OK() {
			return
		}
		delayNS := o.Span("delay_after_predecessor_us", 3)
		nodes[to].from = append(nodes[to].from, satfEdge{from, max(0, delayNS)})
	})
	for at, n := range nodes {
		if n.row < 0 || !o.OK() {
			continue
		}
		o.Note(d.settleNode(nodes, at, 0))
		r := &d.Rows[n.row]
		r.NotBeforeNS = n.boundNS
		r.Dependencies = []agents.Dependency{}
		for _, on := range slices.Sorted(maps.Keys(n.after)) {
			r.After(agents.Sequence, n.after[on], d.First+int(on))
		}
	}
}

// readNode reads a request or a part of a tool's work.
func (d *satfDocument) readNode(o object, session string) *satfNode {
	n := &satfNode{
		id:      o.Name("id", "edges name nodes by it"),
		row:     agents.None,
		tookNS:  o.Span("duration_us", 3),
		boundNS: o.Span("min_start_delay_us", 3),
	}
	kinds := "it is llm_infer, tool_call or tool_result"
	switch kind := o.Name("kind", kinds); kind {
	case "llm_infer":
	case "tool_call", "tool_result":
		return n
	default:
		o.Fail("kind is "+rows.Quote(kind), kinds)
		return n
	}
	r := d.add()
	n.row = int32(len(d.Rows) - 1)
	r.Job = session
	r.TookNS = n.tookNS
	r.SetSession([]byte(session))
	payload := o.NeedIn("payload", "it has the numbers of tokens")
	d.setNeeded(r, payload, rows.InputField, rows.OutputField)
	d.setAll(r, payload, rows.HashIDsField)
	r.TTFTNS = o.In("performance_metrics").Span("time_to_first_token_us", 3)
	r.CachedTokens = int32(ofDynamo(o).Count("cached_tokens", rows.MaxTokens))
	return n
}

// ofDynamo is what Dynamo's converter adds to an object.
func ofDynamo(o object) object {
	return o.In("extensions").In("nvidia.dynamo")
}

// settleNode finds for which requests a node waits: over tools, whose work and delays add up along each path.
func (d *satfDocument) settleNode(nodes []*satfNode, at, depth int) error {
	n := nodes[at]
	switch {
	case n.after != nil:
		return nil
	case n.asked:
		return rows.Bad("edges lead from the node "+rows.Quote(n.id)+" back to itself",
			"leave one edge of the circle out")
	case depth > agents.MostDepth:
		return rows.Bad(fmt.Sprintf("a path leads to the node over more than %d of tools", agents.MostDepth),
			"leave some of them out")
	}
	n.asked = true
	after := map[int32]int64{}
	for _, e := range n.from {
		from := nodes[e.node]
		if from.row >= 0 {
			after[from.row] = max(after[from.row], e.delayNS)
			continue
		}
		if err := d.settleNode(nodes, e.node, depth+1); err != nil {
			return err
		}
		calls := d.First + len(d.Rows)
		if err := d.budget.Take(len(from.after), n.row, calls); err != nil {
			return err
		}
		over := func(ns int64) int64 {
			return agents.After(ns, from.tookNS, e.delayNS)
		}
		for row, delay := range from.after {
			after[row] = max(after[row], over(delay))
		}
		if from.boundNS >= 0 {
			n.boundNS = max(n.boundNS, over(from.boundNS))
		}
	}
	n.after = after
	return nil
}
