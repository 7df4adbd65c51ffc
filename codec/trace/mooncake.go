package trace

import "time"

// mooncake is the format of the Mooncake traces (FAST'25):
//
//	{"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[46,47,…]}
//
// Timestamps are milliseconds and an id stands for 512 tokens, as
// https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release says. An id names a block together with all before it.
func mooncake() *format {
	return &format{
		name:        "mooncake",
		unit:        time.Millisecond,
		blockTokens: 512,
		names:       fieldNames{timestampField: "timestamp", inputField: "input_length", outputField: "output_length", idsField: "hash_ids"},
		required:    setOf(timestampField, inputField, outputField),
		appendRow:   appendMooncake,
	}
}

func appendMooncake(dst []byte, t *Trace, i int) []byte {
	dst = append(dst, `{"timestamp":`...)
	dst = appendDecimal(dst, t.ArrivalNS[i], 6)
	dst = appendLengths(dst, t, i)
	return append(appendIDs(dst, t.Blocks(i)), '}')
}
