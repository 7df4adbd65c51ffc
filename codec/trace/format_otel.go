package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// otel is the format of OpenTelemetry's spans of calls to language models, a line a session:
//
//	{"session_id":"…","spans":[{"type":"llm_call","trace_id":"…","start_time":"2026-05-18T09:00:00Z","end_time":"…","status":{"code":1},
//	"attributes":{"gen_ai.request.model":"…","gen_ai.usage.input_tokens":1200,"gen_ai.usage.output_tokens":80,
//	"gen_ai.usage.cache_read.input_tokens":1024,"gen_ai.input.messages":"[{\"role\":\"user\",\"parts\":[…]}]",…}},…]}
//
// as Exgentic's data sets have it (https://huggingface.co/datasets/Exgentic/agent-llm-traces-v2), or an export in OTLP's
// JSON, {"resourceSpans":[{"scopeSpans":[{"spans":[…]}]}]}. The attributes are those of OpenTelemetry's conventions for
// generative AI. Messages are sent if they were recorded. Without them a prompt is known by its length, and the calls
// of a session to one model are one conversation.
func otel() *format {
	return &format{
		name:        "otel",
		blockTokens: grownBlock,
		unit:        noUnit,
		dates:       true,
		surely:      true,
		floor:       true,
		spans:       true,
		jobs:        true,
		names: fieldNames{timestampField: "start_time", inputField: "gen_ai.usage.input_tokens", outputField: "gen_ai.usage.output_tokens",
			sessionField: "session_id", messagesField: "gen_ai.input.messages", toolsField: "gen_ai.tool.definitions"},
		known: func(keys []string) bool { return hasAny(keys, "resourceSpans", "spans") },
		items: ofMembers(readSpans),
	}
}

// readSpans takes the spans of an object, or of the objects in it.
func readSpans(out *items, all []member) error {
	within := func(_ int, object []byte) error {
		inner, err := membersOf(object)
		if err != nil {
			return err
		}
		return readSpans(out, inner)
	}
	for _, key := range []string{"resourceSpans", "scopeSpans"} {
		if err := listIn(all, key, within); err != nil {
			return err
		}
	}
	return listIn(all, "spans", func(_ int, object []byte) error {
		span, err := membersOf(object)
		if err != nil {
			return err
		}
		attributes, err := attributesOf(span)
		if err != nil {
			return err
		}
		session := firstOf(all, "session_id", "trace_id")
		if session == nil {
			session = firstOf(append(slices.Clone(attributes), span...), "gen_ai.conversation.id", "traceId", "trace_id")
		}
		return out.readSpan(span, attributes, session)
	})
}

// readSpan takes a span if it is a call to a model.
func (m *items) readSpan(span, attributes []member, session []byte) error {
	kind := string(firstOf(span, "type"))
	switch operation := string(valueOf(attributes, "gen_ai.operation.name")); {
	case kind == `"llm_call"`:
	case kind != "" && kind != `"span"`:
		return nil
	case !slices.Contains([]string{`"chat"`, `"text_completion"`, `"generate_content"`}, operation):
		return nil
	}
	if session == nil {
		return &rowError{"missing session_id", "it names the session, as gen_ai.conversation.id or a trace's id do"}
	}
	if err := isString("session_id", session); err != nil {
		return err
	}
	failed, err := spanFailed(span)
	if err != nil {
		return err
	}
	for _, key := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} {
		failed = failed || string(valueOf(attributes, key)) == "0"
	}
	if failed {
		m.failed++
		return nil
	}
	r := m.add()
	began, err := momentOf(span, "start_time", "startTimeUnixNano")
	if err != nil {
		return err
	}
	ended, err := momentOf(span, "end_time", "endTimeUnixNano")
	if err != nil {
		return err
	}
	r.setSpan(began, ended)
	name := string(textOf(session))
	r.agent.job = name
	model := firstOf(attributes, "gen_ai.request.model", "gen_ai.response.model")
	if model != nil && model[0] == '"' {
		name += "/" + string(textOf(model))
	}
	r.setSession([]byte(name))
	if err := m.setCounts(r, attributes, "gen_ai.usage.cache_read.input_tokens", string(model)); err != nil {
		return err
	}
	return m.setChat(r, attributes)
}

