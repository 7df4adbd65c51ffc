package trace

import "strconv"

// The paths of OpenAI's APIs.
const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

// body is the body of request i: the recorded one, or a chat with what it asks. An extra is merged into it.
func (t *Trace) body(i int) []byte {
	l := t.Literal(i)
	body := []byte{'{'}
	if l.Kind == PayloadLiteral {
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
func (t *Trace) appendChat(dst []byte, i int, l Literal) []byte {
	dst = appendString(append(dst, `"model":`...), t.words.Model)
	if l.Kind == MessagesLiteral {
		dst = append(append(append(dst, `,"messages":[`...), l.Content...), ']')
	} else {
		dst = append(t.appendText(append(dst, `,"messages":[{"role":"user","content":"`...), i), `"}]`...)
	}
	if n := t.OutputTokens[i]; n > 0 {
		dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(n), 10)
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

// notMerged tells what keeps request i from becoming a body.
func notMerged(t *Trace, i int) string {
	l := t.Literal(i)
	if l.Extra == nil {
		return ""
	}
	_, err := membersOf(l.Extra)
	if err == nil && l.Kind == PayloadLiteral {
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
	case t.Literal(i).Kind != PayloadLiteral || t.HasMessages(i):
		return chatPath
	}
	return completionsPath
}
