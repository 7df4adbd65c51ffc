package trace

import (
	"bytes"
	"fmt"
	"slices"
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
		name:      "single_turn",
		unit:      time.Millisecond,
		names:     usual(timestampField, outputField, sessionField, delayField, extraField),
		known:     saysKeys,
		items:     ofObject(readSingleTurn),
		words:     true,
		cannot:    notText,
		appendRow: appendSingleTurn,
	}
}

func readSingleTurn(out *items, o object) {
	t := readTurn(o)
	checkType(o, out.l.parser.format.name)
	if !o.ok() {
		return
	}
	r := out.add()
	out.setAll(r, o, timestampField, outputField, sessionField, delayField, extraField)
	if !r.seen.has(sessionField) {
		r.seen &^= setOf(delayField) // there is no turn before to wait for
	}
	if t.plain() && t.role == "user" {
		r.verbatim.Kind, r.verbatim.Content = VerbatimText, unquoted(t.texts[0])
	} else {
		out.setMessages(r, t.appendMessage(nil))
	}
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
		name:      "multi_turn",
		unit:      time.Millisecond,
		names:     usual(timestampField, outputField, sessionField, delayField, extraField),
		known:     func(keys []string) bool { return slices.Contains(keys, "turns") },
		items:     ofObject(readMultiTurn),
		words:     true,
		cannot:    notTurns,
		appendRow: appendMultiTurn,
	}
}

func readMultiTurn(out *items, o object) {
	checkType(o, out.l.parser.format.name)
	o.need("turns", "it is the list of messages")
	var said []byte // so far
	asked := false  // just now
	o.each("turns", func(_ int, object object) {
		t := readTurn(object)
		if !o.ok() {
			return
		}
		said = t.appendMessage(said)
		if t.role == "assistant" && asked && t.plain() {
			out.rows[len(out.rows)-1].answer = unquoted(t.texts[0])
		}
		if asked = t.role != "assistant" && t.role != "system" && t.role != "developer"; asked {
			r := out.add()
			out.setMessages(r, said)
			out.setAll(r, object, timestampField, outputField, delayField, extraField)
			out.setConversation(r, o)
		}
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

// appendMessage appends a message of a chat, behind others. Role is the inside of a JSON string, content JSON.
func appendMessage(dst []byte, role string, content []byte) []byte {
	dst = append(append(append(comma(dst), `{"role":"`...), role...), `","content":`...)
	return append(append(dst, content...), '}')
}

// turn is one message as AIPerf's files have it (https://github.com/ai-dynamo/aiperf, aiperf/dataset/loader/models.py,
// SingleTurn). It is sent as AIPerf sends it: one text is the content, several texts or anything but text are its
// parts.
type turn struct {
	role  string   // as it stands in JSON, without quotes
	texts [][]byte // JSON strings
	media []byte   // parts of the content, one after the other with commas
}

func readTurn(o object) *turn {
	t := &turn{role: "user"}
	if role := o.value("role"); role != nil && o.isString("role", role) {
		t.role = string(unquoted(role))
	}
	t.texts = textsIn(o, "text")
	for _, medium := range []string{"image", "audio", "video"} {
		if o.has(medium + "_uuids") {
			failUUIDs(o, medium+"s")
		}
		for _, value := range textsIn(o, medium) {
			o.note(t.addMedium(medium, value))
		}
	}
	if len(t.texts) == 0 && len(t.media) == 0 {
		o.fail("no text, image, audio or video", "a turn needs one of them")
	}
	return t
}

// saysKeys reports whether keys are those of a turn with content.
func saysKeys(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return slices.Contains([]string{"text", "image", "audio", "video"}, strings.TrimSuffix(k, "s"))
	})
}

// textsIn is the strings under a name or under its plural, which may group them: ["a","b"] or
// [{"name":"x","contents":["a","b"]}]. Empty ones are left out.
func textsIn(o object, name string) (texts [][]byte) {
	take := func(_ int, value []byte) {
		if o.isString(name, value) && len(value) > 2 {
			texts = append(texts, value)
		}
	}
	if one := o.value(name); one != nil {
		if take(0, one); o.has(name + "s") {
			o.fail(fmt.Sprintf("both %s and %ss", name, name), "keep one of them")
		}
		return texts
	}
	o.values(name+"s", `["…",…]`, func(i int, value []byte) {
		if value[0] != '{' {
			take(i, value)
			return
		}
		group := objectOf(value, o.fault)
		if contents := group.value("contents"); contents == nil || contents[0] != '[' {
			o.fail(fmt.Sprintf("%ss[%d] has no list of contents", name, i), `write it as {"name":"…","contents":["…",…]}`)
		}
		if group.has("uuids") {
			failUUIDs(o, name+"s")
		}
		group.values("contents", "", take)
	})
	return texts
}

func failUUIDs(o object, name string) {
	o.fail(name+" are named by uuids, which only one server's cache has", "give the images themselves")
}

func (t *turn) addMedium(medium string, value []byte) error {
	inside := unquoted(value)
	t.media = comma(t.media)
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
func checkType(o object, want string) {
	if o.has("type") && !o.is("type", want) {
		o.fail(fmt.Sprintf("type is %s, not %q", clip(o.value("type")), want), "a file has one format")
	}
}
