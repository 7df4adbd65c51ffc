package formats

import (
	"encoding/json"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// mooncake is the format of the Mooncake traces (FAST'25), and what other tools have added to it.
//
//	{"timestamp":27482,"input_length":6955,"output_length":52,"hash_ids":[46,47,…]}
//	{"text_input":"What is the capital of France?","output_length":20}
//	{"session_id":"a","messages":[{"role":"user","content":"Hi"}],"tools":[…],"extra":{"temperature":0}}
//	{"session_id":"a","delay":1500,"payload":{"model":"m","messages":[…]}}
//	{"timestamp":9,"input_length":60,"output_length":5,"tenant":"a","model":"lora-1","class":"gold","priority":-1}
//	{"timestamp":9,"input_length":60,"output_length":5,"headers":{"x-flow":"a"}}
//
// Timestamps are milliseconds and an id stands for 512 tokens, as
// https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release describes. An id names a block together with all
// before it. A prompt is either made of input_length tokens or verbatim. The fields of the latter are AIPerf's
// (https://github.com/ai-dynamo/aiperf), with delays in milliseconds. The aliases are Dynamo's
// (https://github.com/ai-dynamo/dynamo, lib/data-gen); its ids of output tokens are not kept.
func mooncake() *Format {
	return &Format{
		Name: "mooncake",
		Layout: rows.Layout{
			Names: rows.Usual(rows.TimestampField, rows.InputField, rows.OutputField, rows.HashIDsField,
				rows.SessionField, rows.DelayField, rows.TextField, rows.MessagesField, rows.PayloadField,
				rows.ToolsField, rows.ExtraField,
				rows.TenantField, rows.ModelField, rows.ClassField, rows.PriorityField, rows.HeadersField),
			Aliases: map[string]rows.Field{
				"created_time":  rows.TimestampField,
				"input_tokens":  rows.InputField,
				"output_tokens": rows.OutputField,
				"delay_ms":      rows.DelayField,
			},
			Check: checkMooncake,
		},
		UnitVaries:  true,
		BlockTokens: 512,
		Enough: []rows.FieldSet{
			rows.SetOf(rows.InputField, rows.OutputField), rows.SetOf(rows.TextField),
			rows.SetOf(rows.MessagesField), rows.SetOf(rows.PayloadField),
		},
		Write: &Writer{Append: appendMooncake},
	}
}

// checkMooncake refuses rows with several prompts, or none.
func checkMooncake(l *rows.Layout, r *row) error {
	prompts := rows.SetOf(rows.InputField, rows.TextField, rows.MessagesField, rows.PayloadField)
	given := r.Seen & prompts
	switch {
	case given == 0:
		lengths := rows.SetOf(rows.InputField, rows.OutputField)
		return rows.Bad("missing "+l.List(lengths&^r.Seen),
			"a row needs input_length and output_length, or text_input, messages or payload")
	case bits.OnesCount32(uint32(given)) > 1:
		return rows.Bad("several of "+l.List(given), "a row has exactly one of them")
	case given.Has(rows.PayloadField) && r.Owner.Model != "" && r.Owner.Model != modelIn(r.Verbatim):
		return rows.Bad(l.Names[rows.PayloadField]+" has another "+l.Names[rows.ModelField]+" than the row",
			"a payload is sent unchanged, so name the model there")
	case given.Has(rows.InputField) && !r.Seen.Has(rows.OutputField):
		return rows.Bad("missing "+l.Names[rows.OutputField], "a row with input_length needs the length of its answer")
	}
	for _, p := range []struct{ has, needs rows.Field }{
		{rows.HashIDsField, rows.InputField},
		{rows.ToolsField, rows.MessagesField},
		{rows.DelayField, rows.SessionField},
	} {
		if r.Seen.Has(p.has) && !r.Seen.Has(p.needs) {
			return rows.Bad(l.Names[p.has]+" without "+l.Names[p.needs], "a row needs both or neither")
		}
	}
	return nil
}

// modelIn is the model that a payload names; "" if it names none.
func modelIn(payload rows.Verbatim) string {
	var body struct{ Model string }
	_ = json.Unmarshal(slices.Concat([]byte("{"), payload.Content, []byte("}")), &body) // it is JSON
	return body.Model
}

func appendMooncake(dst []byte, r *Request) []byte {
	dst = r.appendTimes(append(dst, '{'))
	dst = r.appendPrompt(dst)
	dst = r.appendAsked(dst)
	dst = r.appendOwner(dst)
	return append(r.appendIDs(dst), '}')
}

// appendOwner writes whose request it is.
func (r *Request) appendOwner(dst []byte) []byte {
	for _, field := range []struct{ lead, value string }{
		{`,"tenant":`, r.Owner.Tenant},
		{`,"model":`, r.Owner.Model},
		{`,"class":`, r.Owner.Class},
	} {
		if field.value != "" {
			dst = appendText(dst, field.lead, field.value)
		}
	}
	if r.Owner.Priority != "" {
		dst = concat(dst, `,"priority":`, r.Owner.Priority)
	}
	if r.Owner.Headers == "" {
		return dst
	}
	lead := `,"headers":{`
	for line := range strings.SplitSeq(r.Owner.Headers, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		dst = appendText(appendText(dst, lead, name), ":", value)
		lead = ","
	}
	return append(dst, '}')
}

// appendPrompt writes what a request asks.
func (r *Request) appendPrompt(dst []byte) []byte {
	content := string(r.Verbatim.Content)
	switch r.Verbatim.Kind {
	case rows.VerbatimText:
		return concat(dst, `"text_input":"`, content, `"`)
	case rows.VerbatimMessages:
		return appendTools(concat(dst, `"messages":[`, content, "]"), r.Verbatim)
	case rows.VerbatimPayload:
		return concat(dst, `"payload":{`, content, "}")
	}
	return appendInt(dst, `"input_length":`, r.InputTokens)
}

// bailian is the format of the Qwen-Bailian usage traces:
//
//	{"chat_id":159,"parent_chat_id":55,"timestamp":61.114,"input_length":521,"output_length":132,"type":"text",
//	 "turn":2,"hash_ids":[1089,…]}
//
// Timestamps are decimal seconds and an id stands for 16 tokens, as the README of
// https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon describes. An id names a block's content alone, so the
// same id may follow different blocks.
func bailian() *Format {
	return &Format{
		Name: "bailian",
		Layout: rows.Layout{
			Names: rows.Usual(rows.TimestampField, rows.InputField, rows.OutputField, rows.HashIDsField,
				rows.ChatField, rows.ParentField, rows.TypeField, rows.TurnField),
			Required: rows.SetOf(rows.TimestampField, rows.InputField, rows.OutputField, rows.ChatField),
		},
		Unit:        time.Second,
		UnitVaries:  true,
		BlockTokens: 16,
		Write:       &Writer{Append: appendBailian},
	}
}

// appendBailian writes a row. A trace without conversations gets one of its own for each row.
func appendBailian(dst []byte, r *Request) []byte {
	chat := r.Chat
	if !r.Seen.Has(rows.ChatField) {
		chat = int64(r.Number)
	}
	dst = appendInt(dst, `{"chat_id":`, chat)
	dst = appendInt(dst, `,"parent_chat_id":`, r.Parent)
	dst = rows.AppendDecimal(append(dst, `,"timestamp":`...), r.TimeNS, 9)
	dst = appendInt(dst, `,"input_length":`, r.InputTokens)
	dst = appendInt(dst, `,"output_length":`, r.OutputTokens)
	if len(r.Type) > 0 {
		dst = appendText(dst, `,"type":`, string(r.Type))
	}
	dst = appendInt(dst, `,"turn":`, r.Turn)
	return append(r.appendIDs(dst), '}')
}
