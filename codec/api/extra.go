package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	scanner "github.com/fastreplay/fastreplay/codec/json"
)

// member is one key of a JSON object with its compact value.
type member struct {
	key   string
	value json.RawMessage
}

// members is a JSON object in order, each key once.
type members []member

func (ms members) find(key string) int {
	for i := range ms {
		if ms[i].key == key {
			return i
		}
	}
	return -1
}

// set adds the key, or replaces its value where it stands.
func (ms members) set(key string, value json.RawMessage) members {
	if i := ms.find(key); i >= 0 {
		ms[i].value = value
		return ms
	}
	return append(ms, member{key, value})
}

// merge sets every member of another object.
func (ms members) merge(other members) members {
	for _, m := range other {
		ms = ms.set(m.key, m.value)
	}
	return ms
}

// append appends the object.
func (ms members) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range ms {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.append(dst)
	}
	return append(dst, '}')
}

func (m member) append(dst []byte) []byte {
	return append(append(appendString(dst, m.key), ':'), m.value...)
}

// ParseExtra merges extra inputs into one object; a later key replaces an earlier one. Each is "key:value" or a JSON
// object; a value that is no JSON is taken as a string. It returns nil for no arguments, and refuses keys that the
// replay owns.
func ParseExtra(args []string) (json.RawMessage, error) {
	var all members
	for _, arg := range args {
		some, err := parseExtraArg(arg)
		if err != nil {
			return nil, fmt.Errorf("extra inputs %q: %w", arg, err)
		}
		all = all.merge(some)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all.append(nil), nil
}

func parseExtraArg(arg string) (members, error) {
	arg = strings.TrimSpace(arg)
	if strings.HasPrefix(arg, "{") {
		return parseOurs([]byte(arg))
	}
	key, value, ok := strings.Cut(arg, ":")
	key = strings.TrimSpace(key)
	value = strings.TrimSpace(value)
	if !ok || key == "" {
		return nil, errors.New(`write key:value or a JSON object, such as temperature:0 or '{"top_p":0.9}'`)
	}
	raw := json.RawMessage(value)
	if !json.Valid(raw) {
		raw = appendString(nil, value)
	}
	ms := members{{key, compact(raw)}}
	return ms, ms.refuse(ownedByRun)
}

// parseOurs reads the run's extra inputs and refuses keys that the replay owns.
func parseOurs(object []byte) (members, error) {
	ms, err := parseObject(object)
	if err == nil {
		err = ms.refuse(ownedByRun)
	}
	for i := range ms {
		ms[i].value = compact(ms[i].value)
	}
	return ms, err
}

// parseObject reads an object's members in order, the last one of a key that occurs again. No bytes are no members.
func parseObject(object []byte) (members, error) {
	if len(object) == 0 {
		return nil, nil
	}
	s := scanner.Scanner{Data: object, MaxDepth: 10_000} // as encoding/json
	var ms members
	for key := range s.Keys() {
		from := s.At
		s.Skip()
		ms = ms.set(string(key), object[from:s.At])
	}
	s.End("bytes after the object")
	switch {
	case s.Failed():
		return nil, fmt.Errorf("not JSON: %w", s.Err())
	case bytes.TrimSpace(object)[0] != '{':
		return nil, errors.New("not a JSON object")
	}
	return ms, nil
}

// Who owns the prompt that extra inputs cannot replace.
const (
	ownedByRun = "the trace's: prompts come from it"
	ownedByRow = "given by the row itself"
)

// refuse is an error for keys that no extra input may have.
func (ms members) refuse(owner string) error {
	for _, key := range []string{"prompt", "messages", "input", "inputs", "input_ids", "text_input"} {
		if ms.find(key) >= 0 {
			return fmt.Errorf("key %q is %s", key, owner)
		}
	}
	return nil
}

func compact(value json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		panic("BUG: api: compacting valid JSON: " + err.Error())
	}
	return out.Bytes()
}
