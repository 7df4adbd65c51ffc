package formats

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// singleTurn is AIPerf's format of independent requests, a line a request:
//
//	{"text":"What is the capital of France?","timestamp":1000,"output_length":20}
//	{"texts":["What is in it?"],"image":"https://example.org/a.png","session_id":"a","delay":1500,"role":"user"}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) describes. Times are milliseconds. Lines
// with the same session_id are one conversation's turns, but each is sent alone, without those before.
func singleTurn() *Format {
	hasContent := func(keys []string) bool {
		return hasAny(keys, "text", "texts", "image", "images", "audio", "audios", "video", "videos")
	}
	return aiperfTurns("single_turn", hasContent, readSingleTurn, &Writer{
		Refuse: notText,
		Append: func(dst []byte, r *Request) []byte {
			dst = r.appendTimes(append(dst, '{'))
			dst = r.appendText(append(dst, `"text":"`...))
			return append(r.appendAsked(append(dst, '"')), '}')
		},
	})
}

// aiperfTurns is a format of turns as AIPerf has them.
func aiperfTurns(name string, match func(keys []string) bool, read func(*Batch, object), write *Writer) *Format {
	return &Format{
		Name: name,
		Layout: rows.Layout{
			Names: rows.Usual(rows.TimestampField, rows.OutputField, rows.SessionField, rows.DelayField,
				rows.ExtraField),
		},
		UnitVaries: true,
		Words:      true,
		Import: &Importer{
			Match: match,
			Read:  read,
		},
		Write: write,
	}
}

func readSingleTurn(b *Batch, o object) {
	t := readTurn(o)
	checkType(o, "single_turn")
	if !o.OK() {
		return
	}
	r := b.add()
	b.setAll(r, o, rows.TimestampField, rows.OutputField, rows.SessionField, rows.DelayField, rows.ExtraField)
	if !r.Seen.Has(rows.SessionField) {
		r.Seen &^= rows.SetOf(rows.DelayField) // there is no turn before to wait for
	}
	if t.plain() && t.role == "user" {
		r.Verbatim.Kind = rows.VerbatimText
		r.Verbatim.Content = rows.Unquoted(t.texts[0])
	} else {
		b.setMessages(r, t.appendMessage(nil))
	}
}

// multiTurn is AIPerf's format of conversations, a line a conversation:
//
//	{"session_id":"a","turns":[{"text":"Hi","timestamp":0},{"role":"assistant","text":"Hello."},{"text":"Why?",
//	 "delay":1500}]}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) describes. A turn has the fields of a line
// of single_turn. Each turn but those of the assistant and the system is a request, with all turns before it. The
// assistant's turns are those of the file; AIPerf itself puts the server's answers there.
func multiTurn() *Format {
	return aiperfTurns("multi_turn", hasKeys("turns"), readMultiTurn, &Writer{
		Refuse: func(_, r *Request) string {
			if r.Verbatim.Tools != nil {
				return "has tools"
			}
			return notPlain(nil, r)
		},
		Append: appendMultiTurn,
	})
}

func readMultiTurn(b *Batch, o object) {
	checkType(o, "multi_turn")
	o.Need("turns", "it is the list of messages")
	var said []byte // so far
	asked := false  // just now
	o.Each("turns", func(_ int, message object) {
		t := readTurn(message)
		if !o.OK() {
			return
		}
		said = t.appendMessage(said)
		if t.role == "assistant" && asked && t.plain() {
			question := &b.Rows[len(b.Rows)-1]
			question.Answer = rows.Unquoted(t.texts[0])
		}
		asked = t.role != "assistant" && t.role != "system" && t.role != "developer"
		if asked {
			r := b.add()
			b.setMessages(r, said)
			b.setAll(r, message, rows.TimestampField, rows.OutputField, rows.DelayField, rows.ExtraField)
			b.setConversation(r, o)
		}
	})
}

// appendMultiTurn writes a line for each row: those of one session_id are one conversation.
func appendMultiTurn(dst []byte, r *Request) []byte {
	dst = r.appendSession(append(dst, '{'), "session_id")
	dst = append(dst, `"turns":[`...)
	said := r.chat()
	last := len(said) - 1
	for _, m := range said[:last] {
		dst = concat(dst, `{"role":"`, m.role, `","text":"`, string(m.text), `"},`)
	}
	dst = r.appendDelay(r.appendTimestamp(append(dst, '{')))
	dst = concat(dst, `"text":"`, string(said[last].text), `"`)
	return append(r.appendAsked(dst), "}]}"...)
}

