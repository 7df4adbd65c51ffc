package trace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// satf is version 2 of the agent traces that Dynamo's converter of request traces writes, one JSON document:
//
//	{"format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":64,"sessions":[{"session_id":"a","nodes":[
//	  {"kind":"llm_infer","id":"1","duration_us":900,"min_start_delay_us":0,"payload":{"input_tokens_total":90,"output_tokens":5,"kv_block_ids":[1,2]}},
//	  {"kind":"tool_call","id":"2","payload":{…}},{"kind":"tool_result","id":"3","duration_us":70,"payload":{…}}],
//	 "edges":[{"from":"1","to":"2","delay_after_predecessor_us":3}]}]}
//
// as lib/data-gen of https://github.com/ai-dynamo/dynamo (satf) has it. A node begins when all nodes with an edge to it
// have ended, each with the delay of its edge. A request waits for those requests from which a path over tools leads to
// it. Min_start_delay_us is a bound since the trace began. Ids are the document's own, and the last, partial
// block has one too.
func satf() *format {
	return &format{
		name:        "satf",
		unit:        time.Microsecond,
		surely:      true,
		blockTokens: 64, // of the document
		either:      true,
		names:       fieldNames{inputField: "input_tokens_total", outputField: "output_tokens", idsField: "kv_block_ids", sessionField: "session_id"},
		known: func(keys []string) bool {
			return hasAny(keys, "format_version") && hasAny(keys, "time_base", "sessions")
		},
		whole: true,
		items: ofObject(readSATF),
	}
}

// satfNode is a node of a session.
type satfNode struct {
	id      string
	row     int32 // in items.rows; -1 = of a tool
	tookNS  int64 // of a tool
	boundNS int64 // the earliest instant; noValue = none
	from    []satfEdge
	asked   bool            // whether after was asked for
	after   map[int32]int64 // requests for which it waits, each with the delay from its end on; nil = not known yet
}

// satfEdge is on another node, by its place.
type satfEdge struct {
	node    int
	delayNS int64
}

func readSATF(out *items, o object) {
	for _, c := range [][2]string{{"format", "satf"}, {"format_version", "2."}, {"time_base", "us"}} {
		if value := o.name(c[0], "only SATF 2 in µs can be read"); !strings.HasPrefix(value, c[1]) {
			o.fail(fmt.Sprintf("%s is %s, not %q", c[0], quote(value), c[1]), "only SATF 2 in µs can be read")
		}
	}
	out.blocks = o.blocks("block_size_tokens")
	agents := map[string]*asker{}
	o.each("sessions", func(_ int, o object) { readSATFSession(out, o, agents) })
	for i := range out.rows {
		r := &out.rows[i]
		out.l.scopes.renumber("", r.ids)
		a := agents[r.agent.job]
		if a.climb(); a.circle {
			o.fail("the parents of session "+quote(a.name)+" lead back to themselves", "a job begins with a session without a parent")
		}
		r.agent.job, r.agent.depth = a.top.name, a.depth
	}
	out.l.scopes.forget("")
}

// readSATFSession reads what one agent did, and notes the session that started it.
func readSATFSession(out *items, o object, agents map[string]*asker) {
	name := o.name("session_id", "it names the agent")
	agent := func(name string) *asker {
		if agents[name] == nil {
			agents[name] = &asker{name: name}
		}
		return agents[name]
	}
	a := agent(name)
	if a.seen {
		o.fail("session_id "+quote(name)+" is the name of an earlier session too", "each needs a name of its own")
	}
	a.seen = true
	if parent := ofDynamo(o).textOr("parent_session_id", ""); parent != "" {
		a.up = agent(parent)
	}
	if _, twice := out.l.agents.jobs.numbers[name]; twice {
		o.fail("session_id "+quote(name)+" is the name of a job in another document", "replay the documents by themselves")
	}
	var nodes []*satfNode
	places := map[string]int{}
	o.each("nodes", func(i int, o object) {
		n := readSATFNode(out, o, name)
		if _, twice := places[n.id]; twice {
			o.fail("id "+quote(n.id)+" is the name of an earlier node too", "each needs a name of its own")
		}
		places[n.id] = i
		nodes = append(nodes, n)
	})
	o.each("edges", func(_ int, o object) {
		end := func(key string) int {
			id := o.name(key, "an edge leads from one node to another")
			at, known := places[id]
			if !known {
				o.fail(key+" is "+quote(id)+", which no node is called", "leave the edge out, or add the node")
			}
			return at
		}
		if from, to := end("from"), end("to"); o.ok() {
			nodes[to].from = append(nodes[to].from, satfEdge{from, max(0, o.span("delay_after_predecessor_us", 3))})
		}
	})
	for at, n := range nodes {
		if n.row < 0 || !o.ok() {
			continue
		}
		o.note(out.settleNode(nodes, at, 0))
		r := &out.rows[n.row]
		r.agent.notBeforeNS, r.agent.dependencies = n.boundNS, []Dependency{}
		for _, on := range slices.Sorted(maps.Keys(n.after)) {
			r.agent.after(Sequence, n.after[on], int64(out.first)+int64(on))
		}
	}
}

// readSATFNode reads a request or a part of a tool's work.
func readSATFNode(out *items, o object, session string) *satfNode {
	n := &satfNode{id: o.name("id", "edges name nodes by it"), row: noValue, tookNS: o.span("duration_us", 3), boundNS: o.span("min_start_delay_us", 3)}
	kinds := "it is llm_infer, tool_call or tool_result"
	switch kind := o.name("kind", kinds); kind {
	case "llm_infer":
	case "tool_call", "tool_result":
		return n
	default:
		o.fail("kind is "+quote(kind), kinds)
		return n
	}
	r := out.add()
	n.row = int32(len(out.rows) - 1)
	r.agent.job, r.agent.tookNS = session, n.tookNS
	r.setSession([]byte(session))
	payload := o.needIn("payload", "it has the numbers of tokens")
	out.setNeeded(r, payload, inputField, outputField)
	out.setAll(r, payload, idsField)
	r.agent.ttftNS = o.in("performance_metrics").span("time_to_first_token_us", 3)
	r.agent.cached = int32(ofDynamo(o).count("cached_tokens", maxTokens))
	return n
}

// ofDynamo is what Dynamo's converter adds to an object.
func ofDynamo(o object) object { return o.in("extensions").in("nvidia.dynamo") }

// settleNode finds for which requests a node waits: over tools, whose work and delays add up along each path.
func (m *items) settleNode(nodes []*satfNode, at, depth int) error {
	n := nodes[at]
	switch {
	case n.after != nil:
		return nil
	case n.asked:
		return &rowError{"edges lead from the node " + quote(n.id) + " back to itself", "leave one edge of the circle out"}
	case depth > mostDepth:
		return &rowError{fmt.Sprintf("a path leads to the node over more than %d of tools", mostDepth), "leave some of them out"}
	}
	n.asked = true
	after := map[int32]int64{}
	for _, e := range n.from {
		from := nodes[e.node]
		if from.row >= 0 {
			after[from.row] = max(after[from.row], e.delayNS)
			continue
		}
		if err := m.settleNode(nodes, e.node, depth+1); err != nil {
			return err
		}
		if err := m.l.refuseWaits(len(from.after), m.first+len(m.rows)); err != nil {
			return err
		}
		for row, delay := range from.after {
			after[row] = max(after[row], sumOf(delay, from.tookNS, e.delayNS))
		}
		if from.boundNS >= 0 {
			n.boundNS = max(n.boundNS, sumOf(from.boundNS, from.tookNS, e.delayNS))
		}
	}
	n.after = after
	return nil
}
