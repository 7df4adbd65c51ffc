package trace

import (
	"fmt"
	"slices"
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
		name:      "batch",
		names:     fieldNames{payloadField: "body"},
		known:     func(keys []string) bool { return slices.Contains(keys, "body") && slices.Contains(keys, "url") },
		items:     ofObject(readBatch),
		words:     true,
		cannot:    notBatched,
		appendRow: appendBatch,
	}
}

func readBatch(out *items, o object) {
	if id := o.value("custom_id"); id != nil && id[0] != '"' {
		o.fail("custom_id is "+clip(id)+", not a string", `write it as a string, for example "request-1"`)
	}
	if method := o.value("method"); method != nil && !strings.EqualFold(string(method), `"POST"`) {
		o.fail("method is "+clip(method)+", not \"POST\"", "requests for completions are posted")
	}
	url := o.need("url", "it names the API of the body")
	if !strings.HasPrefix(string(url), `"/`) {
		o.fail("url is "+clip(url)+", not a path", `write it as "/v1/chat/completions"; the server is named by --url`)
	}
	if body := o.need("body", "it is what is sent"); o.ok() {
		r := out.add()
		r.endpoint = string(textOf(url))
		out.setBody(r, body)
	}
}

// notBatched returns what keeps request i out of the format.
func notBatched(t *Trace, i int) string {
	if path, first := t.path(i), t.path(0); path != first { // a batch is for one
		return "is for " + path + ", the first one for " + first
	}
	return notMerged(t, i)
}

func appendBatch(dst []byte, t *Trace, i int) []byte {
	dst = appendInt(dst, `{"custom_id":"row-`, t.Row[i])
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
		name:      "raw_payload",
		names:     fieldNames{payloadField: "the body"},
		known:     isBody,
		items:     readRawPayload,
		words:     true,
		cannot:    notMerged,
		appendRow: func(dst []byte, t *Trace, i int) []byte { return append(dst, t.body(i)...) },
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
func doubtBody(body object) {
	var keys []string
	for _, m := range body.members {
		keys = append(keys, m.key)
	}
	if foreign := notOfBodies(keys); foreign != 0 && !saysBody(keys) {
		body.fail("a row with "+mooncake().list(foreign)+", where others are bodies to send",
			"a file has one format; --format raw_payload sends this as a body, too")
	}
}

func readRawPayload(out *items, text []byte) {
	body := out.body(text)
	if out.l.o.Format == "" {
		doubtBody(body)
	}
	if !body.ok() {
		return
	}
	r := out.add()
	r.setSession([]byte(out.l.within))
	out.setWhole(r, text)
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
		name:      "inputs_json",
		unit:      time.Millisecond,
		names:     names,
		known:     func([]string) bool { return false }, // its listKey decides
		listKey:   "data",
		items:     ofObject(readInputs),
		words:     true,
		cannot:    notMerged,
		head:      `{"data":[` + "\n",
		between:   ",",
		tail:      "]}\n",
		appendRow: appendInputs,
	}
}

func readInputs(out *items, o object) {
	key := "payloads"
	if !o.has(key) && o.has("payload") {
		key = "payload"
	} else if o.need(key, "they are what is sent"); o.has("payload") {
		o.fail("both payloads and payload", "keep one of them")
	}
	sessionless := key == "payloads" && !o.has("session_id")
	o.values(key, `[{"model":"…",…},…]`, func(i int, body []byte) {
		if sessionless {
			o.fail("missing session_id", "payloads are the turns of a session")
			return
		}
		r := out.add()
		for _, f := range []field{timestampField, sessionField} {
			if value := o.value(usualNames()[f]); value != nil && o.ok() {
				out.set(r, f, alone(value))
			}
		}
		if o.ok() {
			out.setBody(r, body)
			out.fault = inside(fmt.Sprintf("%s[%d]", key, i), out.fault)
		}
	})
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
		dst = append(appendInt(dst, `"session_id":"row-`, t.Row[i]), `",`...)
	}
	dst = append(appendTimestamp(dst, t, i), `"payloads":[`...)
	return append(append(dst, t.body(i)...), "]}"...)
}
