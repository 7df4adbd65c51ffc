package formats

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// logOf is a format of what a server or a gateway logged with its text, an object a request; dates and numbers are
// instants.
func logOf(name string, names rows.Names, match func(keys []string) bool, read func(b *Batch, o object)) *Format {
	names[rows.TimestampField] = "the time of the request"
	return &Format{
		Name:    name,
		Layout:  rows.Layout{Names: names, Dates: true},
		OneUnit: true,
		Words:   true,
		Import: &Importer{
			Match: match,
			Read: ofObject(func(b *Batch, o object) {
				read(b, o)
				for i := range b.Rows {
					b.checkPrompt(&b.Rows[i])
				}
			}),
		},
	}
}

// fail leaves a request out, since it failed when it was recorded.
func (b *Batch) fail() {
	b.Rows = nil
	b.Failed++
}

// openAILog is the format of logs of requests with their responses, as proxies and clients of OpenAI's and Anthropic's
// APIs write them:
//
//	{"request":{"model":"m","messages":[…]},"response":{"choices":[…],"usage":{…}},"timestamp":"2026-11-27T09:00:00Z",
//	 "first_token_time":…,"end_time":…,"session_id":"a","url":"/v1/chat/completions","status":200}
//
// A response is a body, a string with one, or what a stream consisted of: its text or the list of its chunks. There is
// no standard for what stands beside: the names are those that openAITimes and sessionOf list.
func openAILog() *Format {
	return logOf("openai_log", rows.Names{rows.PayloadField: "request"}, hasKeys("request", "response"),
		func(b *Batch, o object) {
			asked := o.NeedIn("request", "it is what was asked")
			if !o.OK() {
				return
			}
			r := b.add()
			b.setBody(r, o.Value("request"))
			openAITimes(r, o)
			r.SetSession(sessionOf(o, asked))
			failed := b.setAnswer(r, o.Value("response"))
			status := o.Count("status", 999)
			if failed || status >= 400 || status == 0 {
				b.fail()
			}
		})
}

// openAITimes notes the times of a request by the names that they have in logs.
func openAITimes(r *row, o object) {
	began := instantOf(o, "start_time", "startTime", "request_time", "timestamp", "created_at", "time")
	first := instantOf(o, "first_token_time", "completion_start_time", "completionStartTime")
	ended := instantOf(o, "end_time", "endTime", "response_time")
	setTimes(r, began, first, ended)
	for _, key := range []string{"duration_ms", "latency_ms"} {
		if o.Has(key) {
			r.TookNS = o.Span(key, 6)
		}
	}
	if o.Has("ttft_ms") {
		r.TTFTNS = o.Span("ttft_ms", 6)
	}
}

// liteLLM is the format of LiteLLM's standard logging payload, as its callbacks write it to files and object stores,
// and of the rows of its LiteLLM_SpendLogs:
//
//	{"id":"…","call_type":"acompletion","status":"success","startTime":1732700000.1,"completionStartTime":…,
//	 "endTime":…,"messages":[…],"response":{"choices":[…],"usage":{…}},"prompt_tokens":9,"completion_tokens":3,…}
//
// as class StandardLoggingPayload of litellm/types/utils.py has it (https://github.com/BerriAI/litellm, 2026).
// Instants are seconds, in spend logs dates. A trace_id is of the retries of one request, and so no session.
func liteLLM() *Format {
	return logOf("litellm", rows.Names{rows.MessagesField: "messages", rows.TextField: "messages"},
		hasKeys("call_type", "startTime", "messages", "response"),
		func(b *Batch, o object) {
			r := b.add()
			b.setSaid(r, o, "messages")
			began := instantOf(o, "startTime")
			setTimes(r, began, instantOf(o, "completionStartTime"), instantOf(o, "endTime"))
			r.SetSession(sessionOf(o, object{Fault: o.Fault}))
			failed := b.setAnswer(r, o.Value("response"))
			b.setTold(r, o, "prompt_tokens", "completion_tokens")
			if failed || o.Is("status", "failure") {
				b.fail()
			}
		})
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
	return logOf("langfuse", rows.Names{rows.MessagesField: "input", rows.TextField: "input"},
		func(keys []string) bool {
			return hasKeys("type", "input", "output")(keys) && hasAny(keys, "startTime", "start_time")
		},
		func(b *Batch, o object) {
			if o.Name("type", "a GENERATION is a request") != "GENERATION" {
				o.Note(errNoRow)
				return
			}
			r := b.add()
			b.setSaid(r, o, "input")
			began := instantOf(o, "startTime", "start_time")
			first := instantOf(o, "completionStartTime", "completion_start_time")
			setTimes(r, began, first, instantOf(o, "endTime", "end_time"))
			r.SetSession(sessionOf(o, object{Fault: o.Fault}))
			output := o.Value("output")
			failed := b.setAnswer(r, output)
			if r.Answer == nil && len(output) > len(`""`) && output[0] == '"' {
				r.Answer = rows.Unquoted(output)
			}
			for _, details := range []string{"usageDetails", "usage_details", "usage"} {
				used := o.In(details)
				b.setTold(r, used, "input", "output")
				cached, ok := tokensOf(used, "input_cached_tokens")
				if ok {
					r.CachedTokens = cached
				}
			}
			if failed || o.Is("level", "ERROR") {
				b.fail()
			}
		})
}

