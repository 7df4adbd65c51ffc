package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

var nothing = said{Prompt: -1, Completion: -1, More: -1, Cached: -1, Thought: -1, Tiers: Tiers{-1, -1, -1}}

// document is what a server sends, and what it means to the API that reads it.
type document struct{ api, name, in, want string }

// backend returns the named API's.
func backend(t *testing.T, name string, o Options) Backend {
	t.Helper()
	b, err := New(name, o)
	must.Do(t, err, "%s %+v", name, o)
	return b
}

// documents are those of every API, in testdata/documents.txt. What is chat's is that of completions too.
func documents(t testing.TB) (all []document) {
	t.Helper()
	text := must.Have(os.ReadFile("testdata/documents.txt"))(t)
	for entry := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(entry, "\n")
		d := document{in: lines[1], want: lines[2]}
		if quoted, err := strconv.Unquote(d.in); err == nil {
			d.in = quoted
		}
		d.api, d.name, _ = strings.Cut(lines[0], ": ")
		all = append(all, d)
		if d.api == "chat" {
			d.api = "completions"
			all = append(all, d)
		}
	}
	return all
}

// TestDocuments reads each document as an event and as a whole, and has the oracle read it.
func TestDocuments(t *testing.T) {
	var d Delta
	for _, c := range documents(t) {
		b := backend(t, c.api, Options{Model: "m"})
		said, message, failed := strings.Cut(c.want, ": ")
		for how, parse := range map[string]func([]byte, *Delta) error{"event": b.ParseEvent, "body": b.ParseBody} {
			err := parse([]byte(c.in), &d)
			if got := saidBy(&d).weighed().String(); err != nil || got != said || string(d.Error) != message || d.IsError != failed {
				t.Errorf("%s, %s as %s: %s\ngot  %s: %s, %v\nwant %s", c.api, c.name, how, c.in, got, d.Error, err, c.want)
			}
		}
		oracle := oracles[c.api]
		if oracle == nil {
			continue
		}
		tree, err := decode([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := oracle(tree.(ordered)).weighed().String(); got != said {
			t.Errorf("%s, %s: the oracle reads %s, want %s", c.api, c.name, got, said)
		}
	}
}

// TestParseAllocatesNothing reads every event of every API, but for what no known server sends.
func TestParseAllocatesNothing(t *testing.T) {
	done := document{api: "chat", in: "[DONE]"}
	for _, c := range append(documents(t), done) {
		if c.name == "unknown finish reason" || c.name == "escaped key" {
			continue
		}
		b, in := backend(t, c.api, Options{Model: "m"}), []byte(c.in)
		var d Delta
		expect.Equal(t, testing.AllocsPerRun(100, func() {
			if b.ParseEvent(in, &d) != nil || c.in != done.in && b.ParseBody(in, &d) != nil {
				t.Fatal(c.in)
			}
		}), 0, "%s, %s: allocations", c.api, c.name)
	}
}

func TestEventsThatAreNoJSON(t *testing.T) {
	var d Delta
	for in, want := range map[string]string{"[DONE]": "done", " [DONE] ": "done", "": "nothing", " \n": "nothing"} {
		d.Token, d.Finish, d.PromptTokens = true, "stop", 5
		if err := parseEvent([]byte(in), &d, choices); err != nil || saidBy(&d).String() != want {
			t.Errorf("%q: %+v, error %v", in, saidBy(&d), err)
		}
	}
}

func TestBadJSON(t *testing.T) {
	for _, in := range []string{
		`[]`, `"x"`, `1`, `null`, `DONE`, `[DONE`, `{`, `}`, `{}}`, `{} x`, `{}{}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a":1"b":2}`, `{"a":{}"b":2}`,
		`{a:1}`, `{'a':1}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[}`, `{"a":[1}`, `{"a":{]}`, `{"a":"x}`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
		`{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", `{"a":"\`, `{"a":nul}`, `{"a":nulll}`, `{"a":True}`, `{"a":01}`, `{"a":-}`, `{"a":.5}`,
		`{"a":1.}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":NaN}`, "{\"a\":1\x00}", "\ufeff{}", `{"choices":[{"text":"x"}`, `{"error":{"message":"x"`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x"`, `{"usage":{"prompt_tokens":1x}}`, `{"usage":{"prompt_tokens":1`,
	} {
		var d Delta
		err := parseEvent([]byte(in), &d, choices)
		if !errors.Is(err, ErrBadJSON) {
			t.Errorf("%q: error %v, %+v", in, err, saidBy(&d))
		}
		if json.Valid([]byte(in)) && strings.HasPrefix(in, "{") {
			t.Errorf("%q is valid", in)
		}
	}
}

func TestErrorTellsWhere(t *testing.T) {
	var d Delta
	err := parseEvent([]byte(`{"choices":[{"text":nix}]}`), &d, choices)
	if want := `malformed JSON at byte 21: want null before "ix}]}"`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestDepth(t *testing.T) {
	nested := func(open, close string, depth int) []byte {
		return []byte(`{"a":` + strings.Repeat(open, depth-1) + "1" + strings.Repeat(close, depth-1) + "}")
	}
	var d Delta
	expect.Equal(t, parseEvent([]byte(`{"a":[{}`+strings.Repeat(`,[],{"b":{}}`, MaxDepth)+"]}"), &d, choices), nil, "many, but not deep")
	for _, c := range []struct{ open, close string }{{"[", "]"}, {`{"a":`, "}"}} {
		expect.Equal(t, parseEvent(nested(c.open, c.close, MaxDepth), &d, choices), nil, "%d deep", MaxDepth)
		if err := parseEvent(nested(c.open, c.close, MaxDepth+1), &d, choices); !errors.Is(err, ErrBadJSON) {
			t.Errorf("%d deep: %v", MaxDepth+1, err)
		}
		if err := parseEvent([]byte(`{"a":`+strings.Repeat(c.open, 1_000_000)), &d, choices); !errors.Is(err, ErrBadJSON) {
			t.Errorf("a million deep: %v", err)
		}
	}
}

// TestRepeatedChunks gives chunks that nearly repeat the last one, and wants what a fresh Delta says.
func TestRepeatedChunks(t *testing.T) {
	b := backend(t, "chat", Options{})
	chunk := func(text string) string { return strings.Replace(completionChunk, " hello", text, 1) }
	for _, second := range []string{
		chunk("x"), chunk(""), chunk(`\n`), chunk(`\`), chunk(`"`), chunk(`a","text":"`), chunk(`","finish_reason":"stop","a":"`), chunk("\x01"), chunk("é"),
		chunk(strings.Repeat("long ", 1000)), completionChunk, completionChunk[:len(completionChunk)-1], completionChunk + " ", completionChunk + "x",
		strings.Replace(completionChunk, `"finish_reason":null`, `"finish_reason":"stop"`, 1), chatChunk, usageChunk, "[DONE]", "",
		strings.Replace(chunk("x"), "1732154321", "1732154322", 1), completionChunk[:150], completionChunk[100:],
	} {
		sameTwice(t, b, []byte(completionChunk), []byte(second))
		sameTwice(t, b, []byte(second), []byte(completionChunk))
	}
}

// TestRepeatedChunksWithMore remembers no chunk that says more than that there is text.
func TestRepeatedChunksWithMore(t *testing.T) {
	b := backend(t, "chat", Options{})
	for _, more := range []string{
		`{"choices":[{"text":"TEXT"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"choices":[{"text":"TEXT"}],"usage":{"prompt_tokens_details":{"cached_tokens":3}}}`,
		`{"choices":[{"text":"TEXT","finish_reason":"stop"}]}`,
		`{"choices":[{"text":"TEXT"}],"error":{"message":"x"}}`,
		`{"choices":[{"text":"TEXT"},{"text":"x"}]}`,
		`{"choices":[{"text":"TEXT"}],"nvext":{"worker_id":{"prefill_worker_id":3}}}`,
		`{"choices":[{"text":"x"},{"text":"TEXT"},{"delta":{"content":["x"]}}]}`,
		"{\"choices\":[{\"text\":\"TEXT\"\n}]}",
		`{"choices":[{"index":0,"delta":{"content":"","reasoning_content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"reasoning_content":"TEXT","content":"x"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x","reasoning_content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"TEXT"}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"TEXT"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"TEXT"}}]}`,
	} {
		for _, text := range []string{"x", "y", "", `\`, `\"`} {
			sameTwice(t, b, []byte(strings.Replace(more, "TEXT", "x", 1)), []byte(strings.Replace(more, "TEXT", text, 1)))
		}
	}
}

// TestRepeatedChunksAreRemembered keeps the short way from falling into disuse unnoticed.
func TestRepeatedChunksAreRemembered(t *testing.T) {
	for _, chunk := range []string{completionChunk, chatChunk} {
		var d Delta
		must.Do(t, parseEvent([]byte(chunk), &d, choices))
		for text, want := range map[string]bool{"x": true, " other": true, `\n\"`: true, "é": true, "": false, `"`: false, `\`: false} {
			_, got := d.last.matches([]byte(strings.Replace(chunk, " hello", text, 1)))
			expect.Equal(t, got, want, "text %s: matches", text)
		}
		for _, other := range []string{"1732154322", "7", "0.5e-3"} {
			_, got := d.last.matches([]byte(strings.Replace(chunk, "1732154321", other, 1)))
			expect.Equal(t, got, true, "created %s: matches", other)
		}
	}
}

// TestRepeatedChunksWithOtherValues puts values of every kind in place of each value of every document, and wants what
// a fresh Delta says after the document.
func TestRepeatedChunksWithOtherValues(t *testing.T) {
	others := []string{
		`"x"`, `""`, `"a\\\"b"`, `"stop"`, `"error"`, "7", "-7", "0", "1e5", "-0.5", "007", "7x", `7x"`, `"x`, "true", "null", "{}", `{"text":"x"}`, "[]", `["x"]`, "[1]",
	}
	more := `,"error":"","detail":"x","message":"x","b":5,"c":-5,"usage":{"prompt_tokens":-1},"nvext":{"a":1}}`
	remembered := 0
	for _, c := range documents(t) {
		b := backend(t, c.api, Options{Model: "m"})
		for _, in := range []string{c.in, strings.TrimSuffix(c.in, "}") + more} {
			var d Delta
			if b.ParseEvent([]byte(in), &d); d.last.size > 0 {
				remembered++
			}
			for _, at := range values(in) {
				for _, other := range others {
					sameTwice(t, b, []byte(in), []byte(in[:at[0]]+other+in[at[1]:]))
				}
			}
		}
	}
	if remembered < 20 {
		t.Errorf("%d chunks are remembered", remembered)
	}
}

// values returns where strings, numbers and words lie in a document, keys among them.
func values(document string) (at [][]int) {
	return regexp.MustCompile(`"(\\.|[^"\\])*"|-?[0-9][-+.eE0-9]*|true|false|null`).FindAllStringIndex(document, -1)
}

// sameTwice parses one after the other into one Delta, and the second one twice.
func sameTwice(t *testing.T, b Backend, first, second []byte) {
	t.Helper()
	var fresh, used Delta
	wantErr := b.ParseEvent(second, &fresh)
	_ = b.ParseEvent(bytes.Clone(first), &used)
	for range 2 {
		buf := bytes.Clone(second)
		err := b.ParseEvent(buf, &used)
		same := saidBy(&used) == saidBy(&fresh) && used.Choices == fresh.Choices
		for _, part := range [][2][]byte{
			{used.Error, fresh.Error}, {used.Model, fresh.Model}, {used.IDs, fresh.IDs}, {used.Instance, fresh.Instance}, {used.Prefill, fresh.Prefill},
		} {
			same = same && bytes.Equal(part[0], part[1])
		}
		if (err == nil) != (wantErr == nil) || err == nil && !same {
			t.Fatalf("%q after %q\ngot  %+v, %v\nwant %+v, %v", second, first, saidBy(&used), err, saidBy(&fresh), wantErr)
		}
		clear(buf) // what is remembered must not lie in the caller's memory
	}
}
