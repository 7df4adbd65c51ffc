package trace

import (
	"slices"
	"strconv"
	"strings"
)

// batch is the format of OpenAI's batch files, a line a request:
//
//	{"custom_id":"request-1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[…]}}
//
// as https://platform.openai.com/docs/guides/batch says. Bodies are sent as they are, and all to the same url. There are no
// timestamps.
func batch() *format {
	return &format{
		name:        "batch",
		blockTokens: noBlocks,
		unit:        noUnit,
		names:       fieldNames{payloadField: "body"},
		known:       func(keys []string) bool { return slices.Contains(keys, "body") && slices.Contains(keys, "url") },
		items:       readBatch,
		words:       true,
		cannot:      notBatched,
		appendRow:   appendBatch,
	}
}

func readBatch(out *items, object []byte) error {
	all, err := membersOf(object)
	if err != nil {
		return err
	}
	id, method, url, body := valueOf(all, "custom_id"), valueOf(all, "method"), valueOf(all, "url"), valueOf(all, "body")
	switch {
	case id != nil && id[0] != '"':
		return &rowError{"custom_id is " + clip(id) + ", not a string", `write it as a string, for example "request-1"`}
	case method != nil && !strings.EqualFold(string(method), `"POST"`):
		return &rowError{"method is " + clip(method) + ", not \"POST\"", "requests for completions are posted"}
	case url == nil:
		return &rowError{"missing url", "it says which API the body is for"}
	case !strings.HasPrefix(string(url), `"/`):
		return &rowError{"url is " + clip(url) + ", not a path", `write it as "/v1/chat/completions"; the server is named by --url`}
	case body == nil:
		return &rowError{"missing body", "it is what is sent"}
	}
	r := out.add()
	r.endpoint = string(textOf(url))
	return out.setBody(r, body)
}

// notBatched tells what keeps request i out of the format.
func notBatched(t *Trace, i int) string {
	if path, first := t.path(i), t.path(0); path != first { // a batch is for one
		return "is for " + path + ", the first one for " + first
	}
	return notMerged(t, i)
}

func appendBatch(dst []byte, t *Trace, i int) []byte {
	dst = strconv.AppendInt(append(dst, `{"custom_id":"row-`...), int64(t.Row[i]), 10)
	dst = appendString(append(dst, `","method":"POST","url":`...), t.path(i))
	return append(append(append(dst, `,"body":`...), t.body(i)...), '}')
}
