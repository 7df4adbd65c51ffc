package json

import (
	"encoding/json"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// TestUnmarshalKeepsNothing writes over a document that was read, and reads it again by encoding/json.
func TestUnmarshalKeepsNothing(t *testing.T) {
	type values struct {
		Text, Escaped string
		Raw           json.RawMessage
		Numbers       map[string]int64
		Any           map[string]any
		List          []any
		Bytes         []byte
		Texts         []string
		Pointer       *string
	}
	const text = `{"Text":"plain text","Escaped":"a\n\u00e9","Raw":[1,"raw text"],"Numbers":{"one key":1,"\u00e9":2},
		"Any":{"any key":"any text","nested":{"deep key":["deep text",1.5]}},"List":["in a list",{"k":"v"}],
		"Bytes":"aGVsbG8=","Texts":["first text"],"Pointer":"pointed at"}`
	var want, got values
	must.Do(t, json.Unmarshal([]byte(text), &want))
	data := []byte(text)
	must.Do(t, Unmarshal(data, &got))
	for i := range data {
		data[i] = '#'
	}
	expect.Equal(t, string(must.Have(json.Marshal(got))(t)), string(must.Have(json.Marshal(want))(t)))
}

// TestUnmarshalErrors: what went wrong is said in the document's words, and those stay.
func TestUnmarshalErrors(t *testing.T) {
	for _, text := range []string{``, `{"a":`, `{"a":1} x`, `{"a":"text where a number is wanted"}`} {
		data := []byte(text)
		var v struct {
			A int `json:"a"`
		}
		err := Unmarshal(data, &v)
		if err == nil {
			t.Fatalf("%q is taken", text)
		}
		said := err.Error()
		clear(data)
		expect.Equal(t, err.Error(), said, text)
	}
}