// spanFailed reports whether a call ended with an error.
func spanFailed(span []member) (bool, error) {
	if valueOf(span, "status") == nil {
		return false, nil
	}
	status, err := objectIn(span, "status", "its code says whether the call failed")
	code := string(valueOf(status, "code"))
	return code == "2" || strings.Contains(strings.ToUpper(code), "ERROR"), err
}

// momentOf is an instant: a date, or ns since 1970.
func momentOf(span []member, date, ns string) (int64, error) {
	value := valueOf(span, ns)
	if value == nil {
		return dateOf(span, date)
	}
	return spanOf([]member{{ns, bytes.Trim(value, `"`)}}, ns, 0)
}

// attributesOf is a span's attributes: an object, or OTLP's list of {"key":…,"value":{"intValue":"1"}}.
func attributesOf(span []member) ([]member, error) {
	switch value := valueOf(span, "attributes"); {
	case value == nil:
		return nil, nil
	case value[0] != '[':
		return objectIn(span, "attributes", "they are what is known of the call")
	}
	var all []member
	err := listIn(span, "attributes", func(_ int, object []byte) error {
		pair, err := membersOf(object)
		if err != nil {
			return err
		}
		key, err := nameOf(pair, "key", "it names the attribute")
		if err != nil {
			return err
		}
		kinds, err := objectIn(pair, "value", "it is the attribute's")
		if err != nil || len(kinds) == 0 {
			return err
		}
		value := kinds[0].value
		if kinds[0].key == "intValue" {
			value = bytes.Trim(value, `"`)
		}
		if len(value) > 0 {
			all = append(all, member{key, value})
		}
		return nil
	})
	return all, err
}

// setChat notes the messages and tools of a call, if they were recorded.
func (m *items) setChat(r *row, attributes []member) error {
	said, err := jsonIn(attributes, "gen_ai.input.messages")
	if err != nil || said == nil {
		return err
	}
	var chat []byte
	if system, err := jsonIn(attributes, "gen_ai.system_instructions"); err != nil {
		return err
	} else if system != nil {
		if chat, err = appendParts(chat, `"system"`, system); err != nil {
			return inside("gen_ai.system_instructions", err)
		}
	}
	all := []member{{"gen_ai.input.messages", said}}
	err = listIn(all, all[0].key, func(_ int, object []byte) error {
		message, err := membersOf(object)
		if err != nil {
			return err
		}
		role, parts := valueOf(message, "role"), valueOf(message, "parts")
		switch {
		case role == nil:
			return &rowError{"missing role", "it names the speaker"}
		case parts == nil:
			chat = append(comma(chat), object...)
			return nil
		case role[0] != '"':
			return isString("role", role)
		}
		chat, err = appendParts(chat, string(role), parts)
		return err
	})
	if err != nil {
		return err
	}
	r.growth = growth{}
	if err := m.set(r, messagesField, fmt.Appendf(nil, "[%s]", chat)); err != nil {
		return err
	}
	return m.setTools(r, attributes)
}

// setTools notes the definitions of a call's tools in the form of OpenAI's API.
func (m *items) setTools(r *row, attributes []member) error {
	defined, err := jsonIn(attributes, "gen_ai.tool.definitions")
	if err != nil || defined == nil {
		return err
	}
	var tools []byte
	all := []member{{"gen_ai.tool.definitions", defined}}
	err = listIn(all, all[0].key, func(_ int, object []byte) error {
		tool, err := membersOf(object)
		if err == nil && valueOf(tool, "function") == nil {
			object = fmt.Appendf(nil, `{"type":"function","function":%s}`, without(tool, "type"))
		}
		tools = append(comma(tools), object...)
		return err
	})
	if err != nil || tools == nil {
		return err
	}
	return m.set(r, toolsField, fmt.Appendf(nil, "[%s]", tools))
}
