package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// items collects the rows that a format's own reader finds in a JSON object. All or none of them are taken.
type items struct {
	l      *loader
	first  int // number of the object's first row
	rows   []row
	failed int // requests that are left out, since they failed when they were recorded
	blocks int // tokens that a block id stands for, where the object says it; 0 = as before
	fault  error
	early  int64 // see linkRequests
	last   int32 // row of the last wait, or of the first fault of waits
}

// set notes a field of a row, as it stands in a plain one. The format's names are for messages.
func (m *items) set(r *row, f field, value []byte) {
	m.l.parser.row = *r
	if f == idsField {
		m.l.parser.row.ids = make([]uint64, 0, len(value)/4)
	}
	s := scan(value)
	err := m.l.parser.value(f, &s)
	m.l.parser.row.sessionName = bytes.Clone(m.l.parser.row.sessionName) // its place is taken again for the next row
	*r = m.l.parser.row
	m.note(err)
}

func (m *items) note(err error) { object{fault: &m.fault}.note(err) }

// setAll notes the fields of a row that an object has.
func (m *items) setAll(r *row, o object, fields ...field) {
	for _, f := range fields {
		if value := o.value(m.l.parser.format.names[f]); value != nil && o.ok() {
			m.set(r, f, value)
		}
	}
}

// setNeeded is setAll for fields without which a row cannot be replayed.
func (m *items) setNeeded(r *row, o object, fields ...field) {
	for _, f := range fields {
		o.need(m.l.parser.format.names[f], "every request must have what the format requires")
	}
	m.setAll(r, o, fields...)
}

// setConversation notes that a row is a turn of the object's conversation. One without a name gets one by its place.
func (m *items) setConversation(r *row, o object) {
	if m.setAll(r, o, sessionField); !r.seen.has(sessionField) {
		r.setSession([]byte("conversation-" + strconv.Itoa(m.first)))
	}
}

// setMessages notes what a row asks. The messages of an object's rows grow: each row's begin with those of the row
// before.
func (m *items) setMessages(r *row, content []byte) {
	r.verbatim.Kind, r.verbatim.Content = VerbatimMessages, content[:len(content):len(content)]
	r.longer = len(m.rows) > 1
}

// setBody notes the whole body of a request: one JSON object, with space around it at most.
func (m *items) setBody(r *row, text []byte) {
	if m.body(text); m.fault == nil {
		m.setWhole(r, text)
	}
}

// body takes a body apart.
func (m *items) body(text []byte) object {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] != '{' {
		m.note(&rowError{m.l.parser.format.names[payloadField] + " is " + clip(trimmed) + ", not an object", "only JSON objects can be sent"})
		return object{fault: &m.fault}
	}
	return objectOf(text, &m.fault)
}

// setWhole notes a body that could be taken apart.
func (m *items) setWhole(r *row, text []byte) {
	r.seen |= setOf(payloadField)
	m.note(r.setVerbatim(payloadField, m.l.parser.format.names[payloadField], text[bytes.IndexByte(text, '{'):bytes.LastIndexByte(text, '}')+1]))
}

// setSpan notes when a request was sent, and when its answer ended; noTime where it is not known.
func (r *row) setSpan(began, ended int64) {
	if began == noTime {
		return
	}
	r.timeNS = began
	r.seen |= setOf(timestampField)
	if ended != noTime {
		r.agent.tookNS = max(0, ended-began)
	}
}

// setCounts notes the numbers of tokens of a request of which no more is known: of its prompt and its answer, and, under
// a key that need not be there, of what the server had cached of the prompt. Head is that of [growth].
func (m *items) setCounts(r *row, o object, cachedKey, head string) {
	m.setNeeded(r, o, inputField, outputField)
	r.agent.cached = int32(min(o.count(cachedKey, maxTokens), int64(r.input)))
	r.growth = byLength(head)
}

// add makes room for a row.
func (m *items) add() *row {
	m.rows = append(m.rows, newRow())
	return &m.rows[len(m.rows)-1]
}

// heldLine is a line or an object that is read later: when the format is known, or all of its file.
type heldLine struct {
	text []byte
	line int
}

// takeHeld takes the rows of a file whose objects are read together.
func (l *loader) takeHeld() {
	if held := l.held; held != nil {
		l.held = nil
		l.parser.format.together(l, held)
	}
}

// takeItems decodes an object and appends its rows to the columns.
func (l *loader) takeItems(text []byte, line int) {
	f := l.parser.format
	if f.together != nil {
		l.held = append(l.held, heldLine{bytes.Clone(text), line})
		return
	}
	out := l.newItems()
	f.items(&out, text)
	l.takeRows(&out, line)
}

func (l *loader) newItems() items { return items{l: l, first: l.FileRows} }

// takeRows appends the rows of an object to the columns.
func (l *loader) takeRows(out *items, line int) {
	err := out.fault
	if err == nil || err == errHead {
		err = cmp.Or(l.setBlocks(out.blocks), err)
	}
	if err == errHead {
		return
	}
	if err == errUnanswered && !l.o.Strict {
		l.FileRows++
		l.Lint.Unanswered++
		return
	}
	if err == nil && out.failed > 0 && l.o.Strict {
		err = errFailed
	}
	if err == nil && len(out.rows) == 0 && out.failed == 0 {
		err = &rowError{"nothing in it to send", "leave it out"}
	}
	for i := range out.rows {
		if err == nil {
			err = cmp.Or(l.refuseRepairs(&out.rows[i]), l.refuseEndpoint(&out.rows[i], line))
		}
	}
	if err != nil {
		l.FileRows++
		l.fault(faultOf(l.name, line, err))
		return
	}
	l.FileRows += len(out.rows) + out.failed
	l.Lint.Failed += out.failed
	for i := range out.rows {
		l.keep(&out.rows[i], out.first+i, cmp.Or(out.rows[i].line, line))
	}
}

// errHead is an object that is no row, but says something of those that follow.
var errHead = errors.New("the head of a file")

// setBlocks notes how many tokens a block id stands for, as the file says it.
func (l *loader) setBlocks(tokens int) error {
	said := fmt.Sprintf("a block id stands for %d tokens", tokens)
	switch {
	case tokens == 0 || tokens == l.BlockTokens:
		return nil
	case tokens < 0 || tokens > maxTokens:
		return &rowError{said, fmt.Sprintf("it must be from 1 to %d", maxTokens)}
	case l.o.BlockTokens != 0 && tokens != l.o.BlockTokens:
		return &rowError{fmt.Sprintf("%s, but --block-tokens says %d", said, l.o.BlockTokens), "leave --block-tokens out"}
	case l.withIDs > 0 && tokens != l.BlockTokens:
		return &rowError{fmt.Sprintf("%s, but for %d in the rows before", said, l.BlockTokens), "a run has one block size: replay the rows one size at a time"}
	}
	l.BlockTokens, l.said = tokens, tokens
	return nil
}

// ofObject makes a format's reader of objects out of one that has them taken apart.
func ofObject(read func(out *items, o object)) func(out *items, text []byte) {
	return func(out *items, text []byte) {
		if o := objectOf(text, &out.fault); o.ok() {
			read(out, o)
		}
	}
}

// hasKeys makes a format's test of an object: it has these keys.
func hasKeys(wanted ...string) func(keys []string) bool {
	return func(keys []string) bool {
		return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(keys, name) })
	}
}
