package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

func answers(tr *Trace) []string {
	var all []string
	for i := range tr.Len() {
		all = append(all, string(tr.Answer(i)))
	}
	return all
}

func TestReadSingleTurn(t *testing.T) {
	tr := read(t, strings.Replace(singleFile, `{"text":"caf`, `{"timestamp":0,"text":"caf`, 1), Options{})
	if tr.Format != "single_turn" || tr.TimeUnit != time.Millisecond || tr.FileRows != 5 || tr.Untimed || len(tr.Lint.Notes()) != 0 {
		t.Errorf("%s, %v, %d rows, untimed %v, notes %q", tr.Format, tr.TimeUnit, tr.FileRows, tr.Untimed, tr.Lint.Notes())
	}
	want(t, "verbatim content", asJSON(tr), []string{
		`"caf\u00e9 \"a\"\n"`,
		`"Hi"`,
		`[{"role":"system","content":[{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"text","text":"three"}]}]`,
		`[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}]`,
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA\/=="}},{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}},{"type":"video_url","video_url":{"url":"https:\/\/example.org\/v"}}]}]`,
	})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 0, 1_500_000, 2e9, 3e9})
	want(t, "InputTokens", tr.InputTokens, []int32{0, 0, 0, 0, 0})
	want(t, "OutputTokens", tr.OutputTokens, []int32{0, 20, 0, 0, 0})
	want(t, "DelayNS", tr.DelayNS, []int64{-1, -1, -1, 250e6, -1})
	want(t, "Turn", tr.Turn, []int32{1, 1, 1, 2, 1})
	if tr.SessionName(1) != "a" || tr.Session[1] != tr.Session[3] || tr.Session[0] >= 0 || string(tr.Verbatim(1).Extra) != `{"temperature":0}` || tr.Answer(0) != nil {
		t.Errorf("sessions %v, extra %s", tr.Session, tr.Verbatim(1).Extra)
	}
}

const multiFile = `{"session_id":"s","turns":[{"role":"system","text":"Be brief."},{"text":"Hi","delay":0},{"role":"assistant","text":"Hello."},{"text":"Why?","delay":1500,"output_length":7,"extra":{"n":1}}]}
{"type":"multi_turn","turns":[{"texts":["a","b"]},{"role":"tool","text":"c"},{"role":"assistant","texts":["d","e"]}]}
`

func TestReadMultiTurn(t *testing.T) {
	tr := read(t, multiFile, Options{Strict: true})
	if tr.Format != "multi_turn" || !tr.Untimed || tr.FileRows != 4 || len(tr.Lint.Notes()) != 0 {
		t.Errorf("%s, untimed %v, %d rows, notes %q", tr.Format, tr.Untimed, tr.FileRows, tr.Lint.Notes())
	}
	const first = `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}`
	const parts = `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	want(t, "verbatim content", asJSON(tr), []string{
		first + "]", first + `,{"role":"assistant","content":"Hello."},{"role":"user","content":"Why?"}]`,
		parts + "]", parts + `,{"role":"tool","content":"c"}]`,
	})
	want(t, "answers", answers(tr), []string{"Hello.", "", "", ""})
	want(t, "OutputTokens", tr.OutputTokens, []int32{0, 7, 0, 0})
	want(t, "DelayNS", tr.DelayNS, []int64{0, 1_500_000_000, -1, -1})
	want(t, "Turn", tr.Turn, []int32{1, 2, 1, 2})
	want(t, "Row", tr.Row, []int32{0, 1, 2, 3})
	if tr.SessionName(0) != "s" || tr.SessionName(3) != "conversation-2" || tr.Session[2] != tr.Session[3] || string(tr.Verbatim(1).Extra) != `{"n":1}` || tr.Verbatim(0).Extra != nil {
		t.Errorf("sessions %q and %q, extra %s", tr.SessionName(0), tr.SessionName(3), tr.Verbatim(1).Extra)
	}
}

// TestMultiTurnTimes: a turn without a time comes its delay after the one before.
func TestMultiTurnTimes(t *testing.T) {
	tr := read(t, `{"turns":[{"text":"a","timestamp":100},{"text":"b","delay":50}]}`+"\n"+`{"turns":[{"text":"c","timestamp":120}]}`, Options{})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 20e6, 50e6})
	want(t, "Row", tr.Row, []int32{0, 2, 1})
	want(t, "verbatim content", asJSON(tr), []string{`[{"role":"user","content":"a"}]`, `[{"role":"user","content":"c"}]`, `[{"role":"user","content":"a"},{"role":"user","content":"b"}]`})
}

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

func TestReadShareGPT(t *testing.T) {
	tr := read(t, shareFile, Options{})
	if tr.Format != "sharegpt" || !tr.Untimed || tr.FileRows != 5 || tr.Lint.Unanswered != 2 {
		t.Errorf("%s, untimed %v, %d rows, %d unanswered", tr.Format, tr.Untimed, tr.FileRows, tr.Lint.Unanswered)
	}
	want(t, "notes", tr.Lint.Notes(), []string{"2 conversations left out: no question in them has an answer"})
	const first = `[{"role":"assistant","content":"left over"},{"role":"user","content":"Sum\u006dary?\n"}`
	want(t, "verbatim content", asJSON(tr), []string{
		first + "]",
		first + `,{"role":"assistant","content":"It \"is\" short."},{"role":"user","content":"unanswered"},{"role":"user","content":"More"}]`,
		`[{"role":"system","content":"S"},{"role":"user","content":""}]`,
	})
	want(t, "answers", answers(tr), []string{`It \"is\" short.`, "No.", "B"})
	want(t, "Row", tr.Row, []int32{0, 1, 4})
	want(t, "Turn", tr.Turn, []int32{1, 2, 1})
	want(t, "names", []string{tr.SessionName(0), tr.SessionName(1), tr.SessionName(2)}, []string{"QWJhYvA_0", "QWJhYvA_0", "conversation-4"})
	if tr.verbatims.contents.Held() != len(tr.Verbatim(1).Content)+len(tr.Verbatim(2).Content) {
		t.Errorf("%d bytes are kept, want a conversation's longest messages once", tr.verbatims.contents.Held())
	}
	_, err := Read(strings.NewReader(shareFile), "t", Options{Strict: true})
	wantError(t, err, "t:7: no question in the conversation has an answer; leave the row out, or replay without --bad-rows strict\n"+
		"t:8: no question in the conversation has an answer; leave the row out, or replay without --bad-rows strict\n2 of 5 rows cannot be replayed; fix them, or leave them out with --bad-rows drop")
}

