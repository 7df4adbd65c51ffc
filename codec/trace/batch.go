package trace

import (
	"slices"
	"strings"
)

// batch is the format of OpenAI's batch files, a line a request:
//
//	{"custom_id":"request-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[…]}}
//
// as https://platform.openai.com/docs/guides/batch says. Bodies are sent as they are. There are no timestamps.
func batch() *format {
	return &format{
		name:        "batch",
		blockTokens: uniqueBlock,
		unit:        uniqueUnit,
		names:       fieldNames{payloadField: "body"},
		known:       func(keys []string) bool { return slices.Contains(keys, "body") && slices.Contains(keys, "url") },
		items:       readBatch,
	}
}

func readBatch(out *items, object []byte) error {
	all, err := membersOf(object)
	if err != nil {
		return err
	}
	body := valueOf(all, "body")
	if body == nil {
		return &rowError{"missing body", "it is what is sent"}
	}
	if method := valueOf(all, "method"); method != nil && !strings.EqualFold(string(method), `"POST"`) {
		return &rowError{"method is " + clip(method) + ", not \"POST\"", "requests for completions are posted"}
	}
	return out.set(out.add(), payloadField, body)
}
