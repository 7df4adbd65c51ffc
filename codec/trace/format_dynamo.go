package trace

import (
	"fmt"
	"slices"
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
			return slices.Contains(keys, "event_type") && slices.Contains(keys, "event_time_unix_ms") || slices.Contains(keys, "event")
		},
		tree:  true,
		jobs:  true,
		items: ofMembers(readDynamo),
	}
}

// dynamoSchema is the schema of the events that are read.
const dynamoSchema = "dynamo.request.trace.v1"

func readDynamo(out *items, all []member) error {
	if valueOf(all, "event") != nil {
		var err error
		if all, err = objectIn(all, "event", "it is what was recorded"); err != nil {
			return err
		}
	}
	kind, err := nameOf(all, "event_type", "it is request_end, request_payload or tool_end")
	switch {
	case err != nil:
		return err
	case kind == "request_payload" || strings.HasPrefix(kind, "tool_"):
		return errHead
	case kind != "request_end":
		return &rowError{"event_type is " + quote([]byte(kind)), "it is request_end, request_payload or tool_end"}
	}
	if schema, err := nameOf(all, "schema", "it must be "+dynamoSchema); err != nil {
		return err
	} else if schema != dynamoSchema {
		return &rowError{"schema is " + quote([]byte(schema)), "it must be " + dynamoSchema}
	}
	request, err := objectIn(all, "request", "it is what was measured")
	if err != nil {
		return err
	}
	r := out.add()
	if err := readDynamoRequest(out, r, request); err != nil {
		return err
	}
	if err := readDynamoTimes(out, r, all, request); err != nil {
		return err
	}
	return readDynamoAgent(out, r, all)
}

// readDynamoRequest reads what was asked.
func readDynamoRequest(out *items, r *row, request []member) (err error) {
	if r.agent.request, err = nameOf(request, "request_id", "it names the request"); err != nil {
		return err
	}
	replay := request // without hashes only the numbers of tokens are known
	input := "input_tokens"
	if valueOf(request, "replay") != nil {
		if replay, err = objectIn(request, "replay", "it has the hashes of the prompt"); err != nil {
			return err
		}
		input = out.p.format.names[inputField]
		size, err := countOf(replay, "trace_block_size", maxTokens)
		if err == nil && size < 1 {
			err = &rowError{"missing trace_block_size", "it is the number of tokens that a hash stands for"}
		}
		if err != nil {
			return err
		}
		out.blocks = int(size)
	}
	for _, c := range []struct {
		f     field
		value []byte
		name  string
	}{{inputField, valueOf(replay, input), input}, {outputField, valueOf(request, "output_tokens"), "output_tokens"}} {
		if c.value == nil {
			return &rowError{"missing " + c.name, "every request must have what the format requires"}
		}
		if err := out.set(r, c.f, c.value); err != nil {
			return err
		}
	}
	if err := out.setAll(r, replay, idsField); err != nil {
		return err
	}
	cached, err := countOf(request, "cached_tokens", maxTokens)
	r.agent.cached = int32(cached)
	return err
}

// readDynamoTimes reads when the request came, and how long it took. The event is written at the end.
func readDynamoTimes(out *items, r *row, all, request []member) error {
	spans := [4]int64{}
	for i, c := range []struct {
		of  []member
		key string
	}{{all, "event_time_unix_ms"}, {request, "request_received_ms"}, {request, "total_time_ms"}, {request, "ttft_ms"}} {
		var err error
		if spans[i], err = spanOf(c.of, c.key, 6); err != nil {
			return err
		}
	}
	end, at, took := spans[0], spans[1], spans[2]
	switch {
	case at >= 0 && took < 0 && end >= at:
		took = end - at
	case at < 0 && end < 0 || at < 0 && took < 0 || at < 0 && end < took:
		return &rowError{"missing request_received_ms", "it is the time of the request"}
	case at < 0:
		at = end - took
	}
	r.timeNS, r.agent.tookNS, r.agent.ttftNS = at, took, spans[3]
	r.seen |= setOf(timestampField)
	return nil
}

// readDynamoAgent notes whose request it is, and who started that agent. A request of no agent is a job of its own.
func readDynamoAgent(out *items, r *row, all []member) error {
	name, parent := r.agent.request, ""
	if valueOf(all, "agent_context") != nil {
		context, err := objectIn(all, "agent_context", "it names the agent")
		if err != nil {
			return err
		}
		if name, err = nameOf(context, "session_id", "it names the agent"); err != nil {
			return err
		}
		parent = textUnder(context, "parent_session_id")
		if trajectory := textUnder(context, "trajectory_id"); trajectory != "" {
			parent = textUnder(context, "parent_trajectory_id")
			if parent != "" {
				parent = name + "/" + parent
			}
			name += "/" + trajectory
		}
	}
	if before, known := out.agents.parents[name]; known && before != parent {
		return &rowError{fmt.Sprintf("session %s has the parent %s, and before it was %s", quote([]byte(name)), quote([]byte(parent)), quote([]byte(before))),
			"an agent has one parent"}
	}
	if out.agents.parents == nil {
		out.agents.parents = map[string]string{}
	}
	out.agents.parents[name] = parent
	r.setSession([]byte(name))
	return nil
}
