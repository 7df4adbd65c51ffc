package formats

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// otel is the format of OpenTelemetry's spans of calls to language models, a line a session:
//
//	{"session_id":"…","spans":[{"type":"llm_call","trace_id":"…","start_time":"2026-05-18T09:00:00Z","end_time":"…",
//	 "status":{"code":1},
//	"attributes":{"gen_ai.request.model":"…","gen_ai.usage.input_tokens":1200,"gen_ai.usage.output_tokens":80,
//	"gen_ai.usage.cache_read.input_tokens":1024,"gen_ai.input.messages":"[{\"role\":\"user\",\"parts\":[…]}]",…}},…]}
//
// as Exgentic's data sets have it (https://huggingface.co/datasets/Exgentic/agent-llm-traces-v2), or an export in
// OTLP's JSON, {"resourceSpans":[{"scopeSpans":[{"spans":[…]}]}]}. The attributes are those of OpenTelemetry's
// conventions for generative AI. Messages are sent if they were recorded; gen_ai.output.messages are the answer.
// Without them a prompt is known by its length, and the calls of a session to one model are one conversation.
func otel() *Format {
	return counted("otel", rows.Names{
		rows.TimestampField: "start_time",
		rows.InputField:     "gen_ai.usage.input_tokens",
		rows.OutputField:    "gen_ai.usage.output_tokens",
		rows.SessionField:   "session_id",
		rows.MessagesField:  "gen_ai.input.messages",
		rows.ToolsField:     "gen_ai.tool.definitions",
	}, anyOf(hasKeys("resourceSpans"), hasKeys("spans")), func(b *Batch, o object) {
		readSpans(b, o, "resourceSpans", "scopeSpans")
	})
}

// readSpans takes the spans of an object, or of the objects under some keys in it. Those under later keys may stand in
// those under earlier ones.
func readSpans(b *Batch, o object, within ...string) {
	for n, key := range within {
		o.Each(key, func(_ int, inner object) {
			readSpans(b, inner, within[n+1:]...)
		})
	}
	o.Each("spans", func(_ int, span object) {
		attributes := attributesOf(span)
		session := o.Value("session_id", "trace_id")
		if session == nil {
			session = attributes.Value("gen_ai.conversation.id")
		}
		if session == nil {
			session = span.Value("traceId", "trace_id")
		}
		b.readSpan(span, attributes, session)
	})
}

// readSpan takes a span if it is a call to a model.
func (b *Batch) readSpan(span, attributes object, session []byte) {
	asks := attributes.Is("gen_ai.operation.name", "chat", "text_completion", "generate_content")
	plain := !span.Has("type") || span.Is("type", "span")
	if !span.Is("type", "llm_call") && !(plain && asks) {
		return
	}
	if session == nil {
		span.Fail("missing session_id", "it names the session, as gen_ai.conversation.id or a trace's id do")
		return
	}
	if !span.IsString("session_id", session) {
		return
	}
	var code string
	if span.Has("status") {
		code = string(span.NeedIn("status", "its code says whether the call failed").Value("code"))
	}
	failed := code == "2" || strings.Contains(strings.ToUpper(code), "ERROR")
	if failed || hasZero(attributes, b.name(rows.InputField), b.name(rows.OutputField)) {
		b.Failed++
		return
	}
	r := b.add()
	began := momentOf(span, "start_time", "startTimeUnixNano")
	ended := momentOf(span, "end_time", "endTimeUnixNano")
	r.SetSpan(began, ended)
	name := string(rows.TextOf(session))
	r.Job = name
	model := attributes.TextOr("gen_ai.request.model", attributes.TextOr("gen_ai.response.model", ""))
	if model != "" {
		name += "/" + model
	}
	r.SetSession([]byte(name))
	b.setCounts(r, attributes, "gen_ai.usage.cache_read.input_tokens", model)
	b.setOwner(r, attributes, "gen_ai.request.model")
	said := jsonIn(attributes, b.name(rows.MessagesField))
	if said != nil {
		r.Growth = agents.Growth{}
		b.setAnswer(r, messagesIn(nil, attributes, "gen_ai.output.messages"))
		b.set(r, rows.MessagesField, chatOf(attributes))
		defined := jsonIn(attributes, b.name(rows.ToolsField))
		if defined != nil {
			b.setTools(r, attributes.With(b.name(rows.ToolsField), defined))
		}
	}
}

// momentOf is an instant: a date, or ns since 1970.
func momentOf(span object, date, ns string) int64 {
	value := span.Value(ns)
	if value != nil {
		plain := span.With(ns, bytes.Trim(value, `"`))
		return plain.Span(ns, 0)
	}
	return span.Date(date)
}

