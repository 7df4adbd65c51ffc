package trace

import (
	"errors"
	"slices"
)

// shareGPT is the format of the ShareGPT dataset and its relatives, one JSON list or a line a conversation:
//
//	[{"id":"QWJhYvA_0","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello."}]},…]
//	[{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."}]},…]
//
// as https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered has it. Each message of a human or a
// tool that an answer follows is a request, with all messages before it. There are no timestamps, and no token counts:
// the recorded answers are kept so that they can be counted.
func shareGPT() *format {
	return &format{
		name:  "sharegpt",
		names: fieldNames{sessionField: "id", messagesField: "conversations", toolsField: "tools"},
		known: func(keys []string) bool {
			return slices.Contains(keys, "conversations") || slices.Contains(keys, "messages") && !slices.Contains(keys, "model")
		},
		items:     ofObject(readShareGPT),
		words:     true,
		cannot:    notAnswered,
		head:      "[\n",
		between:   ",",
		tail:      "]\n",
		appendRow: appendShareGPT,
	}
}

// errUnanswered is a conversation in which nothing that was asked has an answer, so there was no request to replay.
var errUnanswered = errors.New("no question in the conversation has an answer")

func readShareGPT(out *items, o object) {
	key := out.l.parser.format.names[messagesField]
	if !o.has(key) && o.has("messages") {
		key = "messages"
	}
	o.need(key, "it is the list of messages")
	said := out.l.parser.said[:0] // so far
	if system := o.value("system"); system != nil && o.isString("system", system) {
		said = appendMessage(said, "system", system)
	}
	asked := false // the last message asks for an answer
	o.each(key, func(_ int, object object) {
		m := readMessage(object)
		if m.role == "assistant" && asked && !m.empty {
			r := out.add()
			r.answer = m.answer
			out.setMessages(r, said)
			out.setConversation(r, o)
			out.setAll(r, o, toolsField)
		}
		asked = m.role == "user" || m.role == "tool"
		if m.content != nil {
			said = appendMessage(said, m.role, m.content)
		} else {
			said = append(comma(said), object.text...)
		}
	})
	if out.l.parser.said = said; len(out.rows) == 0 {
		o.note(errUnanswered)
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
	speaker, text := o.value("from", "role"), o.value("value", "content")
	if speaker == nil {
		o.need("from", "it names the speaker")
	}
	if m.role = roleOf(string(speaker)); m.role == "" {
		o.fail("from is "+clip(speaker)+", an unknown speaker",
			"known are human, user, gpt, assistant, chatgpt, bing, bard, function_call, system, developer, tool, function and observation")
	}
	if text != nil && text[0] == '"' && len(text) > 2 {
		m.answer = unquoted(text)
	}
	switch {
	case !o.has("from") && !o.has("value"):
		m.empty = string(text) == `""` && !o.has("tool_calls")
	case text == nil:
		o.need("value", "it is the text of the message")
	case o.isString("value", text):
		m.content, m.empty = text, len(text) == 2
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

// notAnswered returns what keeps request i out of the format.
func notAnswered(t *Trace, i int) string {
	what := notPlain(t, i)
	if what == "" && t.Answer(i) == nil && (t.OutputTokens[i] == 0 || t.words.Answer == nil) {
		what = "has an answer of unknown length"
	}
	return what
}

// appendShareGPT writes a conversation for each row: those of one id are one to the reader.
func appendShareGPT(dst []byte, t *Trace, i int) []byte {
	dst = appendSession(append(dst, '{'), t, i, "id")
	if tools := t.Verbatim(i).Tools; tools != nil {
		dst = append(append(append(dst, `"tools":`...), tools...), ',')
	}
	dst = append(dst, `"conversations":[`...)
	for _, s := range t.chatMessages(i) {
		from := map[string]string{"user": "human", "assistant": "gpt", "system": "system"}[s.role]
		dst = append(append(append(dst, `{"from":"`...), from...), `","value":"`...)
		dst = append(append(dst, s.text...), `"},`...)
	}
	return append(t.appendAnswer(append(dst, `{"from":"gpt","value":"`...), i), `"}]}`...)
}