// setSaid notes what a request asked, which stands under a key: a text, messages, or an object with those.
func (b *Batch) setSaid(r *row, o object, key string) {
	value := o.Need(key, "it is what was asked")
	switch {
	case value == nil:
		return
	case value[0] == '"':
		b.set(r, rows.TextField, value)
	case value[0] == '[':
		b.set(r, rows.MessagesField, value)
	default:
		asked := o.NeedIn(key, "it is what was asked")
		b.set(r, rows.MessagesField, asked.Need("messages", "they are what was asked"))
		if tools := asked.Value("tools"); tools != nil && o.OK() {
			b.note(r.SetVerbatim(rows.ToolsField, "tools", tools))
		}
	}
}

// setTold notes numbers of tokens that stand beside an answer.
func (b *Batch) setTold(r *row, o object, input, output string) {
	if n, ok := tokensOf(o, input); ok {
		r.InputTokens = n
	}
	if n, ok := tokensOf(o, output); ok {
		r.OutputTokens = n
		r.Seen |= rows.SetOf(rows.OutputField)
	}
}

// sglangLog is the format of SGLang's requests as it logs them with --log-requests-format json:
//
//	{"timestamp":"2026-11-27T09:00:00.812","event":"request.finished","rid":"…","obj":{"text":"…","input_ids":[…],…},
//	 "out":{"text":"…","meta_info":{"prompt_tokens":9,"completion_tokens":3,"cached_tokens":0,"e2e_latency":0.8}}}
//
// as python/sglang/srt/utils/request_logger.py of https://github.com/sgl-project/sglang writes it (2026). Only
// --log-requests-level 3 logs whole prompts. A request began its latency before the line was written. One that was
// received and never finished counts as failed.
func sglangLog() *Format {
	open := map[string]bool{} // requests that were received and have not finished
	f := logOf("sglang_log", rows.Names{rows.PayloadField: "obj"}, hasKeys("event", "rid", "obj"),
		func(b *Batch, o object) {
			name := o.Name("rid", "it names the request")
			if o.Name("event", "request.finished has the answer") != "request.finished" {
				if o.OK() {
					open[name] = true
				}
				o.Note(errNoRow)
				return
			}
			delete(open, name)
			asked := o.NeedIn("obj", "it is what was asked")
			out := o.NeedIn("out", "it is the answer")
			told := out.In("meta_info")
			r := b.add()
			for _, key := range []string{"input_ids", "text"} { // what was cut has another number of tokens than told
				value := asked.Value(key)
				if value != nil && o.OK() {
					b.set(r, rows.PayloadField, fmt.Appendf(nil, `{%q:%s}`, key, value))
					break
				}
			}
			ended := instantOf(o, "timestamp")
			took := told.Span("e2e_latency", 9)
			setTimes(r, ended-max(0, took), ended, ended)
			r.TTFTNS = -1
			b.setTold(r, told, "prompt_tokens", "completion_tokens")
			if cached, ok := tokensOf(told, "cached_tokens"); ok {
				r.CachedTokens = cached
			}
			if text := out.Value("text"); text != nil && text[0] == '"' && len(text) > len(`""`) {
				r.Answer = rows.Unquoted(text)
			}
			if told.In("finish_reason").Is("type", "abort") {
				b.fail()
			}
		})
	f.Import.End = func(b *Batch) {
		b.Failed = len(open)
		clear(open)
		if b.Failed > 0 {
			b.flush(0)
		}
	}
	return f
}
