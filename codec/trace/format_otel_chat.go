package trace

import (
	"bytes"
	"fmt"
)

// jsonIn is the value under a key, or what stands in it if it is a string: attributes of spans are JSON in strings.
func jsonIn(all []member, key string) ([]byte, error) {
	value := valueOf(all, key)
	if value == nil || value[0] != '"' {
		return value, nil
	}
	text := bytes.TrimSpace(textOf(value))
	s := scan(text)
	err := s.skip()
	if err == nil {
		err = s.end()
	}
	if err != nil || len(text) == 0 {
		return nil, &rowError{fmt.Sprintf("%s is %s, not JSON in a string", key, clip(value)), "write it as recorded"}
	}
	return text, nil
}

// appendParts appends the messages of a chat, as OpenAI's API has them, that a message in parts becomes: as
// https://github.com/open-telemetry/semantic-conventions (gen-ai) describes those. Role is a JSON string.
func appendParts(chat []byte, role string, parts []byte) ([]byte, error) {
	var text, reasoning, calls []byte // the insides of strings, and of a list
	spoke := false
	all := []member{{"parts", parts}}
	err := listIn(all, "parts", func(_ int, object []byte) error {
		part, err := membersOf(object)
		if err != nil {
			return err
		}
		switch kind := string(valueOf(part, "type")); kind {
		case `"text"`:
			text, spoke = append(text, inString(valueOf(part, "content"))...), true
		case `"reasoning"`, `"thinking"`:
			reasoning, spoke = append(reasoning, inString(firstOf(part, "content", "thinking"))...), true
		case `"tool_call"`:
			calls, spoke = fmt.Appendf(comma(calls), `{"id":%s,"type":"function","function":{"name":%s,"arguments":"%s"}}`,
				orNull(valueOf(part, "id")), orNull(valueOf(part, "name")), inString(valueOf(part, "arguments"))), true
		case `"tool_call_response"`:
			chat = fmt.Appendf(comma(chat), `{"role":"tool","tool_call_id":%s,"content":"%s"}`, orNull(valueOf(part, "id")),
				inString(firstOf(part, "response", "result")))
		default:
			return &rowError{"a part of type " + clip([]byte(kind)), "text, reasoning, tool_call and tool_call_response can be sent"}
		}
		return nil
	})
	if err != nil || !spoke {
		return chat, err
	}
	chat = fmt.Appendf(comma(chat), `{"role":%s,"content":"%s"`, role, text)
	if reasoning != nil {
		chat = fmt.Appendf(chat, `,"reasoning_content":"%s"`, reasoning)
	}
	if calls != nil {
		chat = fmt.Appendf(chat, `,"tool_calls":[%s]`, calls)
	}
	return append(chat, '}'), nil
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

// without is an object without the member of a key.
func without(all []member, key string) []byte {
	var inner []byte
	for _, m := range all {
		if m.key != key {
			inner = append(append(append(comma(inner), appendString(nil, m.key)...), ':'), m.value...)
		}
	}
	return append(append([]byte{'{'}, inner...), '}')
}
