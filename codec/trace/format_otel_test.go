package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// otelSpan is a call as Exgentic's data sets have it; more are further attributes.
func otelSpan(model string, at, took float64, input, output, cached int, more string) string {
	return fmt.Sprintf(`{"span_id":"x","type":"llm_call","start_time":"2026-05-18T09:00:%09.6f","end_time":"2026-05-18T09:00:%09.6f","status":{"code":1},"attributes":{"gen_ai.operation.name":"chat","gen_ai.request.model":%q,"gen_ai.usage.input_tokens":%d,"gen_ai.usage.output_tokens":%d,"gen_ai.usage.cache_read.input_tokens":%d%s}}`,
		at, at+took, model, input, output, cached, more)
}

// otelFile has two models beside each other, a span that is no call, one that failed, and a session in OTLP's form.
var otelFile = `{"harness":"h","session_id":"s","models":["big"],"spans":[` + strings.Join([]string{
	otelSpan("big", 1, 1, 640, 64, 0, ""),
	otelSpan("big", 3, 2, 800, 10, 640, ""),
	otelSpan("small", 3.5, 0.25, 128, 3, 0, ""),
	`{"type":"agent_step","start_time":7}`,
	strings.Replace(otelSpan("big", 5, 1, 810, 10, 0, ""), `"code":1`, `"code":2`, 1),
	otelSpan("big", 6, 1, 900, 10, 800, ""),
}, ",") + `]}
{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"traceId":"t","startTimeUnixNano":"1779094802000000000","endTimeUnixNano":"1779094803500000000","status":{},` +
	`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.usage.input_tokens","value":{"intValue":"100"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":7}}]},` +
	`{"traceId":"t","startTimeUnixNano":"1","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}}]}]}]}]}
`

func TestOTel(t *testing.T) {
	tr := read(t, otelFile, Options{})
	if tr.Format != "otel" || tr.Len() != 5 || tr.FileRows != 6 || tr.Lint.Failed != 1 {
		t.Fatalf("%d of %d rows of %s, %+v", tr.Len(), tr.FileRows, tr.Format, tr.Lint)
	}
	want(t, "instants", tr.ArrivalNS, inSeconds(0, 1, 2, 2.5, 5))
	want(t, "TookNS", tr.TookNS, inSeconds(1, 1.5, 2, 0.25, 1))
	want(t, "InputTokens", tr.InputTokens, []int32{640, 100, 800, 128, 900})
	want(t, "Cached", tr.Cached, []int32{0, -1, 640, 0, 800})
	want(t, "Jobs", tr.Jobs, []string{"s", "t"})
	want(t, "sessions", []string{tr.SessionName(0), tr.SessionName(1), tr.SessionName(3)}, []string{"s/big", "t", "s/small"})
	want(t, "waits", waits(tr), strings.Split("-; -; 0+1s; 0+1.5s spawn; 2+1s & 3+1s join", "; "))
	want(t, "blocks in common", shared(tr), strings.Split("; 0; 10 0; 0 0 0; 10 0 12 0", "; "))
}

// TestOTelTurns: a turn follows the one before of its agent, though another agent ran between, and what ran beside it.
func TestOTelTurns(t *testing.T) {
	tr := read(t, `{"session_id":"s","spans":[`+strings.Join([]string{otelSpan("big", 1, 1, 64, 6, 0, ""), otelSpan("small", 2.5, 1, 64, 6, 0, ""),
		otelSpan("small", 2.5, 2, 64, 6, 0, ""), otelSpan("big", 5, 1, 128, 6, 0, ""), otelSpan("big", 5.5, 1, 128, 6, 0, ""), otelSpan("big", 7, 1, 190, 6, 0, "")}, ",")+"]}", Options{})
	want(t, "waits", waits(tr), strings.Split("-; 0+500ms spawn; 1^0s barrier; 0+500ms & 1+500ms join & 2+500ms join; 0+3.5s; 3+500ms & 4+500ms", "; "))
}

// TestOTelMessages: messages in parts become those of OpenAI's API, and others stay as they are.
func TestOTelMessages(t *testing.T) {
	parts := `[{"role":"user","parts":[{"type":"text","content":"Hi "},{"type":"text","content":"\"you\""}]},` +
		`{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"tool_call","id":"c1","name":"ls","arguments":{"a":"b"}}]},` +
		`{"role":"user","parts":[{"type":"tool_call_response","id":"c1","response":{"x":1}},{"type":"text","content":"On."}]}]`
	tools := `[{"type":"function","name":"ls","parameters":{"type":"object"}},{"type":"function","function":{"name":"x"}}]`
	more := fmt.Sprintf(`,"gen_ai.system_instructions":%q,"gen_ai.input.messages":%q,"gen_ai.tool.definitions":%q`, `[{"type":"text","content":"Be."}]`, parts, tools)
	plain := `,"gen_ai.input.messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]`
	tr := read(t, `{"session_id":"s","spans":[`+otelSpan("m", 1, 1, 640, 64, 0, more)+","+otelSpan("m", 3, 1, 640, 64, 0, plain)+"]}", Options{})
	want(t, "kinds", []rows.VerbatimKind{tr.Verbatim(0).Kind, tr.Verbatim(1).Kind}, []rows.VerbatimKind{VerbatimMessages, VerbatimMessages})
	want(t, "content", []string{string(tr.Verbatim(0).Content), string(tr.Verbatim(1).Content), string(tr.Verbatim(0).Tools)}, []string{
		`{"role":"system","content":"Be."},{"role":"user","content":"Hi \"you\""},{"role":"assistant","content":"","reasoning_content":"Hm.","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"a\":\"b\"}"}}]},` +
			`{"role":"tool","tool_call_id":"c1","content":"{\"x\":1}"},{"role":"user","content":"On."}`,
		`{"role":"user","content":[{"type":"text","text":"Hi"}]}`,
		`[{"type":"function","function":{"name":"ls","parameters":{"type":"object"}}},{"type":"function","function":{"name":"x"}}]`})
	if len(tr.Blocks(0))+len(tr.Blocks(1)) != 0 {
		t.Error("prompts that were recorded have made block ids")
	}
}
