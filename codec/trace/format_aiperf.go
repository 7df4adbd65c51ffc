package trace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// singleTurn is AIPerf's format of independent requests, a line a request:
//
//	{"text":"What is the capital of France?","timestamp":1000,"output_length":20}
//	{"texts":["What is in it?"],"image":"https://example.org/a.png","session_id":"a","delay":1500,"role":"user"}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) describes. Times are milliseconds. Lines
// with the same session_id are one conversation's turns, but each is sent alone, without those before.
func singleTurn() *format {
	return &format{
		name:        "single_turn",
		blockTokens: noBlocks,
		unit:        time.Millisecond,
		names:       usual(timestampField, outputField, sessionField, delayField, extraField),
		known:       saysKeys,
		items:       readSingleTurn,
		words:       true,
		cannot:      notText,
		appendRow:   appendSingleTurn,
	}
}

func readSingleTurn(out *items, object []byte) error {
	t, err := readTurn(object)
	if err == nil {
		err = checkType(t.object, out.p.format.name)
	}
	if err != nil {
		return err
	}
	r := out.add()
	if err := out.setAll(r, t.object, timestampField, outputField, sessionField, delayField, extraField); err != nil {
		return err
	}
	if !r.seen.has(sessionField) {
		r.seen &^= setOf(delayField) // there is no turn before to wait for
	}
	if t.plain() && t.role == "user" {
		r.verbatim.Kind, r.verbatim.Content = VerbatimText, unquoted(t.texts[0])
	} else {
		out.setMessages(r, t.appendMessage(nil))
	}
	return nil
}

func appendSingleTurn(dst []byte, t *Trace, i int) []byte {
	dst = appendTimestamp(append(dst, '{'), t, i)
	dst = appendDelay(appendSession(dst, t, i, "session_id"), t, i)
	dst = append(t.appendText(append(dst, `"text":"`...), i), '"')
	return append(appendAsked(dst, t, i), '}')
}

// multiTurn is AIPerf's format of conversations, a line a conversation:
//
//	{"session_id":"a","turns":[{"text":"Hi","timestamp":0},{"role":"assistant","text":"Hello."},{"text":"Why?","delay":1500}]}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) describes. A turn has the fields of a line
// of single_turn. Each turn but those of the assistant and the system is a request, with all turns before it. The
// assistant's turns are those of the file; AIPerf itself puts the server's answers there.
func multiTurn() *format {
	return &format{
		name:        "multi_turn",
		blockTokens: noBlocks,
		unit:        time.Millisecond,
		names:       usual(timestampField, outputField, sessionField, delayField, extraField),
		known:       func(keys []string) bool { return slices.Contains(keys, "turns") },
		items:       ofMembers(readMultiTurn),
		words:       true,
		cannot:      notTurns,
		appendRow:   appendMultiTurn,
	}
}

func readMultiTurn(out *items, all []member) error {
	if err := checkType(all, out.p.format.name); err != nil {
		return err
	}
	if valueOf(all, "turns") == nil {
		return &rowError{"missing turns", "it is the list of messages"}
	}
	var said []byte // so far
	asked := false  // just now
	return listIn(all, "turns", func(_ int, object []byte) error {
		t, err := readTurn(object)
		if err != nil {
			return err
		}
		said = t.appendMessage(said)
		switch t.role {
		case "assistant":
			if asked && t.plain() {
				out.rows[len(out.rows)-1].answer = unquoted(t.texts[0])
			}
			asked = false
			return nil
		case "system", "developer":
			asked = false
			return nil
		}
		asked = true
		r := out.add()
		out.setMessages(r, said)
		if err := out.setAll(r, t.object, timestampField, outputField, delayField, extraField); err != nil {
			return err
		}
		return out.setConversation(r, all)
	})
}

// notTurns returns what keeps request i out of the format.
func notTurns(t *Trace, i int) string {
	if t.Verbatim(i).Tools != nil {
		return "has tools"
	}
	return notPlain(t, i)
}

// appendMultiTurn writes a line for each row: those of one session_id are one conversation.
func appendMultiTurn(dst []byte, t *Trace, i int) []byte {
	dst = append(appendSession(append(dst, '{'), t, i, "session_id"), `"turns":[`...)
	said := t.chatMessages(i)
	last := len(said) - 1
	for _, s := range said[:last] {
		dst = append(append(append(dst, `{"role":"`...), s.role...), `","text":"`...)
		dst = append(append(dst, s.text...), `"},`...)
	}
	dst = appendDelay(appendTimestamp(append(dst, '{'), t, i), t, i)
	dst = append(append(append(dst, `"text":"`...), said[last].text...), '"')
	return append(appendAsked(dst, t, i), "}]}"...)
}

// errUnanswered is a conversation in which nothing that was asked has an answer, so there was no request to replay.
var errUnanswered = errors.New("no question in the conversation has an answer")