// TestReadMessages: the messages of a chat go as they stand.
func TestReadMessages(t *testing.T) {
	const file = `[{"id":7,"system":"S","tools":[{"type":"function"}],"messages":[{"role":"user", "content":[{"type":"text","text":"a"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"b"},{"content":"c","role":"assistant"}]}]`
	tr := read(t, file, Options{Strict: true})
	const first = `[{"role":"system","content":"S"},{"role":"user", "content":[{"type":"text","text":"a"}]}`
	want(t, "verbatim content", asJSON(tr), []string{first + "]", first + `,{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"b"}]`})
	want(t, "answers", answers(tr), []string{"", "c"})
	want(t, "Session", tr.Session, []int64{7, 7})
	if string(tr.Verbatim(1).Tools) != `[{"type":"function"}]` {
		t.Errorf("tools %s", tr.Verbatim(1).Tools)
	}
	var out bytes.Buffer
	noError(t, Write(&out, tr, "mooncake"))
	back := read(t, out.String(), Options{})
	want(t, "converted", asJSON(back), asJSON(tr))
}

func TestCountAnswers(t *testing.T) {
	tr := read(t, multiFile+strings.Repeat(`{"turns":[{"text":"a"},{"role":"assistant","text":" \n"},{"text":"b"},{"role":"assistant","text":"caf\u00e9 au lait"}]}`+"\n", 50), Options{})
	if tr.Uncounted() != 101 {
		t.Errorf("%d uncounted, want 101", tr.Uncounted())
	}
	words := func(text []byte) (int, error) {
		if bytes.Contains(text, []byte(`\`)) {
			return 0, errors.New("the text is not decoded")
		}
		return len(bytes.Fields(text)), nil
	}
	counted := must(tr.CountAnswers(words))(t)
	want(t, "OutputTokens", counted.OutputTokens[:8], []int32{1, 7, 0, 0, 1, 3, 1, 3})
	if tr.OutputTokens[0] != 0 || counted.Uncounted() != 0 {
		t.Errorf("the trace itself has %d, %d are left to count", tr.OutputTokens[0], counted.Uncounted())
	}
	part := read(t, shareFile, Options{Limit: 2})
	again, err := part.Repeat(2)
	if err == nil {
		again, err = again.CountAnswers(words)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	file := must(json.Marshal(talks))(t)
	tr := read(t, string(file), Options{})
	at, unanswered := 0, 0
	for _, k := range talks {
		var history []oracleMessage
		rows := 0
		for i, m := range k.Said {
			if m.From == "gpt" && m.Value != "" && i > 0 && (k.Said[i-1].From == "human" || k.Said[i-1].From == "tool") {
				var got []oracleMessage
				noError(t, json.Unmarshal([]byte(asJSON(tr.only(at))[0]), &got))
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
			noError(t, json.Unmarshal([]byte(asJSON(tr.only(at))[0]), &got))
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
			noError(t, json.Unmarshal([]byte(text), &l))
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
		if at != tr.Len() {
			t.Errorf("%d rows, want %d", tr.Len(), at)
		}
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
		if got := string(tr.Verbatim(i).Content); got != strings.TrimSuffix(strings.Repeat(message+",", i%12+1), ",") {
			t.Fatalf("row %d has %d bytes: %.80s…", i, len(got), got)
		}
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
			if _, err := tr.CountAnswers(func(text []byte) (int, error) { return len(text), nil }); err != nil {
				t.Fatal(err)
			}
		}
	})
}
