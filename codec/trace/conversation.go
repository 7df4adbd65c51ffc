package trace

import (
	"errors"
	"strconv"
)

// errUnanswered is a conversation in which nothing that was asked has an answer, so there was no request to replay.
var errUnanswered = errors.New("nothing in the conversation was asked and answered")

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

// setMessages notes what a row asks. The messages of an object's rows grow: each row's begin with those of the row before.
func (m *items) setMessages(r *row, content []byte) {
	r.literal.Kind, r.literal.Content = MessagesLiteral, content[:len(content):len(content)]
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
