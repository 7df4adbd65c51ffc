package mockllm

// responsesAPI is OpenAI's /v1/responses (platform.openai.com/docs/api-reference/responses-streaming). Of what vLLM adds
// it takes ignore_eos and cache_salt; there is no min_tokens (vllm/entrypoints/openai/responses/protocol.py). Reasoning
// comes as vLLM sends it: reasoning_part and reasoning_text events (…/responses/serving.py).
type responsesAPI struct{ openAI }

var responsesFields = with(commonFields, fields{
	"input": laterMessages, "instructions": laterSystem, "max_output_tokens": readMaxTokens,
	"ignore_eos": extra("ignore_eos", readIgnoreEOS), "cache_salt": extra("cache_salt", (*decoder).salt),
})

func (responsesAPI) traits() traits {
	return traits{
		name:         "responses",
		fields:       responsesFields,
		prompt:       "input",
		conversation: true,
		thinks:       true,
		calls:        true,
		opens:        true,
		early:        true,
		broken:       "event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","del`,
	}
}

func (p responsesAPI) open(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	name := "response.created"
	if step > 0 {
		name = "response.in_progress"
	}
	dst = append(p.event(r, dst, name), `,"response":{`...)
	dst = append(p.members(r, dst, "in_progress"), '}')
	return r.closeObject(dst, now), step == 0
}

// event begins an event with what all have.
func (responsesAPI) event(r *reply, dst []byte, name string) []byte {
	dst = put(r.openNamed(dst, name), `{"type":"%","sequence_number":%`, raw(name), r.seq)
	r.seq++
	return dst
}

// itemEvent begins an event about a part's item.
func (p responsesAPI) itemEvent(r *reply, dst []byte, name string, of part) []byte {
	return put(p.event(r, dst, name), `,"item_id":"%%","output_index":%`, itemPrefix(of), r.id, r.partIndex(of))
}

func itemPrefix(of part) raw {
	switch of {
	case partReasoning:
		return "rs_"
	case partTool:
		return "fc_"
	}
	return "msg_"
}

// The events with which an item ends and begins.
const (
	textLeaves, toolLeaves = 3, 2
	textEnters, toolEnters = 2, 1
)

func (p responsesAPI) turn(r *reply, dst []byte, to part, step int, now int64) ([]byte, bool) {
	leaves, enters := textLeaves, textEnters
	switch r.part {
	case partNone:
		leaves = 0
	case partTool:
		leaves = toolLeaves
	}
	switch to {
	case partNone:
		enters = 0
	case partTool:
		enters = toolEnters
	}
	if step < leaves {
		dst = p.leave(r, dst, r.part, leaves-step)
	} else {
		dst = p.enter(r, dst, to, step-leaves)
	}
	return r.closeObject(dst, now), step+1 < leaves+enters
}

// enter begins an event of an item's beginning.
func (p responsesAPI) enter(r *reply, dst []byte, to part, step int) []byte {
	if step == 0 {
		dst = put(p.event(r, dst, "response.output_item.added"), `,"output_index":%,"item":`, r.partIndex(to))
		return p.item(r, dst, to, true)
	}
	name := "response.content_part.added"
	if to == partReasoning {
		name = "response.reasoning_part.added"
	}
	dst = append(p.itemEvent(r, dst, name, to), `,"content_index":0,"part":`...)
	return p.content(r, dst, to, true)
}

// leave begins an event of an item's end, of which left are to come.
func (p responsesAPI) leave(r *reply, dst []byte, from part, left int) []byte {
	text, part := "response.output_text.done", "response.content_part.done"
	if from == partReasoning {
		text, part = "response.reasoning_text.done", "response.reasoning_part.done"
	}
	switch {
	case left == 1:
		dst = put(p.event(r, dst, "response.output_item.done"), `,"output_index":%,"item":`, r.partIndex(from))
		return p.item(r, dst, from, false)
	case from == partTool:
		return put(
			p.itemEvent(r, dst, "response.function_call_arguments.done", from),
			`,"name":"`+toolName+`","arguments":"%"`,
			arguments{r, r.tool, r.total},
		)
	case left == textLeaves:
		begin, end := r.span(from)
		return put(p.itemEvent(r, dst, text, from), `,"content_index":0,"text":"%"`, tokenText{r, begin, end})
	}
	dst = append(p.itemEvent(r, dst, part, from), `,"content_index":0,"part":`...)
	return p.content(r, dst, from, false)
}

