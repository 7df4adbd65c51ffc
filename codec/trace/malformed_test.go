package trace

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusals is what each malformed trace in testdata must be refused with: how the message begins after the file's name.
func refusals() map[string]string {
	return map[string]string{
		"azure-before-1970.csv":                 `:3: TIMESTAMP "1969-12-31 23:59:59" is out of range; it must be from 1970 to 2262`,
		"azure-column-twice.csv":                `:1: two columns are named ContextTokens; keep one of them`,
		"azure-fractional-tokens.csv":           `:3: ContextTokens 4.5 is no whole number; `,
		"azure-head-only.csv":                   `: the trace is empty; `,
		"azure-missing-tokens.csv":              `:3: missing ContextTokens; `,
		"azure-no-such-day.csv":                 `:3: TIMESTAMP is "2023-02-30 18:17:04", not a date; write it as `,
		"azure-not-a-date.csv":                  `:3: TIMESTAMP is "1700158623.97", not a date; write it as 2023-11-16 18:17:03.9799600, with or without a zone such as +00:00, or give --format burstgpt if it is seconds`,
		"azure-open-quote.csv":                  `:3: a quoted value does not end; `,
		"azure-text-after-quote.csv":            `:3: text after a closing quote: 18:17:04.0000000,480,1; `,
		"azure-tokens-as-text.csv":              `:3: ContextTokens is "many", not a number; write it in digits`,
		"azure-too-few-values.csv":              `:3: 2 values under 3 columns; `,
		"bad-escape.jsonl":                      ":2: invalid JSON at byte 13: an escape that JSON does not have; ",
		"bad-parent.jsonl":                      ":2: parent_chat_id -7 is out of range; it must be from -1 to 9223372036854775807\n",
		"batch-absolute-url.jsonl":              `:2: url is "https://api.openai.com/v1/chat/completi…, not a path; write it as "/v1/chat/completions"; the server is named by --url`,
		"batch-body-as-text.jsonl":              `:2: body is "{\"model\":\"m\",\"messages\":[{\"role\…, not an object; only JSON objects can be sent`,
		"batch-empty-body.jsonl":                `:2: body is empty; a request needs a prompt`,
		"batch-get.jsonl":                       `:2: method is "GET", not "POST"; requests for completions are posted`,
		"batch-no-body.jsonl":                   `:2: missing body; it is what is sent`,
		"batch-no-url.jsonl":                    `:2: missing url; it names the API of the body`,
		"batch-number-as-custom-id.jsonl":       `:2: custom_id is 7, not a string; write it as a string, for example "request-1"`,
		"batch-two-urls.jsonl":                  `:2: url is "/v1/completions", but testdata/batch-two-urls.jsonl:1 is for /v1/chat/completions; a run has one endpoint: split the file by it`,
		"blank-lines.jsonl":                     ": the trace is empty; ",
		"burstgpt-date.csv":                     `:3: Timestamp is "2023-11-16 18:17:04", not a number; `,
		"burstgpt-decimal-comma.csv":            `:3: 9 values under 8 columns; `,
		"burstgpt-huge-request-tokens.csv":      `:3: Request tokens 472000000 is out of range; it must be from 1 to 16777216`,
		"burstgpt-long-log-type.csv":            `:3: Log Type has 130 bytes; 128 at most`,
		"burstgpt-negative-response-tokens.csv": `:3: Response tokens -1 is out of range; `,
		"burstgpt-negative-timestamp.csv":       `:3: Timestamp -45 is negative; `,
		"burstgpt-no-request-tokens.csv":        `:3: Request tokens 0 is out of range; `,
		"burstgpt-only-failures.csv":            `: each of the 2 requests failed when it was recorded; `,
		"control-character.jsonl":               ":2: invalid JSON at byte 7: a control character in a string; ",
		"copilot-message-length.jsonl":          `:2: message_metadata[0]: token_len is "many", not a number; write it as a JSON number`,
		"copilot-message-not-object.jsonl":      `:2: turns[0]: llm_calls[0]: message_metadata[0] is 7, not an object; write each as {…}`,
		"copilot-negative-duration.jsonl":       `:2: turns[0]: llm_calls[0]: duration_ms -1 is negative; times and durations are at least 0`,
		"copilot-no-prompt.jsonl":               `:2: turns[0]: llm_calls[1]: missing prompt; every request must have what the format requires`,
		"copilot-no-session.jsonl":              `:2: missing session_id; it names the session`,
		"copilot-no-time.jsonl":                 `:2: turns[0]: llm_calls[1]: missing timestamp; it is when the call was sent`,
		"copilot-no-tokens.jsonl":               `:2: turns[0]: llm_calls[1]: missing tokens; a call without its numbers of tokens cannot be replayed`,
		"copilot-only-failures.jsonl":           `: each of the 2 requests failed when it was recorded; `,
		"copilot-turns-not-a-list.jsonl":        `:2: turns is 7, not a list; write it as [{…},…]`,
		"cut-short.jsonl.gz":                    ":122: reading: unexpected EOF; the file is damaged or cut short",
		"dag-jsonl-children-as-objects.jsonl":   `:2: turns[0]: children[0] is {}, not a string; write it as "…"`,
		"dag-jsonl-circle-below.jsonl":          `:2: conversation "c" comes from itself; a conversation must not fork or spawn one that it comes from`,
		"dag-jsonl-circle.jsonl":                `:2: no conversation that begins leads here; one that no other forks or spawns begins, and `,
		"dag-jsonl-fork-before-turns.jsonl":     `:2: turns[0]: forks end the conversation, but turns follow; write {"child":"…","background":true}`,
		"dag-jsonl-fork-without-child.jsonl":    `:2: turns[0]: missing child; it names the conversation that goes on`,
		"dag-jsonl-forked-twice.jsonl":          `:4: turns[0]: forks: "c" is forked twice; what is said before it must be one thing`,
		"dag-jsonl-forks-as-text.jsonl":         `:2: turns[0]: forks is "g", not a list; write it as ["…",…]`,
		"dag-jsonl-join-too-early.jsonl":        `:2: turns[1]: join_at is 1; it must be a later turn, the last is 2`,
		"dag-jsonl-message-as-text.jsonl":       `:2: turns[0]: messages[0] is "Hi", not an object; write each as {…}`,
		"dag-jsonl-negative-delay.jsonl":        `:2: turns[0]: delay -1 is negative; times and durations are at least 0`,
		"dag-jsonl-no-messages.jsonl":           `:2: turns[0]: missing messages; they are what is sent`,
		"dag-jsonl-no-session.jsonl":            `:2: missing session_id; it names the conversation`,
		"dag-jsonl-no-turns.jsonl":              `:2: missing turns; they are the requests of the conversation`,
		"dag-jsonl-orchestrator.jsonl":          `:2: an orchestrator, which sends nothing itself; give its conversations turns of their own: rounds are not read`,
		"dag-jsonl-twice.jsonl":                 `:2: session_id "g" is that of line 1; each conversation needs a name of its own`,
		"dag-jsonl-unknown-fork.jsonl":          `:2: turns[0]: forks: no line has the session_id "x"; add the conversation, or leave it out here`,
		"dag-jsonl-zero-tokens-text.jsonl":      `:2: turns[0]: max_tokens is "many", not a number; write it as a JSON number`,
		"damaged.jsonl.zst":                     ":151: reading: CRC check failed; the file is damaged or cut short",
		"dynamo-event-not-object.jsonl":         `:2: event is 7, not an object; it is what was recorded`,
		"dynamo-hash-as-text.jsonl":             `:2: hash_ids[1] is "22"; an id is a whole number from 0 to 18446744073709551615`,
		"dynamo-no-output-tokens.jsonl":         `:2: missing output_tokens; every request must have what the format requires`,
		"dynamo-no-request-id.jsonl":            `:2: missing request_id; it names the request`,
		"dynamo-no-session-id.jsonl":            `:2: missing session_id; it names the agent`,
		"dynamo-no-time.jsonl":                  `:2: missing request_received_ms; it is the time of the request`,
		"dynamo-other-event.jsonl":              `:2: event_type is "request_start"; it is request_end, request_payload or tool_end`,
		"dynamo-other-schema.jsonl":             `:2: schema is "dynamo.request.trace.v2"; it must be dynamo.request.trace.v1`,
		"dynamo-same-request-id.jsonl":          `:2: request_id "r1" is the name of an earlier row too; each request needs a name of its own`,
		"dynamo-two-block-sizes.jsonl":          `:2: a block id stands for 32 tokens, but for 16 in the rows before; a run has one block size: replay the rows one size at a time`,
		"dynamo-two-parents.jsonl":              `:2: session "a" has the parent "b", and before it was ""; an agent has one parent`,
		"dynamo-v2-circle.jsonl":                `:3: dependencies lead from the row back to itself; a request depends on earlier ones: leave one dependency of the circle out`,
		"dynamo-v2-dependencies-as-text.jsonl":  `:3: dependencies is "a", not a list; write it as [{…},…]`,
		"dynamo-v2-depends-on-itself.jsonl":     `:3: dependencies: the row depends on itself; a request depends on earlier ones`,
		"dynamo-v2-depends-on-later.jsonl":      `:3: dependencies: the row is 30ms earlier than line 2, on which it depends; a request depends on earlier ones`,
		"dynamo-v2-depends-on-nothing.jsonl":    `:3: dependencies: no row has the request_id "x"; leave the dependency out, or add the row`,
		"dynamo-v2-depends-on-other-job.jsonl":  `:3: dependencies: the row depends on line 2, which is of another job; give both one job, or leave the dependency out`,
		"dynamo-v2-name-twice.jsonl":            `:3: request_id "a" is the name of an earlier row too; each request needs a name of its own`,
		"dynamo-v2-negative-delay.jsonl":        `:3: dependencies[0]: delay_ms -5 is negative; times and durations are at least 0`,
		"dynamo-v2-negative-not-before.jsonl":   `:3: not_before_ms -4 is negative; times and durations are at least 0`,
		"dynamo-v2-no-block-size.jsonl":         `:1: block_size is 0; it is the number of tokens that a block id stands for`,
		"dynamo-v2-no-delay.jsonl":              `:3: dependencies[0]: missing delay_ms; it is the time from the trigger to the request`,
		"dynamo-v2-no-head.jsonl":               `:1: no head before the first row; the first line must be {"schema":"dynamo.agentic_mooncake","version":2,`,
		"dynamo-v2-no-not-before.jsonl":         `:3: missing not_before_ms; write 0 for a request that only waits for its dependencies`,
		"dynamo-v2-no-play.jsonl":               `:3: missing play_id; it names the task`,
		"dynamo-v2-other-relation.jsonl":        `:3: dependencies[0]: relation is "fork"; it must be "sequence" or "spawn" or "join" or "replay_barrier"`,
		"dynamo-v2-other-scope.jsonl":           `:1: hash_id_scope is "file"; it must be "local" or "global"`,
		"dynamo-v2-other-trigger.jsonl":         `:3: dependencies[0]: trigger is "start"; it must be "completion" or "dispatch"`,
		"dynamo-v2-other-version.jsonl":         `:1: version is 3, not 2; only version 2 of Dynamo's agentic Mooncake traces can be read`,
		"dynamo-v2-too-many-cached.jsonl":       `:3: cached_tokens -1 is out of range; it must be from 0 to 16777216`,
		"empty.jsonl":                           ": the trace is empty; ",
		"fractional-input-length.jsonl":         ":2: input_length 1024.5 is no whole number; ",
		"git-lfs-pointer.jsonl":                 " is a Git LFS pointer, not the trace itself; run: git lfs pull",
		"hash-id-as-text.jsonl":                 `:2: hash_ids[1] is "48"; an id is a whole number from 0 to 18446744073709551615`,
		"hash-ids-not-a-list.jsonl":             `:2: hash_ids is "46,48", not a list; `,
		"huge-hash-id.jsonl":                    ":2: hash_ids[1] is 18446744073709551616; ",
		"huge-input-length.jsonl":               ":2: input_length 123456789 is out of range; it must be from 1 to 16777216",
		"input-length-as-text.jsonl":            `:2: input_length is "1024", not a number; `,
		"inputs-json-both.json":                 `:4: both payloads and payload; keep one of them`,
		"inputs-json-cut-short.json":            `:3: invalid JSON at byte 143: the line ends too early; the file must be one JSON document, whole and valid`,
		"inputs-json-data-not-a-list.json":      `:1: invalid JSON at byte 9: want a list, […]; the file must be one JSON document, whole and valid`,
		"inputs-json-empty-payload.json":        `:4: payloads[1]: the body is empty; a request needs a prompt`,
		"inputs-json-empty-session.json":        `:4: nothing in it to send; leave it out`,
		"inputs-json-no-payloads.json":          `:4: missing payloads; they are what is sent`,
		"inputs-json-no-session.json":           `:4: missing session_id; payloads are the turns of a session`,
		"inputs-json-payload-as-text.json":      `:4: payloads[1]: the body is "{\"model\":\"m\",\"messages\":[{\"role\…, not an object; only JSON objects can be sent`,
		"inputs-json-payloads-not-a-list.json":  `:4: payloads is {"model":"m","messages":[{"role":"user",…, not a list; write it as [{"model":"…",…},…]`,
		"json-array.jsonl":                      ":1: a JSON array, not JSONL; write one object a line, for example with: jq -c '.[]'",
		"leading-zero.jsonl":                    ":2: invalid JSON at byte 34: a number with a leading zero; ",
		"many-faults.jsonl":                     ":2: input_length -1 is out of range; it must be from 1 to 16777216\n",
		"milliseconds-as-seconds.jsonl":         ": 40 rows over 1354h10m0s, one every 34h43m20s on average: the time unit (s) is probably wrong; pass --time-unit ms if ",
		"missing-chat-id.jsonl":                 ":2: missing chat_id; ",
		"missing-lengths.jsonl":                 ":3: missing input_length, output_length; ",
		"missing-timestamp.jsonl":               ":2: missing timestamp; ",
		"mooncake-delay-without-session.jsonl":  `:2: delay without session_id; `,
		"mooncake-empty-messages.jsonl":         `:2: messages is empty; `,
		"mooncake-empty-text.jsonl":             `:2: text_input is empty; `,
		"mooncake-extra-not-object.jsonl":       `:2: extra is [1], not an object; write it as {"temperature":0}`,
		"mooncake-ids-without-length.jsonl":     `:2: hash_ids without input_length; `,
		"mooncake-input-without-output.jsonl":   `:2: missing output_length; `,
		"mooncake-message-not-object.jsonl":     `:2: messages[1] is "Hello", not an object; `,
		"mooncake-negative-delay.jsonl":         `:2: delay -5 is negative; `,
		"mooncake-no-prompt.jsonl":              `:2: missing input_length; a row needs input_length and output_length, or text_input, messages or payload`,
		"mooncake-payload-not-object.jsonl":     `:2: payload is "{\"model\":\"m\"}", not an object; `,
		"mooncake-session-not-text.jsonl":       `:2: session_id is ["a"], neither text nor a number; `,
		"mooncake-some-timestamps.jsonl":        `:2: missing timestamp; other rows have one: `,
		"mooncake-text-not-text.jsonl":          `:2: text_input is ["Hello"], not a string; `,
		"mooncake-tools-without-messages.jsonl": `:2: tools without messages; `,
		"mooncake-two-prompts.jsonl":            `:2: several of text_input, messages; a row has exactly one of them`,
		"multi-turn-cut-short.jsonl":            `:2: invalid JSON at byte 42: the line ends too early; a row is one JSON object on one line`,
		"multi-turn-negative-delay.jsonl":       `:2: turns[1]: delay -1 is negative; times count from the start of the trace, and delays from the turn before`,
		"multi-turn-no-turns.jsonl":             `:2: missing turns; it is the list of messages`,
		"multi-turn-nobody-asks.jsonl":          `:2: nothing in it to send; leave it out`,
		"multi-turn-role-not-text.jsonl":        `:2: turns[0]: role is 1, not a string; write it as "…"`,
		"multi-turn-turn-as-text.jsonl":         `:2: turns[1] is "Why?", not an object; write each as {…}`,
		"multi-turn-turns-as-text.jsonl":        `:2: turns is "Hi", not a list; write it as [{…},…]`,
		"nan-timestamp.jsonl":                   ":2: invalid JSON at byte 14: want a value; ",
		"negative-chat-id.jsonl":                ":2: chat_id -2 is out of range; ",
		"negative-hash-id.jsonl":                ":2: hash_ids[1] is -48; ",
		"negative-input-length.jsonl":           ":2: input_length -1024 is out of range; ",
		"negative-output-length.jsonl":          ":2: output_length -1 is out of range; it must be from 0 to 16777216",
		"negative-timestamp.jsonl":              ":2: timestamp -0.001 is negative; ",
		"not-an-object.jsonl":                   ":2: invalid JSON at byte 1: want a row, an object {…}; ",
		"otel-attributes-as-text.jsonl":         `:2: spans[0]: attributes is "x", not an object; they are what is known of the call`,
		"otel-message-without-role.jsonl":       `:2: spans[0]: gen_ai.input.messages[0]: missing role; it names the speaker`,
		"otel-messages-not-json.jsonl":          `:2: spans[0]: gen_ai.input.messages is "[{", not JSON in a string; write it as recorded`,
		"otel-no-messages.jsonl":                `:2: spans[0]: gen_ai.input.messages is empty; a request needs a prompt`,
		"otel-no-output.jsonl":                  `:2: spans[0]: missing gen_ai.usage.output_tokens; every request must have what the format requires`,
		"otel-no-session.jsonl":                 `:2: spans[0]: missing session_id; it names the session, `,
		"otel-no-spans.jsonl":                   `:2: nothing in it to send; leave it out`,
		"otel-no-time.jsonl":                    `:2: missing start_time; other rows have one: `,
		"otel-not-a-date.jsonl":                 `:2: spans[0]: end_time is "later", not a date; write it as `,
		"otel-unknown-part.jsonl":               `:2: spans[0]: gen_ai.input.messages[0]: parts[0]: a part of type "blob"; text, reasoning, tool_call and tool_call_response can be sent`,
		"parent-loop.jsonl":                     ":1: chat_id 1 is its own ancestor; ",
		"raw-payload-cut-short.jsonl":           `:2: invalid JSON at byte 41: the line ends too early; a row is one JSON object on one line`,
		"raw-payload-empty-body.jsonl":          `:2: the body is empty; a request needs a prompt`,
		"raw-payload-key-twice.jsonl":           `:2: model occurs twice; keep one of them`,
		"raw-payload-mooncake.jsonl":            `:2: a row with output_length, text_input, where others are bodies to send; a file has one format; --format raw_payload`,
		"raw-payload-not-an-object.jsonl":       `:2: the body is [{"role":"user","content":"Hello"}], not an object; only JSON objects can be sent`,
		"raw-payload-single-quotes.jsonl":       `:2: invalid JSON at byte 2: want a string; a row is one JSON object on one line`,
		"raw-payload-two-on-a-line.jsonl":       `:2: invalid JSON at byte 77: text after the row's object; a row is one JSON object on one line`,
		"repeated-key.jsonl":                    ":2: output_length occurs twice; ",
		"rl-rollout-answer-as-text.jsonl":       `:2: out_lens[0] is "5", not a number; write it as a JSON number`,
		"rl-rollout-empty-answer.jsonl":         `:2: out_lens[1] is 0; it is a number of tokens, at least 1`,
		"rl-rollout-few-observations.jsonl":     `:2: 1 obs_lens for 3 out_lens; an observation stands between two answers, and perhaps behind the last`,
		"rl-rollout-group-as-list.jsonl":        `:2: group is ["g"], not a string; write it as "…"`,
		"rl-rollout-late-prefix.jsonl":          `:2: global_prefix_len stands behind streams; the first line must say it`,
		"rl-rollout-lens-not-a-list.jsonl":      `:2: out_lens is 5, not a list; write it as [1,2,…]`,
		"rl-rollout-no-answers.jsonl":           `:2: missing out_lens; they are the tokens of the stream's answers`,
		"rl-rollout-no-group.jsonl":             `:2: missing group; it names the prompt that streams share`,
		"rl-rollout-no-prompt-len.jsonl":        `:2: missing prompt_len; every request must have what the format requires`,
		"rl-rollout-other-prompt.jsonl":         `:2: prompt_len is 90, and 100 in an earlier stream of the group; the streams of a group share one prompt`,
		"rl-rollout-same-stream.jsonl":          `:2: stream "g/0" stands on an earlier line too; each stream of a group needs a name of its own`,
		"rl-rollout-short-prompt.jsonl":         `:2: prompt_len is 100, and global_prefix_len 200; a prompt counts the prefix too`,
		"rl-rollout-too-long.jsonl":             `:2: the prompt of answer 1 has 16777228 tokens; 16777216 at most`,
		"sagemaker-csv-in-base64.jsonl":         `:2: endpointInput: the captured request is 69,0,153.7,109, not an object; only JSON objects can be sent`,
		"sagemaker-csv.jsonl":                   `:2: endpointInput: encoding is "CSV", not "JSON" or "BASE64"; only requests that are JSON objects can be sent again`,
		"sagemaker-cut-request.jsonl":           `:2: endpointInput: invalid JSON at byte 41: the line ends too early; it must be one JSON object`,
		"sagemaker-data-not-text.jsonl":         `:2: endpointInput: data is {"model":"m","messages":[{"role":"user",…, not a string; write it as the capture has it`,
		"sagemaker-no-time.jsonl":               `:2: missing inferenceTime; it is the time of the request`,
		"sagemaker-not-a-date.jsonl":            `:2: inferenceTime is "14/Feb/2022:17:25:06", not a date; write it as 2023-11-16 18:17:03.9799600, with or without a zone such as +00:00`,
		"sagemaker-not-base64.jsonl":            `:2: endpointInput: data is "{\"model\":\"m\",\"messages\":[{\"role\…, not base64; write it as the capture has it`,
		"sagemaker-only-output.jsonl":           `:2: missing endpointInput; capture requests too: that is what is sent`,
		"sagemaker-time-as-number.jsonl":        `:2: inferenceTime is 1644859506, not a string; write it as a date, for example "2022-02-14T17:25:06Z"`,
		"satf-circle-of-requests.json":          `:1: dependencies: the row depends on itself; a request depends on earlier ones`,
		"satf-circle-of-tools.json":             `:1: sessions[0]: edges lead from the node "3" back to itself; leave one edge of the circle out`,
		"satf-cut-short.json":                   `:5: invalid JSON at byte 65: the line ends too early; the file must be one JSON document, whole and valid`,
		"satf-edge-to-nothing.json":             `:1: sessions[0]: edges[1]: to is "5", which no node is called; leave the edge out, or add the node`,
		"satf-milliseconds.json":                `:1: time_base is "ms", not "us"; only SATF 2 in µs can be read`,
		"satf-no-block-size.json":               `:1: missing block_size_tokens; it is the number of tokens that a block id stands for`,
		"satf-no-output-tokens.json":            `:1: sessions[0]: nodes[0]: missing output_tokens; every request must have what the format requires`,
		"satf-no-sessions.json":                 `:1: nothing in it to send; leave it out`,
		"satf-other-kind.json":                  `:1: sessions[0]: nodes[1]: kind is "tool_start"; it is llm_infer, tool_call or tool_result`,
		"satf-other-version.json":               `:1: format_version is "1.0.0", not "2."; only SATF 2 in µs can be read`,
		"satf-same-node.json":                   `:1: sessions[0]: nodes[2]: id "2" is the name of an earlier node too; each needs a name of its own`,
		"seconds-as-milliseconds.jsonl":         ": 120 rows within 35.7ms, 40536134 input tokens a second: the time unit (ms) is probably wrong; pass --time-unit s if ",
		"sharegpt-cut-short.json":               `:2: invalid JSON at byte 140: a control character in a string; the file must be one JSON document, whole and valid`,
		"sharegpt-message-as-text.json":         `:2: conversations[0] is "Hi", not an object; write each as {…}`,
		"sharegpt-no-conversations.json":        `:2: missing conversations; it is the list of messages`,
		"sharegpt-no-speaker.json":              `:2: conversations[0]: missing from; it names the speaker`,
		"sharegpt-nothing-said.json":            `:2: conversations[1]: missing value; it is the text of the message`,
		"sharegpt-only-questions.json":          `: no question in the 2 conversations has an answer; `,
		"sharegpt-stranger.json":                `:2: conversations[1]: from is "alien", an unknown speaker; known are human, user, gpt, assistant, chatgpt, bing, bard, function_call, system, developer, tool, function and observation`,
		"sharegpt-value-not-text.json":          `:2: conversations[0]: value is ["Hi"], not a string; write it as "…"`,
		"single-quotes.jsonl":                   ":2: invalid JSON at byte 2: want a string; ",
		"single-turn-audio-address.jsonl":       `:2: audio is "https://example.org/a.wav", not wav,… or mp3,… with the sound in base64; `,
		"single-turn-image-uuids.jsonl":         `:2: images are named by uuids, which only one server's cache has; give the images themselves`,
		"single-turn-local-image.jsonl":         `:2: image is "/path/to/image.png", not a URL; write it as https://… or data:…;base64,…: other files are not read`,
		"single-turn-nothing-said.jsonl":        `:2: no text, image, audio or video; a turn needs one of them`,
		"single-turn-other-type.jsonl":          `:2: type is "random_pool", not "single_turn"; `,
		"single-turn-some-times.jsonl":          `:2: missing timestamp; other rows have one: `,
		"single-turn-text-not-text.jsonl":       `:2: text is ["a","b"], not a string; write it as "…"`,
		"single-turn-text-twice.jsonl":          `:2: both text and texts; keep one of them`,
		"text-after-row.jsonl":                  ":2: invalid JSON at byte 78: text after the row's object; ",
		"timestamp-as-text.jsonl":               `:2: timestamp is "2023-11-16 18:17:03.9799600", not a number; `,
		"timestamp-out-of-range.jsonl":          ":2: timestamp 1e30 is out of range (292 years); ",
		"tracelab-event-time.jsonl":             `:2: timing_events[1]: timestamp is "yesterday", not a date; write it as `,
		"tracelab-events-not-a-list.jsonl":      `:2: timing_events is {"x":[{"event_type":"user_message","time…, not a list; write it as [{…},…]`,
		"tracelab-negative-prefix.jsonl":        `:2: prefix_tokens -320 is out of range; it must be from 0 to 16777216`,
		"tracelab-no-output.jsonl":              `:2: missing output_tokens; every request must have what the format requires`,
		"tracelab-no-session.jsonl":             `:2: missing session_id; it names the agent's conversation`,
		"tracelab-session-number.jsonl":         `:2: session_id is 7, not a string; write it as "…"`,
		"tracelab-some-times.jsonl":             `:2: missing timing_events; other rows have one: `,
		"trailing-comma.jsonl":                  ":2: invalid JSON at byte 77: want a string; ",
		"truncated-row.jsonl":                   ":3: invalid JSON at byte 60: the line ends too early; ",
		"type-not-text.jsonl":                   `:2: type is ["text"], not a string; `,
		"unknown-columns.csv":                   `:1: unknown format: CSV with the columns when, prompt, answer; name its columns, as in --format burstgpt --fields "timestamp=COLUMN,input_length=COLUMN,output_length=COLUMN", or --format azure if `,
		"unknown-keys.jsonl":                    `:1: unknown format: a row with the keys arrived, prompt, max_tokens; name its keys with --fields, as in --fields text_input=prompt,timestamp=arrived,output_length=max_tokens (rows `,
		"weka-agent-id-as-number.jsonl":         `:2: requests[1]: agent_id is 7, not a string; write it as "…"`,
		"weka-cut-short.json":                   `:6: invalid JSON at byte 76: the line ends too early; the file must be one JSON document, whole and valid`,
		"weka-duration-as-text.jsonl":           `:2: requests[1]: duration_ms is "4 s", not a number; write it as a JSON number`,
		"weka-empty.jsonl":                      `:2: nothing in it to send; leave it out`,
		"weka-hash-id-as-text.jsonl":            `:2: requests[0]: hash_ids[1] is "2"; an id is a whole number from 0 to 18446744073709551615`,
		"weka-huge-duration.jsonl":              `:2: requests[1]: duration_ms 4e15 is out of range (292 years); check its unit`,
		"weka-id-as-number.jsonl":               `:2: id is 7, not a string; write it as "…"`,
		"weka-inside-subagent.jsonl":            `:2: requests[1]: requests[1]: in 0 is out of range; it must be from 1 to 16777216`,
		"weka-negative-api-time.jsonl":          `:2: requests[0]: api_time -1 is negative; times and durations are at least 0`,
		"weka-no-out.jsonl":                     `:2: requests[0]: missing out; every request must have what the format requires`,
		"weka-no-requests.jsonl":                `:2: missing requests; it is the list of what was sent`,
		"weka-other-scope.jsonl":                `:2: hash_id_scope is "session"; it is "local" or "global"`,
		"weka-requests-not-a-list.jsonl":        `:2: requests is {"t":0}, not a list; write it as [{…},…]`,
		"weka-same-id.jsonl":                    `:2: id "a" is the name of an earlier trace too; each needs a name of its own; a file is replayed twice with --repeat`,
		"weka-subagent-no-t.jsonl":              `:2: requests[1]: missing t; it is the time of the sub-agent`,
		"weka-two-block-sizes.jsonl":            `:2: a block id stands for 65 tokens, but for 64 in the rows before; a run has one block size: `,
		"weka-two-scopes.jsonl":                 `:2: hash_id_scope is not that of the traces before; replay local and global traces by themselves`,
		"weka-zero-block-size.jsonl":            `:2: block_size is 0; it is the number of tokens that a block id stands for`,
		"wrong-block-size.jsonl":                ": 12 of 12 rows have a number of hash ids that is not input_length / 512 rounded up, first line 1 (7 ids for 100 tokens); the ids fit blocks of 16 tokens: pass --block-tokens 16",
		"zero-input-length.jsonl":               ":2: input_length 0 is out of range; it must be from 1 to 16777216",
	}
}