// setAll notes the fields of a row that an object has.
func (m *items) setAll(r *row, object []member, fields ...field) error {
	for _, f := range fields {
		if value := valueOf(object, m.p.format.names[f]); value != nil {
			if err := m.set(r, f, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// setConversation notes that a row is a turn of the object's conversation. One without a name gets one by its place.
func (m *items) setConversation(r *row, object []member) error {
	err := m.setAll(r, object, sessionField)
	if err == nil && !r.seen.has(sessionField) {
		r.setSession([]byte("conversation-" + strconv.Itoa(m.first)))
	}
	return err
}

// setMessages notes what a row asks. The messages of an object's rows grow: each row's begin with those of the row
// before.
func (m *items) setMessages(r *row, content []byte) {
	r.verbatim.Kind, r.verbatim.Content = VerbatimMessages, content[:len(content):len(content)]
	r.longer = len(m.rows) > 1
}

// appendMessage appends a message of a chat, behind others. Role is the inside of a JSON string, content JSON.
func appendMessage(dst []byte, role string, content []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, `{"role":"`...), role...), `","content":`...)
	return append(append(dst, content...), '}')
}

// turn is one message as AIPerf's files have it (https://github.com/ai-dynamo/aiperf, aiperf/dataset/loader/models.py,
// SingleTurn). It is sent as AIPerf sends it: one text is the content, several texts or anything but text are its
// parts.
type turn struct {
	object []member
	role   string   // as it stands in JSON, without quotes
	texts  [][]byte // JSON strings
	media  []byte   // parts of the content, one after the other with commas
}

func readTurn(object []byte) (*turn, error) {
	all, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	t := &turn{object: all, role: "user"}
	if role := valueOf(all, "role"); role != nil {
		if err := isString("role", role); err != nil {
			return nil, err
		}
		t.role = string(unquoted(role))
	}
	if t.texts, err = textsIn(all, "text"); err != nil {
		return nil, err
	}
	for _, medium := range []string{"image", "audio", "video"} {
		if err := t.readMedia(medium); err != nil {
			return nil, err
		}
	}
	if len(t.texts) == 0 && len(t.media) == 0 {
		return nil, &rowError{"no text, image, audio or video", "a turn needs one of them"}
	}
	return t, nil
}

// saysKeys reports whether keys are those of a turn with content.
func saysKeys(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return slices.Contains([]string{"text", "image", "audio", "video"}, strings.TrimSuffix(k, "s"))
	})
}

// textsIn is the strings under a name or under its plural, which may group them: ["a","b"] or
// [{"name":"x","contents":["a","b"]}]. Empty ones are left out.
func textsIn(all []member, name string) (texts [][]byte, err error) {
	one, several := valueOf(all, name), valueOf(all, name+"s")
	take := func(_ int, value []byte) error {
		if err := isString(name, value); err != nil {
			return err
		}
		if len(value) > 2 {
			texts = append(texts, value)
		}
		return nil
	}
	switch {
	case one != nil && several != nil:
		return nil, &rowError{fmt.Sprintf("both %s and %ss", name, name), "keep one of them"}
	case one != nil:
		return texts, take(0, one)
	case several == nil:
		return nil, nil
	case several[0] != '[':
		return nil, &rowError{fmt.Sprintf("%ss is %s, not a list", name, clip(several)), `write it as ["…",…]`}
	}
	s := scan(several)
	err = s.list(func(i int, value []byte) error {
		if value[0] != '{' {
			return take(i, value)
		}
		group, err := membersOf(value)
		if err != nil {
			return err
		}
		contents := valueOf(group, "contents")
		if contents == nil || contents[0] != '[' {
			return &rowError{fmt.Sprintf("%ss[%d] has no list of contents", name, i), `write it as {"name":"…","contents":["…",…]}`}
		}
		if valueOf(group, "uuids") != nil {
			return uuidsError(name + "s")
		}
		in := scan(contents)
		return in.list(take)
	})
	return texts, err
}

func uuidsError(name string) error {
	return &rowError{name + " are named by uuids, which only one server's cache has", "give the images themselves"}
}

// readMedia makes parts of the content of what is no text.
func (t *turn) readMedia(medium string) error {
	if valueOf(t.object, medium+"_uuids") != nil {
		return uuidsError(medium + "s")
	}
	all, err := textsIn(t.object, medium)
	for _, value := range all {
		if err == nil {
			err = t.addMedium(medium, value)
		}
	}
	return err
}

func (t *turn) addMedium(medium string, value []byte) error {
	inside := unquoted(value)
	if len(t.media) > 0 {
		t.media = append(t.media, ',')
	}
	if medium == "audio" {
		kind, data, found := bytes.Cut(inside, []byte(","))
		if !found || !slices.Contains([]string{"wav", "mp3"}, strings.ToLower(string(kind))) {
			return &rowError{fmt.Sprintf("audio is %s, not wav,… or mp3,… with the sound in base64", clip(value)),
				"write the sound into the file: others are not read"}
		}
		t.media = fmt.Appendf(t.media, `{"type":"input_audio","input_audio":{"data":"%s","format":"%s"}}`, data, kind)
		return nil
	}
	if address := appendUnquoted(nil, inside); !bytes.HasPrefix(address, []byte("data:")) &&
		!bytes.Contains(address, []byte("://")) {
		return &rowError{fmt.Sprintf("%s is %s, not a URL", medium, clip(value)),
			"write it as https://… or data:…;base64,…: other files are not read"}
	}
	t.media = fmt.Appendf(t.media, `{"type":"%s_url","%s_url":{"url":%s}}`, medium, medium, value)
	return nil
}

// plain reports whether the content is one text.
func (t *turn) plain() bool { return len(t.texts) == 1 && len(t.media) == 0 }

// appendMessage appends the turn as a message of a chat, behind others.
func (t *turn) appendMessage(dst []byte) []byte {
	if t.plain() {
		return appendMessage(dst, t.role, t.texts[0])
	}
	parts := []byte{'['}
	for _, text := range t.texts {
		parts = append(append(append(parts, `{"type":"text","text":`...), text...), "},"...)
	}
	if len(t.media) == 0 {
		parts = parts[:len(parts)-1]
	}
	return appendMessage(dst, t.role, append(append(parts, t.media...), ']'))
}

// checkType refuses an object that names another format.
func checkType(all []member, want string) error {
	if kind := valueOf(all, "type"); kind != nil && string(kind) != `"`+want+`"` {
		return &rowError{fmt.Sprintf("type is %s, not %q", clip(kind), want), "a file has one format"}
	}
	return nil
}
