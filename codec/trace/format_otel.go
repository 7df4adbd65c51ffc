package trace

import (
	"bytes"
	"fmt"
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
	return counted(format{
		name: "otel",
		names: fieldNames{timestampField: "start_time", inputField: "gen_ai.usage.input_tokens", outputField: "gen_ai.usage.output_tokens",
			sessionField: "session_id", messagesField: "gen_ai.input.messages", toolsField: "gen_ai.tool.definitions"},
		known: func(keys []string) bool { return hasAny(keys, "resourceSpans", "spans") },
		items: ofObject(func(out *items, o object) { readSpans(out, o, "resourceSpans", "scopeSpans") }),
	})
}

// readSpans takes the spans of an object, or of the objects under some keys in it; those under later ones may stand in
// those under earlier ones.
func readSpans(out *items, o object, within ...string) {
	for n, key := range within {
		o.each(key, func(_ int, inner object) { readSpans(out, inner, within[n+1:]...) })
	}
	o.each("spans", func(_ int, span object) {
		attributes := attributesOf(span)
		session := o.value("session_id", "trace_id")
		for _, c := range []struct {
			o   object
			key string
		}{{attributes, "gen_ai.conversation.id"}, {span, "traceId"}, {span, "trace_id"}} {
			if session == nil {
				session = c.o.value(c.key)
			}
		}
		out.readSpan(span, attributes, session)
	})
}

// readSpan takes a span if it is a call to a model.
func (m *items) readSpan(span, attributes object, session []byte) {
	if !span.is("type", "llm_call") &&
		(span.has("type") && !span.is("type", "span") || !attributes.is("gen_ai.operation.name", "chat", "text_completion", "generate_content")) {
		return
	}
	if session == nil {
		span.fail("missing session_id", "it names the session, as gen_ai.conversation.id or a trace's id do")
		return
	}
	if !span.isString("session_id", session) {
		return
	}
	var code string
	if span.has("status") {
		code = string(span.needIn("status", "its code says whether the call failed").value("code"))
	}
	names := m.l.parser.format.names
	if code == "2" || strings.Contains(strings.ToUpper(code), "ERROR") || string(attributes.value(names[inputField])) == "0" || string(attributes.value(names[outputField])) == "0" {
		m.failed++
		return
	}
	r := m.add()
	r.setSpan(momentOf(span, "start_time", "startTimeUnixNano"), momentOf(span, "end_time", "endTimeUnixNano"))
	name := string(textOf(session))
	r.agent.job = name
	model := attributes.textOr("gen_ai.request.model", attributes.textOr("gen_ai.response.model", ""))
	if model != "" {
		name += "/" + model
	}
	r.setSession([]byte(name))
	m.setCounts(r, attributes, "gen_ai.usage.cache_read.input_tokens", model)
	if said := attributes.jsonIn(names[messagesField]); said != nil {
		r.growth = growth{}
		m.set(r, messagesField, chatOf(attributes, said))
		if defined := attributes.jsonIn(names[toolsField]); defined != nil {
			m.setTools(r, attributes.with(names[toolsField], defined))
		}
	}
}

// momentOf is an instant: a date, or ns since 1970.
func momentOf(span object, date, ns string) int64 {
	if value := span.value(ns); value != nil {
		return span.with(ns, bytes.Trim(value, `"`)).span(ns, 0)
	}
	return span.date(date)
}

// attributesOf is a span's attributes: an object, or OTLP's list of {"key":…,"value":{"intValue":"1"}}.
func attributesOf(span object) object {
	if value := span.value("attributes"); value != nil && value[0] != '[' {
		return span.needIn("attributes", "they are what is known of the call")
	}
	all := object{fault: span.fault}
	span.each("attributes", func(_ int, pair object) {
		key, kinds := pair.name("key", "it names the attribute"), pair.needIn("value", "it is the attribute's")
		if len(kinds.members) == 0 {
			return
		}
		value := kinds.members[0].value
		if kinds.members[0].key == "intValue" {
			value = bytes.Trim(value, `"`)
		}
		if len(value) > 0 {
			all.members = append(all.members, member{key, value})
		}
	})
	return all
}

