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
	return saysBody(keys) && hasAny(keys, "messages", "prompt", "input", "inputs", "contents") && notOfBodies(keys) == 0
}

func saysBody(keys []string) bool { return hasAny(keys, "model", "parameters") }

func hasAny(keys []string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(keys, name) })
}

// notOfBodies is what Mooncake's rows have and bodies have not.
func notOfBodies(keys []string) fieldSet {
	return mooncake().fieldsOf(keys) &^ setOf(messagesField, toolsField)
}

// doubtBody refuses a row of Mooncake's among bodies: it would be sent as it stands.
func doubtBody(body []member) error {
	var keys []string
	for _, m := range body {
		keys = append(keys, m.key)
	}
	if saysBody(keys) {
		return nil
	}
	if foreign := notOfBodies(keys); foreign != 0 {
		return &rowError{"a row with " + mooncake().list(foreign) + ", where others are bodies to send", "a file has one format; --format raw_payload sends this as a body, too"}
	}
	return nil
}

func readRawPayload(out *items, object []byte) error {
	all, err := out.bodyMembers(object)
	if err == nil && !out.told {
		err = doubtBody(all)
	}
	if err != nil {
		return err
	}
	r := out.add()
	r.setSession([]byte(out.within))
	return out.setWhole(r, object)
}
