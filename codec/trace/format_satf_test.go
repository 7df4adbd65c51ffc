package trace

import (
	"strings"
	"testing"
)

// satfFile has a request after two tools, one of which another follows, and a sub-agent.
const satfFile = `{
 "format":"satf","format_version":"2.0.0","time_base":"us","block_size_tokens":16,
 "sessions":[
  {"session_id":"a","nodes":[
    {"kind":"llm_infer","id":"1","duration_us":2000000,"min_start_delay_us":5000000,"performance_metrics":{"source":"dynamo","time_to_first_token_us":500.5},
     "payload":{"input_tokens_total":33,"output_tokens":5,"kv_block_ids":[0,1,2]},"extensions":{"nvidia.dynamo":{"request_id":"x","cached_tokens":16}}},
    {"kind":"tool_call","id":"c1","payload":{"tool_name":"f"}},{"kind":"tool_result","id":"r1","duration_us":3000000,"payload":{"tool_call_id":"c1"}},
    {"kind":"tool_call","id":"c2","payload":{"tool_name":"g"}},{"kind":"tool_result","id":"r2","duration_us":7000000,"payload":{"tool_call_id":"c2"}},
    {"kind":"llm_infer","id":"2","duration_us":1000000,"payload":{"input_tokens_total":40,"output_tokens":5,"kv_block_ids":[0,1,3]}},
    {"kind":"llm_infer","id":"3","duration_us":1000000,"payload":{"input_tokens_total":64,"output_tokens":5,"kv_block_ids":[0,1,3,4]}}],
   "edges":[{"from":"1","to":"c1"},{"from":"c1","to":"r1","delay_after_predecessor_us":1000000},{"from":"r1","to":"c2"},{"from":"c2","to":"r2"},
    {"from":"r1","to":"2","delay_after_predecessor_us":20000000},{"from":"r2","to":"2","delay_after_predecessor_us":2000000},
    {"from":"2","to":"3","delay_after_predecessor_us":4000000},{"from":"1","to":"3"}]},
  {"session_id":"b","extensions":{"nvidia.dynamo":{"parent_session_id":"a"}},"nodes":[
    {"kind":"tool_call","id":"c","min_start_delay_us":8000000,"payload":{"tool_name":"f"}},
    {"kind":"llm_infer","id":"1","payload":{"input_tokens_total":20,"output_tokens":5,"kv_block_ids":[7]}}],"edges":[{"from":"c","to":"1","delay_after_predecessor_us":2000000}]}]}
`

func FuzzSATF(f *testing.F) {
	f.Add([]byte(satfFile))
	f.Fuzz(func(t *testing.T, file []byte) {
		if tr, err := Read(strings.NewReader(string(file)), "f", Options{Format: "satf"}); err == nil {
			checkInvariants(t, tr)
			replayRecorded(t, tr)
		}
	})
}