// chatOf is the messages of a call, as OpenAI's API has them.
func chatOf(attributes object, said []byte) []byte {
	var chat []byte
	if system := attributes.jsonIn("gen_ai.system_instructions"); system != nil {
		chat = appendParts(chat, `"system"`, attributes.with("gen_ai.system_instructions", system), "gen_ai.system_instructions")
	}
	attributes.with("gen_ai.input.messages", said).each("gen_ai.input.messages", func(_ int, message object) {
		role := message.need("role", "it names the speaker")
		switch {
		case role == nil:
		case !message.has("parts"):
			chat = append(comma(chat), message.text...)
		case message.isString("role", role):
			chat = appendParts(chat, string(role), message, "parts")
		}
	})
	return fmt.Appendf(nil, "[%s]", chat)
}

// setTools notes the definitions of a call's tools in the form of OpenAI's API.
func (m *items) setTools(r *row, defined object) {
	var tools []byte
	defined.each(m.l.parser.format.names[toolsField], func(_ int, tool object) {
		text := tool.text
		if !tool.has("function") {
			var inner []byte
			for _, m := range tool.members {
				if m.key != "type" {
					inner = append(append(append(comma(inner), appendString(nil, m.key)...), ':'), m.value...)
				}
			}
			text = fmt.Appendf(nil, `{"type":"function","function":{%s}}`, inner)
		}
		tools = append(comma(tools), text...)
	})
	if tools != nil {
		m.set(r, toolsField, fmt.Appendf(nil, "[%s]", tools))
	}
}

// jsonIn is the value under a key, or what stands in it if it is a string: attributes of spans are JSON in strings.
func (o object) jsonIn(key string) []byte {
	value := o.value(key)
	if value == nil || value[0] != '"' {
		return value
	}
	text := bytes.TrimSpace(textOf(value))
	s := scan(text)
	if s.skip() != nil || s.end() != nil || len(text) == 0 {
		o.fail(fmt.Sprintf("%s is %s, not JSON in a string", key, clip(value)), "write it as recorded")
		return nil
	}
	return text
}

// appendParts appends the messages of a chat, as OpenAI's API has them, that a message in parts becomes: as
// https://github.com/open-telemetry/semantic-conventions (gen-ai) describes those. Role is a JSON string.
func appendParts(chat []byte, role string, message object, key string) []byte {
	var text, reasoning, calls []byte // the insides of strings, and of a list
	spoke := false
	message.each(key, func(_ int, part object) {
		switch {
		case part.is("type", "text"):
			text, spoke = append(text, inString(part.value("content"))...), true
		case part.is("type", "reasoning", "thinking"):
			reasoning, spoke = append(reasoning, inString(part.value("content", "thinking"))...), true
		case part.is("type", "tool_call"):
			calls, spoke = fmt.Appendf(comma(calls), `{"id":%s,"type":"function","function":{"name":%s,"arguments":"%s"}}`,
				orNull(part.value("id")), orNull(part.value("name")), inString(part.value("arguments"))), true
		case part.is("type", "tool_call_response"):
			chat = fmt.Appendf(comma(chat), `{"role":"tool","tool_call_id":%s,"content":"%s"}`, orNull(part.value("id")), inString(part.value("response", "result")))
		default:
			part.fail("a part of type "+clip(part.value("type")), "text, reasoning, tool_call and tool_call_response can be sent")
		}
	})
	if !spoke {
		return chat
	}
	chat = fmt.Appendf(comma(chat), `{"role":%s,"content":"%s"`, role, text)
	if reasoning != nil {
		chat = fmt.Appendf(chat, `,"reasoning_content":"%s"`, reasoning)
	}
	if calls != nil {
		chat = fmt.Appendf(chat, `,"tool_calls":[%s]`, calls)
	}
	return append(chat, '}')
}

// inString is the inside of a JSON string: of the value if it is one, or of one with the value's JSON in it.
func inString(value []byte) []byte {
	switch {
	case value == nil:
		return nil
	case value[0] == '"':
		return unquoted(value)
	}
	return unquoted(appendString(nil, string(value)))
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// comma appends a comma behind what is there.
func comma(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ',')
}
