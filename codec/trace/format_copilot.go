package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// copilot is the format of the traces of GitHub Copilot's coding agent, a line a session:
//
//	{"session_id":"…","date":"2026-06-01","turns":[{"turn_id":"…","llm_calls":[{"message_id":"…","timestamp":"2026-06-01T08:00:00Z",
//	"duration_ms":4200.5,"initiator_type":"user","model":"Model A","result":"Success","status_code":"OK",
//	"tokens":{"total":…,"prompt":…,"completion":…,"cached":…,"cached_pct":…},
//	"message_metadata":[{"type":"System","role":"system","sequenceId":0,"token_len":…},…]},…],"tool_batches":[…]},…]}
//
// as https://github.com/Azure/AzurePublicDataset (analysis/GitHubCopilotCodingAgents/schema.json) describes. There is no
// text. What a prompt has in common with an earlier one of its session and model is the messages with which both begin:
// those of equal type, role, place and length. It has no less in common than the server found in its cache.
//
// A call whose messages go on from all of an earlier one's is the next of the same conversation. So is one that keeps
// fewer, if no other call goes on from that one: its history was compacted. All else is another agent.
func copilot() *format {
	return &format{
		name:        "copilot",
		blockTokens: grownBlock,
		unit:        noUnit,
		dates:       true,
		surely:      true,
		floor:       true,
		spans:       true,
		jobs:        true,
		names:       fieldNames{timestampField: "timestamp", inputField: "prompt", outputField: "completion", sessionField: "session_id"},
		known:       hasKeys("session_id", "date", "turns"),
		items:       ofMembers(readCopilot),
	}
}

// copilotCall is a call that is sent.
type copilotCall struct {
	row      int // of items.rows
	at, end  int64
	model    string
	prompt   int32
	messages [][]byte // as they stand in the file
	from     int      // call with which its messages have most in common; noValue = none
	whole    bool     // it has all of that one's
}

func readCopilot(out *items, all []member) error {
	session, err := nameOf(all, "session_id", "it names the session")
	if err != nil {
		return err
	}
	var calls []copilotCall
	err = listIn(all, "turns", func(_ int, object []byte) error {
		turn, err := membersOf(object)
		if err != nil {
			return err
		}
		return listIn(turn, "llm_calls", func(_ int, object []byte) error {
			call, sent, err := out.copilotCall(object)
			if err == nil && sent {
				calls = append(calls, call)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(calls, func(a, b copilotCall) int { return cmp.Compare(a.at, b.at) })
	if err := out.copilotGrowth(calls); err != nil {
		return err
	}
	for i, agent := range copilotAgents(calls) {
		r := &out.rows[calls[i].row]
		r.agent.job = session
		if agent > 0 {
			r.agent.depth = 1
			r.setSession(fmt.Appendf(nil, "%s/%d", session, agent))
		} else {
			r.setSession([]byte(session))
		}
	}
	return nil
}

// copilotCall reads a call and adds its row, unless it failed.
func (m *items) copilotCall(object []byte) (call copilotCall, sent bool, err error) {
	all, err := membersOf(object)
	if err != nil {
		return call, false, err
	}
	switch string(valueOf(all, "status_code")) {
	case "", "200", `"200"`, `"OK"`, `"Ok"`, `"ok"`:
	default:
		m.failed++
		return call, false, nil
	}
	tokens, err := objectIn(all, "tokens", "a call without its numbers of tokens cannot be replayed")
	if err != nil {
		return call, false, err
	}
	if string(valueOf(tokens, "prompt")) == "0" || string(valueOf(tokens, "completion")) == "0" {
		m.failed++ // or it was cancelled before there was an answer
		return call, false, nil
	}
	call = copilotCall{row: len(m.rows), model: string(valueOf(all, "model"))}
	if call.at, err = dateOf(all, "timestamp"); err != nil {
		return call, false, err
	}
	if call.at == noTime {
		return call, false, &rowError{"missing timestamp", "it is when the call was sent"}
	}
	took, err := spanOf(all, "duration_ms", 6)
	if err != nil {
		return call, false, err
	}
	call.end = sumOf(call.at, took)
	r := m.add()
	r.setSpan(call.at, call.at)
	r.agent.tookNS = took
	if err = m.setCounts(r, tokens, "cached", call.model); err != nil {
		return call, false, inside("tokens", err)
	}
	call.prompt = r.input
	err = listIn(all, "message_metadata", func(_ int, message []byte) error {
		call.messages = append(call.messages, message)
		return nil
	})
	return call, true, err
}

// copilotGrowth finds for each call, in order of time, from which one it goes on and what it has of that one's prompt.
func (m *items) copilotGrowth(calls []copilotCall) error {
	for i := range calls {
		call, r := &calls[i], &m.rows[calls[i].row]
		call.from = noValue
		most := 0
		for b := i - 1; b >= max(0, i-mostCallsBack) && !call.whole; b-- {
			before := &calls[b]
			if before.model != call.model || before.end > call.at {
				continue
			}
			same := 0
			for same < min(len(call.messages), len(before.messages)) && bytes.Equal(call.messages[same], before.messages[same]) {
				same++
			}
			if same > most {
				most, call.from, call.whole = same, b, same == len(before.messages) && call.prompt >= before.prompt
			}
		}
		r.growth.from = fromNothing
		if call.from == noValue {
			continue
		}
		r.growth.from = int64(m.first + calls[call.from].row)
		if call.whole {
			continue // by length: the answer follows
		}
		kept, err := tokensIn(call.messages[:most])
		if err != nil {
			return err
		}
		r.growth.kept = int32(max(min(kept, maxTokens), int64(r.agent.cached)))
	}
	return nil
}

// mostCallsBack is how many calls back the one is looked for that a call goes on from.
const mostCallsBack = 64

func tokensIn(messages [][]byte) (int64, error) {
	sum := int64(0)
	for i, message := range messages {
		all, err := membersOf(message)
		if err != nil {
			return 0, err
		}
		n, err := countOf(all, "token_len", maxTokens)
		if err != nil {
			return 0, inside(fmt.Sprintf("message_metadata[%d]", i), err)
		}
		sum += max(0, n)
	}
	return sum, nil
}

// copilotAgents numbers the agents of a session's calls, from 0 for the first.
func copilotAgents(calls []copilotCall) []int {
	next := make([]int, len(calls)) // the call that goes on from a call in the same conversation
	for i := range next {
		next[i] = noValue
	}
	for _, whole := range []bool{true, false} {
		for i := range calls {
			if from := calls[i].from; from != noValue && calls[i].whole == whole && next[from] == noValue {
				next[from] = i
			}
		}
	}
	agents, n := make([]int, len(calls)), 0
	for i := range calls {
		if from := calls[i].from; from != noValue && next[from] == i {
			agents[i] = agents[from]
		} else {
			agents[i] = n
			n++
		}
	}
	return agents
}
