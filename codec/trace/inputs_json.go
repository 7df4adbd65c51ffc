package trace

import (
	"fmt"
	"strconv"
	"time"
)

// inputsJSON is the format of AIPerf's inputs.json, one document with all bodies, which are sent as they are:
//
//	{"data":[{"session_id":"a","payloads":[{"model":"m","messages":[…]},…]},…]}
//
// as https://docs.nvidia.com/aiperf/tutorials/datasets-inputs/inputs-json-replay says: a session's payloads are its turns in
// order. GenAI-Perf, from which it comes, has an entry for each request, with what else it says of it in lists of one:
//
//	{"data":[{"payload":[{"model":"m","messages":[…]}],"session_id":["a"],"timestamp":[1500]},…]}
//
// Its timestamps are milliseconds.
func inputsJSON() *format {
	names := usual(timestampField, sessionField)
	names[payloadField] = "the body"
	return &format{
		name:        "inputs_json",
		blockTokens: noBlocks,
		unit:        time.Millisecond,
		names:       names,
		known:       func([]string) bool { return false }, // its listKey tells
		listKey:     "data",
		items:       readInputs,
		words:       true,
		cannot:      notMerged,
		head:        `{"data":[` + "\n",
		between:     ",",
		tail:        "]}\n",
		appendRow:   appendInputs,
	}
}

func readInputs(out *items, object []byte) error {
	all, err := membersOf(object)
	if err != nil {
		return err
	}
	key, list, err := payloadsOf(all)
	if err != nil {
		return err
	}
	s := scanner{b: list}
	return s.list(func(i int, body []byte) error {
		r := out.add()
		for _, f := range []field{timestampField, sessionField} {
			if value := valueOf(all, usualNames()[f]); value != nil {
				if err := out.set(r, f, alone(value)); err != nil {
					return err
				}
			}
		}
		return inside(fmt.Sprintf("%s[%d]", key, i), out.setBody(r, body))
	})
}

// payloadsOf is the list of bodies of an entry and its key, AIPerf's or GenAI-Perf's.
func payloadsOf(all []member) (key string, list []byte, err error) {
	session, one := valueOf(all, "payloads"), valueOf(all, "payload")
	key, list = "payloads", session
	if session == nil {
		key, list = "payload", one
	}
	switch {
	case list == nil:
		err = &rowError{"missing payloads", "they are what is sent"}
	case session != nil && one != nil:
		err = &rowError{"both payloads and payload", "keep one of them"}
	case list[0] != '[':
		err = &rowError{key + " is " + clip(list) + ", not a list", `write it as [{"model":"…",…},…]`}
	case session != nil && valueOf(all, "session_id") == nil:
		err = &rowError{"missing session_id", "payloads are the turns of a session"}
	}
	return key, list, err
}

// alone is the value in a list of one; other values are themselves.
func alone(value []byte) []byte {
	only, n := value, 0
	if value[0] != '[' {
		return value
	}
	s := scanner{b: value}
	_ = s.list(func(_ int, v []byte) error { // it is known to be valid
		only = v
		n++
		return nil
	})
	if n != 1 {
		return value
	}
	return only
}

// appendInputs writes an entry for each row, as AIPerf has it but for GenAI-Perf's timestamp: AIPerf ignores what it does not
// know. A session must have a name.
func appendInputs(dst []byte, t *Trace, i int) []byte {
	before := len(dst) + 1
	if dst = appendSession(append(dst, '{'), t, i, "session_id"); len(dst) == before {
		dst = append(strconv.AppendInt(append(dst, `"session_id":"row-`...), int64(t.Row[i]), 10), `",`...)
	}
	dst = append(appendTimestamp(dst, t, i), `"payloads":[`...)
	return append(append(dst, t.body(i)...), "]}"...)
}
