package mockllm

// responsesAPI is OpenAI's /v1/responses (platform.openai.com/docs/api-reference/responses-streaming). Of what vLLM adds
// it takes ignore_eos and cache_salt; there is no min_tokens (vllm/entrypoints/openai/responses/protocol.py). Reasoning
// comes as vLLM sends it: reasoning_part and reasoning_text events (…/responses/serving.py).
type responsesAPI struct{ openAI }

func (responsesAPI) traits() traits {
	return traits{name: "responses", conversation: true, thinks: true, calls: true, opens: true, early: true}
}

func (responsesAPI) field(d *decoder, key []byte) error {
	switch string(key) {
	case "input":
		return d.later(&d.messagesAt)
	case "instructions":
		return d.later(&d.systemAt)
	case "max_output_tokens":
		return d.optional(&d.p.maxTokens)
	case "ignore_eos", "cache_salt":
		return d.extra(key)
	}
	return d.commonField(key)
}

func (responsesAPI) require(d *decoder) error {
	if err := d.assemble("input"); err != nil {
		return err
	}
	return d.needPrompt("input")
}

// base is the id that those of the response and of its items end with.
func (responsesAPI) base(r *reply, dst []byte) []byte { return appendEscaped(dst, r.id) }

func (p responsesAPI) open(r *reply, dst []byte, step int, now int64) ([]byte, bool) {
	name := "response.created"
	if step > 0 {
		name = "response.in_progress"
	}
	dst = append(p.event(r, dst, name), `,"response":`...)
	dst = p.object(r, dst, "in_progress")
	return r.closeEvent(dst, now), step == 0
}

// event begins an event with what all have.
func (responsesAPI) event(r *reply, dst []byte, name string) []byte {
	dst = append(r.openNamed(dst, name), `{"type":"`...)
	dst = append(dst, name...)
	dst = appendInt(dst, `","sequence_number":`, r.seq)
	r.seq++
	return dst
}

// itemEvent begins an event about a part's item.
func (p responsesAPI) itemEvent(r *reply, dst []byte, name string, of part) []byte {
	dst = append(p.event(r, dst, name), `,"item_id":"`...)
	dst = append(p.itemID(r, dst, of), '"')
	return appendInt(dst, `,"output_index":`, r.partIndex(of))
}

func (responsesAPI) itemID(r *reply, dst []byte, of part) []byte {
	switch of {
	case partReasoning:
		dst = append(dst, "rs_"...)
	case partTool:
		dst = append(dst, "fc_"...)
	default:
		dst = append(dst, "msg_"...)
	}
	return append(dst, r.base...)
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
		dst = p.leave(r, dst, r.part, leaves-step, now)
	} else {
		dst = p.enter(r, dst, to, step-leaves, now)
	}
	return dst, step+1 < leaves+enters
}

// enter appends an event of an item's beginning.
func (p responsesAPI) enter(r *reply, dst []byte, to part, step int, now int64) []byte {
	if step == 0 {
		dst = p.event(r, dst, "response.output_item.added")
		dst = appendInt(dst, `,"output_index":`, r.partIndex(to))
		dst = p.item(r, append(dst, `,"item":`...), to, true)
		return r.closeEvent(dst, now)
	}
	name := "response.content_part.added"
	if to == partReasoning {
		name = "response.reasoning_part.added"
	}
	dst = append(p.itemEvent(r, dst, name, to), `,"content_index":0,"part":`...)
	return r.closeEvent(p.content(r, dst, to, true), now)
}

// leave appends an event of an item's end, of which left are to come.
func (p responsesAPI) leave(r *reply, dst []byte, from part, left int, now int64) []byte {
	switch {
	case left == 1:
		dst = p.event(r, dst, "response.output_item.done")
		dst = appendInt(dst, `,"output_index":`, r.partIndex(from))
		dst = p.item(r, append(dst, `,"item":`...), from, false)
	case from == partTool:
		dst = append(p.itemEvent(r, dst, "response.function_call_arguments.done", from), `,"name":"`+toolName+`","arguments":"`...)
		dst = append(r.appendCall(dst), '"')
	case left == 3:
		name := "response.output_text.done"
		if from == partReasoning {
			name = "response.reasoning_text.done"
		}
		dst = append(p.itemEvent(r, dst, name, from), `,"content_index":0,"text":"`...)
		begin, end := r.span(from)
		dst = append(r.appendPart(dst, begin, end), '"')
	default:
		name := "response.content_part.done"
		if from == partReasoning {
			name = "response.reasoning_part.done"
		}
		dst = append(p.itemEvent(r, dst, name, from), `,"content_index":0,"part":`...)
		dst = p.content(r, dst, from, false)
	}
	return r.closeEvent(dst, now)
}

