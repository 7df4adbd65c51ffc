package trace

import "time"

// singleTurn is AIPerf's format of requests that know nothing of each other, a line a request:
//
//	{"text":"What is the capital of France?","timestamp":1000,"output_length":20}
//	{"texts":["What is in it?"],"image":"https://example.org/a.png","session_id":"a","delay":1500,"role":"user"}
//
// as https://github.com/ai-dynamo/aiperf (docs/tutorials, custom datasets) says. Times are milliseconds. Lines with the same
// session_id are one conversation's turns, but each is sent as it stands, without those before.
func singleTurn() *format {
	return &format{
		name:        "single_turn",
		blockTokens: noBlocks,
		unit:        time.Millisecond,
		names:       usual(timestampField, outputField, sessionField, delayField, extraField),
		known:       saysKeys,
		items:       readSingleTurn,
		words:       true,
		cannot:      notText,
		appendRow:   appendSingleTurn,
	}
}

func readSingleTurn(out *items, object []byte) error {
	t, err := readTurn(object)
	if err == nil {
		err = checkType(t.object, out.p.format.name)
	}
	if err != nil {
		return err
	}
	r := out.add()
	if err := out.setAll(r, t.object, timestampField, outputField, sessionField, delayField, extraField); err != nil {
		return err
	}
	if !r.seen.has(sessionField) {
		r.seen &^= setOf(delayField) // there is no turn before to wait for
	}
	if t.plain() && t.role == "user" {
		r.literal.Kind, r.literal.Content = TextLiteral, unquoted(t.texts[0])
	} else {
		out.setMessages(r, t.appendMessage(nil))
	}
	return nil
}

func appendSingleTurn(dst []byte, t *Trace, i int) []byte {
	dst = appendTimestamp(append(dst, '{'), t, i)
	dst = appendDelay(appendSession(dst, t, i, "session_id"), t, i)
	dst = append(t.appendText(append(dst, `"text":"`...), i), '"')
	return append(appendAsked(dst, t, i), '}')
}
