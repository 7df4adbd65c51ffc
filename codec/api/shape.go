package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// shape is the layout of an API's request bodies. In order: the model, the prompt, lengths, what is in every body,
// stream, extra members and salt. If an API does not take a form of prompt, its frame is empty.
type shape struct {
	text     frame    // around a prompt
	tokenIDs frame    // around one of token ids
	messages frame    // around the messages of a chat
	nest     string   // the object that lengths and fixed members are in; "" = the top level
	most     string   // key of the most output tokens; "" = answers have none
	alias    string   // another key that a server takes for it; "" = none
	least    []string // keys of the fewest, where output is forced
	forced   members  // beside a length, where output is forced
	answer   string   // key of the answer's tokens
	fixed    members  // in every body
	stream   members  // ask for a stream
	whole    members  // ask for a whole answer
	// an extra member that is null stands for none, and ours of its name is left out
	noNulls bool
	// brings the messages of a chat into the API's form; nil where they are in it
	prepare func(Verbatim) (Verbatim, error)
}

// frame is what stands around a prompt in a body.
type frame struct{ open, end string }

const (
	saltLead = `"cache_salt":"`
	saltEnd  = `"}`
)

// OwnLength reports whether extra inputs, as ParseExtra returns them, limit the length of the named API's answers.
// Bodies then do not.
func OwnLength(api string, extra json.RawMessage) bool {
	k, err := find(api)
	return err == nil && k.shape.ownLength(extra)
}

func (s *shape) ownLength(extra []byte) bool {
	return s.saysLength(s.lengthsIn(extra))
}

// lengthsIn returns the members of extra inputs that stand where lengths do; nil if there are none.
func (s *shape) lengthsIn(extra []byte) members {
	ms, err := parseObject(extra)
	if i := ms.find(s.nest); i >= 0 {
		ms, err = parseObject(ms[i].value)
	} else if s.nest != "" {
		return nil
	}
	if err != nil {
		return nil
	}
	return ms
}

// LeastOutput returns how many output tokens extra inputs, as ParseExtra returns them, demand of the named API; 0 if
// none.
func LeastOutput(api string, extra json.RawMessage) (tokens int) {
	k, err := find(api)
	if err != nil {
		return 0
	}
	ms := k.shape.lengthsIn(extra)
	for _, key := range k.shape.least {
		if i := ms.find(key); i >= 0 {
			n, _ := strconv.Atoi(string(ms[i].value)) // servers refuse what is no number
			tokens = max(tokens, n)
		}
	}
	return tokens
}

// saysLength is ownLength of the members among which lengths stand.
func (s *shape) saysLength(ms members) bool {
	has := func(key string) bool { return key != "" && ms.find(key) >= 0 }
	return has(s.alias) || has(s.most)
}

// fields are the members of a body after its prompt, with holes where the number of output tokens goes.
type fields struct {
	leads [][]byte // what precedes each number
	rest  []byte
	bare  bool // a comma would be too many
	ids   int  // where in rest the answer's ids go; 0 = nowhere
}

func (f *fields) comma() {
	if !f.bare {
		f.rest = append(f.rest, ',')
	}
	f.bare = false
}

func (f *fields) add(m member) {
	f.comma()
	f.rest = m.append(f.rest)
}

// addNumber leaves a hole for the number of output tokens.
func (f *fields) addNumber(key string) {
	f.comma()
	f.leads = append(f.leads, append(appendString(f.rest, key), ':'))
	f.rest = nil
}

func (f *fields) addOurs(ours, extra members) {
	for _, m := range ours {
		if extra.find(m.key) < 0 {
			f.add(m)
		}
	}
}

// bodyOf makes a body of what surrounds a prompt and of extra members, which win over ours.
func (s *shape) bodyOf(o Options, around frame, extra members) body {
	b := body{prefix: []byte{'{'}}
	if o.Model != "" && extra.find("model") < 0 {
		b.prefix = append(appendString(append(b.prefix, `"model":`...), o.Model), ',')
	}
	b.prefix = append(b.prefix, around.open...)
	b.sized = s.after(o, around, extra, true)
	b.free = s.after(o, around, extra, false).rest
	if o.CacheSalt != "" && extra.find("cache_salt") < 0 {
		b.saltBytes = len(o.CacheSalt)
		b.salt = []byte(saltLead + o.CacheSalt + saltEnd)
	}
	return b
}

