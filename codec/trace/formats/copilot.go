package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// copilot is the format of the traces of GitHub Copilot's coding agent, a line a session:
//
//	{"session_id":"…","date":"2026-06-01","turns":[{"turn_id":"…","llm_calls":[{"message_id":"…",
//	 "timestamp":"2026-06-01T08:00:00Z",
//	"duration_ms":4200.5,"initiator_type":"user","model":"Model A","result":"Success","status_code":"OK",
//	"tokens":{"total":…,"prompt":…,"completion":…,"cached":…,"cached_pct":…},
//	"message_metadata":[{"type":"System","role":"system","sequenceId":0,"token_len":…},…]},…],"tool_batches":[…]},…]}
//
// as https://github.com/Azure/AzurePublicDataset (analysis/GitHubCopilotCodingAgents/schema.json) describes. There is
// no text. What a prompt has in common with an earlier one of its session and model is the messages with which both
// begin. Such messages have equal type, role, place and length. It has no less in common than the server found in its
// cache.
//
// A call whose messages go on from all of an earlier one's is the next of the same conversation. So is one that keeps
// fewer, if no other call goes on from that one: its history was compacted. All else is another agent.
func copilot() *Format {
	return counted("copilot", rows.Names{
		rows.TimestampField: "timestamp",
		rows.InputField:     "prompt",
		rows.OutputField:    "completion",
		rows.SessionField:   "session_id",
	}, hasKeys("session_id", "date", "turns"), readCopilot)
}

// copilotCall is a call that is sent.
type copilotCall struct {
	row      int // of the batch
	at, end  int64
	model    string
	prompt   int32
	messages [][]byte // as they stand in the file
	from     int      // call with which its messages have most in common; agents.None = none
	whole    bool     // it has all of that one's
}

func readCopilot(b *Batch, o object) {
	session := o.Name("session_id", "it names the session")
	var calls []copilotCall
	o.Each("turns", func(_ int, turn object) {
		turn.Each("llm_calls", func(_ int, o object) {
			code := string(o.Value("status_code"))
			failed := code != "" && code != "200" && !o.Is("status_code", "200", "OK", "Ok", "ok")
			tokens := o.In("tokens")
			if failed || hasZero(tokens, "prompt", "completion") {
				b.Failed++ // or it was cancelled before there was an answer
				return
			}
			calls = append(calls, b.copilotCall(o))
		})
	})
	if !o.OK() {
		return
	}
	slices.SortStableFunc(calls, func(x, y copilotCall) int {
		return cmp.Compare(x.at, y.at)
	})
	b.copilotGrowth(calls)
	for i, agent := range copilotAgents(calls) {
		r := &b.Rows[calls[i].row]
		name := session
		if agent > 0 {
			name = fmt.Sprintf("%s/%d", session, agent)
		}
		r.Job = session
		r.SetSession([]byte(name))
	}
}

// copilotCall reads a call and adds its row.
func (b *Batch) copilotCall(o object) copilotCall {
	call := copilotCall{
		row:   len(b.Rows),
		model: string(o.Value("model")),
		at:    o.Date("timestamp"),
	}
	o.Need("timestamp", "it is when the call was sent")
	took := o.Span("duration_ms", 6)
	call.end = agents.After(call.at, took)
	r := b.add()
	r.SetSpan(call.at, agents.NoTime)
	r.TookNS = took
	b.setCounts(r, o.NeedIn("tokens", "a call without its numbers of tokens cannot be replayed"), "cached", call.model)
	b.setOwner(r, o, "model")
	call.prompt = r.InputTokens
	o.Values("message_metadata", "[{…},…]", func(i int, message []byte) {
		o.Note(rows.IsObject("message_metadata", i, message))
		call.messages = append(call.messages, message)
	})
	return call
}

// copilotGrowth finds for each call, in order of time, from which one it goes on and what it has of that one's prompt.
func (b *Batch) copilotGrowth(calls []copilotCall) {
	for i := range calls {
		call := &calls[i]
		r := &b.Rows[calls[i].row]
		call.from = agents.None
		most := 0
		least := max(0, i-mostCallsBack)
		for k := i - 1; k >= least && !call.whole; k-- {
			before := &calls[k]
			if before.model != call.model || before.end > call.at {
				continue
			}
			same := 0
			for same < min(len(call.messages), len(before.messages)) &&
				bytes.Equal(call.messages[same], before.messages[same]) {
				same++
			}
			if same > most {
				most = same
				call.from = k
				call.whole = same == len(before.messages) && call.prompt >= before.prompt
			}
		}
		r.Growth.From = agents.FromNothing
		if call.from != agents.None {
			r.Growth.From = int32(b.First + calls[call.from].row)
		}
		if call.from != agents.None && !call.whole { // else by length: the answer follows
			kept := int64(0)
			for n, message := range call.messages[:most] {
				tokens := rows.ObjectOf(message, &b.Fault).Count("token_len", rows.MaxTokens)
				kept += max(0, tokens)
				b.Fault = rows.Inside(fmt.Sprintf("message_metadata[%d]", n), b.Fault)
			}
			kept = min(kept, rows.MaxTokens)
			r.Growth.Kept = max(int32(kept), r.CachedTokens)
		}
	}
}

// mostCallsBack is how many calls back the one is looked for that a call goes on from.
const mostCallsBack = 64

// copilotAgents numbers the agents of a session's calls, from 0 for the first.
func copilotAgents(calls []copilotCall) []int {
	// the call that goes on from a call in the same conversation
	next := slices.Repeat([]int{agents.None}, len(calls))
	for _, whole := range []bool{true, false} {
		for i, call := range calls {
			if call.from != agents.None && call.whole == whole && next[call.from] == agents.None {
				next[call.from] = i
			}
		}
	}
	agent := make([]int, len(calls))
	n := 0
	for i := range calls {
		if from := calls[i].from; from != agents.None && next[from] == i {
			agent[i] = agent[from]
		} else {
			agent[i] = n
			n++
		}
	}
	return agent
}