func (p responsesAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	switch of := r.partAt(k); of {
	case partTool:
		dst = put(
			p.itemEvent(r, dst, "response.function_call_arguments.delta", of),
			`,"delta":"%"`,
			arguments{r, k, k + count},
		)
	case partReasoning:
		dst = put(
			p.itemEvent(r, dst, "response.reasoning_text.delta", of),
			`,"content_index":0,"delta":"%"`,
			tokenText{r, k, k + count},
		)
	default:
		dst = put(
			p.itemEvent(r, dst, "response.output_text.delta", of),
			`,"content_index":0,"delta":"%","logprobs":[]`,
			tokenText{r, k, k + count},
		)
	}
	return r.closeObject(dst, now)
}

func (p responsesAPI) finish(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	status := p.status(r)
	dst = append(p.event(r, dst, "response."+status), `,"response":{`...)
	return r.closeObject(append(p.members(r, dst, status), '}'), now), false
}

// status is how the response ended: incomplete, if max_output_tokens ended it.
func (responsesAPI) status(r *reply) string {
	if r.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (p responsesAPI) whole(r *reply, dst []byte, now int64) []byte {
	return r.closeObject(p.members(r, append(dst, '{'), p.status(r)), now)
}

// members appends those of the response itself: without output as long as it is in progress.
func (p responsesAPI) members(r *reply, dst []byte, status string) []byte {
	details := raw("null")
	if status == "incomplete" {
		details = `{"reason":"max_output_tokens"}`
	}
	dst = put(
		dst,
		`"id":"resp_%","object":"response","created_at":%,"status":"%","error":null,"incomplete_details":%,"model":"%",`+
			`"max_output_tokens":%,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"output":[`,
		r.id,
		r.createdS,
		status,
		details,
		r.model(),
		r.p.maxTokens,
	)
	if status == "in_progress" {
		return append(dst, `],"usage":null`...)
	}
	for of := range r.parts {
		if r.partIndex(of) > 0 {
			dst = append(dst, ',')
		}
		dst = p.item(r, dst, of, false)
	}
	if r.hideUsage {
		return append(dst, `],"usage":null`...)
	}
	dst = put(dst, `],"usage":{"input_tokens":%`, r.promptTokens)
	if r.showCached() {
		dst = put(dst, `,"input_tokens_details":{"cached_tokens":%}`, r.cachedTokens)
	}
	return put(dst, `,"output_tokens":%,"output_tokens_details":{"reasoning_tokens":%},"total_tokens":%}`,
		r.sent, min(r.reasoning, r.sent), r.promptTokens+r.sent)
}

// item appends an output item: what it is when it is added, or whole.
func (p responsesAPI) item(r *reply, dst []byte, of part, added bool) []byte {
	status, call := raw("completed"), arguments{r, r.tool, r.total}
	if added {
		status = "in_progress"
	}
	dst = put(dst, `{"id":"%%","status":"%"`, itemPrefix(of), r.id, status)
	switch {
	case of == partTool && added:
		return put(dst, `,"type":"function_call","name":"`+toolName+`","call_id":"call_%","arguments":""}`, r.id)
	case of == partTool:
		return put(dst, `,"type":"function_call","name":"`+toolName+`","call_id":"call_%","arguments":"%"}`, r.id, call)
	case of == partReasoning:
		dst = append(dst, `,"type":"reasoning","summary":[],"content":[`...)
	default:
		dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
	}
	if !added {
		dst = p.content(r, dst, of, false)
	}
	return append(dst, "]}"...)
}

// content appends the one content part of a message or of reasoning.
func (responsesAPI) content(r *reply, dst []byte, of part, added bool) []byte {
	from, to := r.span(of)
	if added {
		to = from
	}
	if of == partReasoning {
		return put(dst, `{"type":"reasoning_text","text":"%"}`, tokenText{r, from, to})
	}
	return put(dst, `{"type":"output_text","annotations":[],"logprobs":[],"text":"%"}`, tokenText{r, from, to})
}

// fail appends an error event, the stream's last.
func (p responsesAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	return r.endEvent(put(p.event(r, dst, "error"), `,"code":"server_error","message":"%","param":null}`, e.message))
}
