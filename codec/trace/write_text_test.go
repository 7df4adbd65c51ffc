package trace

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// numbered are words that tell rows apart.
var numbered = Words{
	Model:  `m"1`,
	Prompt: func(dst []byte, i int) []byte { return fmt.Appendf(dst, "question %d", i) },
	Answer: func(dst []byte, i int) []byte { return fmt.Appendf(dst, "answer %d", i) },
}

// asked is the one text that request i asks in the end, decoded by encoding/json.
func asked(t *testing.T, tr *Trace, i int) string {
	t.Helper()
	l := tr.Verbatim(i)
	text := `{"messages":[{"content":"` + string(l.Content) + `"}]}`
	switch l.Kind {
	case NoVerbatim:
		return string(tr.words.Prompt(nil, i))
	case VerbatimMessages:
		text = `{"messages":[` + string(l.Content) + `]}`
	case VerbatimPayload:
		text = `{` + string(l.Content) + `}`
	}
	var body struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Messages) == 0 {
		t.Fatalf("request %d: %s: %v", i, text, err)
	}
	return body.Messages[len(body.Messages)-1].Content
}

// sameWords compares what a format of words can hold.
func sameWords(t *testing.T, got, want *Trace) {
	t.Helper()
	f := formatOf(t, got)
	must.Equal(t, got.Len(), want.Len(), "%s: requests", f.Name)
	for i := range want.Len() {
		at, output := want.ArrivalNS[i], want.OutputTokens[i]
		switch {
		case !f.Has(rows.TimestampField):
			at = 0
		case f.WholeSeconds:
			at -= at % 1e9
		}
		if !f.Has(rows.OutputField) {
			output = 0
		}
		if got.ArrivalNS[i] != at || got.OutputTokens[i] != output || f.Has(rows.InputField) && got.InputTokens[i] != want.InputTokens[i] {
			t.Fatalf("%s: request %d at %d ns with %d → %d tokens, want %d ns, %d → %d", f.Name, i, got.ArrivalNS[i], got.InputTokens[i], got.OutputTokens[i], at, want.InputTokens[i], output)
		}
		must.Equal(t, asked(t, got, i), asked(t, want, i), "%s: what request %d asks", f.Name, i)
		name, named := want.Conversation(i)
		if back, _ := got.Conversation(i); named && f.Conversations() && back != name {
			t.Fatalf("%s: request %d is of session %q, want %q", f.Name, i, back, name)
		}
		if f.Name == "sharegpt" && want.Answer(i) == nil && string(got.Answer(i)) != fmt.Sprintf("answer %d", i) {
			t.Fatalf("request %d is answered %q", i, got.Answer(i))
		}
	}
}

// anyFile has a row of tokens, one of text and one of messages, each with all that it may have.
const anyFile = `{"timestamp":10,"session_id":"s\u0022","input_length":600,"output_length":7,"hash_ids":[1,2],"extra":{"n":1}}
{"timestamp":1260.5,"session_id":"s\"","delay":250.5,"text_input":"caf\u00e9 \"é\"\n","output_length":20,"extra":{"max_tokens":9, "a\"":null}}
{"timestamp":2010,"messages":[ {"role":"system","content":"Be brief."}, {"content":"Hi","role":"user"} ]}
`

// anyBodies are its rows as bodies.
var anyBodies = []string{
	`{"model":"m\"1","messages":[{"role":"user","content":"question 0"}],"max_tokens":7,"n":1}`,
	`{"model":"m\"1","messages":[{"role":"user","content":"caf\u00e9 \"é\"\n"}],"max_tokens":9,"a\"":null}`,
	`{"model":"m\"1","messages":[ {"role":"system","content":"Be brief."}, {"content":"Hi","role":"user"} ]}`,
}