// after is all that follows a prompt; sized: with a number of output tokens.
func (s *shape) after(o Options, around frame, extra members, sized bool) fields {
	f := fields{rest: []byte(around.end)}
	outer := extra
	if s.nest == "" {
		s.addLengths(&f, o, extra, sized)
	} else {
		outer = s.addNest(&f, o, extra, sized)
	}
	switch {
	case !o.Stream:
		f.addOurs(s.whole, outer)
	case outer.find("stream") < 0:
		f.addOurs(s.stream, outer)
	}
	for _, m := range outer {
		if !s.noNulls || string(m.value) != "null" {
			f.add(m)
		}
	}
	if o.CacheSalt != "" && outer.find("cache_salt") < 0 {
		f.rest = append(f.rest, `,`+saltLead+o.CacheSalt+saltEnd...)
		return f
	}
	f.rest = append(f.rest, '}')
	return f
}

// addLengths adds the lengths and what is in every body, and leaves out what is in extra.
func (s *shape) addLengths(f *fields, o Options, extra members, sized bool) {
	if sized {
		own := s.saysLength(extra)
		if s.most != "" && !own {
			f.addNumber(s.most)
		}
		if o.ForceOutput {
			for _, key := range s.least {
				if !own && extra.find(key) < 0 {
					f.addNumber(key)
				}
			}
			f.addOurs(s.forced, extra)
		}
	}
	f.addOurs(s.fixed, extra)
	if sized && o.Answers && extra.find(s.answer) < 0 {
		f.comma()
		f.rest = append(appendString(f.rest, s.answer), ":["...)
		f.ids = len(f.rest)
		f.rest = append(f.rest, ']')
	}
}

// addNest adds the object with the lengths, into which an object of the same name among the extra members is merged. It
// returns the other extra members.
func (s *shape) addNest(f *fields, o Options, extra members, sized bool) (outer members) {
	var inner members
	for _, m := range extra {
		if m.key == s.nest {
			inner, _ = parseObject(m.value) // checked by checkNest
			continue
		}
		outer = append(outer, m)
	}
	f.comma()
	f.rest = append(append(appendString(f.rest, s.nest), ':'), '{')
	f.bare = true
	s.addLengths(f, o, inner, sized)
	for _, m := range inner {
		f.add(m)
	}
	f.rest = append(f.rest, '}')
	f.bare = false
	return outer
}

// checkNest refuses extra members that cannot be merged.
func (s *shape) checkNest(extra members) error {
	i := extra.find(s.nest)
	if s.nest == "" || i < 0 {
		return nil
	}
	if _, err := parseObject(extra[i].value); err != nil {
		return fmt.Errorf("key %q: %w", s.nest, err)
	}
	return nil
}

// body is a body with holes: the prompt, and the number of output tokens wherever it stands.
type body struct {
	prefix    []byte
	sized     fields // what follows a prompt with a number of output tokens
	free      []byte // … and without one
	salt      []byte // how a body with a salt ends
	saltBytes int
}

func (b *body) AppendPrefix(dst []byte) []byte { return append(dst, b.prefix...) }

func (b *body) AppendSuffix(dst []byte, outputTokens int) []byte {
	if outputTokens <= 0 {
		return append(dst, b.free...)
	}
	for _, lead := range b.sized.leads {
		dst = strconv.AppendInt(append(dst, lead...), int64(outputTokens), 10)
	}
	return append(dst, b.sized.rest...)
}

func (b *body) AnswerEnd() int {
	if b.sized.ids == 0 {
		return 0
	}
	return len(b.sized.rest) - b.sized.ids
}

func (b *body) Size(promptBytes, outputTokens int) int {
	size := len(b.prefix) + promptBytes
	if outputTokens <= 0 {
		return size + len(b.free)
	}
	var buf [20]byte
	digits := len(strconv.AppendInt(buf[:0], int64(outputTokens), 10))
	for _, lead := range b.sized.leads {
		size += len(lead) + digits
	}
	return size + len(b.sized.rest)
}

func (b *body) SaltSpan(body []byte) (from, to int) {
	if b.saltBytes == 0 || !bytes.HasSuffix(body, b.salt) {
		return 0, 0
	}
	to = len(body) - len(saltEnd)
	return to - b.saltBytes, to
}

// checkSalt keeps the salt free of anything that JSON would escape, so that its length is that of its bytes.
func checkSalt(salt string) error {
	for _, c := range []byte(salt) {
		ok := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
		if !ok {
			return fmt.Errorf("cache salt %q: use letters, digits, - and _ only", salt)
		}
	}
	return nil
}

// appendString appends a JSON string; it keeps <, > and & as they are.
func appendString(dst []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: api: a string that has no JSON: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
