package trace

import (
	"strconv"
	"time"
)

// bailian is the format of the Qwen-Bailian usage traces:
//
//	{"chat_id":159,"parent_chat_id":55,"timestamp":61.114,"input_length":521,"output_length":132,"type":"text","turn":2,"hash_ids":[1089,…]}
//
// Timestamps are decimal seconds and an id stands for 16 tokens, as the README of
// https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon says. An id names a block's content alone, so the same
// id may follow different blocks.
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
	dst = appendLengths(dst, t, i)
	if t.Type != nil && t.Types[t.Type[i]] != "" {
		dst = append(dst, `,"type":`...)
		dst = appendString(dst, t.Types[t.Type[i]])
	}
	dst = append(dst, `,"turn":`...)
	dst = strconv.AppendInt(dst, int64(turn), 10)
	return append(appendIDs(dst, t.Blocks(i)), '}')
}