// anyWritten is what must be written of it, but for its third row where the format cannot have that.
func anyWritten() map[string]string {
	captured := func(mode, text string) string {
		data, _ := json.Marshal(text)
		return `{"observedContentType":"application/json","mode":"` + mode + `","data":` + string(data) + `,"encoding":"JSON"}`
	}
	b := anyBodies
	return map[string]string{
		"single_turn": `{"timestamp":0,"session_id":"s\"","text":"question 0","output_length":7,"extra":{"n":1}}
{"timestamp":1250.5,"session_id":"s\"","delay":250.5,"text":"caf\u00e9 \"é\"\n","output_length":20,"extra":{"max_tokens":9, "a\"":null}}
`,
		"multi_turn": `{"session_id":"s\"","turns":[{"timestamp":0,"text":"question 0","output_length":7,"extra":{"n":1}}]}
{"session_id":"s\"","turns":[{"timestamp":1250.5,"delay":250.5,"text":"caf\u00e9 \"é\"\n","output_length":20,"extra":{"max_tokens":9, "a\"":null}}]}
{"turns":[{"role":"system","text":"Be brief."},{"timestamp":2000,"text":"Hi"}]}
`,
		"sharegpt": `[
{"id":"s\"","conversations":[{"from":"human","value":"question 0"},{"from":"gpt","value":"answer 0"}]},
{"id":"s\"","conversations":[{"from":"human","value":"caf\u00e9 \"é\"\n"},{"from":"gpt","value":"answer 1"}]}
]
`,
		"raw_payload": b[0] + "\n" + b[1] + "\n" + b[2] + "\n",
		"inputs_json": `{"data":[
{"session_id":"s\"","timestamp":0,"payloads":[` + b[0] + `]},
{"session_id":"s\"","timestamp":1250.5,"payloads":[` + b[1] + `]},
{"session_id":"row-2","timestamp":2000,"payloads":[` + b[2] + `]}
]}
`,
		"batch": `{"custom_id":"row-0","method":"POST","url":"/v1/chat/completions","body":` + b[0] + `}
{"custom_id":"row-1","method":"POST","url":"/v1/chat/completions","body":` + b[1] + `}
{"custom_id":"row-2","method":"POST","url":"/v1/chat/completions","body":` + b[2] + `}
`,
		"sagemaker": `{"captureData":{"endpointInput":` + captured("INPUT", b[0]) + `,"endpointOutput":` + captured("OUTPUT", `{"usage":{"prompt_tokens":600,"completion_tokens":7,"total_tokens":607}}`) +
			`},"eventMetadata":{"eventId":"row-0","inferenceTime":"2024-01-01T00:00:00Z"},"eventVersion":"0"}
{"captureData":{"endpointInput":` + captured("INPUT", b[1]) + `,"endpointOutput":` + captured("OUTPUT", `{"usage":{"prompt_tokens":0,"completion_tokens":20,"total_tokens":20}}`) +
			`},"eventMetadata":{"eventId":"row-1","inferenceTime":"2024-01-01T00:00:01Z"},"eventVersion":"0"}
{"captureData":{"endpointInput":` + captured("INPUT", b[2]) + `},"eventMetadata":{"eventId":"row-2","inferenceTime":"2024-01-01T00:00:02Z"},"eventVersion":"0"}
`,
	}
}

// TestWriteWords: each format of words, to the letter; what is written is JSON, and says the same when it is read.
func TestWriteWords(t *testing.T) {
	written := anyWritten()
	for _, f := range formats.All() {
		if f.Write == nil || !f.Words {
			continue
		}
		o := Options{}
		if !strings.Contains(written[f.Name], "Hi") {
			o.Limit = 2
		}
		tr := read(t, anyFile, o).With(numbered)
		var b bytes.Buffer
		must.Do(t, Write(&b, tr, f.Name))
		expect.Equal(t, b.String(), written[f.Name], "%s:\nwant", f.Name)
		for dec := json.NewDecoder(&b); dec.More(); {
			var value any
			must.Do(t, dec.Decode(&value), f.Name)
		}
		back := roundTrip(t, tr, f.Name)
		sameWords(t, back, tr)
		if f.Bodies() {
			want(t, f.Name+"'s bodies", bodies(t, back), anyBodies)
		}
		if f.Has(rows.DelayField) && (back.DelayNS[1] != 250_500_000 || string(back.Verbatim(1).Extra) != `{"max_tokens":9, "a\"":null}`) {
			t.Errorf("%s: delays %v, extra %s", f.Name, back.DelayNS, back.Verbatim(1).Extra)
		}
	}
}

