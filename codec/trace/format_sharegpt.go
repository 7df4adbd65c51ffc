package trace

import "slices"

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
		name:        "sharegpt",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       fieldNames{sessionField: "id", messagesField: "conversations", toolsField: "tools"},
		known: func(keys []string) bool {
			return slices.Contains(keys, "conversations") || slices.Contains(keys, "messages") && !slices.Contains(keys, "model")
		},
		items:     ofMembers(readShareGPT),
		words:     true,
		cannot:    notAnswered,
		head:      "[\n",
		between:   ",",
		tail:      "]\n",
		appendRow: appendShareGPT,
	}
}

func readShareGPT(out *items, all []member) error {
	key := out.p.format.names[messagesField]
	if valueOf(all, key) == nil && valueOf(all, "messages") != nil {
		key = "messages"
	}
	if valueOf(all, key) == nil {
		return &rowError{"missing " + key, "it is the list of messages"}
	}
	c := dialogue{out: out, object: all, said: out.p.said[:0]}
	if system := valueOf(all, "system"); system != nil {
		if err := isString("system", system); err != nil {
			return err
		}
		c.said = appendMessage(c.said, "system", system)
	}
	err := listIn(all, key, c.take)
	out.p.said = c.said
	if err != nil {
		return err
	}
	if len(out.rows) == 0 {
		return errUnanswered
	}
	return nil
}

// dialogue is a conversation being read.
type dialogue struct {
	out    *items
	object []member
	said   []byte // messages so far
	asked  bool   // the last of them asks for an answer
}

// take takes the next message.
func (c *dialogue) take(_ int, object []byte) error {
	m, err := readMessage(object)
	if err != nil {
		return err
	}
	if m.role == "assistant" && c.asked && !m.empty {
		r := c.out.add()
		r.answer = m.answer
		c.out.setMessages(r, c.said)
		if err := c.out.setConversation(r, c.object); err != nil {
			return err
		}
		if err := c.out.setAll(r, c.object, toolsField); err != nil {
			return err
		}
	}
	c.asked = m.role == "user" || m.role == "tool"
	c.said = m.append(c.said)
	return nil
}

// message is one of a conversation.
type message struct {
	role    string
	content []byte // JSON; nil for a message that goes as it stands
	whole   []byte
	answer  []byte // what an assistant said, the inside of a JSON string; nil where that is no text
	empty   bool   // it has no text
}

// readMessage reads {"from":…,"value":…}, or a message of a chat, which goes as it stands.
func readMessage(object []byte) (m message, err error) {
	all, err := membersOf(object)
	if err != nil {
		return m, err
	}
	speaker, text := firstOf(all, "from", "role"), firstOf(all, "value", "content")
	if speaker == nil {
		return m, &rowError{"missing from", "it names the speaker"}
	}
	if m.role = roleOf(string(speaker)); m.role == "" {
		return m, &rowError{"from is " + clip(speaker) + ", an unknown speaker",
			"known are human, user, gpt, assistant, chatgpt, bing, bard, function_call, system, developer, tool, function and observation"}
	}
	if text != nil && text[0] == '"' && len(text) > 2 {
		m.answer = unquoted(text)
	}
	if valueOf(all, "from") == nil && valueOf(all, "value") == nil {
		m.whole, m.empty = object, string(text) == `""` && valueOf(all, "tool_calls") == nil
		return m, nil
	}
	if text == nil {
		return m, &rowError{"missing value", "it is the text of the message"}
	}
	m.content, m.empty = text, len(text) == 2
	return m, isString("value", text)
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

func (m *message) append(dst []byte) []byte {
	if m.content != nil {
		return appendMessage(dst, m.role, m.content)
	}
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, m.whole...)
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
