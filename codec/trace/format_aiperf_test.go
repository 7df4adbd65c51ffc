package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const singleFile = `{"text":"caf\u00e9 \"a\"\n"}
{"type":"single_turn","texts":["Hi"],"timestamp":0,"output_length":20,"session_id":"a","extra":{"temperature":0}}

{"texts":["one","",{"name":"b","contents":["two","three"]}],"timestamp":1.5,"role":"system"}
{"text":"What is it?","image":"https://example.org/a.png","timestamp":2000,"session_id":"a","delay":250}
{"images":[{"name":"x","contents":["data:image/png;base64,AA\/=="]}],"audio":"wav,UklG","videos":["https:\/\/example.org\/v"],"timestamp":3000,"delay":7}
`

// asJSON is what a trace has verbatim, as JSON.
func asJSON(tr *Trace) []string {
	var all []string
	for i := range tr.Len() {
		l := tr.Verbatim(i)
		bounds := map[rows.VerbatimKind]string{VerbatimText: `""`, VerbatimMessages: "[]", VerbatimPayload: "{}", NoVerbatim: "[]"}[l.Kind]
		all = append(all, bounds[:1]+string(l.Content)+bounds[1:])
	}
	return all
}

const multiFile = `{"session_id":"s","turns":[{"role":"system","text":"Be brief."},{"text":"Hi","delay":0},{"role":"assistant","text":"Hello."},{"text":"Why?","delay":1500,"output_length":7,"extra":{"n":1}}]}
{"type":"multi_turn","turns":[{"texts":["a","b"]},{"role":"tool","text":"c"},{"role":"assistant","texts":["d","e"]}]}
`

const shareFile = `[
  {"id": "QWJhYvA_0", "conversations": [
    {"from": "gpt", "value": "left over"},
    {"from": "human", "value": "Sum\u006dary?\n"}, {"from": "gpt", "value": "It \"is\" short."},
    {"from": "human", "value": "unanswered"},
    {"from": "user", "value": "More"}, {"from": "chatgpt", "value": "No."}, {"from": "bing", "value": "Yes."}]},
  {"id": "empty", "conversations": []},
  {"id": "alone", "conversations": [{"from": "human", "value": "Anyone?"}, {"from": "gpt", "value": ""}]},
  {"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": ""}, {"from": "bard", "value": "B"}, {"from": "human", "value": "end"}]}
]`

// TestConversationsAreKeptOnce: of messages that grow, the longest ones are kept.
func TestConversationsAreKeptOnce(t *testing.T) {
	tr := read(t, shareFile, Options{})
	expect.Equal(t, tr.verbatims.contents.Held(), len(tr.Verbatim(1).Content)+len(tr.Verbatim(2).Content), "bytes kept")
}

