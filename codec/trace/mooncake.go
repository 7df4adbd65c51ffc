package trace

import (
	"math/bits"
	"strconv"
	"time"
)

// mooncake is the format of the Mooncake traces (FAST'25), and what other tools have added to it:
//
//	{"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[46,47,…]}
//	{"text_input":"What is the capital of France?","output_length":20}
//	{"session_id":"a","messages":[{"role":"user","content":"Hi"}],"tools":[…],"extra":{"temperature":0}}
//	{"session_id":"a","delay":1500,"payload":{"model":"m","messages":[…]}}
//
// Timestamps are milliseconds and an id stands for 512 tokens, as
// https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release says. An id names a block together with all before it. A
// prompt is either made of input_length tokens or there word for word; the fields for that are AIPerf's
// (https://github.com/ai-dynamo/aiperf), with delays in milliseconds.
func mooncake() *format {
	return &format{
		name:        "mooncake",
		unit:        time.Millisecond,
		blockTokens: 512,
		names: usual(timestampField, inputField, outputField, idsField, sessionField, delayField,
			textField, messagesField, payloadField, toolsField, extraField),
		enough:    []fieldSet{setOf(inputField, outputField), setOf(textField), setOf(messagesField), setOf(payloadField)},
		check:     checkMooncake,
		appendRow: appendMooncake,
	}
}

// checkMooncake refuses rows that say what to send twice, or not at all.
func checkMooncake(f *format, r *row) error {
	given := r.seen & setOf(inputField, textField, messagesField, payloadField)
	without := func(has, needed field) error {
		return &rowError{f.names[has] + " without " + f.names[needed], "the one says nothing without the other"}
	}
	switch {
	case given == 0:
		return &rowError{"missing " + f.list(setOf(inputField, outputField)&^r.seen), "a row needs input_length and output_length, or text_input, messages or payload"}
	case bits.OnesCount32(uint32(given)) > 1:
		return &rowError{"several of " + f.list(given), "a row has exactly one of them"}
	case given.has(inputField) && !r.seen.has(outputField):
		return &rowError{"missing " + f.names[outputField], "beside input_length it says how long the answer is"}
	case r.seen.has(idsField) && !given.has(inputField):
		return without(idsField, inputField)
	case r.seen.has(toolsField) && !given.has(messagesField):
		return without(toolsField, messagesField)
	case r.seen.has(delayField) && !r.seen.has(sessionField):
		return without(delayField, sessionField)
	}
	return nil
}

func appendMooncake(dst []byte, t *Trace, i int) []byte {
	dst = appendTimestamp(append(dst, '{'), t, i)
	dst = appendDelay(appendSession(dst, t, i, "session_id"), t, i)
	dst = appendAsked(appendPrompt(dst, t, i), t, i)
	return append(appendIDs(dst, t.Blocks(i)), '}')
}

// appendPrompt writes what a request asks.
func appendPrompt(dst []byte, t *Trace, i int) []byte {
	switch l := t.Literal(i); l.Kind {
	case TextLiteral:
		return append(append(append(dst, `"text_input":"`...), l.Content...), '"')
	case MessagesLiteral:
		dst = append(append(append(dst, `"messages":[`...), l.Content...), ']')
		if l.Tools != nil {
			dst = append(append(dst, `,"tools":`...), l.Tools...)
		}
		return dst
	case PayloadLiteral:
		return append(append(append(dst, `"payload":{`...), l.Content...), '}')
	}
	return strconv.AppendInt(append(dst, `"input_length":`...), int64(t.InputTokens[i]), 10)
}
