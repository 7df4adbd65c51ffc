package mockllm

import (
	"cmp"
	"encoding/json"
	"unsafe"

	"github.com/bytedance/sonic"
)

// rawJSON is the text of a JSON value that is read later. It aliases the body.
type rawJSON = sonic.NoCopyRawMessage

// given reports whether a value is there, and is not null.
func given(value rawJSON) bool { return value != nil && string(value) != "null" }

// jsonReader reads as servers do: keys have a case, and strings no control characters. Prompts are large: encoding/json
// would take ten times as long, which is time of a processor that the client may need, too.
var jsonReader = sonic.Config{CaseSensitive: true, ValidateString: true}.Froze()

// readJSON reads a value; what it has no place for must be JSON nevertheless. The error has the words of encoding/json.
// Strings of the value alias text, whose memory is used again for the next request. sonic's Unmarshal would copy it.
func readJSON(text []byte, to any) error {
	if err := jsonReader.UnmarshalFromString(unsafe.String(unsafe.SliceData(text), len(text)), to); err != nil {
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
