package api

import (
	"encoding/json"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

func TestField(t *testing.T) {
	path := []string{"a", "b"}
	for in, want := range map[string]string{
		`{"a":{"b":"x"}}`: "x", `{"x":[{"a":1}],"a":{"c":0,"b":-12.5}}`: "-12.5", `{"a":{"b":{"c":1}}}`: "", `{"a":[{"b":1}]}`: "", `{"b":1}`: "",
		`[]`: "", ``: "", `{"a":{"b":"x"}`: "", `{"a":{"b":"x"},"a":{"c":1}}`: "x", `{"a":{"b":null}}`: "", `{"a":{"b":true}}`: "", `{"a":{"b":"x"},"c":nix}`: "",
		`{"a":{"b":"x"}}0`: "", `{"a":{"b":"x"}} `: "x",
	} {
		expect.Equal(t, string(Field([]byte(in), path)), want, in)
	}
	in := []byte(`{"id":"x","choices":[{"text":"y"}],"a":{"b":"z"}}`)
	expect.Equal(t, testing.AllocsPerRun(100, func() { Field(in, path) }), 0, "allocations")
}

// FuzzField compares with encoding/json where no key comes twice.
func FuzzField(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"x"}}`))
	f.Add([]byte(`{"a":{"b":-1.5e3,"c":[{}]},"d":{"b":2}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got := Field(in, []string{"a", "b"})
		tree, err := decode(in)
		object, ok := tree.(ordered)
		if err != nil || !ok {
			if got != nil {
				t.Fatalf("%q gives %q", in, got)
			}
			return
		}
		var want *string
		for _, a := range object.all("a") {
			inner, _ := a.(ordered)
			for _, b := range inner.all("b") {
				switch v := b.(type) {
				case string:
					want = &v
				case json.Number:
					text := v.String()
					want = &text
				}
			}
		}
		must.Equal(t, want == nil, got == nil, "%q gives %q, want %v", in, got, want)
		if want != nil && string(unescaped(got)) != *want && json.Valid(in) && !hasOddText(in) {
			t.Fatalf("%q gives %q, want %q", in, got, *want)
		}
	})
}

// hasOddText tells text that encoding/json repairs.
func hasOddText(in []byte) bool {
	for _, c := range in {
		if c >= 0x80 || c == '\\' {
			return true
		}
	}
	return false
}

func TestChoices(t *testing.T) {
	for body, want := range map[string]int{
		``: 1, `{}`: 1, `{"n":1}`: 1, `{"n":2}`: 2, `{"n":2,"best_of":3}`: 3, `{"n":"x"}`: 1, `{"n":-4}`: 1, `{"sampling_params":{"n":4}}`: 4, `{"parameters":{"best_of":5}}`: 5, `{"messages":[{"n":7}]}`: 1, `{"n":`: 1,
	} {
		expect.Equal(t, Choices([]byte(body)), want, body)
	}
}
