package trace

import (
	"fmt"
	"strings"
	"testing"
)

// dynamoEnd is a request_end event: times in s, an agent and its parent, and the hashes of blocks of 16 tokens, the
// last of which is partial.
func dynamoEnd(id string, at, took int, agent, parent, hashes string) string {
	context := ""
	if agent != "" {
		context = fmt.Sprintf(`"agent_context":{"session_id":%q},`, agent)
	}
	if parent != "" {
		context = strings.Replace(context, "}", fmt.Sprintf(`,"parent_session_id":%q}`, parent), 1)
	}
	return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,%s"request":{"request_id":%q,"output_tokens":5,"cached_tokens":16,"request_received_ms":%d,"ttft_ms":80.5,"total_time_ms":%d,"replay":{"trace_block_size":16,"input_length":%d,"input_sequence_hashes":[%s]}}}`,
		1_767_603_600_000+(at+took)*1000, context, id, 1_767_603_600_000+at*1000, took*1000, 16*(1+strings.Count(hashes, ","))-3, hashes) + "\n"
}

func TestDynamo(t *testing.T) {
	const tool = `{"timestamp":1,"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":1767603600900,"agent_context":{"session_id":"a"},"tool":{"tool_call_id":"c","tool_class":"f","duration_ms":5}}}` + "\n"
	file := tool + dynamoEnd("r1", 0, 5, "a", "", "11,18446744073709551615") + tool +
		dynamoEnd("r2", 6, 4, "b", "a", "77") + // begins after r1
		strings.Replace(`{"event":X}`, "X", strings.TrimSpace(dynamoEnd("r3", 12, 8, "b", "a", "77,78")), 1) + "\n" +
		dynamoEnd("c1", 13, 2, "c", "b", "99") + // while r3 is in flight
		dynamoEnd("r4", 30, 5, "a", "", "11,12,13") + // joins b, and what b did not wait for
		dynamoEnd("x1", 31, 2, "", "", "5")
	tr := read(t, file, Options{Strict: true})
	if got, want := edges(tr), `b@6: spawn 1s after the end of a@0,
b@12: sequence 2s after the end of b@6,
c@13: spawn 1s after the dispatch of b@12,
a@30: sequence 10s after the end of a@0, join 10s after the end of b@12, join 10s after the end of c@13,
`; tr.Format != "dynamo" || tr.BlockTokens != 16 || got != want {
		t.Errorf("%s, %d tokens a block:\n%swant\n%s", tr.Format, tr.BlockTokens, got, want)
	}
	want(t, "Row", tr.Row, []int32{0, 1, 2, 3, 4, 5})
	want(t, "Depth", tr.Depth, []int32{0, 1, 1, 2, 0, 0})
	want(t, "Jobs", tr.Jobs, []string{"a", "x1"})
	want(t, "Job", tr.Job, []int32{0, 0, 0, 0, 0, 1})
	want(t, "Cached", tr.Cached, []int32{16, 16, 16, 16, 16, 16})
	want(t, "Blocks", tr.Blocks(0), []uint64{11, 18446744073709551615})
	replayRecorded(t, tr)

	_, err := Read(strings.NewReader(dynamoEnd("r1", 0, 1, "a", "b", "1")+dynamoEnd("r2", 2, 1, "b", "a", "2")), "t", Options{})
	if err == nil || !strings.HasPrefix(err.Error(), `t:1: the parents of session "a" lead back to themselves; `) {
		t.Errorf("a circle: %v", err)
	}
	if _, err = Read(strings.NewReader(tool), "t", Options{}); err == nil || err.Error() != "t: the trace is empty; it must have at least one row" {
		t.Errorf("tools alone: %v", err)
	}
}

// TestDynamoNames: the names that Dynamo gives Mooncake's fields mean the same.
func TestDynamoNames(t *testing.T) {
	plain := `{"session_id":"a","timestamp":5,"input_length":40,"output_length":3}` + "\n" + `{"session_id":"a","delay":7,"input_length":60,"output_length":3,"hash_ids":[1]}`
	other := strings.NewReplacer("timestamp", "created_time", "input_length", "input_tokens", "output_length", "output_tokens", "delay", "delay_ms", `{"`, `{"request_id":"x","priority":1,"output_token_ids":[5],"`).Replace(plain)
	sameTrace(t, read(t, other, Options{}), read(t, plain, Options{}))
}

func FuzzDynamo(f *testing.F) {
	f.Add([]byte(dynamoEnd("r1", 0, 5, "a", "", "11,12") + dynamoEnd("r2", 6, 4, "b", "a", "77") + dynamoEnd("r4", 30, 5, "a", "", "11,12,13")))
	f.Fuzz(func(t *testing.T, file []byte) {
		if tr, err := Read(strings.NewReader(string(file)), "f", Options{Format: "dynamo", Lenient: true}); err == nil {
			checkInvariants(t, tr)
			replayRecorded(t, tr)
		}
	})
}
