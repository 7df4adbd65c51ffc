package mockllm

import (
	"cmp"
	"fmt"
	"slices"
)

// responses is OpenAI's /v1/responses (platform.openai.com/docs/api-reference/responses-streaming). Of what vLLM adds
// it takes ignore_eos and cache_salt; there is no min_tokens (vllm/entrypoints/openai/responses/protocol.py). Reasoning
// comes as vLLM sends it: reasoning_part and reasoning_text events (…/responses/serving.py).
func responses() *protocol {
	const (
		members = `"id":"resp_$id","object":"response","created_at":$created,"status":"%s","error":null,` +
			`"incomplete_details":%s,"model":"$model","max_output_tokens":$max,"parallel_tool_calls":true,` +
			`"tool_choice":"auto","tools":[],"output":[%s],"usage":%s`
		usage = `<told|{"input_tokens":$prompt<cached|,"input_tokens_details":{"cached_tokens":$cached}>,` +
			`"output_tokens":$output,"output_tokens_details":{"reasoning_tokens":$thought},"total_tokens":$total}|null>`
		details = `<cut|{"reason":"max_output_tokens"}|null>`
	)
	begun := `,"response":{` + fmt.Sprintf(members, "in_progress", "null", "", "null") + `}`
	ended := fmt.Sprintf(members, "<cut|incomplete|completed>", details, "$items", usage)
	p := &protocol{
		name:         "responses",
		prompt:       "input",
		conversation: true,
		early:        true,
		read: func(d *decoder, b *requestBody) error {
			b.MinTokens = nil
			return cmp.Or(d.openAI(b), d.conversation("input", b.Instructions, b.Input))
		},
		open: []event{numbered("response.created", begun), numbered("response.in_progress", begun)},
		finish: []event{
			numbered("response.incomplete", `,"response":{`+ended+`}`).onlyIf("cut"),
			numbered("response.completed", `,"response":{`+ended+`}`).onlyIf("stopped"),
		},
		whole:   parseTemplate(`{` + ended + `$more}`),
		broken:  "event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","del`,
		refusal: openAIError,
		failure: numbered("error", `,"code":"server_error","message":"`+injectedError+`","param":null`),
	}
	addTextItem(p, partReasoning, textItem{
		id:      "rs_$id",
		members: `"type":"reasoning","summary":[],"content":[%s]`,
		content: `{"type":"reasoning_text","text":"%s"}`,
		text:    "$thoughts",
		events:  "response.reasoning_text",
		parts:   "response.reasoning_part",
	})
	addTextItem(p, partText, textItem{
		id:      "msg_$id",
		members: `"type":"message","role":"assistant","content":[%s]`,
		content: `{"type":"output_text","annotations":[],"logprobs":[],"text":"%s"}`,
		text:    "$content",
		events:  "response.output_text",
		parts:   "response.content_part",
		delta:   `,"logprobs":[]`,
	})
	const (
		call      = `"type":"function_call","name":"` + toolName + `","call_id":"call_$id","arguments":"%s"`
		about     = `,"item_id":"fc_$id","output_index":$index`
		arguments = "response.function_call_arguments"
	)
	p.addItem(partTool, "fc_$id", fmt.Sprintf(call, ""), fmt.Sprintf(call, "$arguments"))
	p.token[partTool] = numbered(arguments+".delta", about+`,"delta":"$text"`)
	p.leave[partTool] = slices.Insert(p.leave[partTool], 0,
		numbered(arguments+".done", about+`,"name":"`+toolName+`","arguments":"$arguments"`))
	return p
}

// numbered is an event with a sequence number.
func numbered(name, members string) event {
	return named(name, `,"sequence_number":$sequence`+members)
}

// addItem adds an output item: the events with which it begins and ends, and what it is in the end.
func (p *protocol) addItem(of part, id, added, whole string) {
	item := func(verb, status, members string) (string, event) {
		object := `{"id":"` + id + `","status":"` + status + `",` + members + `}`
		return object, numbered("response.output_item."+verb, `,"output_index":$index,"item":`+object)
	}
	_, begin := item("added", "in_progress", added)
	object, end := item("done", "completed", whole)
	p.item[of] = parseTemplate(object)
	p.enter[of] = []event{begin}
	p.leave[of] = []event{end}
}

// textItem is an output item with one content part: a message, or reasoning. members, content and text are put into
// each other.
type textItem struct{ id, members, content, text, events, parts, delta string }

func addTextItem(p *protocol, of part, t textItem) {
	about := `,"item_id":"` + t.id + `","output_index":$index,"content_index":0`
	empty := fmt.Sprintf(t.content, "")
	whole := fmt.Sprintf(t.content, t.text)
	p.addItem(of, t.id, fmt.Sprintf(t.members, ""), fmt.Sprintf(t.members, whole))
	p.enter[of] = append(p.enter[of], numbered(t.parts+".added", about+`,"part":`+empty))
	p.token[of] = numbered(t.events+".delta", about+`,"delta":"$text"`+t.delta)
	p.leave[of] = slices.Insert(p.leave[of], 0,
		numbered(t.events+".done", about+`,"text":"`+t.text+`"`), numbered(t.parts+".done", about+`,"part":`+whole))
}
