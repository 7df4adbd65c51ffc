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
	return counted(format{
		name:  "copilot",
		names: fieldNames{timestampField: "timestamp", inputField: "prompt", outputField: "completion", sessionField: "session_id"},
		known: hasKeys("session_id", "date", "turns"),
		items: ofObject(readCopilot),
	})
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

func readCopilot(out *items, o object) {
	session := o.name("session_id", "it names the session")
	var calls []copilotCall
	o.each("turns", func(_ int, turn object) {
		turn.each("llm_calls", func(_ int, o object) {
			failed := o.has("status_code") && string(o.value("status_code")) != "200" && !o.is("status_code", "200", "OK", "Ok", "ok")
			tokens := o.in("tokens")
			if failed || string(tokens.value("prompt")) == "0" || string(tokens.value("completion")) == "0" {
				out.failed++ // or it was cancelled before there was an answer
				return
			}
			calls = append(calls, out.copilotCall(o))
		})
	})
	if !o.ok() {
		return
	}
	slices.SortStableFunc(calls, func(a, b copilotCall) int { return cmp.Compare(a.at, b.at) })
	out.copilotGrowth(calls)
	for i, agent := range copilotAgents(calls) {
		r, name := &out.rows[calls[i].row], session
		if agent > 0 {
			name = fmt.Sprintf("%s/%d", session, agent)
		}
		r.agent.job = session
		r.setSession([]byte(name))
	}
}

// copilotCall reads a call and adds its row.
func (m *items) copilotCall(o object) copilotCall {
	call := copilotCall{row: len(m.rows), model: string(o.value("model")), at: o.date("timestamp")}
	o.need("timestamp", "it is when the call was sent")
	took := o.span("duration_ms", 6)
	call.end = sumOf(call.at, took)
	r := m.add()
	r.setSpan(call.at, noTime)
	r.agent.tookNS = took
	m.setCounts(r, o.needIn("tokens", "a call without its numbers of tokens cannot be replayed"), "cached", call.model)
	call.prompt = r.input
	o.values("message_metadata", "[{…},…]", func(i int, message []byte) {
		o.note(isObject("message_metadata", i, message))
		call.messages = append(call.messages, message)
	})
	return call
}

// copilotGrowth finds for each call, in order of time, from which one it goes on and what it has of that one's prompt.
func (m *items) copilotGrowth(calls []copilotCall) {
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
		if call.from != noValue {
			r.growth.from = int64(m.first + calls[call.from].row)
		}
		if call.from != noValue && !call.whole { // else by length: the answer follows
			kept := int64(0)
			for n, message := range call.messages[:most] {
				kept += max(0, objectOf(message, &m.fault).count("token_len", maxTokens))
				m.fault = inside(fmt.Sprintf("message_metadata[%d]", n), m.fault)
			}
			r.growth.kept = int32(max(min(kept, maxTokens), int64(r.agent.cached)))
		}
	}
}

// mostCallsBack is how many calls back the one is looked for that a call goes on from.
const mostCallsBack = 64

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
