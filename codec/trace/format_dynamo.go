package trace

import (
	"fmt"
	"strings"
	"time"
)

// dynamo is the format of Dynamo's request traces, an event a line:
//
//	{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1767603600900,
//	 "agent_context":{"session_id":"b","parent_session_id":"a"},
//	 "request":{"request_id":"r","output_tokens":5,"cached_tokens":16,"request_received_ms":1767603600000,"ttft_ms":80.5,"total_time_ms":900,
//	  "replay":{"trace_block_size":16,"input_length":40,"input_sequence_hashes":[11,22,33]}}}
//	{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end",…}}
//
// as https://docs.nvidia.com/dynamo (observability, request traces) describes and lib/llm of
// https://github.com/ai-dynamo/dynamo (request_trace) writes. A hash names a block with all before it, and the last,
// partial block has one. A session is one agent, and in older captures a trajectory of a session is. Events of tools and
// whole payloads are passed over: what waited for a tool shows in the time to the next request.
func dynamo() *format {
	return &format{
		name:        "dynamo",
		unit:        time.Millisecond,
		surely:      true,
		blockTokens: 64, // of the events
		either:      true,
		names: fieldNames{timestampField: "request_received_ms", inputField: "input_length", outputField: "output_tokens",
			idsField: "input_sequence_hashes", sessionField: "session_id"},
		known: func(keys []string) bool {
			return hasKeys("event_type", "event_time_unix_ms")(keys) || hasAny(keys, "event")
		},
		tree:  true,
		items: ofObject(readDynamo),
	}
}

// dynamoSchema is the schema of the events that are read.
const dynamoSchema = "dynamo.request.trace.v1"

func readDynamo(out *items, o object) {
	if o.has("event") {
		o = o.needIn("event", "it is what was recorded")
	}
	kinds := "it is request_end, request_payload or tool_end"
	kind := o.name("event_type", kinds)
	if kind == "request_payload" || strings.HasPrefix(kind, "tool_") {
		o.note(errHead)
		return
	}
	if kind != "request_end" {
		o.fail("event_type is "+quote(kind), kinds)
	}
	if schema := o.name("schema", "it must be "+dynamoSchema); schema != dynamoSchema {
		o.fail("schema is "+quote(schema), "it must be "+dynamoSchema)
	}
	request := o.needIn("request", "it is what was measured")
	r := out.add()
	r.agent.request = request.name("request_id", "it names the request")
	if request.has("replay") {
		replay := request.needIn("replay", "it has the hashes of the prompt")
		out.blocks = replay.blocks("trace_block_size")
		out.setNeeded(r, replay, inputField)
		out.setAll(r, replay, idsField)
	} else if input := request.need("input_tokens", "every request must have what the format requires"); o.ok() {
		out.set(r, inputField, input)
	}
	out.setNeeded(r, request, outputField)
	r.agent.cached = int32(request.count("cached_tokens", maxTokens))
	r.setDynamoTimes(o, request)
	readDynamoAgent(out, r, o)
}

// setDynamoTimes notes when the request came, and how long it took. The event is written at the end.
func (r *row) setDynamoTimes(event, request object) {
	end, at, took := event.span("event_time_unix_ms", 6), request.span("request_received_ms", 6), request.span("total_time_ms", 6)
	switch {
	case at >= 0 && took < 0 && end >= at:
		took = end - at
	case at < 0 && took >= 0 && end >= took:
		at = end - took
	}
	if at < 0 {
		request.fail("missing request_received_ms", "it is the time of the request")
	}
	r.setSpan(at, noTime)
	r.agent.tookNS, r.agent.ttftNS = took, request.span("ttft_ms", 6)
}

// readDynamoAgent notes whose request it is, and who started that agent. A request of no agent is a job of its own.
func readDynamoAgent(out *items, r *row, o object) {
	name, parent := r.agent.request, ""
	if o.has("agent_context") {
		context := o.needIn("agent_context", "it names the agent")
		name = context.name("session_id", "it names the agent")
		parent = context.textOr("parent_session_id", "")
		if trajectory := context.textOr("trajectory_id", ""); trajectory != "" {
			parent = context.textOr("parent_trajectory_id", "")
			if parent != "" {
				parent = name + "/" + parent
			}
			name += "/" + trajectory
		}
	}
	if before, known := out.l.agents.parents[name]; known && before != parent {
		o.fail(fmt.Sprintf("session %s has the parent %s, and before it was %s", quote(name), quote(parent), quote(before)), "an agent has one parent")
	}
	if out.l.agents.parents == nil {
		out.l.agents.parents = map[string]string{}
	}
	out.l.agents.parents[name] = parent
	r.setSession([]byte(name))
}
