package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// batch is the format of OpenAI's batch files, a line a request:
//
//	{"custom_id":"request-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[…]}}
//
// as https://platform.openai.com/docs/guides/batch describes. Bodies are sent as they are, and all to the same url.
// There are no timestamps.
func batch() *format {
	return &format{
		name:        "batch",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       fieldNames{payloadField: "body"},
		known:       func(keys []string) bool { return slices.Contains(keys, "body") && slices.Contains(keys, "url") },
		items:       ofMembers(readBatch),
		words:       true,
		cannot:      notBatched,
		appendRow:   appendBatch,
	}
}

func readBatch(out *items, all []member) error {
	id, method, url, body := valueOf(all, "custom_id"), valueOf(all, "method"), valueOf(all, "url"), valueOf(all, "body")
	switch {
	case id != nil && id[0] != '"':
		return &rowError{"custom_id is " + clip(id) + ", not a string", `write it as a string, for example "request-1"`}
	case method != nil && !strings.EqualFold(string(method), `"POST"`):
		return &rowError{"method is " + clip(method) + ", not \"POST\"", "requests for completions are posted"}
	case url == nil:
		return &rowError{"missing url", "it names the API of the body"}
	case !strings.HasPrefix(string(url), `"/`):
		return &rowError{"url is " + clip(url) + ", not a path",
			`write it as "/v1/chat/completions"; the server is named by --url`}
	case body == nil:
		return &rowError{"missing body", "it is what is sent"}
	}
	r := out.add()
	r.endpoint = string(textOf(url))
	return out.setBody(r, body)
}

// notBatched returns what keeps request i out of the format.
func notBatched(t *Trace, i int) string {
	if path, first := t.path(i), t.path(0); path != first { // a batch is for one
		return "is for " + path + ", the first one for " + first
	}
	return notMerged(t, i)
}

func appendBatch(dst []byte, t *Trace, i int) []byte {
	dst = strconv.AppendInt(append(dst, `{"custom_id":"row-`...), int64(t.Row[i]), 10)
	dst = appendString(append(dst, `","method":"POST","url":`...), t.path(i))
	return append(append(append(dst, `,"body":`...), t.body(i)...), '}')
}

// rawPayload is the format of files of request bodies, one a line, which are sent unchanged:
//
//	{"model":"m","messages":[…],"max_tokens":20}
//
// In a directory each file is a session, its lines the turns in order. The format is AIPerf's:
// https://docs.nvidia.com/aiperf/tutorials/datasets-inputs/raw-payload-replay. There are no timestamps.
func rawPayload() *format {
	return &format{
		name:        "raw_payload",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       fieldNames{payloadField: "the body"},
		known:       isBody,
		items:       readRawPayload,
		words:       true,
		cannot:      notMerged,
		appendRow:   func(dst []byte, t *Trace, i int) []byte { return append(dst, t.body(i)...) },
	}
}

// isBody recognizes a body by its prompt and its other keys. A row of Mooncake's may have messages too, and tools.
func isBody(keys []string) bool {
	return saysBody(keys) && hasAny(keys, "messages", "prompt", "input", "inputs", "contents") && notOfBodies(keys) == 0
}

func saysBody(keys []string) bool { return hasAny(keys, "model", "parameters") }

func hasAny(keys []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(keys, name) })
}

// notOfBodies is what Mooncake's rows have and bodies have not.
func notOfBodies(keys []string) fieldSet {
	return mooncake().fieldsOf(keys) &^ setOf(messagesField, toolsField)
}

// doubtBody refuses a row of Mooncake's among bodies: it would be sent as it stands.
func doubtBody(body []member) error {
	var keys []string
	for _, m := range body {
		keys = append(keys, m.key)
	}
	if saysBody(keys) {
		return nil
	}
	if foreign := notOfBodies(keys); foreign != 0 {
		return &rowError{"a row with " + mooncake().list(foreign) + ", where others are bodies to send",
			"a file has one format; --format raw_payload sends this as a body, too"}
	}
	return nil
}

func readRawPayload(out *items, object []byte) error {
	all, err := out.bodyMembers(object)
	if err == nil && !out.told {
		err = doubtBody(all)
	}
	if err != nil {
		return err
	}
	r := out.add()
	r.setSession([]byte(out.within))
	return out.setWhole(r, object)
}

// inputsJSON is the format of AIPerf's inputs.json, one document with all bodies, which are sent unchanged:
//
//	{"data":[{"session_id":"a","payloads":[{"model":"m","messages":[…]},…]},…]}
//
// as https://docs.nvidia.com/aiperf/tutorials/datasets-inputs/inputs-json-replay describes. A session's payloads are
// its turns in order. The format comes from GenAI-Perf, which has an entry for each request, with all values in lists
// of one:
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
		known:       func([]string) bool { return false }, // its listKey decides
		listKey:     "data",
		items:       ofMembers(readInputs),
		words:       true,
		cannot:      notMerged,
		head:        `{"data":[` + "\n",
		between:     ",",
		tail:        "]}\n",
		appendRow:   appendInputs,
	}
}

func readInputs(out *items, all []member) error {
	key, list, err := payloadsOf(all)
	if err != nil {
		return err
	}
	s := scan(list)
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

// payloadsOf returns the list of bodies of an entry and its key, AIPerf's or GenAI-Perf's.
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
	s := scan(value)
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

// appendInputs writes an entry for each row, as AIPerf has it but for GenAI-Perf's timestamp, which AIPerf ignores. A
// session must have a name.
func appendInputs(dst []byte, t *Trace, i int) []byte {
	before := len(dst) + 1
	if dst = appendSession(append(dst, '{'), t, i, "session_id"); len(dst) == before {
		dst = append(strconv.AppendInt(append(dst, `"session_id":"row-`...), int64(t.Row[i]), 10), `",`...)
	}
	dst = append(appendTimestamp(dst, t, i), `"payloads":[`...)
	return append(append(dst, t.body(i)...), "]}"...)
}
