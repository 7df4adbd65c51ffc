package trace

import (
	"bytes"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
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
	twice := must.Have(tr.Repeat(2))(t)
	for i := range twice.Len() {
		if !sameVerbatim(twice.Verbatim(i), tr.Verbatim(i%tr.Len())) {
			t.Errorf("request %d: %q", i, twice.Verbatim(i))
		}
	}
	want(t, "DelayNS", twice.DelayNS, slices.Repeat(tr.DelayNS, 2))
}
