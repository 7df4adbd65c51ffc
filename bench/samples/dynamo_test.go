package samples

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// event is a line of a file, and when it was written in ms.
type event struct {
	at   int
	line string
}

// blocks is the coder's ids as JSON, each made another one; what is left of the prompt has one of its own.
func (a *coder) blocks(name func(id int) uint64) string {
	ids := make([]string, 0, len(a.ids)+1)
	for _, id := range a.ids {
		ids = append(ids, fmt.Sprint(name(id)))
	}
	if a.tokens%agentBlock != 0 {
		*a.next++
		ids = append(ids, fmt.Sprint(name(*a.next-1)))
	}
	return strings.Join(ids, ",")
}

// ask is what Dynamo writes of a coder's requests and tools until it has worked up to an instant.
func (a *coder) ask(session, parent string, until int) []event {
	const (
		start = 1_767_603_600_000
		kind  = `{"schema":"dynamo.request.trace.v1","event_type":%q,"event_time_unix_ms":%d,"agent_context":{"session_id":%q%s},`
	)
	if parent != "" {
		parent = fmt.Sprintf(`,"parent_session_id":%q`, parent)
	}
	hash := func(id int) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 }
	var all []event
	for ; a.at < until; a.asked++ {
		took, work, out := a.between(100, 400), a.between(30, 300), a.between(5, 60)
		end := a.at + took
		all = append(all,
			event{end, fmt.Sprintf(kind+`"request":{"request_id":"%s-%d","model":"sample","input_tokens":%d,"output_tokens":%d,"cached_tokens":%d,"request_received_ms":%d,"ttft_ms":%.1f,"total_time_ms":%d,"replay":{"trace_block_size":%d,"input_length":%d,"input_sequence_hashes":[%s]}}}`,
				"request_end", start+end, session, parent, session, a.asked, a.tokens, out, a.cached, start+a.at, float64(took)/4, took, agentBlock, a.tokens, a.blocks(hash))},
			event{end + work, fmt.Sprintf(kind+`"tool":{"tool_call_id":"%s-call-%d","tool_class":"shell","duration_ms":%d}}`, "tool_end", start+end+work, session, parent, session, a.asked, work)})
		a.at = end + work + a.between(5, 60)
		a.cached = len(a.ids) * agentBlock
		a.grow(out + a.between(20, 400))
	}
	return all
}

// dynamo is dynamo.jsonl: the request traces of 8 agents, every second one with a sub-agent, in the order in which they
// were written, with the ends of tools.
func dynamo() []byte {
	chance := newDice(10, 0)
	next := 1
	var all []event
	for n := range 8 {
		name := fmt.Sprintf("agent-%d", n)
		main := &coder{dice: chance, next: &next, at: 100 * n}
		main.grow(main.between(1000, 4000))
		all = append(all, main.ask(name, "", main.at+1000)...)
		if n%2 == 1 {
			sub := &coder{dice: chance, next: &next, at: main.at}
			sub.grow(sub.between(500, 1500))
			all = append(all, sub.ask(name+"-helper", name, sub.at+1500)...)
			main.at = sub.at + 50
		}
		all = append(all, main.ask(name, "", 5500)...)
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at - b.at })
	var file bytes.Buffer
	for _, e := range all {
		file.WriteString(e.line + "\n")
	}
	return file.Bytes()
}

// satf is satf.json: 8 agents in one document. Each request but the last calls one or two tools, and the next waits for
// them.
func satf() []byte {
	chance := newDice(11, 0)
	next := 1
	var sessions []string
	for n := range 8 {
		a := &coder{dice: chance, next: &next, at: 250 * n}
		a.grow(a.between(1000, 4000))
		var nodes, edges []string
		edge := func(from, to string, ms int) {
			edges = append(edges, fmt.Sprintf(`{"from":%q,"to":%q,"delay_after_predecessor_us":%d}`, from, to, 1000*ms))
		}
		bound := fmt.Sprintf(`,"min_start_delay_us":%d`, 1000*a.at)
		var results []string
		for a.at < 5500 {
			took, out := a.between(100, 400), a.between(5, 60)
			id := fmt.Sprintf("request:%d", a.asked)
			nodes = append(nodes, fmt.Sprintf(`{"kind":"llm_infer","id":%q,"duration_us":%d%s,"payload":{"input_tokens_total":%d,"output_tokens":%d,"kv_block_ids":[%s]}}`,
				id, 1000*took, bound, a.tokens, out, a.blocks(func(id int) uint64 { return uint64(id) })))
			for _, result := range results {
				edge(result, id, 10)
			}
			results, bound = nil, ""
			longest := 0
			for tool := range a.between(1, 2) {
				call, result := fmt.Sprintf("call:%d.%d", a.asked, tool), fmt.Sprintf("result:%d.%d", a.asked, tool)
				work := a.between(30, 300)
				nodes = append(nodes, fmt.Sprintf(`{"kind":"tool_call","id":%q,"payload":{"tool_name":"shell"}},{"kind":"tool_result","id":%q,"duration_us":%d,"payload":{"tool_call_id":"x"}}`, call, result, 1000*work))
				edge(id, call, 5)
				edge(call, result, 0)
				results = append(results, result)
				longest = max(longest, work)
			}
			a.at += took + 5 + longest + 10
			a.asked++
			a.grow(out + a.between(20, 400))
		}
		sessions = append(sessions, fmt.Sprintf(`{"session_id":"agent-%d","nodes":[%s],"edges":[%s]}`, n, strings.Join(nodes, ",\n  "), strings.Join(edges, ",\n  ")))
	}
	return []byte(`{"format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":64,"sessions":[` + "\n" + strings.Join(sessions, ",\n") + "\n]}\n")
}
