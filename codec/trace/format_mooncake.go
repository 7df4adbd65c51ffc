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
// https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release describes. An id names a block together with all
// before it. A prompt is either made of input_length tokens or verbatim. The fields of the latter are AIPerf's
// (https://github.com/ai-dynamo/aiperf), with delays in milliseconds. The aliases are Dynamo's
// (https://github.com/ai-dynamo/dynamo, lib/data-gen); its priorities and ids of output tokens are not kept.
func mooncake() *format {
	return &format{
		name:        "mooncake",
		unit:        time.Millisecond,
		blockTokens: 512,
		names: usual(timestampField, inputField, outputField, idsField, sessionField, delayField,
			textField, messagesField, payloadField, toolsField, extraField),
		aliases:   map[string]field{"created_time": timestampField, "input_tokens": inputField, "output_tokens": outputField, "delay_ms": delayField},
		enough:    []fieldSet{setOf(inputField, outputField), setOf(textField), setOf(messagesField), setOf(payloadField)},
		check:     checkMooncake,
		appendRow: appendMooncake,
	}
}

// checkMooncake refuses rows with several prompts, or none.
func checkMooncake(f *format, r *row) error {
	given := r.seen & setOf(inputField, textField, messagesField, payloadField)
	without := func(has, needed field) error {
		return &rowError{f.names[has] + " without " + f.names[needed], "a row needs both or neither"}
	}
	switch {
	case given == 0:
		return &rowError{"missing " + f.list(setOf(inputField, outputField)&^r.seen),
			"a row needs input_length and output_length, or text_input, messages or payload"}
	case bits.OnesCount32(uint32(given)) > 1:
		return &rowError{"several of " + f.list(given), "a row has exactly one of them"}
	case given.has(inputField) && !r.seen.has(outputField):
		return &rowError{"missing " + f.names[outputField], "a row with input_length needs the length of its answer"}
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
	switch l := t.Verbatim(i); l.Kind {
	case VerbatimText:
		return append(append(append(dst, `"text_input":"`...), l.Content...), '"')
	case VerbatimMessages:
		dst = append(append(append(dst, `"messages":[`...), l.Content...), ']')
		if l.Tools != nil {
			dst = append(append(dst, `,"tools":`...), l.Tools...)
		}
		return dst
	case VerbatimPayload:
		return append(append(append(dst, `"payload":{`...), l.Content...), '}')
	}
	return appendInt(dst, `"input_length":`, t.InputTokens[i])
}

// bailian is the format of the Qwen-Bailian usage traces:
//
//	{"chat_id":159,"parent_chat_id":55,"timestamp":61.114,"input_length":521,"output_length":132,"type":"text","turn":2,"hash_ids":[1089,…]}
//
// Timestamps are decimal seconds and an id stands for 16 tokens, as the README of
// https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon describes. An id names a block's content alone, so the
// same id may follow different blocks.
func bailian() *format {
	return &format{
		name:        "bailian",
		unit:        time.Second,
		blockTokens: 16,
		names:       usual(timestampField, inputField, outputField, idsField, chatField, parentField, typeField, turnField),
		required:    setOf(timestampField, inputField, outputField, chatField),
		appendRow:   appendBailian,
	}
}

// appendBailian writes a row. A trace without conversations gets one of its own for each row.
func appendBailian(dst []byte, t *Trace, i int) []byte {
	chat, parent, turn := int64(t.Row[i]), int64(noParent), int32(1)
	if t.Chat != nil {
		chat, parent = t.Chat[i], t.Parent[i]
	}
	if t.Turn != nil {
		turn = t.Turn[i]
	}
	dst = append(dst, `{"chat_id":`...)
	dst = strconv.AppendInt(dst, chat, 10)
	dst = append(dst, `,"parent_chat_id":`...)
	dst = strconv.AppendInt(dst, parent, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = appendDecimal(dst, t.ArrivalNS[i], 9)
	dst = appendInt(dst, `,"input_length":`, t.InputTokens[i])
	dst = appendInt(dst, `,"output_length":`, t.OutputTokens[i])
	if t.Type != nil && t.Types[t.Type[i]] != "" {
		dst = append(dst, `,"type":`...)
		dst = appendString(dst, t.Types[t.Type[i]])
	}
	dst = append(dst, `,"turn":`...)
	dst = strconv.AppendInt(dst, int64(turn), 10)
	return append(appendIDs(dst, t.Blocks(i)), '}')
}
