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
			return slices.Contains(keys, "format_version") && (slices.Contains(keys, "time_base") || slices.Contains(keys, "sessions"))
		},
		jobs:  true,
		whole: true,
		items: ofMembers(readSATF),
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

func readSATF(out *items, all []member) error {
	for _, c := range [][2]string{{"format", "satf"}, {"format_version", "2."}, {"time_base", "us"}} {
		value, err := nameOf(all, c[0], "only SATF 2 in µs can be read")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(value, c[1]) {
			return &rowError{fmt.Sprintf("%s is %s, not %q", c[0], quote([]byte(value)), c[1]), "only SATF 2 in µs can be read"}
		}
	}
	size, err := countOf(all, "block_size_tokens", maxTokens)
	if err == nil && size < 1 {
		err = &rowError{"missing block_size_tokens", "it is the number of tokens that a block id stands for"}
	}
	if err != nil {
		return err
	}
	out.blocks = int(size)
	parents := map[string]string{}
	if err := listIn(all, "sessions", func(_ int, object []byte) error {
		all, err := membersOf(object)
		if err != nil {
			return err
		}
		return readSATFSession(out, all, parents)
	}); err != nil {
		return err
	}
	for i := range out.rows {
		r := &out.rows[i]
		out.scopes.renumber("", r.ids)
		for up := parents[r.agent.job]; up != "" && r.agent.depth <= int32(len(parents)); up = parents[up] {
			r.agent.job = up
			r.agent.depth++
		}
	}
	out.scopes.forget("")
	return nil
}

// readSATFSession reads what one agent did, and notes the session that started it.
func readSATFSession(out *items, all []member, parents map[string]string) error {
	name, err := nameOf(all, "session_id", "it names the agent")
	if err != nil {
		return err
	}
	if _, twice := parents[name]; twice {
		return &rowError{"session_id " + quote([]byte(name)) + " is the name of an earlier session too", "each needs a name of its own"}
	}
	parents[name] = textUnder(ofDynamo(all), "parent_session_id")
	if _, twice := out.agents.numbers[name]; twice {
		return &rowError{"session_id " + quote([]byte(name)) + " is the name of a job in another document", "replay the documents by themselves"}
	}
	var nodes []*satfNode
	places := map[string]int{}
	if err := listIn(all, "nodes", func(i int, object []byte) error {
		n, err := readSATFNode(out, object, name)
		if err != nil {
			return err
		}
		if _, twice := places[n.id]; twice {
			return &rowError{"id " + quote([]byte(n.id)) + " is the name of an earlier node too", "each needs a name of its own"}
		}
		places[n.id] = i
		nodes = append(nodes, n)
		return nil
	}); err != nil {
		return err
	}
	if err := listIn(all, "edges", func(_ int, object []byte) error {
		all, err := membersOf(object)
		if err != nil {
			return err
		}
		ends := [2]int{}
		for k, key := range []string{"from", "to"} {
			id, err := nameOf(all, key, "an edge leads from one node to another")
			if err != nil {
				return err
			}
			at, known := places[id]
			if !known {
				return &rowError{key + " is " + quote([]byte(id)) + ", which no node is called", "leave the edge out, or add the node"}
			}
			ends[k] = at
		}
		delay, err := spanOf(all, "delay_after_predecessor_us", 3)
		nodes[ends[1]].from = append(nodes[ends[1]].from, satfEdge{ends[0], max(0, delay)})
		return err
	}); err != nil {
		return err
	}
	for at, n := range nodes {
		if n.row < 0 {
			continue
		}
		if err := settleNode(nodes, at); err != nil {
			return err
		}
		r := &out.rows[n.row]
		r.agent.notBeforeNS = n.boundNS
		for _, on := range slices.Sorted(maps.Keys(n.after)) {
			r.agent.dependencies = append(r.agent.dependencies, Dependency{On: int64(out.first) + int64(on), DelayNS: n.after[on]})
		}
	}
	return nil
}

// readSATFNode reads a request or a part of a tool's work.
func readSATFNode(out *items, object []byte, session string) (*satfNode, error) {
	all, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	n := &satfNode{row: noValue}
	if n.id, err = nameOf(all, "id", "edges name nodes by it"); err != nil {
		return nil, err
	}
	if n.tookNS, err = spanOf(all, "duration_us", 3); err != nil {
		return nil, err
	}
	if n.boundNS, err = spanOf(all, "min_start_delay_us", 3); err != nil {
		return nil, err
	}
	switch kind, err := nameOf(all, "kind", "it is llm_infer, tool_call or tool_result"); {
	case err != nil:
		return nil, err
	case kind == "tool_call" || kind == "tool_result":
		return n, nil
	case kind != "llm_infer":
		return nil, &rowError{"kind is " + quote([]byte(kind)), "it is llm_infer, tool_call or tool_result"}
	}
	payload, err := objectIn(all, "payload", "it has the numbers of tokens")
	if err != nil {
		return nil, err
	}
	r := out.add()
	n.row = int32(len(out.rows) - 1)
	r.agent.job, r.agent.tookNS = session, n.tookNS
	r.setSession([]byte(session))
	for _, f := range []field{inputField, outputField} {
		if name := out.p.format.names[f]; valueOf(payload, name) == nil {
			return nil, &rowError{"missing " + name, "every request must have what the format requires"}
		}
	}
	if err := out.setAll(r, payload, inputField, outputField, idsField); err != nil {
		return nil, err
	}
	if r.agent.ttftNS, err = spanOf(inObject(all, "performance_metrics"), "time_to_first_token_us", 3); err != nil {
		return nil, err
	}
	cached, err := countOf(ofDynamo(all), "cached_tokens", maxTokens)
	r.agent.cached = int32(cached)
	return n, err
}

// ofDynamo is what Dynamo's converter adds to an object; nil where it adds nothing.
func ofDynamo(all []member) []member { return inObject(inObject(all, "extensions"), "nvidia.dynamo") }

// settleNode finds for which requests a node waits: over tools, whose work and delays add up along each path.
func settleNode(nodes []*satfNode, at int) error {
	n := nodes[at]
	switch {
	case n.after != nil:
		return nil
	case n.asked:
		return &rowError{"edges lead from the node " + quote([]byte(n.id)) + " back to itself", "leave one edge of the circle out"}
	}
	n.asked = true
	after := map[int32]int64{}
	for _, e := range n.from {
		from := nodes[e.node]
		if from.row >= 0 {
			after[from.row] = max(after[from.row], e.delayNS)
			continue
		}
		if err := settleNode(nodes, e.node); err != nil {
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
