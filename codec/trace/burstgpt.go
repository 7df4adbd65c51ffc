package trace

import (
	"strconv"
	"time"
)

// burstGPT is the format of the BurstGPT traces:
//
//	Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
//	5,17,3.1,ChatGPT,472,18,490,Conversation log
//
// as https://github.com/HPMLL/BurstGPT says; older files have neither Session ID nor Elapsed time. Timestamps are seconds. A
// request without response tokens failed when it was recorded. There are no block ids: every prompt is unique to its row.
func burstGPT() *format {
	return &format{
		name:        "burstgpt",
		csv:         true,
		unit:        time.Second,
		surely:      true,
		failures:    true,
		blockTokens: noBlocks,
		names:       fieldNames{timestampField: "Timestamp", inputField: "Request tokens", outputField: "Response tokens", typeField: "Log Type", sessionField: "Session ID"},
		required:    setOf(timestampField, inputField, outputField),
		head:        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
		appendRow:   appendBurstGPT,
	}
}

// appendBurstGPT writes a row, with nothing for what a Trace does not know: elapsed time and model.
func appendBurstGPT(dst []byte, t *Trace, i int) []byte {
	dst = append(appendDecimal(dst, t.ArrivalNS[i], 9), ',')
	if t.Session != nil && t.Session[i] >= 0 {
		dst = strconv.AppendInt(dst, t.Session[i], 10)
	}
	dst = append(dst, ",,,"...)
	input, output := int64(t.InputTokens[i]), int64(t.OutputTokens[i])
	for _, n := range []int64{input, output, input + output} {
		dst = append(strconv.AppendInt(dst, n, 10), ',')
	}
	if t.Type != nil {
		dst = appendCell(dst, t.Types[t.Type[i]])
	}
	return dst
}
