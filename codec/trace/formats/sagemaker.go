package formats

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/codec/trace/agents"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// sageMaker is the format of the data capture of Amazon SageMaker's endpoints, a line a request:
//
//	{"captureData":{"endpointInput":{"observedContentType":"application/json","mode":"INPUT",
//	 "data":"{\"messages\":…}","encoding":"JSON"},
//	"endpointOutput":{…}},"eventMetadata":{"eventId":"…","inferenceTime":"2022-02-14T17:25:06Z"},"eventVersion":"0"}
//
// as https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html describes. The request is
// sent unchanged. Times are whole seconds. An answer that was captured too may have the numbers of tokens.
func sageMaker() *Format {
	return &Format{
		Name: "sagemaker",
		Layout: rows.Layout{
			Dates: true,
			Names: rows.Names{
				rows.TimestampField: "inferenceTime",
				rows.PayloadField:   "the captured request",
				rows.InputField:     "prompt_tokens",
				rows.OutputField:    "completion_tokens",
			},
			Required: rows.SetOf(rows.TimestampField),
		},
		Unit:         time.Second,
		WholeSeconds: true,
		Words:        true,
		Import: &Importer{
			Match: hasKeys("captureData", "eventMetadata"),
			Read:  readCapture,
		},
		Write: &Writer{
			Refuse: notMerged,
			Append: appendCapture,
		},
	}
}

func readCapture(b *Batch, o object) {
	event := o.NeedIn("eventMetadata", "it is the time of the request")
	data := o.NeedIn("captureData", "it is what was captured")
	asked := data.NeedIn("endpointInput", "capture requests too: that is what is sent")
	event.Need("inferenceTime", "it is the time of the request")
	r := b.add()
	r.SetSpan(event.Date("inferenceTime"), agents.NoTime)
	if !o.OK() {
		return
	}
	body, err := captured(asked)
	b.note(err)
	if err == nil {
		b.setBody(r, body)
	}
	b.Fault = rows.Inside("endpointInput", b.Fault)
	if answer, err := captured(data.In("endpointOutput")); err == nil {
		b.setAnswer(r, answer)
	}
}

// captured is the text of what an endpoint got or gave.
func captured(part object) ([]byte, error) {
	data := part.Value("data")
	switch {
	case data == nil:
		return nil, rows.Bad("missing data", "it is what is sent")
	case data[0] != '"':
		return nil, rows.Bad("data is "+rows.Clip(data)+", not a string", "write it as the capture has it")
	}
	text := rows.TextOf(data)
	switch {
	case part.Is("encoding", "JSON"):
		return text, nil
	case part.Is("encoding", "BASE64") || !part.Has("encoding"): // SageMaker's default
		plain, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return nil, rows.Bad("data is "+rows.Clip(data)+", not base64", "write it as the capture has it")
		}
		return plain, nil
	}
	return nil, rows.Bad("encoding is "+rows.Clip(part.Value("encoding"))+`, not "JSON" or "BASE64"`,
		"only requests that are JSON objects can be sent again")
}

// appendCapture writes a row. Its date is in whole seconds, and of the answer there is only how long it was.
func appendCapture(dst []byte, r *Request) []byte {
	dst = append(dst, `{"captureData":{"endpointInput":`...)
	dst = appendCaptured(dst, "INPUT", r.body())
	input := int64(r.InputTokens)
	output := int64(r.OutputTokens)
	if input+output > 0 {
		usage := fmt.Appendf(nil, `{"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, input,
			output,
			input+output)
		dst = appendCaptured(append(dst, `,"endpointOutput":`...), "OUTPUT", usage)
	}
	at := r.instant().Format("2006-01-02T15:04:05Z")
	dst = fmt.Appendf(dst, `},"eventMetadata":{"eventId":"row-%d","inferenceTime":"%s"}`, r.Number, at)
	return append(dst, `,"eventVersion":"0"}`...)
}

// appendCaptured writes what an endpoint got or gave; what is no UTF-8 in base64, so that it stays as it is.
func appendCaptured(dst []byte, mode string, text []byte) []byte {
	dst = concat(dst, `{"observedContentType":"application/json","mode":"`, mode, `","data":`)
	if !utf8.Valid(text) {
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), text)
		return append(dst, `","encoding":"BASE64"}`...)
	}
	return append(appendString(dst, string(text)), `,"encoding":"JSON"}`...)
}
