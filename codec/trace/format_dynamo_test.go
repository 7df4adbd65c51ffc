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
