package trace

import (
	"slices"
	"time"
)

// multiTurn is AIPerf's format of conversations, a line a conversation:
//
//	{"session_id":"a","turns":[{"text":"Hi","timestamp":0},{"role":"assistant","text":"Hello."},{"text":"Why?","delay":1500}]}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) says; a turn is what a line of single_turn is. Each
// turn but those of the assistant and the system is a request, with all turns before it. What the assistant said stands where
// the file has it; AIPerf itself puts there what the server answered.
func multiTurn() *format {
	return &format{
		name:        "multi_turn",
		blockTokens: noBlocks,
		unit:        time.Millisecond,
		names:       usual(timestampField, outputField, sessionField, delayField, extraField),
		known:       func(keys []string) bool { return slices.Contains(keys, "turns") },
		items:       readMultiTurn,
		words:       true,
		cannot:      notTurns,
		appendRow:   appendMultiTurn,
	}
}

func readMultiTurn(out *items, object []byte) error {
	all, err := membersOf(object)
	if err == nil {
		err = checkType(all, out.p.format.name)
	}
	if err != nil {
		return err
	}
	if valueOf(all, "turns") == nil {
		return &rowError{"missing turns", "it is the list of what was said"}
	}
	var said []byte // so far
	asked := false  // just now
	return listIn(all, "turns", func(_ int, object []byte) error {
		t, err := readTurn(object)
		if err != nil {
			return err
		}
		said = t.appendMessage(said)
		switch t.role {
		case "assistant":
			if asked && t.plain() {
				out.rows[len(out.rows)-1].answer = unquoted(t.texts[0])
			}
			asked = false
			return nil
		case "system", "developer":
			asked = false
			return nil
		}
		asked = true
		r := out.add()
		out.setMessages(r, said)
		if err := out.setAll(r, t.object, timestampField, outputField, delayField, extraField); err != nil {
			return err
		}
		return out.setConversation(r, all)
	})
}

// notTurns tells what keeps request i out of the format.
func notTurns(t *Trace, i int) string {
	if t.Literal(i).Tools != nil {
		return "has tools"
	}
	return notPlain(t, i)
}

// appendMultiTurn writes a line for each row: those of one session_id are one conversation.
func appendMultiTurn(dst []byte, t *Trace, i int) []byte {
	dst = append(appendSession(append(dst, '{'), t, i, "session_id"), `"turns":[`...)
	said := t.sayings(i)
	last := len(said) - 1
	for _, s := range said[:last] {
		dst = append(append(append(dst, `{"role":"`...), s.role...), `","text":"`...)
		dst = append(append(dst, s.text...), `"},`...)
	}
	dst = appendDelay(appendTimestamp(append(dst, '{'), t, i), t, i)
	dst = append(append(append(dst, `"text":"`...), said[last].text...), '"')
	return append(appendAsked(dst, t, i), "}]}"...)
}
