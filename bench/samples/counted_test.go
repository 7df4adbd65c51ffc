package samples

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestCountedSamples: the samples of agents that only have numbers of tokens are what their recipes say.
func TestCountedSamples(t *testing.T) {
	for _, s := range []struct {
		path, format                  string
		text                          []byte
		rows, jobs, messages, leftOut int
	}{
		{"tracelab.jsonl", "tracelab", traceLab(), 102, 20, 0, 1},
		{"copilot.jsonl", "copilot", copilot(), 88, 15, 0, 5},
		{"otel.jsonl", "otel", otel(), 57, 12, 20, 0},
		{"dag.jsonl", "dag_jsonl", dag(), 102, 12, 102, 0},
		{"rollout.jsonl", "rl_rollout", rollout(), 167, 12, 0, 0},
	} {
		checkFile(t, s.path, s.text)
		tr := must.Have(trace.Open(s.path, trace.Options{}))(t)
		if tr.Format != s.format || tr.Len() != s.rows || len(tr.Jobs) != s.jobs || tr.Verbatims() != s.messages || tr.Lint.Failed != s.leftOut || !tr.Untimed && tr.SpanNS() < 3e9 || tr.SpanNS() > 8e9 {
			t.Errorf("%s: %d rows of %s, %d jobs, %d with messages, %d left out, %d ns", s.path, tr.Len(), tr.Format, len(tr.Jobs), tr.Verbatims(), tr.Lint.Failed, tr.SpanNS())
		}
		old, refs := 0, 0
		seen := map[uint64]bool{}
		for i := range tr.Len() {
			for _, id := range tr.Blocks(i) {
				refs++
				if seen[id] {
					old++
				}
				seen[id] = true
			}
		}
		if share := float64(old) / float64(refs); refs > 0 && (share < 0.6 || share > 0.95) {
			t.Errorf("%s: %.3f of its blocks were seen before", s.path, share)
		}
	}
}

// agentCall is what agents of which only numbers of tokens are known ask once.
type agentCall struct {
	began, ended          time.Duration // since the start of the trace
	input, output, cached int
	compacted             bool
}

// agentCalls are the calls of one agent from an instant on: it begins with what all have in common, grows by answers
// and the results of tools, and is compacted now and then.
func agentCalls(chance dice, at time.Duration, n int) []agentCall {
	between := chance.between
	ms := func(least, most int) time.Duration { return time.Duration(between(least, most)) * time.Millisecond }
	call := agentCall{began: at, input: between(1800, 2600), cached: 1536}
	var calls []agentCall
	for i := range n {
		if before := call; i > 0 {
			call = agentCall{began: before.ended + ms(20, 250), cached: before.input / 128 * 128,
				input: before.input + before.output + between(10, 600)}
			if i%5 == 4 {
				call.compacted, call.cached, call.input = true, 1536, 1536+between(300, 700)
			}
		}
		call.output = between(5, 60)
		call.ended = call.began + ms(60, 300)
		calls = append(calls, call)
	}
	return calls
}

func stamp(at time.Duration) string {
	return time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC).Add(at).Format("2006-01-02T15:04:05.000Z")
}

// traceLab is tracelab.jsonl: 20 sessions of 2 to 9 rounds. One round is a harness's own message, and was not sent.
func traceLab() []byte {
	chance := newDice(11, 0)
	var file bytes.Buffer
	for s, at := range poisson(20, 5, 11) {
		input := "user_message"
		for round, c := range agentCalls(chance, time.Duration(at), 2+s%8) {
			if s == 7 && round == 0 {
				fmt.Fprintf(&file, `{"provider":"claude","session_id":"claude:%04d","round_index":0,"model":"<synthetic>","input_tokens_total":0,"prefix_tokens":0,"newly_append_tokens":0,"output_tokens":0,"timing_events":[],"tools":[]}`+"\n", s)
			}
			fmt.Fprintf(&file, `{"provider":"claude","project":"p%d","session_id":"claude:%04d","round_index":%d,"round_id":"msg_%d_%d","model":"model-%d","input_tokens_total":%d,"prefix_tokens":%d,"newly_append_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":null,"timing_events":[{"event_type":"%s","timestamp":"%s"},{"event_type":"text","timestamp":"%s"},{"event_type":"tool_call","timestamp":"%s"}],"tools":[{"tool_index":0,"tool_name":"Bash","tool_call_id":"c","emitted_at":"%s","result_at":null,"tool_wall_latency_ms":null}]}`+"\n",
				s%4, s, round, s, round, s%2, c.input, c.cached, c.input-c.cached, c.output, input, stamp(c.began), stamp((c.began+c.ended)/2), stamp(c.ended), stamp(c.ended))
			input = "tool_result"
		}
	}
	return file.Bytes()
}

