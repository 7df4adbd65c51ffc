package api

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestContent joins the answer's pieces in the events of a stream. Together they are the inside of a JSON string, and
// equal the answer. An answer that comes whole once more at the stream's end is not counted twice.
func TestContent(t *testing.T) {
	const response = `"status":"completed","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"r"}]},{"type":"message","content":[{"type":"output_text","text":"a\n"},{"text":"b","type":"output_text"}]}`
	for name, c := range map[string]struct {
		api    string // "" = chat, of which events are choices
		events []string
		whole  string // the same answer in one piece; "" = not compared
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
		"messages": {api: "messages", events: []string{`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":1}}}`, `{"type":"content_block_start","content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"r"}}`, `{"type":"content_block_start","content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\n"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"message_stop"}`}, want: "a\nb", whole: `{"type":"message","content":[{"type":"thinking","thinking":"r"},{"type":"text","text":"a\nb"}],"stop_reason":"end_turn"}`},
		"messages with a tool": {api: "messages", events: []string{`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\nb"}}`, `{"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}`,
			`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}`}, want: "a\nb", whole: `{"content":[{"type":"text","text":"a\nb"},{"type":"tool_use","name":"f","input":{}}]}`, tool: true},
		"responses": {api: "responses", events: []string{`{"type":"response.created","response":{"status":"in_progress","output":[]}}`, `{"type":"response.reasoning_text.delta","delta":"r"}`, `{"type":"response.reasoning_text.delta","delta":"s"}`,
			`{"type":"response.output_text.delta","delta":"a"}`, `{"delta":"\n","type":"response.output_text.delta"}`, `{"type":"response.output_text.delta","delta":"b"}`, `{"type":"response.output_text.done","text":"a\nb"}`,
			`{"type":"response.completed","response":{` + response + `]}}`}, want: "a\nb", whole: `{` + response + `]}`},
		"responses with a tool": {api: "responses", events: []string{`{"type":"response.output_text.delta","delta":"a\nb"}`, `{"type":"response.function_call_arguments.delta","delta":"{"}`}, want: "a\nb",
			whole: `{` + response + `,{"type":"function_call","name":"f"}]}`, tool: true},
	} {
		wrap := func(event string) string { return event }
		if c.api == "" {
			c.api, wrap = "chat", func(choice string) string { return `{"id":"x","choices":[` + choice + `]}` }
		}
		b := backend(t, c.api, Options{Model: "m", Stream: true})
		var d Delta // of all, as a connection's
		var said []byte
		tool := false
		for _, event := range c.events {
			data := []byte(wrap(event))
			must.Do(t, b.ParseEvent(data, &d), name)
			said, tool = append(said, d.Content...), tool || d.Tool
			if !bytes.Contains(data, d.Content) {
				t.Errorf("%s: %q is not of %s", name, d.Content, data)
			}
		}
		check := func(how string, content []byte, tool bool) {
			var got string
			if err := json.Unmarshal([]byte(`"`+string(content)+`"`), &got); err != nil || got != c.want || tool != c.tool {
				t.Errorf("%s, %s: %q, tool %v, error %v; want %q", name, how, got, tool, err, c.want)
			}
		}
		check("streamed", said, tool)
		if c.whole != "" {
			expect.Equal(t, b.ParseBody([]byte(c.whole), &d), nil, name)
			check("whole", d.Content, d.Tool)
		}
	}
}
