package trace

// traceLab is the format of TraceLab, what 43 people's Claude Code and Codex sent, a line a request:
//
//	{"provider":"claude","session_id":"claude:…","round_index":1,"model":"…","input_tokens_total":35740,"prefix_tokens":29380,
//	"newly_append_tokens":6360,"output_tokens":1016,"timing_events":[{"event_type":"tool_result","timestamp":"2026-06-01T05:40:50.938Z"},…],"tools":[…]}
//
// as https://github.com/uw-syfi/TraceLab (skills/coding-trace-normalize) describes. A request was sent at the last
// event of its input that comes before its answer, and the answer ended with the last event of it. Output tokens hold
// those of reasoning. prefix_tokens are those that the provider found in its cache. Rounds are taken in order of time:
// (session_id, round_index) is not unique.
func traceLab() *format {
	return counted(format{
		name: "tracelab",
		names: fieldNames{timestampField: "timing_events", inputField: "input_tokens_total", outputField: "output_tokens",
			sessionField: "session_id"},
		known: hasKeys("session_id", "input_tokens_total", "newly_append_tokens"),
		items: ofObject(readRound),
	})
}

func readRound(out *items, o object) {
	session := o.name("session_id", "it names the agent's conversation")
	var model string
	if o.has("model") {
		model = o.name("model", "leave it out if it is not known")
	}
	began, ended := roundTimes(o)
	if string(o.value("input_tokens_total")) == "0" {
		out.failed++ // Claude Code writes down its own error messages as answers to nothing
		return
	}
	r := out.add()
	r.agent.job = session
	r.setSession([]byte(session))
	r.setSpan(began, ended)
	out.setCounts(r, o, "prefix_tokens", model)
}

// roundTimes is when a round's request was sent and when its answer ended; noTime where it is not known.
func roundTimes(o object) (sent, last int64) {
	var inputs []int64
	sent, last = noTime, noTime
	first := int64(noTime) // event of the answer
	o.each("timing_events", func(_ int, event object) {
		at := event.date("timestamp")
		switch {
		case at == noTime:
		case event.is("event_type", "user_message", "tool_result"):
			inputs = append(inputs, at)
		case event.is("event_type", "reasoning", "text", "tool_call"):
			if first == noTime {
				first = at
			}
			first, last = min(first, at), max(last, at)
		}
	})
	for _, at := range inputs {
		if first == noTime || at <= first {
			sent = max(sent, at)
		}
	}
	if sent == noTime {
		sent = first
	}
	return sent, last
}