// copilot is copilot.jsonl: 15 sessions, some with an agent of another model beside the first, and a call that failed.
func copilot() []byte {
	chance := newDice(12, 0)
	var file bytes.Buffer
	for s, at := range poisson(15, 4, 12) {
		var calls []string
		messages := []string{`{"type":"System","role":"system","sequenceId":0,"token_len":1400}`}
		said := 1400
		add := func(c agentCall, model, status string, messages []string) {
			calls = append(calls, fmt.Sprintf(`{"message_id":"m%d","timestamp":"%s","duration_ms":%g,"initiator_type":"agent","model":"%s","result":"Success","status_code":"%s","tokens":{"total":%d,"prompt":%d,"completion":%d,"cached":%d,"cached_pct":0},"message_metadata":[%s]}`,
				len(calls), stamp(c.began), float64(c.ended-c.began)/1e6, model, status, c.input+c.output, c.input, c.output, c.cached, strings.Join(messages, ",")))
		}
		for _, c := range agentCalls(chance, time.Duration(at), 3+s%6) {
			if c.compacted {
				messages, said = messages[:1], 1400
			}
			messages = append(messages, fmt.Sprintf(`{"type":"FunctionCalls","role":"user","sequenceId":%d,"token_len":%d}`, len(messages), c.input-said-100)) // and 100 of tools
			said = c.input - 100
			add(c, "Model A", "OK", messages)
		}
		if s%3 == 1 {
			for _, c := range agentCalls(chance, time.Duration(at)+400*time.Millisecond, 2) {
				c.cached = 0
				add(c, "Model B", "OK", []string{fmt.Sprintf(`{"type":"System","role":"system","sequenceId":0,"token_len":%d}`, c.input)})
			}
			add(agentCall{began: time.Duration(at) + time.Second, ended: time.Duration(at) + time.Second, input: 900}, "Model A", "RateLimited", nil)
		}
		fmt.Fprintf(&file, `{"session_id":"s%02d","date":"2026-06-01","turns":[{"turn_id":"t","llm_calls":[%s],"tool_batches":[]}]}`+"\n", s, strings.Join(calls, ","))
	}
	return file.Bytes()
}

// otel is otel.jsonl: 12 sessions of spans, every third with the messages of its calls and tools.
func otel() []byte {
	s := newSpeaker(13)
	var file bytes.Buffer
	for session, at := range poisson(12, 3, 13) {
		var spans []string
		said := fmt.Sprintf(`{"role":"system","parts":[{"type":"text","content":%s}]}`, s.say(80, 80))
		for i, c := range agentCalls(s.dice, time.Duration(at), 3+session%5) {
			more := ""
			if session%3 == 0 {
				if i == 0 {
					said += fmt.Sprintf(`,{"role":"user","parts":[{"type":"text","content":%s}]}`, s.say(20, 90))
				} else {
					said += fmt.Sprintf(`,{"role":"assistant","parts":[{"type":"tool_call","id":"c%d","name":"run","arguments":{"n":%d}}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c%d","response":%s}]}`,
						i, i, i, s.say(10, 60))
				}
				more = fmt.Sprintf(`,"gen_ai.input.messages":%q,"gen_ai.tool.definitions":%q`, "["+said+"]", `[{"type":"function","name":"run","parameters":{"type":"object"}}]`)
			}
			spans = append(spans, fmt.Sprintf(`{"span_id":"%d","type":"llm_call","start_time":"%s","end_time":"%s","status":{"code":1},"attributes":{"gen_ai.operation.name":"chat","gen_ai.request.model":"m","gen_ai.usage.input_tokens":%d,"gen_ai.usage.output_tokens":%d,"gen_ai.usage.cache_read.input_tokens":%d%s}}`,
				i, stamp(c.began), stamp(c.ended), c.input, c.output, c.cached, more))
		}
		fmt.Fprintf(&file, `{"harness":"h","session_id":"s%02d","models":["m"],"spans":[%s]}`+"\n", session, strings.Join(spans, ","))
	}
	return file.Bytes()
}

// dag is dag.jsonl: 12 jobs that plan, spawn one or two sub-agents, go on beside them, join them and fork two endings.
func dag() []byte {
	s := newSpeaker(14)
	var file bytes.Buffer
	line := func(name string, turns ...string) {
		fmt.Fprintf(&file, `{"session_id":"%s","turns":[%s]}`+"\n", name, strings.Join(turns, ","))
	}
	turn := func(before, more string, least, most int) string {
		return fmt.Sprintf(`{"messages":[%s{"role":"user","content":%s}],"max_tokens":%d%s}`, before, s.say(least, most), s.between(4, 40), more)
	}
	system := fmt.Sprintf(`{"role":"system","content":%s},`, s.say(120, 120))
	for job := range 12 {
		name := fmt.Sprintf("job %02d", job)
		children := fmt.Sprintf(`"%s help"`, name)
		if job%2 == 0 {
			children += fmt.Sprintf(`,"%s check"`, name)
			line(name+" check", turn(system, "", 20, 80))
		}
		line(name,
			turn(system, fmt.Sprintf(`,"spawns":[{"children":[%s],"join_at":2}]`, children), 30, 120),
			turn("", `,"delay":40`, 5, 40),
			turn("", fmt.Sprintf(`,"delay":%d,"forks":["%s short","%s long"]`, s.between(20, 200), name, name), 5, 60))
		line(name+" help", turn(system, "", 20, 80), turn("", `,"delay":30`, 10, 90))
		line(name+" short", turn("", "", 5, 20))
		line(name+" long", turn("", "", 5, 20), turn("", `,"delay":100`, 5, 20))
	}
	return file.Bytes()
}

// rollout is rollout.jsonl: 12 tasks, each tried by 4 agents, which use tools up to 4 times.
func rollout() []byte {
	chance := newDice(16, 0)
	file := bytes.NewBufferString(`{"global_prefix_len":640}` + "\n")
	for group := range 12 {
		prompt := 640 + chance.between(200, 1200)
		for stream := range 4 {
			var answers, observations []string
			for range chance.between(1, 5) {
				answers = append(answers, fmt.Sprint(chance.between(5, 60)))
				observations = append(observations, fmt.Sprint(chance.between(10, 300)))
			}
			fmt.Fprintf(file, `{"group":"task-%02d","stream":%d,"prompt_len":%d,"out_lens":[%s],"obs_lens":[%s]}`+"\n",
				group, stream, prompt, strings.Join(answers, ","), strings.Join(observations[1:], ","))
		}
	}
	return file.Bytes()
}
