package trace

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// verbatimFile has a row of each kind; the second turn of conversation "conv-a" says its delay instead of a time.
const verbatimFile = `{"timestamp":100,"session_id":"conv-a","messages":[ {"role":"user","content":"Hi \u00e9"} ],"output_length":5,"tools":[ {"type":"function"} ]}
{"timestamp":1100,"input_length":600,"output_length":4,"hash_ids":[1,2]}
{"session_id":"conv-a","delay":500.5,"messages":[{"role":"user","content":"Bye"}],"extra":{"temperature": 0}}
{"timestamp":200,"session_id":"17","text_input":"Café \"x\"\n","output_length":20,"extra":{"temperature": 0}}
{"timestamp":300,"payload":{"model":"m", "prompt":[1,2]}}
`

func verbatims(t *Trace) []Verbatim {
	var all []Verbatim
	for i := range t.Len() {
		all = append(all, t.Verbatim(i))
	}
	return all
}

func sameVerbatim(a, b Verbatim) bool {
	return a.Kind == b.Kind && bytes.Equal(a.Content, b.Content) && bytes.Equal(a.Tools, b.Tools) && bytes.Equal(a.Extra, b.Extra)
}

func TestReadVerbatims(t *testing.T) {
	tr := read(t, verbatimFile, Options{})
	want(t, "Row", tr.Row, []int32{0, 3, 4, 2, 1})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 100e6, 200e6, 500.5e6, 1000e6})
	want(t, "InputTokens", tr.InputTokens, []int32{0, 0, 0, 0, 600})
	want(t, "OutputTokens", tr.OutputTokens, []int32{5, 20, 0, 0, 4})
	want(t, "DelayNS", tr.DelayNS, []int64{-1, -1, -1, 500.5e6, -1})
	want(t, "Turn", tr.Turn, []int32{1, 1, 1, 2, 1})
	want(t, "Parent", tr.Parent, []int64{-1, -1, -1, 0, -1})
	if tr.SessionName(0) != "conv-a" || tr.SessionName(3) != "conv-a" || tr.Session[0] != tr.Session[3] || tr.Session[1] != 17 || tr.SessionName(1) != "" || tr.Session[2] >= 0 {
		t.Errorf("sessions %v, the first called %q", tr.Session, tr.SessionName(0))
	}
	extra := []byte(`{"temperature": 0}`)
	for i, w := range []Verbatim{
		{Kind: VerbatimMessages, Content: []byte(` {"role":"user","content":"Hi \u00e9"} `), Tools: []byte(`[ {"type":"function"} ]`)},
		{Kind: VerbatimText, Content: []byte(`Café \"x\"\n`), Extra: extra},
		{Kind: VerbatimPayload, Content: []byte(`"model":"m", "prompt":[1,2]`)},
		{Kind: VerbatimMessages, Content: []byte(`{"role":"user","content":"Bye"}`), Extra: extra},
		{},
	} {
		if got := tr.Verbatim(i); !sameVerbatim(got, w) {
			t.Errorf("request %d: %q, want %q", i, got, w)
		}
	}
	if tr.Verbatims() != 4 || tr.Untimed || tr.Lint.Delayed != 1 {
		t.Errorf("%d verbatim rows, untimed %v, %d delayed", tr.Verbatims(), tr.Untimed, tr.Lint.Delayed)
	}
}

// TestVerbatimsComeLate: columns that begin in the middle of a file have their place for the rows before.
func TestVerbatimsComeLate(t *testing.T) {
	plain := `{"timestamp":1,"input_length":5,"output_length":5}` + "\n"
	tr := read(t, strings.Repeat(plain, 3)+`{"timestamp":2,"text_input":"a","session_id":4,"output_length":0}`+"\n"+plain+`{"session_id":4,"delay":7,"text_input":"b"}`+"\n", Options{})
	want(t, "Session", tr.Session, []int64{-1, -2, -3, -5, 4, 4})
	want(t, "DelayNS", tr.DelayNS, []int64{-1, -1, -1, -1, -1, 7e6})
	want(t, "OutputTokens", tr.OutputTokens, []int32{5, 5, 5, 5, 1, 0})
	if string(tr.Verbatim(4).Content) != "a" || string(tr.Verbatim(5).Content) != "b" || tr.Verbatims() != 2 || tr.Lint.NoOutput != 1 {
		t.Errorf("%+v, %+v", verbatims(tr), tr.Lint)
	}
	if plainOnly := read(t, plain, Options{}); plainOnly.verbatims != nil || plainOnly.Session != nil || plainOnly.DelayNS != nil {
		t.Errorf("columns that nothing fills: %+v", plainOnly)
	}
}

