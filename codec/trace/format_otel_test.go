package trace

import (
	"fmt"
	"strings"
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
