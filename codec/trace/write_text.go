package trace

import (
	"slices"
)

// Words are the text that [Write] puts into formats of text if the trace has numbers of tokens only.
type Words struct {
	Model string // that bodies ask for
	// Prompt appends request i's prompt of InputTokens tokens, Answer its answer of OutputTokens tokens: the inside of a
	// JSON string. Both are called row by row, while the trace is written.
	Prompt, Answer func(dst []byte, i int) []byte
}

// With is the trace with words to be written.
func (t *Trace) With(w Words) *Trace {
	out := *t
	out.words = w
	return &out
}

// made is how many prompts the trace only has the number of tokens of.
func (t *Trace) made() int { return t.Len() - t.Verbatims() }

// appendText appends the one text that request i asks, made of words where the file has none.
func (t *Trace) appendText(dst []byte, i int) []byte {
	if l := t.Verbatim(i); l.Kind == VerbatimText {
		return append(dst, l.Content...)
	}
	return t.words.Prompt(dst, i)
}

// appendAnswer appends the recorded answer to request i, or else a made one.
func (t *Trace) appendAnswer(dst []byte, i int) []byte {
	if recorded := t.Answer(i); recorded != nil {
		return append(dst, recorded...)
	}
	return t.words.Answer(dst, i)
}

// chatMessage is a message of a chat; text is the inside of a JSON string.
type chatMessage struct {
	role string
	text []byte
}

// chatMessages returns the messages of request i, which [notPlain] has accepted.
func (t *Trace) chatMessages(i int) []chatMessage {
	if l := t.Verbatim(i); l.Kind == VerbatimMessages {
		all, _ := plainChat(l.Content)
		return all
	}
	return []chatMessage{{"user", t.appendText(nil, i)}}
}

// plainChat takes messages apart. It reports false if they are more than texts, or if others than the last are the
// user's. A format of conversations would make a request of each of the user's messages.
func plainChat(messages []byte) (all []chatMessage, ok bool) {
	ok = true
	s := scan(slices.Concat([]byte("["), messages, []byte("]")))
	err := s.list(func(_ int, object []byte) error {
		var err error
		o := objectOf(object, &err)
		role, text := o.value("role"), o.value("content")
		if err != nil || len(o.members) != 2 || role == nil || role[0] != '"' || len(text) <= len(`""`) || text[0] != '"' {
			ok = false
			return err
		}
		all = append(all, chatMessage{string(unquoted(role)), unquoted(text)})
		return nil
	})
	for i, s := range all {
		last := i == len(all)-1
		ok = ok && (last && s.role == "user" || !last && (s.role == "system" || s.role == "assistant"))
	}
	return all, ok && err == nil && len(all) > 0
}

// notText returns what keeps request i out of a format of texts.
func notText(t *Trace, i int) string {
	switch t.Verbatim(i).Kind {
	case VerbatimMessages:
		return "is a chat"
	case VerbatimPayload:
		return "is a whole body"
	}
	return ""
}

// notPlain returns what keeps request i out of a format of conversations.
func notPlain(t *Trace, i int) string {
	l := t.Verbatim(i)
	if l.Kind != VerbatimMessages {
		return notText(t, i)
	}
	if _, ok := plainChat(l.Content); !ok {
		return "is a chat with more than texts and one question"
	}
	return ""
}

// The paths of OpenAI's APIs.
const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

// body is the body of request i: the recorded one, or a chat with what it asks. An extra is merged into it.
func (t *Trace) body(i int) []byte {
	l := t.Verbatim(i)
	body := []byte{'{'}
	if l.Kind == VerbatimPayload {
		body = append(append(body, l.Content...), '}')
	} else {
		body = t.appendChat(body, i, l)
	}
	if l.Extra != nil {
		return merged(body, l.Extra)
	}
	return body
}

// appendChat appends a chat's members and the brace behind them.
func (t *Trace) appendChat(dst []byte, i int, l Verbatim) []byte {
	dst = appendString(append(dst, `"model":`...), t.words.Model)
	if l.Kind == VerbatimMessages {
		dst = append(append(append(dst, `,"messages":[`...), l.Content...), ']')
	} else {
		dst = append(t.appendText(append(dst, `,"messages":[{"role":"user","content":"`...), i), `"}]`...)
	}
	if n := t.OutputTokens[i]; n > 0 {
		dst = appendInt(dst, `,"max_tokens":`, n)
	}
	if l.Tools != nil {
		dst = append(append(dst, `,"tools":`...), l.Tools...)
	}
	return append(dst, '}')
}

// merged is an object with the members of another, which win.
func merged(body, extra []byte) []byte {
	all, _ := membersOf(body) // both are known to be valid: see notMerged
	more, _ := membersOf(extra)
	for _, m := range more {
		at := 0
		for at < len(all) && all[at].key != m.key {
			at++
		}
		if at == len(all) {
			all = append(all, m)
		}
		all[at] = m
	}
	out := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(appendString(out, m.key), ':'), m.value...)
	}
	return append(out, '}')
}

// notMerged returns what keeps request i from becoming a body.
func notMerged(t *Trace, i int) string {
	l := t.Verbatim(i)
	if l.Extra == nil {
		return ""
	}
	_, err := membersOf(l.Extra)
	if err == nil && l.Kind == VerbatimPayload {
		_, err = membersOf([]byte("{" + string(l.Content) + "}"))
	}
	if err != nil {
		return "has an extra that cannot be merged, since " + err.Error()
	}
	return ""
}

// path is where request i goes.
func (t *Trace) path(i int) string {
	switch {
	case t.Endpoint != "":
		return t.Endpoint
	case t.Verbatim(i).Kind != VerbatimPayload || t.HasMessages(i):
		return chatPath
	}
	return completionsPath
}