func TestUntimed(t *testing.T) {
	file := `{"text_input":"a"}` + "\n" + `{"text_input":"b"}` + "\n" + `{"input_length":3,"output_length":4}` + "\n"
	tr := read(t, file, Options{Limit: 2})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 0})
	want(t, "Row", tr.Row, []int32{0, 1})
	if !tr.Untimed {
		t.Error("no row says when, but the trace is timed")
	}
	_, err := Read(strings.NewReader(file), "t", Options{From: time.Second})
	wantError(t, err, "t: no row has a timestamp, so none can be selected by time; leave --from and --to out, and select with --limit")
	_, err = Read(strings.NewReader(file+`{"timestamp":5,"text_input":"c"}`), "t", Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "t:1: missing timestamp; other rows have one: ") || !strings.Contains(err.Error(), "3 of 4 rows cannot be replayed") {
		t.Errorf("some rows with a time: %v", err)
	}
	tr = read(t, file+`{"timestamp":5,"text_input":"c"}`, Options{Lenient: true})
	if tr.Len() != 1 || tr.Lint.Dropped != 3 || string(tr.Verbatim(0).Content) != "c" {
		t.Errorf("%+v", tr)
	}
}

// TestVerbatimsRoundTrip: what is converted to Mooncake's format says the same.
func TestVerbatimsRoundTrip(t *testing.T) {
	for _, o := range []Options{{}, {Limit: 4}} {
		tr := read(t, verbatimFile, o)
		back := roundTrip(t, tr, "mooncake")
		sameTrace(t, back, tr)
		if !slices.EqualFunc(verbatims(back), verbatims(tr), sameVerbatim) || !slices.Equal(back.DelayNS, tr.DelayNS) || back.SessionName(0) != "conv-a" {
			t.Errorf("%q, want %q", verbatims(back), verbatims(tr))
		}
	}
	untimed := read(t, `{"text_input":"a"}`, Options{})
	if back := roundTrip(t, untimed, "mooncake"); !back.Untimed || string(back.Verbatim(0).Content) != "a" {
		t.Errorf("%+v", back)
	}
}

// TestRepeatVerbatims repeats what is verbatim.
func TestRepeatVerbatims(t *testing.T) {
	tr := read(t, verbatimFile, Options{})
	twice := must(tr.Repeat(2))(t)
	for i := range twice.Len() {
		if !sameVerbatim(twice.Verbatim(i), tr.Verbatim(i%tr.Len())) {
			t.Errorf("request %d: %q", i, twice.Verbatim(i))
		}
	}
	want(t, "DelayNS", twice.DelayNS, slices.Repeat(tr.DelayNS, 2))
}

// TestUnsentKeys: a body that is taken for a row of Mooncake's loses what else it says, and the reader is told.
func TestUnsentKeys(t *testing.T) {
	const file = `{"timestamp":0,"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":20,"note":"x"}
{"timestamp":1,"text_input":"Hi","max_tokens":3,"temperature":0}
`
	const want = "model, max_tokens, temperature of the rows: not sent, "
	tr, err := Read(strings.NewReader(file), "x", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := tr.Lint.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	if tr, err = Read(strings.NewReader(file), "x", Options{Format: "raw_payload"}); err != nil || len(tr.Lint.Notes()) != 0 {
		t.Errorf("%v, notes %q of what is sent whole", err, tr.Lint.Notes())
	}
}
