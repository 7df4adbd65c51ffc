package trace

import (
	"bytes"
	"encoding/base64"
	"slices"
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
		name:        "sagemaker",
		blockTokens: noBlocks,
		unit:        time.Second,
		dates:       true,
		surely:      true,
		seconds:     true,
		names: fieldNames{timestampField: "inferenceTime", payloadField: "the captured request",
			inputField: "prompt_tokens", outputField: "completion_tokens"},
		required: setOf(timestampField),
		known: func(keys []string) bool {
			return slices.Contains(keys, "captureData") && slices.Contains(keys, "eventMetadata")
		},
		items:     ofMembers(readCapture),
		words:     true,
		cannot:    notMerged,
		appendRow: appendCapture,
	}
}

func readCapture(out *items, all []member) error {
	event, err := objectIn(all, "eventMetadata", "it is the time of the request")
	if err != nil {
		return err
	}
	data, err := objectIn(all, "captureData", "it is what was captured")
	if err != nil {
		return err
	}
	asked, err := objectIn(data, "endpointInput", "capture requests too: that is what is sent")
	if err != nil {
		return err
	}
	r := out.add()
	if err := out.setDate(r, valueOf(event, "inferenceTime")); err != nil {
		return err
	}
	body, err := captured(asked)
	if err == nil {
		err = out.setBody(r, body)
	}
	if answer, missing := objectIn(data, "endpointOutput", ""); missing == nil {
		r.setUsage(answer)
	}
	return inside("endpointInput", err)
}

// captured is the text of what an endpoint got or gave.
func captured(part []member) ([]byte, error) {
	encoding, data := valueOf(part, "encoding"), valueOf(part, "data")
	switch {
	case data == nil:
		return nil, &rowError{"missing data", "it is what is sent"}
	case data[0] != '"':
		return nil, &rowError{"data is " + clip(data) + ", not a string", "write it as the capture has it"}
	}
	text := textOf(data)
	switch string(encoding) {
	case `"JSON"`:
		return text, nil
	case `"BASE64"`, "": // SageMaker's default
		plain, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return nil, &rowError{"data is " + clip(data) + ", not base64", "write it as the capture has it"}
		}
		return plain, nil
	}
	return nil, &rowError{"encoding is " + clip(encoding) + `, not "JSON" or "BASE64"`,
		"only requests that are JSON objects can be sent again"}
}

// setUsage stores the numbers of tokens in an answer's usage, if it has one. They are only compared with, so no answer
// is refused.
func (r *row) setUsage(part []member) {
	answer, err := captured(part)
	if err != nil {
		return
	}
	usage := usageOf(answer)
	r.input, r.output = tokensOf(usage, "prompt_tokens"), tokensOf(usage, "completion_tokens")
}

// usageOf finds the usage that an OpenAI endpoint reports: in its answer, or in one of the last events of a streamed
// one.
func usageOf(answer []byte) []member {
	if all, err := membersOf(answer); err == nil {
		usage, _ := objectIn(all, "usage", "")
		return usage
	}
	lines := bytes.Split(answer, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		event, isData := bytes.CutPrefix(line, []byte("data:"))
		if !isData {
			continue
		}
		if all, err := membersOf(event); err == nil {
			if usage, err := objectIn(all, "usage", ""); err == nil {
				return usage
			}
		}
	}
	return nil
}

// tokensOf is a count of tokens, 0 for none that a row may have.
func tokensOf(usage []member, key string) int32 {
	value := valueOf(usage, key)
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
		usage = strconv.AppendInt(append(usage, `,"completion_tokens":`...), output, 10)
		usage = strconv.AppendInt(append(usage, `,"total_tokens":`...), input+output, 10)
		dst = appendCaptured(append(dst, `,"endpointOutput":`...), "OUTPUT", append(usage, "}}"...))
	}
	dst = strconv.AppendInt(append(dst, `},"eventMetadata":{"eventId":"row-`...), int64(t.Row[i]), 10)
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
