package mockllm

import (
	"cmp"
	"encoding/json"
	"unsafe"

	sonic "github.com/bytedance/sonic/decoder"
)

// rawJSON is the text of a JSON value that is read later. It aliases the body.
type rawJSON []byte

// UnmarshalJSON keeps the text as it is.
func (r *rawJSON) UnmarshalJSON(text []byte) error {
	*r = text
	return nil
}

// given reports whether a value is there, and is not null.
func given(value rawJSON) bool { return value != nil && string(value) != "null" }

// unmarshal reads as servers do: keys have a case, and strings no control characters. Prompts are large: encoding/json
// would take ten times as long, which is time of a processor that the client may need, too. Strings of the value alias
// text, whose memory is used again for the next request.
func unmarshal(text []byte, to any) error {
	d := sonic.NewDecoder(unsafe.String(unsafe.SliceData(text), len(text)))
	d.SetOptions(sonic.OptionCaseSensitive | sonic.OptionValidateString)
	if err := d.Decode(to); err != nil {
		return err
	}
	return d.CheckTrailings()
}

// readJSON reads a value; what it has no place for must be JSON nevertheless. The error has the words of encoding/json.
func readJSON(text []byte, to any) error {
	if err := unmarshal(text, to); err != nil {
		return badRequest("body: %v", cmp.Or(json.Unmarshal(text, to), err))
	}
	return nil
}

// skipSpace returns the place of the first byte from i on that is no white space; the last byte of text is none.
func skipSpace(text rawJSON, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}
