package chatml

import (
	"bytes"
	"encoding/json"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

const (
	// conversationBytes bounds a conversation that is remembered: 4 MiB of text are about a million tokens.
	conversationBytes = 4 << 20
	// historyBytes bounds all that is remembered. If there is more, it begins anew.
	historyBytes = 16 * conversationBytes
	// turnBytes is about what a turn takes besides its items and its id.
	turnBytes = 128
)

// BeforeKey names in a request of OpenAI's Responses API the response from which it goes on. The server keeps what was
// said until then, and the request does not have it.
const BeforeKey = "previous_response_id"

// History is what was said in conversations that servers keep. The zero value is empty. It belongs to one goroutine.
type History struct {
	// Repeated is how many bytes Whole has put into bodies.
	Repeated int64

	turns map[string]*turn // by the id of the response
	bytes int
}

// turn is what a request and its response have added to a conversation.
type turn struct {
	before *turn  // nil = it is the first
	items  []byte // members of a list, with a comma behind each
	bytes  int    // of the conversation so far
}

// append appends the items of a conversation.
func (t *turn) append(dst []byte) []byte {
	if t == nil {
		return dst
	}
	return append(t.before.append(dst), t.items...)
}

// Whole returns a request's body with all that was said before in its input. It is the body as it is if nothing was, or
// if nobody knows what. Instructions and tools of earlier requests do not count any more, as the API's reference says.
func (h *History) Whole(body rows.Object) []byte {
	before := h.turns[body.TextOr(BeforeKey, "")]
	if before == nil {
		return body.Text
	}
	h.Repeated += int64(before.bytes)
	whole := appendItems(before.append([]byte(`{"input":[`)), body.Value("input"))
	whole = append(bytes.TrimSuffix(whole, []byte(",")), ']')
	for _, m := range body.Members {
		if m.Key != "input" && m.Key != BeforeKey {
			key, _ := json.Marshal(m.Key) // no text fails
			whole = append(append(append(whole, ','), key...), ':')
			whole = append(whole, m.Value...)
		}
	}
	return append(whole, '}')
}

// Keep remembers what was said in a request and its response, unless nobody knows what was said before, or all of it.
func (h *History) Keep(body, response rows.Object) {
	id := response.TextOr("id", "")
	before := h.turns[body.TextOr(BeforeKey, "")]
	unfinished := response.Is("status", "queued", "in_progress") // in the background, and its output is to come
	if id == "" || unfinished || before == nil && body.Has(BeforeKey) {
		return
	}
	items := appendItems(appendItems(nil, body.Value("input")), response.Value("output"))
	size := turnBytes + len(id) + len(items)
	t := &turn{before, items, size}
	if before != nil {
		t.bytes += before.bytes
	}
	held := t.bytes
	if held > conversationBytes {
		return
	}
	if before != nil && len(items) == 0 {
		t = before // or conversations could have turns without end
	}
	h.bytes += size
	if h.turns == nil || h.bytes > historyBytes {
		h.turns = map[string]*turn{}
		h.bytes = held // with what was said before, which t holds
	}
	h.turns[id] = t
}

// appendItems appends the items of a list, or a text as what a user says.
func appendItems(dst, list []byte) []byte {
	inner := bytes.Trim(list, "[] \t\r\n")
	switch {
	case len(inner) == 0:
		return dst
	case inner[0] == '"':
		dst = append(append(append(dst, `{"role":"user","content":`...), inner...), '}')
	default:
		dst = append(dst, inner...)
	}
	return append(dst, ',')
}
