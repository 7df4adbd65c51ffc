package formats

import (
	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// traceLab is the format of TraceLab, what 43 people's Claude Code and Codex sent, a line a request:
//
//	{"provider":"claude","session_id":"claude:…","round_index":1,"model":"…","input_tokens_total":35740,
//	 "prefix_tokens":29380,
//	"newly_append_tokens":6360,"output_tokens":1016,"timing_events":[{"event_type":"tool_result",
//	 "timestamp":"2026-06-01T05:40:50.938Z"},…],"tools":[…]}
//
// as https://github.com/uw-syfi/TraceLab (skills/coding-trace-normalize) describes. A request was sent at the last
// event of its input that comes before its answer. The answer ended with the last event of it. Output tokens hold those
// of reasoning. prefix_tokens are those that the provider found in its cache. Rounds are taken in order of time:
// (session_id, round_index) is not unique.
func traceLab() *Format {
	return counted("tracelab", rows.Names{
		rows.TimestampField: "timing_events",
		rows.InputField:     "input_tokens_total",
		rows.OutputField:    "output_tokens",
		rows.SessionField:   "session_id",
	}, hasKeys("session_id", "input_tokens_total", "newly_append_tokens"), readRound)
}

func readRound(b *Batch, o object) {
	session := o.Name("session_id", "it names the agent's conversation")
	var model string
	if o.Has("model") {
		model = o.Name("model", "leave it out if it is not known")
	}
	began, ended := roundTimes(o)
	if hasZero(o, "input_tokens_total") {
		b.Failed++ // Claude Code writes down its own error messages as answers to nothing
		return
	}
	r := b.add()
	r.Job = session
	r.SetSession([]byte(session))
	r.SetSpan(began, ended)
	b.setCounts(r, o, "prefix_tokens", model)
	b.setOwner(r, o, "model")
}

// roundTimes is when a round's request was sent and when its answer ended; noTime where it is not known.
func roundTimes(o object) (sent, last int64) {
	var inputs []int64
	sent = agents.NoTime
	last = agents.NoTime
	first := int64(agents.NoTime) // event of the answer
	o.Each("timing_events", func(_ int, event object) {
		at := event.Date("timestamp")
		switch {
		case at == agents.NoTime:
		case event.Is("event_type", "user_message", "tool_result"):
			inputs = append(inputs, at)
		case event.Is("event_type", "reasoning", "text", "tool_call"):
			if first == agents.NoTime {
				first = at
			}
			first = min(first, at)
			last = max(last, at)
		}
	})
	for _, at := range inputs {
		if first == agents.NoTime || at <= first {
			sent = max(sent, at)
		}
	}
	if sent == agents.NoTime {
		sent = first
	}
	return sent, last
}