func TestCountAnswers(t *testing.T) {
	tr := read(t, multiFile+strings.Repeat(`{"turns":[{"text":"a"},{"role":"assistant","text":" \n"},{"text":"b"},{"role":"assistant","text":"caf\u00e9 au lait"}]}`+"\n", 50), Options{})
	expect.Equal(t, tr.Uncounted(), 101, "uncounted")
	words := func(text []byte) (int, error) {
		if bytes.Contains(text, []byte(`\`)) {
			return 0, errors.New("the text is not decoded")
		}
		return len(bytes.Fields(text)), nil
	}
	counted := must.Have(tr.CountAnswers(words))(t)
	want(t, "OutputTokens", counted.OutputTokens[:8], []int32{1, 7, 0, 0, 1, 3, 1, 3})
	if tr.OutputTokens[0] != 0 || counted.Uncounted() != 0 {
		t.Errorf("the trace itself has %d, %d are left to count", tr.OutputTokens[0], counted.Uncounted())
	}
	part := read(t, shareFile, Options{Limit: 2})
	again, err := part.Repeat(2)
	if err == nil {
		again, err = again.CountAnswers(words)
	}
	must.Do(t, err)
	want(t, "repeated", again.OutputTokens, []int32{3, 1, 3, 1})
	broken := errors.New("broken")
	var calls atomic.Int64
	if _, err := tr.CountAnswers(func([]byte) (int, error) { calls.Add(1); return 0, broken }); !errors.Is(err, broken) || calls.Load() > 60 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}

// oracleMessage is what encoding/json makes of a message.
type oracleMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// TestShareGPTMatchesOracle reads a file of every order of speakers with encoding/json, naively.
func TestShareGPTMatchesOracle(t *testing.T) {
	type said struct {
		From  string `json:"from"`
		Value string `json:"value"`
	}
	type talk struct {
		ID   string `json:"id"`
		Said []said `json:"conversations"`
	}
	speakers := []string{"human", "gpt", "system", "tool"}
	roles := map[string]string{"human": "user", "gpt": "assistant", "system": "system", "tool": "tool"}
	var talks []talk
	for n := range 4 * 4 * 4 * 4 * 5 {
		k := talk{ID: strings.Repeat("x", n%7) + string(rune('a'+n%26)), Said: []said{}}
		for at := n; at > 0; at /= 4 {
			k.Said = append(k.Said, said{speakers[at%4], strings.Repeat("é\n\"\\/ \x7f\u2028", at%3)})
		}
		talks = append(talks, k)
	}
	file := must.Have(json.Marshal(talks))(t)
	tr := read(t, string(file), Options{})
	at, unanswered := 0, 0
	for _, k := range talks {
		var history []oracleMessage
		rows := 0
		for i, m := range k.Said {
			if m.From == "gpt" && m.Value != "" && i > 0 && (k.Said[i-1].From == "human" || k.Said[i-1].From == "tool") {
				var got []oracleMessage
				must.Do(t, json.Unmarshal([]byte(asJSON(tr.only(at))[0]), &got))
				var answer string
				if err := json.Unmarshal([]byte(`"`+string(tr.Answer(at))+`"`), &answer); err != nil || answer != m.Value || !slices.Equal(got, history) || tr.SessionName(at) != k.ID {
					t.Fatalf("row %d: %v, %q of %q; want %v, %q of %q; %v", at, got, answer, tr.SessionName(at), history, m.Value, k.ID, err)
				}
				at++
				rows++
			}
			history = append(history, oracleMessage{roles[m.From], m.Value})
		}
		if rows == 0 {
			unanswered++
		}
	}
	if at != tr.Len() || unanswered != tr.Lint.Unanswered {
		t.Errorf("%d rows, %d unanswered; want %d, %d", tr.Len(), tr.Lint.Unanswered, at, unanswered)
	}
}

// only is a trace of one row's verbatim content.
func (t *Trace) only(i int) *Trace {
	return &Trace{ArrivalNS: []int64{0}, verbatims: t.verbatims.chosen([]int32{int32(i)})}
}

// TestTurnsMatchOracle: what AIPerf's formats say, once more with encoding/json.
func TestTurnsMatchOracle(t *testing.T) {
	type line struct {
		Text   *string  `json:"text"`
		Texts  []string `json:"texts"`
		Role   string   `json:"role"`
		Output int32    `json:"output_length"`
		Turns  []line   `json:"turns"`
	}
	content := func(l line) any {
		if l.Text != nil {
			return *l.Text
		}
		if len(l.Texts) == 1 {
			return l.Texts[0]
		}
		var parts []any
		for _, text := range l.Texts {
			parts = append(parts, map[string]any{"type": "text", "text": text})
		}
		return parts
	}
	role := func(l line) string {
		if l.Role == "" {
			return "user"
		}
		return l.Role
	}
	turns := []string{`{"text":"a\tb"}`, `{"text":"\ud83d\ude00","role":"user","output_length":9}`, `{"texts":["x"],"role":"assistant"}`,
		`{"texts":["x","\u0079"],"output_length":3}`, `{"role":"system","text":"s"}`, `{"text":"é","role":"tool"}`}
	var single, multi []string
	single = append(single, turns...)
	for n := range 6 * 6 * 6 {
		multi = append(multi, `{"session_id":"s`+string(rune('a'+n%26))+`","turns":[{"text":"first"},`+turns[n%6]+","+turns[n/6%6]+","+turns[n/36]+"]}")
	}
	for _, file := range []string{strings.Join(single, "\n"), strings.Join(multi, "\n")} {
		tr := read(t, file, Options{})
		at := 0
		check := func(history []oracleMessage, last line) {
			t.Helper()
			l := tr.Verbatim(at)
			var got any
			must.Do(t, json.Unmarshal([]byte(asJSON(tr.only(at))[0]), &got))
			var wanted any = history
			if l.Kind == VerbatimText {
				wanted = history[0].Content
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(wanted)
			var again any
			_ = json.Unmarshal(b, &again) // keys in one order
			b, _ = json.Marshal(again)
			if !bytes.Equal(a, b) || tr.OutputTokens[at] != last.Output {
				t.Fatalf("row %d: %s, %d tokens; want %s, %d", at, a, tr.OutputTokens[at], b, last.Output)
			}
			at++
		}
		for text := range strings.Lines(file) {
			var l line
			must.Do(t, json.Unmarshal([]byte(text), &l))
			if l.Turns == nil {
				check([]oracleMessage{{role(l), content(l)}}, l)
				continue
			}
			var history []oracleMessage
			for _, turn := range l.Turns {
				history = append(history, oracleMessage{role(turn), content(turn)})
				if r := role(turn); r != "assistant" && r != "system" {
					check(history, turn)
				}
			}
		}
		expect.Equal(t, at, tr.Len(), "rows")
	}
}

// TestLongConversations: what does not fit into a slab begins a new one, and reads the same.
func TestLongConversations(t *testing.T) {
	text := strings.Repeat("0123456789", 20_000)
	var turns []string
	for range 12 {
		turns = append(turns, `{"text":"`+text+`"}`)
	}
	line := `{"turns":[` + strings.Join(turns, ",") + "]}"
	tr := read(t, line+"\n"+line, Options{})
	if tr.Len() != 24 || tr.verbatims.contents.Held() < 3<<20 {
		t.Fatalf("%d rows in %d bytes", tr.Len(), tr.verbatims.contents.Held())
	}
	for i := range tr.Len() {
		message := `{"role":"user","content":"` + text + `"}`
		must.Equal(t, string(tr.Verbatim(i).Content), strings.TrimSuffix(strings.Repeat(message+",", i%12+1), ","), "row %d", i)
	}
}

// FuzzTurns goes through the formats whose objects hold several rows. Nothing panics, what is taken is valid JSON, and
// answers can be counted.
func FuzzTurns(f *testing.F) {
	for _, file := range []string{singleFile, multiFile, shareFile, graphFile} {
		f.Add([]byte(file))
		for line := range strings.Lines(file) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"session_id":`)) // an object without the last value
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, format := range formats.All() {
			if format.Import == nil {
				continue
			}
			tr, err := Read(bytes.NewReader(file), "f", Options{Format: format.Name, Lenient: true})
			if err != nil {
				continue
			}
			checkInvariants(t, tr)
			for i, l := range asJSON(tr) {
				if !json.Valid([]byte(l)) || !json.Valid([]byte(`"`+string(tr.Answer(i))+`"`)) {
					t.Fatalf("%s, row %d: %s, answer %s", format.Name, i, l, tr.Answer(i))
				}
			}
			must.Have(tr.CountAnswers(func(text []byte) (int, error) { return len(text), nil }))(t)
		}
	})
}
