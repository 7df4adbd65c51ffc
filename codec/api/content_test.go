package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestContent joins what the events of a stream have of the answer: that is a JSON string again, and says what was said.
func TestContent(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
		tool   bool
	}{
		"chat":                     {events: []string{`{"delta":{"role":"assistant","content":""}}`, `{"delta":{"content":"a"}}`, `{"delta":{"content":"b"}}`, `{"delta":{"content":"c"}}`}, want: "abc"},
		"completions":              {events: []string{`{"text":" a"}`, `{"text":" b","finish_reason":"stop"}`}, want: " a b"},
		"escapes":                  {events: []string{`{"delta":{"content":"\"\\"}}`, `{"delta":{"content":"\n\t"}}`, `{"delta":{"content":"\u00e9é"}}`}, want: "\"\\\n\té" + "é"},
		"an emoji over two events": {events: []string{`{"delta":{"content":"x\ud83d"}}`, `{"delta":{"content":"\ude00y"}}`}, want: "x😀y"},
		"reasoning": {events: []string{`{"delta":{"reasoning_content":"r"}}`, `{"delta":{"reasoning_content":"s"}}`, `{"delta":{"content":null,"reasoning":"t"}}`,
			`{"delta":{"content":"a","reasoning":"u"}}`, `{"delta":{"content":"b"}}`}, want: "ab"},
		"a tool": {events: []string{`{"delta":{"content":"I ask."}}`, `{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}}`,
			`{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}}`}, want: "I ask.", tool: true},
		"several choices": {events: []string{`{"index":1,"delta":{"content":"x"}}`, `{"index":0,"delta":{"content":"a"}}`, `{"index":0,"delta":{"content":"b"}}`,
			`{"index":1,"delta":{"content":"y"}}`, `{"index":1,"delta":{"content":"z"}},{"index":0,"delta":{"content":"c"}}`, `{"index":0,"delta":{"content":"d"}},{"index":1,"delta":{"content":"z"}}`}, want: "abcd"},
		"parts":   {events: []string{`{"delta":{"content":[{"type":"text","text":"a"}]}}`}},
		"refusal": {events: []string{`{"delta":{"refusal":"no"}}`}},
		"whole":   {events: []string{`{"index":0,"message":{"role":"assistant","reasoning_content":"r","content":"a\nb"},"finish_reason":"stop"}`}, want: "a\nb"},
	} {
		var d Delta // of all, as a connection's
		said, tool := []byte{'"'}, false
		for _, choice := range c.events {
			data := []byte(`{"id":"x","choices":[` + choice + `]}`)
			if err := parseEvent(data, &d, choices); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			said, tool = append(said, d.Content...), tool || d.Tool
			if len(d.Content) > 0 && !strings.Contains(string(data), string(d.Content)) {
				t.Errorf("%s: %q is not of %s", name, d.Content, data)
			}
		}
		var got string
		if err := json.Unmarshal(append(said, '"'), &got); err != nil || got != c.want || tool != c.tool {
			t.Errorf("%s: %q, tool %v, error %v; want %q", name, got, tool, err, c.want)
		}
	}
}

// TestContentElsewhere is the same for the other APIs that take messages: streamed, with an answer that comes whole once more at the
// stream's end, and whole.
func TestContentElsewhere(t *testing.T) {
	const response = `"status":"completed","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"r"}]},{"type":"message","content":[{"type":"output_text","text":"a\n"},{"text":"b","type":"output_text"}]}`
	for name, c := range map[string]struct {
		api    string
		events []string
		whole  string
		tool   bool
	}{
		"messages": {"messages", []string{`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":1}}}`, `{"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"r"}}`, `{"type":"content_block_start","content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\n"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"message_stop"}`}, `{"type":"message","content":[{"type":"thinking","thinking":"r"},{"type":"text","text":"a\nb"}],"stop_reason":"end_turn"}`, false},
		"messages with a tool": {"messages", []string{`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\nb"}}`, `{"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}`,
			`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}`}, `{"content":[{"type":"text","text":"a\nb"},{"type":"tool_use","name":"f","input":{}}]}`, true},
		"responses": {"responses", []string{`{"type":"response.created","response":{"status":"in_progress","output":[]}}`, `{"type":"response.reasoning_text.delta","delta":"r"}`, `{"type":"response.reasoning_text.delta","delta":"s"}`,
			`{"type":"response.output_text.delta","delta":"a"}`, `{"delta":"\n","type":"response.output_text.delta"}`, `{"type":"response.output_text.delta","delta":"b"}`, `{"type":"response.output_text.done","text":"a\nb"}`,
			`{"type":"response.completed","response":{` + response + `]}}`}, `{` + response + `]}`, false},
		"responses with a tool": {"responses", []string{`{"type":"response.output_text.delta","delta":"a\nb"}`, `{"type":"response.function_call_arguments.delta","delta":"{"}`},
			`{` + response + `,{"type":"function_call","name":"f"}]}`, true},
	} {
		b, err := New(c.api, Options{Model: "m", Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		var d Delta
		text, tool := "", false
		for _, event := range c.events {
			if err := b.ParseEvent([]byte(event), &d); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text, tool = text+string(d.Content), tool || d.Tool
		}
		if text != `a\nb` || tool != c.tool {
			t.Errorf("%s, streamed: %q, tool %v", name, text, tool)
		}
		if err := b.ParseBody([]byte(c.whole), &d); err != nil || string(d.Content) != `a\nb` || d.Tool != c.tool {
			t.Errorf("%s, whole: %q, tool %v, error %v", name, d.Content, d.Tool, err)
		}
	}
}
