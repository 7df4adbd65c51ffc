package trace

import (
	"fmt"
	"strings"
)

// copilotLine is a call of a session: messages are kind:tokens.
func copilotLine(at, took float64, model, status string, prompt, completion, cached int, messages string) string {
	var list []string
	for i, m := range strings.Fields(messages) {
		kind, tokens, _ := strings.Cut(m, ":")
		list = append(list, fmt.Sprintf(`{"type":%q,"role":"user","sequenceId":%d,"token_len":%s}`, kind, i, tokens))
	}
	return fmt.Sprintf(`{"message_id":"m","timestamp":"2026-06-01T08:00:%06.3f+00:00","duration_ms":%g,"initiator_type":"agent","model":%q,"result":"Success","status_code":%q,"tokens":{"total":%d,"prompt":%d,"completion":%d,"cached":%d,"cached_pct":1.5},"message_metadata":[%s]}`,
		at, took*1000, model, status, prompt+completion, prompt, completion, cached, strings.Join(list, ","))
}

func copilotSession(name string, turns ...[]string) string {
	var list []string
	for _, calls := range turns {
		list = append(list, fmt.Sprintf(`{"turn_id":"t","llm_calls":[%s],"tool_batches":[{"timestamp":"2026-06-01T08:00:01Z","duration_ms":5,"auto_continue":true,"result":"Success","request_id":"m","function_calls":[{"name":"read_file","status":1,"duration_ms":5}]}]}`, strings.Join(calls, ",")))
	}
	return fmt.Sprintf(`{"session_id":%q,"date":"2026-06-01","turns":[%s]}`+"\n", name, strings.Join(list, ","))
}

// copilotFile has an agent that is compacted, one of its model beside it, one of another model, and calls that failed.
var copilotFile = copilotSession("s", []string{
	copilotLine(1, 1, "Model A", "OK", 1000, 50, 320, "System:300 User:600"),
	copilotLine(3, 2, "Model A", "OK", 1100, 30, 1000, "System:300 User:600 Tool:90"),
	copilotLine(3.5, 1, "Model A", "OK", 500, 20, 256, "System:300 Task:150"), // beside it
	copilotLine(3.6, 0.5, "Model B", "OK", 90, 9, 0, "System:300"),            // another model has another cache
	copilotLine(5, 1, "Model A", "RateLimited", 1100, 0, 0, "System:300 User:600 Tool:90"),
}, []string{
	copilotLine(6, 1, "Model A", "OK", 1090, 10, 960, "System:300 User:600 Tool:90 Answer:9"), // shorter than its messages are
	copilotLine(8, 1, "Model A", "OK", 700, 10, 0, "System:300 Summary:350"),
	copilotLine(9.5, 0.5, "Model A", "OK", 800, 10, 704, "System:300 Summary:350 Tool:90"),
	copilotLine(11, 1, "Model A", "OK", 900, 0, 0, "System:300"), // cancelled
}) + copilotSession("t", []string{copilotLine(2, 1, "Model A", "OK", 700, 1, 512, "System:300 User:400")})