// TestBodiesRoundTrip writes bodies in every format that has such: they stay as they are, but for what ends lines
// between values.
func TestBodiesRoundTrip(t *testing.T) {
	for _, file := range []string{rawFile, inputsFile, genAIFile, batchFile, captureFile()} {
		tr := read(t, file, Options{})
		for _, f := range formats.All() {
			if f.Write == nil || !f.Has(rows.PayloadField) || f.Required.Has(rows.TimestampField) && tr.Untimed || f.Name == "batch" && file != batchFile {
				continue
			}
			var b bytes.Buffer
			must.Do(t, Write(&b, tr, f.Name))
			back, err := Read(&b, "written", Options{Format: f.Name})
			must.Do(t, err, "%s as %s", tr.Format, f.Name)
			expect.Equal(t, back.Untimed, tr.Untimed || !f.Has(rows.TimestampField), "%s as %s: untimed", tr.Format, f.Name)
			if f.Name == formats.Default {
				want(t, tr.Format+"'s arrivals", back.ArrivalNS, tr.ArrivalNS)
			}
			was, is := bodies(t, tr), bodies(t, back)
			for i := range was {
				if f.Name != "sagemaker" {
					was[i] = strings.NewReplacer("\n", " ", "\r", " ").Replace(was[i])
				}
			}
			want(t, tr.Format+" as "+f.Name, is, was)
		}
	}
}

// TestCapturedBytes: what is no UTF-8 stays as it is.
func TestCapturedBytes(t *testing.T) {
	tr := read(t, "{\"timestamp\":1,\"payload\":{\"prompt\":\"\xff\"}}", Options{})
	var b bytes.Buffer
	if err := Write(&b, tr, "sagemaker"); err != nil || !strings.Contains(b.String(), base64.StdEncoding.EncodeToString([]byte("{\"prompt\":\"\xff\"}"))) {
		t.Errorf("%s, %v", b.String(), err)
	}
}

// TestPlainConversations: what one format of conversations has, the other can, if only the last message is the user's.
func TestPlainConversations(t *testing.T) {
	file := `{"turns":[{"role":"system","text":"S"},{"role":"assistant","text":"Hello."},{"text":"Why?"},{"role":"assistant","text":"So \u0021"}]}` + "\n"
	tr := read(t, file, Options{}).With(numbered)
	back := roundTrip(t, tr, "sharegpt")
	want(t, "messages", asJSON(back), asJSON(tr))
	expect.Equal(t, string(back.Answer(0)), `So \u0021`, "the recorded answer")
	want(t, "messages", asJSON(roundTrip(t, back, "multi_turn")), []string{`[{"role":"system","content":"S"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Why?"}]`})
}

// TestWriteRefusesWords: what a format cannot hold is named, and nothing is written.
func TestWriteRefusesWords(t *testing.T) {
	const elsewhere = " has no place for: write it as mooncake"
	chat := func(messages string) string {
		return `{"timestamp":0,"text_input":"a","output_length":1}` + "\n" + `{"timestamp":1,"messages":[` + messages + `],"output_length":1}`
	}
	const user = `{"role":"user","content":"a"}`
	const payload = `{"timestamp":1,"payload":{"model":"m","prompt":"a"},"output_length":3}`
	for _, c := range []struct{ format, file, says string }{
		{"single_turn", chat(user), "row 1 of t.jsonl is a chat, which single_turn" + elsewhere},
		{"single_turn", payload, "row 0 of t.jsonl is a whole body, which single_turn" + elsewhere},
		{"multi_turn", payload, "row 0 of t.jsonl is a whole body, which multi_turn" + elsewhere},
		{"sharegpt", payload, "row 0 of t.jsonl is a whole body, which sharegpt" + elsewhere},
		{"sharegpt", `{"text_input":"a"}`, "row 0 of t.jsonl has an answer of unknown length, which sharegpt" + elsewhere},
		{"multi_turn", `{"messages":[` + user + `],"tools":[{}]}`, "row 0 of t.jsonl has tools, which multi_turn" + elsewhere},
		{"multi_turn", chat(user + "," + user), "row 1 of t.jsonl is a chat with more than texts and one question, which multi_turn" + elsewhere},
		{"sharegpt", chat(user + `,{"role":"assistant","content":"b"}`), "more than texts and one question"},
		{"sharegpt", chat(`{"role":"developer","content":"b"},` + user), "more than texts and one question"},
		{"multi_turn", chat(`{"role":"user","content":[{"type":"text","text":"a"}]}`), "more than texts and one question"},
		{"multi_turn", chat(`{"role":"user","content":""}`), "more than texts and one question"},
		{"multi_turn", chat(`{"role":"user","content":"a","name":"b"}`), "more than texts and one question"},
		{"multi_turn", chat(`{}`), "more than texts and one question"},
		{"batch", `{"timestamp":0,"text_input":"a"}` + "\n" + payload, "row 1 of t.jsonl is for /v1/completions, the first one for /v1/chat/completions, which batch" + elsewhere},
		{"raw_payload", `{"text_input":"a","extra":{"n":1,"n":2}}`, "row 0 of t.jsonl has an extra that cannot be merged, since n occurs twice, which raw_payload" + elsewhere},
		{"sagemaker", `{"text_input":"a"}`, "no row of t.jsonl has a timestamp, which sagemaker needs: write it as mooncake"},
		{"bailian", `{"text_input":"a"}`, "no row of t.jsonl has a timestamp, which bailian needs: write it as mooncake"},
		{"bailian", payload, "row 0 of t.jsonl has no numbers of tokens, which bailian needs: write it as mooncake"},
	} {
		var b bytes.Buffer
		if err := Write(&b, read(t, c.file, Options{}).With(numbered), c.format); err == nil || !strings.HasSuffix(err.Error(), c.says) && !strings.Contains(err.Error(), c.says+", which") || b.Len() > 0 {
			t.Errorf("%s of %s: %v, %d bytes; want %q", c.format, c.file, err, b.Len(), c.says)
		}
	}
	var b bytes.Buffer
	if err := Write(&b, read(t, mooncakeFile, Options{}), "batch"); err == nil || !strings.Contains(err.Error(), "no words were given") || b.Len() > 0 {
		t.Errorf("without words: %v", err)
	}
}

