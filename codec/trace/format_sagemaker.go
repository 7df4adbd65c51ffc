package trace

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

// sageMaker is the format of the data capture of Amazon SageMaker's endpoints, a line a request:
//
//	{"captureData":{"endpointInput":{"observedContentType":"application/json","mode":"INPUT","data":"{\"messages\":…}","encoding":"JSON"},
//	"endpointOutput":{…}},"eventMetadata":{"eventId":"…","inferenceTime":"2022-02-14T17:25:06Z"},"eventVersion":"0"}
//
// as https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html describes. The request is
// sent unchanged. Times are whole seconds. An answer that was captured too may have the numbers of tokens.
func sageMaker() *format {
	return &format{
		name:    "sagemaker",
		unit:    time.Second,
		dates:   true,
		surely:  true,
		seconds: true,
		names: fieldNames{timestampField: "inferenceTime", payloadField: "the captured request",
			inputField: "prompt_tokens", outputField: "completion_tokens"},
		required:  setOf(timestampField),
		known:     hasKeys("captureData", "eventMetadata"),
		items:     ofObject(readCapture),
		words:     true,
		cannot:    notMerged,
		appendRow: appendCapture,
	}
}

func readCapture(out *items, o object) {
	event := o.needIn("eventMetadata", "it is the time of the request")
	data := o.needIn("captureData", "it is what was captured")
	asked := data.needIn("endpointInput", "capture requests too: that is what is sent")
	event.need("inferenceTime", "it is the time of the request")
	r := out.add()
	r.setSpan(event.date("inferenceTime"), noTime)
	if !o.ok() {
		return
	}
	body, err := captured(asked)
	if out.note(err); err == nil {
		out.setBody(r, body)
	}
	out.fault = inside("endpointInput", out.fault)
	if answer, err := captured(data.in("endpointOutput")); err == nil {
		usage := usageOf(answer)
		r.input, r.output = tokensOf(usage, "prompt_tokens"), tokensOf(usage, "completion_tokens")
	}
}

// captured is the text of what an endpoint got or gave.
func captured(part object) ([]byte, error) {
	data := part.value("data")
	switch {
	case data == nil:
		return nil, &rowError{"missing data", "it is what is sent"}
	case data[0] != '"':
		return nil, &rowError{"data is " + clip(data) + ", not a string", "write it as the capture has it"}
	}
	text := textOf(data)
	switch {
	case part.is("encoding", "JSON"):
		return text, nil
	case part.is("encoding", "BASE64") || !part.has("encoding"): // SageMaker's default
		plain, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return nil, &rowError{"data is " + clip(data) + ", not base64", "write it as the capture has it"}
		}
		return plain, nil
	}
	return nil, &rowError{"encoding is " + clip(part.value("encoding")) + `, not "JSON" or "BASE64"`, "only requests that are JSON objects can be sent again"}
}

// usageOf finds the usage that an OpenAI endpoint reports: in its answer, or in one of the last events of a streamed
// one. It is only compared with, so no answer is refused.
func usageOf(answer []byte) object {
	lines := bytes.Split(answer, []byte("\n"))
	for i := len(lines); i >= 0; i-- {
		text := answer
		if i < len(lines) {
			text, _ = bytes.CutPrefix(lines[i], []byte("data:"))
		}
		var err error
		if o := objectOf(text, &err); err == nil && (i == len(lines) || o.in("usage").members != nil) {
			return o.in("usage")
		}
	}
	return object{}
}

// tokensOf is a count of tokens, 0 for none that a row may have.
func tokensOf(usage object, key string) int32 {
	value := usage.value(key)
	s := scan(value)
	if n, ok := s.short(); ok && s.At == len(value) && n <= maxTokens {
		return int32(n)
	}
	return 0
}

// appendCapture writes a row. Its date is azure's, in whole seconds, and of the answer there is only how long it was.
func appendCapture(dst []byte, t *Trace, i int) []byte {
	dst = append(dst, `{"captureData":{"endpointInput":`...)
	dst = appendCaptured(dst, "INPUT", t.body(i))
	if input, output := int64(t.InputTokens[i]), int64(t.OutputTokens[i]); input+output > 0 {
		usage := strconv.AppendInt([]byte(`{"usage":{"prompt_tokens":`), input, 10)
		usage = appendInt(usage, `,"completion_tokens":`, output)
		usage = appendInt(usage, `,"total_tokens":`, input+output)
		dst = appendCaptured(append(dst, `,"endpointOutput":`...), "OUTPUT", append(usage, "}}"...))
	}
	dst = appendInt(dst, `},"eventMetadata":{"eventId":"row-`, t.Row[i])
	dst = startOfDates().Add(time.Duration(t.ArrivalNS[i])).AppendFormat(append(dst, `","inferenceTime":"`...),
		"2006-01-02T15:04:05Z")
	return append(dst, `"},"eventVersion":"0"}`...)
}

// appendCaptured writes what an endpoint got or gave; what is no UTF-8 in base64, so that it stays as it is.
func appendCaptured(dst []byte, mode string, text []byte) []byte {
	dst = append(append(append(dst, `{"observedContentType":"application/json","mode":"`...), mode...), `","data":`...)
	if !utf8.Valid(text) {
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), text), `","encoding":"BASE64"}`...)
	}
	return append(appendString(dst, string(text)), `,"encoding":"JSON"}`...)
}