func TestMalformed(t *testing.T) {
	files := must(os.ReadDir("testdata"))(t)
	refusals := refusals()
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		path := filepath.Join("testdata", f.Name())
		want, known := refusals[f.Name()]
		if !known {
			t.Errorf("%s: no refusal is listed", path)
			continue
		}
		delete(refusals, f.Name())
		if _, err := Open(path, Options{}); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s:\n%v\nmust begin with\n%s", path, err, path+want)
		}
	}
	for name := range refusals {
		t.Errorf("testdata/%s is missing", name)
	}
}

func TestTenFaultsAndTheRest(t *testing.T) {
	_, err := Open("testdata/many-faults.jsonl", Options{})
	var lint *LintError
	if !errors.As(err, &lint) || len(lint.Faults) != 10 || lint.More != 14 || lint.Good != 12 {
		t.Fatalf("got %+v, want 10 faults, 14 more and 12 good rows", lint)
	}
	if f := lint.Faults[9]; f.Line != 15 || f.File != "testdata/many-faults.jsonl" || f.What != "input_length -14 is out of range" {
		t.Errorf("the tenth fault is %+v", f)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 12 || lines[10] != "… and 14 more" || lines[11] != "24 of 36 rows cannot be replayed; fix them, or leave them out with --bad-rows drop" {
		t.Errorf("the message ends with %q", lines[10:])
	}
}

// TestLoneFaultIsDropped makes sure that lenient reading saves the rows beside a bad one.
func TestLoneFaultIsDropped(t *testing.T) {
	for _, name := range []string{"bad-escape", "trailing-comma", "huge-hash-id", "repeated-key", "timestamp-as-text", "missing-chat-id", "type-not-text", "truncated-row"} {
		tr, err := Open("testdata/"+name+".jsonl", Options{Lenient: true})
		if err != nil || tr.Len() != 2 || tr.FileRows != 3 || tr.Lint.Dropped != 1 {
			t.Errorf("%s: %+v, %v; want 2 of 3 rows", name, tr, err)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	l := newLoader(Options{Format: "mooncake", Lenient: true})
	l.begin("t", "")
	row := `{"timestamp":1,"input_length":1,"output_length":1}`
	lines := newLineReader(bufio.NewReader(strings.NewReader(row + "\n" + row + strings.Repeat(" ", 600_000) + "\n" + row)))
	lines.longest = 500_000
	noError(t, l.readAll(lines))
	tr, err := l.finish()
	if err != nil || tr.Len() != 2 || tr.Lint.Dropped != 1 || tr.Lint.Faults[0].Line != 2 {
		t.Errorf("%+v, %v; want the second of three rows dropped", tr, err)
	}
	want(t, "Row", tr.Row, []int32{0, 2})
}

// TestOnlyLineTooLong has no line from which a format could be told.
func TestOnlyLineTooLong(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		l := newLoader(Options{Lenient: lenient})
		l.begin("t", "")
		lines := newLineReader(bufio.NewReader(strings.NewReader(strings.Repeat(" ", 600_000))))
		lines.longest = 500_000
		noError(t, l.readAll(lines))
		if _, err := l.finish(); err == nil || !strings.Contains(err.Error(), "t:1: the line is longer than 64 MiB; ") {
			t.Errorf("lenient %v: %v", lenient, err)
		}
	}
}