func (p responsesAPI) tokens(r *reply, dst []byte, k, count int, now int64) []byte {
	switch of := r.partAt(k); of {
	case partTool:
		dst = append(p.itemEvent(r, dst, "response.function_call_arguments.delta", of), `,"delta":"`...)
		dst = append(r.appendArguments(dst, k, count), '"')
	case partReasoning:
		dst = append(p.itemEvent(r, dst, "response.reasoning_text.delta", of), `,"content_index":0,"delta":"`...)
		dst = append(r.appendText(dst, k, count), '"')
	default:
		dst = append(p.itemEvent(r, dst, "response.output_text.delta", of), `,"content_index":0,"delta":"`...)
		dst = append(r.appendText(dst, k, count), `","logprobs":[]`...)
	}
	return r.closeEvent(dst, now)
}

func (p responsesAPI) finish(r *reply, dst []byte, _ int, now int64) ([]byte, bool) {
	status := p.status(r)
	dst = append(p.event(r, dst, "response."+status), `,"response":`...)
	return r.closeEvent(p.object(r, dst, status), now), false
}

// status is how the response ended: incomplete, where max_output_tokens cut it short.
func (responsesAPI) status(r *reply) string {
	if r.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (p responsesAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = p.object(r, dst, p.status(r))
	return r.closeObject(dst[:len(dst)-1], now)
}

// object appends the response itself: without output as long as it is in progress.
func (p responsesAPI) object(r *reply, dst []byte, status string) []byte {
	dst = append(append(dst, `{"id":"resp_`...), r.base...)
	dst = appendInt(dst, `","object":"response","created_at":`, r.createdS)
	dst = append(append(dst, `,"status":"`...), status...)
	dst = append(dst, `","error":null,"incomplete_details":`...)
	if status == "incomplete" {
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = r.appendModel(append(dst, `,"model":"`...))
	dst = appendInt(dst, `","max_output_tokens":`, r.p.maxTokens)
	dst = append(dst, `,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"output":[`...)
	if status == "in_progress" {
		return append(dst, `],"usage":null}`...)
	}
	for of := partReasoning; of <= partTool; of++ {
		if r.has(of) {
			if r.partIndex(of) > 0 {
				dst = append(dst, ',')
			}
			dst = p.item(r, dst, of, false)
		}
	}
	dst = append(dst, `],"usage":`...)
	if r.hideUsage {
		return append(dst, "null}"...)
	}
	return append(p.usage(r, dst), '}')
}

func (responsesAPI) usage(r *reply, dst []byte) []byte {
	dst = appendInt(dst, `{"input_tokens":`, r.promptTokens)
	if r.showCached() {
		dst = appendInt(dst, `,"input_tokens_details":{"cached_tokens":`, r.cachedTokens)
		dst = append(dst, '}')
	}
	dst = appendInt(dst, `,"output_tokens":`, r.sent)
	dst = appendInt(dst, `,"output_tokens_details":{"reasoning_tokens":`, min(r.reasoning, r.sent))
	dst = appendInt(dst, `},"total_tokens":`, r.promptTokens+r.sent)
	return append(dst, '}')
}

// item appends an output item: what it is when it is added, or whole.
func (p responsesAPI) item(r *reply, dst []byte, of part, added bool) []byte {
	dst = append(p.itemID(r, append(dst, `{"id":"`...), of), `","status":"`...)
	if added {
		dst = append(dst, `in_progress"`...)
	} else {
		dst = append(dst, `completed"`...)
	}
	switch of {
	case partTool:
		dst = append(append(dst, `,"type":"function_call","name":"`+toolName+`","call_id":"call_`...), r.base...)
		dst = append(dst, `","arguments":"`...)
		if !added {
			dst = r.appendCall(dst)
		}
		return append(dst, `"}`...)
	case partReasoning:
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
	if of == partReasoning {
		dst = append(dst, `{"type":"reasoning_text","text":"`...)
	} else {
		dst = append(dst, `{"type":"output_text","annotations":[],"logprobs":[],"text":"`...)
	}
	if !added {
		from, to := r.span(of)
		dst = r.appendPart(dst, from, to)
	}
	return append(dst, `"}`...)
}

// fail appends an error event, the stream's last.
func (p responsesAPI) fail(r *reply, dst []byte, e *requestError) []byte {
	dst = append(p.event(r, dst, "error"), `,"code":"server_error","message":"`...)
	dst = appendEscaped(dst, e.message)
	return r.endEvent(append(dst, `","param":null}`...))
}

func (responsesAPI) broken() string {
	return "event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","del`
}
