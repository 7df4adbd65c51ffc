package trace

import "slices"

// rawPayload is the format of files of request bodies, a line a body, which are sent as they are:
//
//	{"model":"m","messages":[…],"max_tokens":20}
//
// In a directory each file is a session, its lines the turns in order. The format is AIPerf's:
// https://docs.nvidia.com/aiperf/tutorials/datasets-inputs/raw-payload-replay. There are no timestamps.
func rawPayload() *format {
	return &format{
		name:        "raw_payload",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       fieldNames{payloadField: "the body"},
		known:       isBody,
		items:       readRawPayload,
		words:       true,
		cannot:      notMerged,
		appendRow:   func(dst []byte, t *Trace, i int) []byte { return append(dst, t.body(i)...) },
	}
}

// isBody knows a body by what it asks and what it says besides. A row of Mooncake's may have messages too, and tools.
func isBody(keys []string) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(keys, name) })
	}
	foreign := mooncake().fieldsOf(keys) &^ setOf(messagesField, toolsField)
	return has("model", "parameters") && has("messages", "prompt", "input", "inputs", "contents") && foreign == 0
}

func readRawPayload(out *items, object []byte) error {
	r := out.add()
	r.setSession([]byte(out.within))
	return out.setBody(r, object)
}