// TestWordsNotes: what is not in the file is said.
func TestWordsNotes(t *testing.T) {
	const made = " has verbatim prompts: those known only by their length (1) are made of words, which most tokenizers count as one token each"
	lost := func(format, what string) string { return format + " has no place for " + what + ": they are left out" }
	for format, notes := range map[string][]string{
		"single_turn": {"single_turn" + made},
		"multi_turn":  {"multi_turn" + made},
		"sharegpt": {lost("sharegpt", "timestamps"), lost("sharegpt", "delays"),
			lost("sharegpt", "extra members of bodies"), "sharegpt" + made},
		"raw_payload": {lost("raw_payload", "timestamps"), lost("raw_payload", "conversations"), lost("raw_payload", "delays"), "raw_payload" + made},
		"batch":       {lost("batch", "timestamps"), lost("batch", "conversations"), lost("batch", "delays"), "batch" + made},
		"inputs_json": {lost("inputs_json", "delays"), "inputs_json" + made},
		"sagemaker":   {lost("sagemaker", "fractions of seconds"), lost("sagemaker", "conversations"), lost("sagemaker", "delays"), "sagemaker" + made},
	} {
		got := must.Have(WriteNotes(read(t, anyFile, Options{}), format))(t)
		want(t, format+"'s notes", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(notes)))
	}
	got := must.Have(WriteNotes(read(t, `{"payload":{"a":1},"output_length":3}`, Options{}), "raw_payload"))(t)
	want(t, "notes", got, []string{lost("raw_payload", "lengths of answers beside bodies")})
}

// sameAsked compares two traces of one format of words by the bodies that they ask, as encoding/json understands them.
func sameAsked(t *testing.T, got, want *Trace) {
	t.Helper()
	f := formatOf(t, want)
	must.Equal(t, got.Len(), want.Len(), "requests")
	for i := range want.Len() {
		var g, w any
		_, _ = json.Unmarshal(bodyOf(got, i), &g), json.Unmarshal(bodyOf(want, i), &w) // what it cannot take it cannot take twice
		name, named := want.Conversation(i)
		back, _ := got.Conversation(i)
		if !reflect.DeepEqual(g, w) || !f.WholeSeconds && got.ArrivalNS[i] != want.ArrivalNS[i] || named && f.Conversations() && back != name {
			t.Fatalf("request %d: %s of %q at %d ns; want %s of %q at %d ns", i, bodyOf(got, i), back, got.ArrivalNS[i], bodyOf(want, i), name, want.ArrivalNS[i])
		}
	}
}

// bodyOf is the body of request i.
func bodyOf(tr *Trace, i int) []byte {
	return named("raw_payload").Write.Append(nil, tr.requests(false).at(i))
}
