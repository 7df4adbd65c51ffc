package formats

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// batch is the format of OpenAI's batch files, a line a request:
//
//	{"custom_id":"request-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[…]}}
//
// as https://platform.openai.com/docs/guides/batch describes. Bodies are sent as they are, and all to the same url.
// There are no timestamps. The file of answers, if it is given before that of requests, tells how long they were:
//
//	{"id":"batch_req_1","custom_id":"request-1","response":{"status_code":200,"body":{"choices":…,"usage":…}}}
func batch() *Format {
	answers := &batchAnswers{asked: map[string]bool{}, bodies: map[string][]byte{}}
	return &Format{
		Name:   "batch",
		Layout: rows.Layout{Names: rows.Names{rows.PayloadField: "body"}},
		Words:  true,
		Import: &Importer{
			Match: anyOf(hasKeys("body", "url"), hasKeys("custom_id", "response", "error")),
			Read:  answers.read,
		},
		Write: &Writer{
			Refuse: func(first, r *Request) string {
				path := r.path()
				all := first.path()
				if path != all {
					return "is for " + path + ", the first one for " + all
				}
				return notMerged(first, r)
			},
			Append: func(dst []byte, r *Request) []byte {
				dst = appendInt(dst, `{"custom_id":"row-`, r.Number)
				dst = appendString(append(dst, `","method":"POST","url":`...), r.path())
				return concat(dst, `,"body":`, string(r.body()), "}")
			},
		},
	}
}

// batchAnswers is what a batch's file of answers has told, by the names of requests.
type batchAnswers struct {
	asked  map[string]bool
	bodies map[string][]byte
}

// readAnswer keeps an answer until the request comes.
func (a *batchAnswers) readAnswer(o object) {
	id := o.Name("custom_id", "it names the request")
	if a.bodies[id] != nil || a.asked[id] {
		o.Fail("custom_id "+rows.Quote(id)+" has an answer already, or its request came before",
			"each has one answer: give the file of answers before that of requests")
	}
	body := o.In("response").Value("body")
	if body == nil {
		body = []byte(`{"error":true}`)
	}
	a.bodies[id] = bytes.Clone(body)
	o.Note(errNoRow)
}

func (a *batchAnswers) read(b *Batch, o object) {
	if o.Has("response") || o.Has("error") {
		a.readAnswer(o)
		return
	}
	id := o.Value("custom_id")
	if id != nil && id[0] != '"' {
		o.Fail("custom_id is "+rows.Clip(id)+", not a string", `write it as a string, for example "request-1"`)
	}
	method := o.Value("method")
	if method != nil && !strings.EqualFold(string(method), `"POST"`) {
		o.Fail("method is "+rows.Clip(method)+", not \"POST\"", "requests for completions are posted")
	}
	url := o.Need("url", "it names the API of the body")
	if !strings.HasPrefix(string(url), `"/`) {
		o.Fail("url is "+rows.Clip(url)+", not a path",
			`write it as "/v1/chat/completions"; the server is named by --url`)
	}
	body := o.Need("body", "it is what is sent")
	if o.OK() {
		r := b.add()
		r.Endpoint = string(rows.TextOf(url))
		b.setBody(r, body)
		name := o.TextOr("custom_id", "")
		a.asked[name] = true
		if b.setAnswer(r, a.bodies[name]) {
			b.Rows = nil
			b.Failed++
		}
	}
}

// rawPayload is the format of files of request bodies, one a line, which are sent unchanged.
//
//	{"model":"m","messages":[…],"max_tokens":20}
//
// In a directory each file is a session, its lines the turns in order. The format is AIPerf's:
// https://docs.nvidia.com/aiperf/tutorials/datasets-inputs/raw-payload-replay. There are no timestamps.
func rawPayload() *Format {
	return &Format{
		Name:   "raw_payload",
		Layout: rows.Layout{Names: rows.Names{rows.PayloadField: "the body"}},
		Words:  true,
		Import: &Importer{
			Match:    isBody,
			ReadText: readRawPayload,
		},
		Write: &Writer{
			Refuse: notMerged,
			Append: func(dst []byte, r *Request) []byte {
				return append(dst, r.body()...)
			},
		},
	}
}

