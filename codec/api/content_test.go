package api

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
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
		for _, choices := range c.events {
			data := []byte(`{"id":"x","choices":[` + choices + `]}`)
			if err := parseEvent(data, &d); err != nil {
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

func TestRepair(t *testing.T) {
	for in, want := range map[string]string{
		``: ``, `abc`: `abc`, `\ud83d\ude00`: `\ud83d\ude00`, `x\ud83d`: `x\ufffd`, `\ude00\ud83d`: `\ufffd\ufffd`, `\ud83d\ud83d\ude00`: `\ufffd\ud83d\ude00`,
		`\ud83dx\ude00`: `\ufffdx\ufffd`, `\\ud83d`: `\\ud83d`, `\\\ud83d`: `\\\ufffd`, `\n\"\u00e9é`: `\n\"\u00e9é`, "a\xf0\x9f": "a\ufffd", "\xff\\ud83d": "\ufffd\\ufffd",
		`\ud83d\u0041`: `\ufffd\u0041`,
	} {
		if got := Repair([]byte(in)); string(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// FuzzRepair wants what encoding/json decodes to stay the same, and no surrogate to be left alone.
func FuzzRepair(f *testing.F) {
	f.Add([]byte(`a\ud83d\ude00\ud83d\\\ude00`))
	f.Add([]byte("\xf0\x9f\\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		quote := func(b []byte) []byte { return []byte(`"` + string(b) + `"`) }
		var want, got string
		if json.Unmarshal(quote(in), &want) != nil {
			return
		}
		out := Repair(append([]byte(nil), in...))
		if err := json.Unmarshal(quote(out), &got); err != nil {
			t.Fatalf("%q → %q: %v", in, out, err)
		}
		if utf8.Valid(in) && got != want || !utf8.Valid(out) {
			t.Fatalf("%q → %q: %q, want %q", in, out, got, want)
		}
		if again := Repair(append([]byte(nil), out...)); string(again) != string(out) {
			t.Fatalf("%q → %q → %q", in, out, again)
		}
	})
}
