package formats

import (
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// shareGPT is the format of the ShareGPT dataset and its relatives, one JSON list or a line a conversation:
//
//	[{"id":"QWJhYvA_0","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello."}]},…]
//	[{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."}]},…]
//
// as https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered has it. Each message of a human or a
// tool that an answer follows is a request, with all messages before it. There are no timestamps, and no token counts:
// the recorded answers are kept so that they can be counted.
func shareGPT() *Format {
	r := &shareGPTReader{}
	return &Format{
		Name: "sharegpt",
		Layout: rows.Layout{Names: rows.Names{
			rows.SessionField:  "id",
			rows.MessagesField: "conversations",
			rows.ToolsField:    "tools",
		}},
		Words: true,
		Import: &Importer{
			Match: func(keys []string) bool {
				return hasAny(keys, "conversations") || hasAny(keys, "messages") && !hasAny(keys, "model")
			},
			Read: r.read,
		},
		Write: &Writer{
			Refuse: func(_, r *Request) string {
				what := notPlain(nil, r)
				known := r.Answer != nil || r.OutputTokens > 0 && r.Words.Answer != nil
				if what == "" && !known {
					what = "has an answer of unknown length"
				}
				return what
			},
			Head:   "[\n",
			Tail:   "]\n",
			Append: appendShareGPT,
		},
	}
}

type shareGPTReader struct{ said []byte } // scratch

func (reader *shareGPTReader) read(b *Batch, o object) {
	key := b.name(rows.MessagesField)
	if !o.Has(key) && o.Has("messages") {
		key = "messages"
	}
	o.Need(key, "it is the list of messages")
	said := reader.said[:0] // so far
	system := o.Value("system")
	if system != nil && o.IsString("system", system) {
		said = appendMessage(said, "system", system)
	}
	asked := false // the last message asks for an answer
	o.Each(key, func(_ int, message object) {
		m := readMessage(message)
		if m.role == "assistant" && asked && !m.empty {
			r := b.add()
			r.Answer = m.answer
			b.setMessages(r, said)
			b.setConversation(r, o)
			b.setAll(r, o, rows.ToolsField)
		}
		asked = m.role == "user" || m.role == "tool"
		if m.content != nil {
			said = appendMessage(said, m.role, m.content)
		} else {
			said = append(comma(said), message.Text...)
		}
	})
	reader.said = said
	if len(b.Rows) == 0 {
		o.Note(rows.ErrUnanswered)
	}
}

// message is one of a conversation.
type message struct {
	role    string
	content []byte // JSON; nil for a message that goes as it stands
	answer  []byte // what an assistant said, the inside of a JSON string; nil where that is no text
	empty   bool   // it has no text
}

// readMessage reads {"from":…,"value":…}, or a message of a chat, which goes as it stands.
func readMessage(o object) (m message) {
	speaker := o.Value("from", "role")
	text := o.Value("value", "content")
	if speaker == nil {
		o.Need("from", "it names the speaker")
	}
	m.role = roleOf(string(speaker))
	if m.role == "" {
		o.Fail("from is "+rows.Clip(speaker)+", an unknown speaker",
			"known are human, user, gpt, assistant, chatgpt, bing, bard, function_call, system, developer, tool, "+
				"function and observation")
	}
	if text != nil && text[0] == '"' && len(text) > 2 {
		m.answer = rows.Unquoted(text)
	}
	switch {
	case !o.Has("from") && !o.Has("value"):
		m.empty = string(text) == `""` && !o.Has("tool_calls")
	case text == nil:
		o.Need("value", "it is the text of the message")
	case o.IsString("value", text):
		m.content = text
		m.empty = len(text) == 2
	}
	return m
}

// roleOf is the role in a chat of who spoke, a JSON string; "" for a stranger. The names are those of ShareGPT's files
// and of the tools that read them (https://github.com/lm-sys/FastChat, https://github.com/hiyouga/LLaMA-Factory).
func roleOf(speaker string) string {
	switch speaker {
	case `"human"`, `"user"`:
		return "user"
	case `"gpt"`, `"assistant"`, `"chatgpt"`, `"bing"`, `"bard"`, `"function_call"`:
		return "assistant"
	case `"system"`, `"developer"`:
		return "system"
	case `"tool"`, `"function"`, `"observation"`:
		return "tool"
	}
	return ""
}

// appendShareGPT writes a conversation for each row: those of one id are one to the reader.
func appendShareGPT(dst []byte, r *Request) []byte {
	dst = r.appendSession(append(dst, '{'), "id")
	tools := r.Verbatim.Tools
	if tools != nil {
		dst = concat(dst, `"tools":`, string(tools), ",")
	}
	dst = append(dst, `"conversations":[`...)
	speakers := map[string]string{"user": "human", "assistant": "gpt", "system": "system"}
	for _, m := range r.chat() {
		dst = concat(dst, `{"from":"`, speakers[m.role], `","value":"`, string(m.text), `"},`)
	}
	dst = r.appendAnswer(append(dst, `{"from":"gpt","value":"`...))
	return append(dst, `"}]}`...)
}
