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
	return &format{
		name:        "tracelab",
		blockTokens: grownBlock,
		unit:        noUnit,
		dates:       true,
		surely:      true,
		floor:       true,
		spans:       true,
		jobs:        true,
		names: fieldNames{timestampField: "timing_events", inputField: "input_tokens_total", outputField: "output_tokens",
			sessionField: "session_id"},
		known: hasKeys("session_id", "input_tokens_total", "newly_append_tokens"),
		items: ofMembers(readRound),
	}
}

func readRound(out *items, all []member) error {
	session, err := nameOf(all, "session_id", "it names the agent's conversation")
	if err != nil {
		return err
	}
	var model string
	if value := valueOf(all, "model"); value != nil {
		if model, err = nameOf(all, "model", "leave it out if it is not known"); err != nil {
			return err
		}
	}
	began, ended, err := roundTimes(all)
	if err != nil {
		return err
	}
	if input := valueOf(all, "input_tokens_total"); string(input) == "0" {
		out.failed++ // Claude Code writes down its own error messages as answers to nothing
		return nil
	}
	r := out.add()
	r.agent.job = session
	r.setSession([]byte(session))
	if began != noTime {
		r.setSpan(began, ended)
	}
	return out.setCounts(r, all, "prefix_tokens", model)
}

// roundTimes is when a round's request was sent and when its answer ended; noTime where it is not known.
func roundTimes(all []member) (began, ended int64, err error) {
	var inputs []int64
	first, last := int64(noTime), int64(noTime) // events of the answer
	err = listIn(all, "timing_events", func(_ int, object []byte) error {
		event, err := membersOf(object)
		if err != nil {
			return err
		}
		at, err := dateOf(event, "timestamp")
		if err != nil || at == noTime {
			return err
		}
		switch string(valueOf(event, "event_type")) {
		case `"user_message"`, `"tool_result"`:
			inputs = append(inputs, at)
		case `"reasoning"`, `"text"`, `"tool_call"`:
			if first == noTime {
				first = at
			}
			first, last = min(first, at), max(last, at)
		}
		return nil
	})
	sent := int64(noTime)
	for _, at := range inputs {
		if first == noTime || at <= first {
			sent = max(sent, at)
		}
	}
	if sent == noTime {
		sent = first
	}
	return sent, last, err
}