// isBody recognizes a body by its prompt and its other keys. A row of Mooncake's may have messages too, and tools.
func isBody(keys []string) bool {
	asks := hasAny(keys, "messages", "prompt", "input", "inputs", "contents")
	return asks && saysBody(keys) && notOfBodies(keys) == 0
}

func saysBody(keys []string) bool {
	return hasAny(keys, "model", "parameters")
}

// notOfBodies is what Mooncake's rows have and bodies have not.
func notOfBodies(keys []string) rows.FieldSet {
	ofBoth := rows.SetOf(rows.MessagesField, rows.ToolsField, rows.ModelField, rows.PriorityField)
	return mooncake().FieldsOf(keys) &^ ofBoth
}

// doubtBody refuses a row of Mooncake's among bodies: it would be sent as it stands.
func doubtBody(body object) {
	var keys []string
	for _, m := range body.Members {
		keys = append(keys, m.Key)
	}
	foreign := notOfBodies(keys)
	if foreign != 0 && !saysBody(keys) {
		body.Fail("a row with "+mooncake().List(foreign)+", where others are bodies to send",
			"a file has one format; --format raw_payload sends this as a body, too")
	}
}

func readRawPayload(b *Batch, text []byte) {
	body := b.body(text)
	if b.File.Detected {
		doubtBody(body)
	}
	if !body.OK() {
		return
	}
	r := b.add()
	r.SetSession([]byte(b.File.Within))
	b.setWhole(r, text)
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
func inputsJSON() *Format {
	names := rows.Usual(rows.TimestampField, rows.SessionField)
	names[rows.PayloadField] = "the body"
	return &Format{
		Name:       "inputs_json",
		Layout:     rows.Layout{Names: names},
		UnitVaries: true,
		Words:      true,
		Import: &Importer{
			Match:   func([]string) bool { return false }, // its ListKey decides
			ListKey: "data",
			Read:    readInputs,
		},
		Write: &Writer{
			Refuse: notMerged,
			Head:   `{"data":[` + "\n",
			Tail:   "]}\n",
			Append: appendInputs,
		},
	}
}

func readInputs(b *Batch, o object) {
	key := "payloads"
	if !o.Has(key) && o.Has("payload") {
		key = "payload"
	} else if o.Need(key, "they are what is sent"); o.Has("payload") {
		o.Fail("both payloads and payload", "keep one of them")
	}
	sessionless := key == "payloads" && !o.Has("session_id")
	o.Values(key, `[{"model":"…",…},…]`, func(i int, body []byte) {
		if sessionless {
			o.Fail("missing session_id", "payloads are the turns of a session")
			return
		}
		r := b.add()
		for _, f := range []rows.Field{rows.TimestampField, rows.SessionField} {
			value := o.Value(rows.UsualNames()[f])
			if all := elements(value); len(all) == 1 {
				value = all[0] // GenAI-Perf's
			}
			if value != nil && o.OK() {
				b.set(r, f, value)
			}
		}
		if o.OK() {
			b.setBody(r, body)
			b.Fault = rows.Inside(fmt.Sprintf("%s[%d]", key, i), b.Fault)
		}
	})
}

// elements are the values of a list as far as it is valid; none of another value.
func elements(list []byte) (all [][]byte) {
	s := rows.Scan(list)
	_ = s.List(func(_ int, value []byte) error {
		all = append(all, value)
		return nil
	})
	return all
}

// appendInputs writes an entry for each row, as AIPerf has it but for GenAI-Perf's timestamp, which AIPerf ignores. A
// session must have a name.
func appendInputs(dst []byte, r *Request) []byte {
	before := len(dst) + 1
	dst = r.appendSession(append(dst, '{'), "session_id")
	if len(dst) == before {
		dst = append(appendInt(dst, `"session_id":"row-`, r.Number), `",`...)
	}
	dst = append(r.appendTimestamp(dst), `"payloads":[`...)
	return concat(dst, string(r.body()), "]}")
}