// attributesOf is a span's attributes: an object, or OTLP's list of {"key":…,"value":{"intValue":"1"}}.
func attributesOf(span object) object {
	if value := span.Value("attributes"); value != nil && value[0] != '[' {
		return span.NeedIn("attributes", "they are what is known of the call")
	}
	all := object{Fault: span.Fault}
	span.Each("attributes", func(_ int, pair object) {
		key := pair.Name("key", "it names the attribute")
		kinds := pair.NeedIn("value", "it is the attribute's")
		if len(kinds.Members) == 0 {
			return
		}
		value := kinds.Members[0].Value
		if kinds.Members[0].Key == "intValue" {
			value = bytes.Trim(value, `"`)
		}
		if len(value) > 0 {
			all.Members = append(all.Members, rows.Member{Key: key, Value: value})
		}
	})
	return all
}

// chatOf is the messages of a call, as OpenAI's API has them.
func chatOf(attributes object) []byte {
	var chat []byte
	system := jsonIn(attributes, "gen_ai.system_instructions")
	if system != nil {
		chat = appendParts(chat, `"system"`, attributes.With("gen_ai.system_instructions", system),
			"gen_ai.system_instructions")
	}
	return messagesIn(chat, attributes, "gen_ai.input.messages")
}

// messagesIn is a list of messages that are there, and those under a key, as OpenAI's API has them.
func messagesIn(chat []byte, attributes object, key string) []byte {
	attributes.With(key, jsonIn(attributes, key)).Each(key, func(_ int, message object) {
		role := message.Need("role", "it names the speaker")
		switch {
		case role == nil:
		case !message.Has("parts"):
			chat = append(comma(chat), message.Text...)
		case message.IsString("role", role):
			chat = appendParts(chat, string(role), message, "parts")
		}
	})
	return fmt.Appendf(nil, "[%s]", chat)
}

// setTools notes the definitions of a call's tools in the form of OpenAI's API.
func (b *Batch) setTools(r *row, defined object) {
	var tools []byte
	defined.Each(b.name(rows.ToolsField), func(_ int, tool object) {
		text := tool.Text
		if !tool.Has("function") {
			var inner []byte
			for _, m := range tool.Members {
				if m.Key != "type" {
					inner = appendMember(inner, m)
				}
			}
			text = fmt.Appendf(nil, `{"type":"function","function":{%s}}`, inner)
		}
		tools = append(comma(tools), text...)
	})
	if tools != nil {
		b.set(r, rows.ToolsField, fmt.Appendf(nil, "[%s]", tools))
	}
}

// jsonIn is the value under a key, or what stands in it if it is a string: attributes of spans are JSON in strings.
func jsonIn(o object, key string) []byte {
	value := o.Value(key)
	if value == nil || value[0] != '"' {
		return value
	}
	text := bytes.TrimSpace(rows.TextOf(value))
	s := rows.Scan(text)
	if s.Skip() != nil || s.End() != nil || len(text) == 0 {
		o.Fail(fmt.Sprintf("%s is %s, not JSON in a string", key, rows.Clip(value)), "write it as recorded")
		return nil
	}
	return text
}

// appendParts appends the messages of a chat, as OpenAI's API has them, that a message in parts becomes: as
// https://github.com/open-telemetry/semantic-conventions (gen-ai) describes those. Role is a JSON string.
func appendParts(chat []byte, role string, message object, key string) []byte {
	var text, reasoning, calls []byte // the insides of strings, and of a list
	spoke := false
	message.Each(key, func(_ int, part object) {
		switch {
		case part.Is("type", "text"):
			text = append(text, inString(part.Value("content"))...)
			spoke = true
		case part.Is("type", "reasoning", "thinking"):
			reasoning = append(reasoning, inString(part.Value("content", "thinking"))...)
			spoke = true
		case part.Is("type", "tool_call"):
			calls = fmt.Appendf(comma(calls), `{"id":%s,"type":"function","function":{"name":%s,"arguments":"%s"}}`,
				orNull(part.Value("id")), orNull(part.Value("name")), inString(part.Value("arguments")))
			spoke = true
		case part.Is("type", "tool_call_response"):
			chat = fmt.Appendf(comma(chat), `{"role":"tool","tool_call_id":%s,"content":"%s"}`,
				orNull(part.Value("id")), inString(part.Value("response", "result")))
		default:
			part.Fail("a part of type "+rows.Clip(part.Value("type")),
				"text, reasoning, tool_call and tool_call_response can be sent")
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
		return rows.Unquoted(value)
	}
	return rows.Unquoted(appendString(nil, string(value)))
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}
