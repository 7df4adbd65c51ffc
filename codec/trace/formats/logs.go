package formats

import (
	"bytes"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/chatml"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// logOf is a format of what a server or a gateway logged with its text, an object a request. It has what was asked and
// what was answered under two keys. Skip tells objects that are no requests; nil = there are none.
func logOf(
	name, asked, answered string, match func(keys []string) bool, skip func(o object) bool,
) *Format {
	return &Format{
		Name: name,
		Layout: rows.Layout{
			Dates: true,
			Names: rows.Names{
				rows.TimestampField: "the time of the request",
				rows.PayloadField:   asked,
				rows.MessagesField:  asked,
				rows.TextField:      asked,
				rows.TenantField:    "tenant",
				rows.ModelField:     "model",
				rows.ClassField:     "class",
				rows.PriorityField:  "priority",
			},
		},
		Words: true,
		Import: &Importer{
			Match: match,
			Read: func(b *Batch, o object) {
				if skip != nil && skip(o) {
					o.Note(errNoRow)
					return
				}
				b.readLogged(o, asked, answered)
			},
		},
	}
}

// openAILog is the format of logs of requests with their responses, as proxies and clients of OpenAI's and Anthropic's
// APIs write them.
//
//	{"request":{"model":"m","messages":[…]},"response":{"choices":[…],"usage":{…}},"timestamp":"2026-11-27T09:00:00Z",
//	 "first_token_time":…,"end_time":…,"session_id":"a","status":200,"owner":{"tenant":"b"}}
//
// A response is a body, a string with one, or a stream: its text or the list of its chunks. There is no standard for
// what stands beside: the names are those of setTimes and sessionOf.
func openAILog() *Format {
	return logOf("openai_log", "request", "response", hasKeys("request", "response"), nil)
}

// liteLLM is the format of LiteLLM's standard logging payload, as its callbacks write it to files and object stores. It
// is also that of the rows of LiteLLM_SpendLogs.
//
//	{"id":"…","call_type":"acompletion","status":"success","startTime":1732700000.1,"completionStartTime":…,
//	 "endTime":…,"messages":[…],"response":{"choices":[…],"usage":{…}},"prompt_tokens":9,"completion_tokens":3,…}
//
// as class StandardLoggingPayload of litellm/types/utils.py has it (https://github.com/BerriAI/litellm, 2026).
// Instants are seconds, in spend logs dates. A trace_id is of the retries of one request, and so no session.
func liteLLM() *Format {
	return logOf("litellm", "messages", "response", hasKeys("call_type", "startTime", "messages", "response"), nil)
}

// langfuse is the format of Langfuse's exports of observations, of which generations are requests:
//
//	{"id":"…","type":"GENERATION","startTime":"2026-11-27T09:00:00.000Z","completionStartTime":"…","endTime":"…",
//	 "input":[{"role":"user","content":"…"}],"output":{"role":"assistant","content":"…"},
//	 "usageDetails":{"input":9,"output":3,"input_cached_tokens":0},"sessionId":"…"}
//
// as https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields lists the fields; exports to
// object stores write them with underscores (start_time, usage_details), and the API with capitals.
func langfuse() *Format {
	match := anyOf(hasKeys("type", "input", "output", "startTime"), hasKeys("type", "input", "output", "start_time"))
	return logOf("langfuse", "input", "output", match, func(o object) bool {
		return o.Name("type", "a GENERATION is a request") != "GENERATION"
	})
}

// sglangLog is the format of SGLang's requests as it logs them with --log-requests-format json:
//
//	{"timestamp":"2026-11-27T09:00:00.812","event":"request.finished","rid":"…","obj":{"text":"…","input_ids":[…],…},
//	 "out":{"text":"…","meta_info":{"prompt_tokens":9,"completion_tokens":3,"cached_tokens":0,"e2e_latency":0.8}}}
//
// as request_logger.py and log_utils.py in python/sglang/srt/utils of https://github.com/sgl-project/sglang write it
// (2026). Only --log-requests-level 3 logs whole prompts. A request began its latency before the line was written. One
// that was received and never finished counts as failed.
func sglangLog() *Format {
	open := map[string]bool{} // requests that were received and have not finished
	f := logOf("sglang_log", "obj", "out", hasKeys("event", "rid", "obj"), func(o object) bool {
		name := o.Name("rid", "it names the request")
		finished := o.Name("event", "request.finished has the answer") == "request.finished"
		if o.OK() && !finished {
			open[name] = true
		} else {
			delete(open, name)
		}
		const most = 2048 // characters that level 2 logs of a longer text: the first and last half, with dots between
		asked := o.In("obj")
		text := []rune(asked.TextOr("text", ""))
		if !asked.Has("input_ids") && len(text) == most+3 && string(text[most/2:][:3]) == "..." {
			o.Fail("the prompt was cut when it was logged", "log with --log-requests-level 3")
		}
		return o.OK() && !finished
	})
	f.Import.End = func(b *Batch) {
		b.endFailed(len(open))
		clear(open)
	}
	return f
}

// endFailed counts requests as failed that had no answer at the end of the file.
func (b *Batch) endFailed(n int) {
	b.Failed = n
	if n > 0 {
		b.flush(0)
	}
}

// readLogged reads a request and its answer.
func (b *Batch) readLogged(o object, asked, answered string) {
	value := o.Need(asked, "it is what was asked")
	if value == nil {
		return
	}
	r := b.add()
	body := object{Fault: &b.Fault}
	switch value[0] {
	case '"':
		b.set(r, rows.TextField, value)
	case '[':
		b.set(r, rows.MessagesField, value)
	default:
		body = b.body(value)
		if body.OK() {
			b.setWhole(r, b.History.Whole(body))
		}
	}
	setTimes(r, o)
	r.SetSession(sessionOf(o, body))
	b.setOwner(r, o.In("owner"), "")
	failed := b.setAnswer(r, o.Value(answered), o, o.In("usageDetails"), o.In("usage_details"))
	code := o.Value("status")
	failed = failed || len(code) == 3 && code[0] >= '4' || o.Is("status", "failure") || o.Is("level", "ERROR")
	if failed {
		b.Rows = nil
		b.Failed++
		return
	}
	b.checkPrompt(r)
	if body.OK() && b.response.Members != nil {
		b.History.Keep(body, b.response)
	}
}

// checkPrompt refuses a request whose prompt is not one text, or not all there.
func (b *Batch) checkPrompt(r *row) {
	if b.Fault == nil {
		_, err := chatml.Of(r.Verbatim)
		b.note(err)
	}
}

// setTimes notes when a request was sent, and when its answer began and ended, by the names that logs have for it.
func setTimes(r *row, o object) {
	began := instantOf(o, "start_time", "startTime", "request_time", "timestamp", "created_at", "time")
	first := instantOf(o, "first_token_time", "completion_start_time", "completionStartTime")
	ended := instantOf(o, "end_time", "endTime")
	latency := o.In("out").In("meta_info").Span("e2e_latency", 9)
	if latency >= 0 && began != agents.NoTime { // of SGLang, whose timestamp is the end
		ended = began
		began -= latency
	}
	r.SetSpan(began, ended)
	for _, key := range []string{"duration_ms", "latency_ms"} {
		r.TookNS = max(r.TookNS, o.Span(key, 6))
	}
	r.TTFTNS = o.Span("ttft_ms", 6)
	if began != agents.NoTime && first >= began {
		r.TTFTNS = first - began
	}
}

// instantOf is the instant under the first of some keys that is there. It is a date, or a number of seconds, ms, µs or
// ns since 1970, by its size.
func instantOf(o object, keys ...string) int64 {
	for _, key := range keys {
		value := o.Value(key)
		switch {
		case value == nil:
		case value[0] == '"':
			return o.Date(key)
		default:
			digits := 9
			whole, _, _ := bytes.Cut(value, []byte("."))
			for size := len(whole); size > 11 && digits > 0; size -= 3 { // seconds have 11 digits until the year 5138
				digits -= 3
			}
			return o.Span(key, digits)
		}
	}
	return agents.NoTime
}

// sessionOf is the name of the session of a request, where one of the places has it that clients put it in.
func sessionOf(o, body object) []byte {
	for _, value := range [][]byte{
		o.Value("session_id", "sessionId"),
		o.In("headers").Value("x-session-id", "x-dynamo-session-id", "X-Session-Id"),
		body.Value("session_id", "prompt_cache_key"),
		body.In("metadata").Value("session_id", "user_id"),
	} {
		switch {
		case len(value) > len(`""`) && value[0] == '"':
			return rows.TextOf(value)
		case len(value) > 0 && value[0]-'0' <= 9:
			return value
		}
	}
	return nil
}
