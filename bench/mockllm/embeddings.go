package mockllm

import "strconv"

// embeddingsAPI is OpenAI's /v1/embeddings as vLLM serves it (vllm/entrypoints/pooling/embed/protocol.py), for one input a
// request. The vector comes when the prefill ends.
type embeddingsAPI struct{ openAI }

func (embeddingsAPI) traits() traits { return traits{name: "embeddings", vector: true} }

func (embeddingsAPI) field(d *decoder, key []byte) error {
	switch string(key) {
	case "input":
		return d.prompt()
	case "encoding_format":
		if d.literal("null") {
			return nil
		}
		format, err := d.text()
		if err == nil && string(format) != "float" {
			return badRequest("encoding_format = %s: this server gives float", format)
		}
		return err
	case "stream":
		return d.skip(0)
	case "cache_salt":
		return d.extra(key)
	}
	return d.commonField(key)
}

func (embeddingsAPI) require(d *decoder) error { return d.needPrompt("input") }

func (embeddingsAPI) tokens(_ *reply, dst []byte, _, _ int, _ int64) []byte { return dst }

// vectorLength is the dimension of the mock's embeddings.
const vectorLength = 8

func (embeddingsAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = appendEscaped(append(dst, `{"id":"embd-`...), r.id)
	dst = appendInt(dst, `","object":"list","created":`, r.createdS)
	dst = r.appendModel(append(dst, `,"model":"`...))
	dst = append(dst, `","data":[{"index":0,"object":"embedding","embedding":[`...)
	for k := range vectorLength {
		if k > 0 {
			dst = append(dst, ',')
		}
		draw := rng(r.voice + uint64(k))
		dst = strconv.AppendFloat(dst, 2*draw.float()-1, 'g', -1, 64)
	}
	dst = append(dst, `]}]`...)
	if !r.hideUsage {
		dst = appendInt(dst, `,"usage":{"prompt_tokens":`, r.promptTokens)
		dst = appendInt(dst, `,"total_tokens":`, r.promptTokens)
		dst = append(dst, `,"completion_tokens":0,"prompt_tokens_details":null}`...)
	}
	return r.closeObject(dst, now)
}

func (embeddingsAPI) fail(r *reply, dst []byte, e *requestError) []byte { return r.failOpenAI(dst, e) }

func (embeddingsAPI) broken() string { return "" }
