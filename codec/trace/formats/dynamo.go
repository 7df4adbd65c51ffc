package formats

import (
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// dynamo is the format of Dynamo's request traces, an event a line:
//
//	{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1767603600900,
//	 "agent_context":{"session_id":"b","parent_session_id":"a"},
//	 "request":{"request_id":"r","output_tokens":5,"cached_tokens":16,"request_received_ms":1767603600000,
//	 "ttft_ms":80.5,"total_time_ms":900,
//	  "replay":{"trace_block_size":16,"input_length":40,"input_sequence_hashes":[11,22,33]}}}
//	{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end",…}}
//
// as https://docs.nvidia.com/dynamo (observability, request traces) describes and lib/llm of
// https://github.com/ai-dynamo/dynamo (request_trace) writes. A hash names a block with all before it, and the last,
// partial block has one. A session is one agent, and in older captures a trajectory of a session is. Events of tools
// and whole payloads are passed over: what waited for a tool shows in the time to the next request.
func dynamo() *Format {
	r := &dynamoReader{parents: map[string]string{}}
	return &Format{
		Name: "dynamo",
		Layout: rows.Layout{Names: rows.Names{
			rows.TimestampField: "request_received_ms",
			rows.InputField:     "input_length",
			rows.OutputField:    "output_tokens",
			rows.HashIDsField:   "input_sequence_hashes",
			rows.SessionField:   "session_id",
		}},
		BlockTokens: 64,
		LastBlock:   MayHaveID, // tokens of the events
		Agents:      true,
		Import: &Importer{
			Match: anyOf(hasKeys("event_type", "event_time_unix_ms"), hasKeys("event")),
			Read:  r.read,
		},
	}
}

// dynamoReader knows the parents of sessions, "" for one without.
type dynamoReader struct{ parents map[string]string }

// dynamoSchema is the schema of the events that are read.
const dynamoSchema = "dynamo.request.trace.v1"

func (reader *dynamoReader) read(b *Batch, o object) {
	if o.Has("event") {
		o = o.NeedIn("event", "it is what was recorded")
	}
	kinds := "it is request_end, request_payload or tool_end"
	kind := o.Name("event_type", kinds)
	if kind == "request_payload" || strings.HasPrefix(kind, "tool_") {
		o.Note(errNoRow)
		return
	}
	if kind != "request_end" {
		o.Fail("event_type is "+rows.Quote(kind), kinds)
	}
	schema := o.Name("schema", "it must be "+dynamoSchema)
	if schema != dynamoSchema {
		o.Fail("schema is "+rows.Quote(schema), "it must be "+dynamoSchema)
	}
	request := o.NeedIn("request", "it is what was measured")
	r := b.add()
	r.Request = request.Name("request_id", "it names the request")
	if request.Has("replay") {
		replay := request.NeedIn("replay", "it has the hashes of the prompt")
		b.BlockTokens = replay.Blocks("trace_block_size")
		b.setNeeded(r, replay, rows.InputField)
		b.setAll(r, replay, rows.HashIDsField)
	} else if input := request.Need("input_tokens", "every request must have what the format requires"); o.OK() {
		b.set(r, rows.InputField, input)
	}
	b.setNeeded(r, request, rows.OutputField)
	b.setOwner(r, request, "model")
	r.CachedTokens = int32(request.Count("cached_tokens", rows.MaxTokens))
	setDynamoTimes(r, o, request)
	reader.setAgent(r, o)
}

// setDynamoTimes notes when the request came, and how long it took. The event is written at the end.
func setDynamoTimes(r *row, event, request object) {
	end := event.Span("event_time_unix_ms", 6)
	at := request.Span("request_received_ms", 6)
	took := request.Span("total_time_ms", 6)
	switch {
	case at >= 0 && took < 0 && end >= at:
		took = end - at
	case at < 0 && took >= 0 && end >= took:
		at = end - took
	}
	if at < 0 {
		request.Fail("missing request_received_ms", "it is the time of the request")
	}
	r.SetSpan(at, agents.NoTime)
	r.TookNS = took
	r.TTFTNS = request.Span("ttft_ms", 6)
}

// setAgent notes whose request it is, and who started that agent. A request of no agent is a job of its own.
func (reader *dynamoReader) setAgent(r *row, o object) {
	name := r.Request
	parent := ""
	if o.Has("agent_context") {
		context := o.NeedIn("agent_context", "it names the agent")
		name = context.Name("session_id", "it names the agent")
		parent = context.TextOr("parent_session_id", "")
		trajectory := context.TextOr("trajectory_id", "")
		if trajectory != "" {
			parent = context.TextOr("parent_trajectory_id", "")
			if parent != "" {
				parent = name + "/" + parent
			}
			name += "/" + trajectory
		}
	}
	before, known := reader.parents[name]
	if known && before != parent {
		o.Fail(fmt.Sprintf("session %s has the parent %s, and before it was %s",
			rows.Quote(name), rows.Quote(parent), rows.Quote(before)), "an agent has one parent")
	}
	reader.parents[name] = parent
	r.SetSession([]byte(name))
	r.ParentSession = parent
}
