package json

import (
	"encoding/json"
	"errors"
	"testing"
)

// FuzzSkip: the scanner accepts what encoding/json accepts. Where both refuse, the error stands inside the input.
func FuzzSkip(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{},[],-0.5e-7,true,false,null,"\u0041\ud83d\ude00\\"]}`, ` [ 1 , 2 ] `, `01`, `-`, `1.`, `1e+`, `nul`, `"\x"`, `"\u12g4"`, "\"\x01\"", `{"a"}`, `{"a":1,}`,
		`[1,]`, `[1 2]`, `{1:2}`, `"`, ``, `{} {}`, `{"\u0061":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := Scanner{Data: in, MaxDepth: 10000}
		s.Skip()
		s.End("more")
		err := s.Err()
		if (err == nil) != json.Valid(in) {
			t.Fatalf("%q: %v, encoding/json accepts it: %v", in, err, json.Valid(in))
		}
		var syntax *SyntaxError
		if err != nil && (!errors.As(err, &syntax) || syntax.At > len(in) || string(in[syntax.At:]) != string(syntax.Rest)) {
			t.Fatalf("%q: %#v", in, err)
		}
	})
}