// appendMessage appends a message of a chat, behind others. Role is the inside of a JSON string, content JSON.
func appendMessage(dst []byte, role string, content []byte) []byte {
	return concat(comma(dst), `{"role":"`, role, `","content":`, string(content), "}")
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
	if role := o.Value("role"); role != nil && o.IsString("role", role) {
		t.role = string(rows.Unquoted(role))
	}
	t.texts = textsIn(o, "text")
	for _, medium := range []string{"image", "audio", "video"} {
		if o.Has(medium + "_uuids") {
			failUUIDs(o, medium+"s")
		}
		for _, value := range textsIn(o, medium) {
			o.Note(t.addMedium(medium, value))
		}
	}
	if len(t.texts) == 0 && len(t.media) == 0 {
		o.Fail("no text, image, audio or video", "a turn needs one of them")
	}
	return t
}

// textsIn is the strings under a name or under its plural, which may group them: ["a","b"] or
// [{"name":"x","contents":["a","b"]}]. Empty ones are left out.
func textsIn(o object, name string) (texts [][]byte) {
	take := func(_ int, value []byte) {
		if o.IsString(name, value) && len(value) > 2 {
			texts = append(texts, value)
		}
	}
	one := o.Value(name)
	if one != nil {
		take(0, one)
		if o.Has(name + "s") {
			o.Fail(fmt.Sprintf("both %s and %ss", name, name), "keep one of them")
		}
		return texts
	}
	o.Values(name+"s", `["…",…]`, func(i int, value []byte) {
		if value[0] != '{' {
			take(i, value)
			return
		}
		group := rows.ObjectOf(value, o.Fault)
		contents := group.Value("contents")
		if contents == nil || contents[0] != '[' {
			o.Fail(fmt.Sprintf("%ss[%d] has no list of contents", name, i),
				`write it as {"name":"…","contents":["…",…]}`)
		}
		if group.Has("uuids") {
			failUUIDs(o, name+"s")
		}
		group.Values("contents", "", take)
	})
	return texts
}

func failUUIDs(o object, name string) {
	o.Fail(name+" are named by uuids, which only one server's cache has", "give the images themselves")
}

func (t *turn) addMedium(medium string, value []byte) error {
	inside := rows.Unquoted(value)
	t.media = comma(t.media)
	if medium == "audio" {
		kind, data, found := bytes.Cut(inside, []byte(","))
		form := strings.ToLower(string(kind))
		if !found || form != "wav" && form != "mp3" {
			return rows.Bad(fmt.Sprintf("audio is %s, not wav,… or mp3,… with the sound in base64", rows.Clip(value)),
				"write the sound into the file: others are not read")
		}
		t.media = fmt.Appendf(t.media, `{"type":"input_audio","input_audio":{"data":"%s","format":"%s"}}`, data, kind)
		return nil
	}
	address := string(rows.AppendUnquoted(nil, inside))
	if !strings.HasPrefix(address, "data:") && !strings.Contains(address, "://") {
		return rows.Bad(fmt.Sprintf("%s is %s, not a URL", medium, rows.Clip(value)),
			"write it as https://… or data:…;base64,…: other files are not read")
	}
	t.media = fmt.Appendf(t.media, `{"type":"%s_url","%s_url":{"url":%s}}`, medium, medium, value)
	return nil
}

// plain reports whether the content is one text.
func (t *turn) plain() bool {
	return len(t.texts) == 1 && len(t.media) == 0
}

// appendMessage appends the turn as a message of a chat, behind others.
func (t *turn) appendMessage(dst []byte) []byte {
	if t.plain() {
		return appendMessage(dst, t.role, t.texts[0])
	}
	var parts []byte
	for _, text := range t.texts {
		parts = concat(comma(parts), `{"type":"text","text":`, string(text), "}")
	}
	if len(t.media) > 0 {
		parts = append(comma(parts), t.media...)
	}
	return appendMessage(dst, t.role, fmt.Appendf(nil, "[%s]", parts))
}

// checkType refuses an object that names another format.
func checkType(o object, want string) {
	if o.Has("type") && !o.Is("type", want) {
		is := rows.Clip(o.Value("type"))
		o.Fail(fmt.Sprintf("type is %s, not %q", is, want), "a file has one format")
	}
}
