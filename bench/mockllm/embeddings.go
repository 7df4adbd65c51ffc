package mockllm

import "strconv"

// embeddingsAPI is OpenAI's /v1/embeddings as vLLM serves it (vllm/entrypoints/pooling/embed/protocol.py), for one input a
// request. The vector comes when the prefill ends.
type embeddingsAPI struct{ openAI }

var embeddingsFields = fields{
	"model": readModel, "input": (*decoder).prompt, "cache_salt": extra("cache_salt", (*decoder).salt),
	"encoding_format": orAbsent(func(d *decoder) error {
		format, err := d.text()
		if err == nil && string(format) != "float" {
			return badRequest("encoding_format = %s: this server gives float", format)
		}
		return err
	}),
}

func (embeddingsAPI) traits() traits {
	return traits{name: "embeddings", fields: embeddingsFields, prompt: "input", vector: true}
}

func (embeddingsAPI) tokens(_ *reply, dst []byte, _, _ int, _ int64) []byte { return dst }

// vectorLength is the dimension of the mock's embeddings.
const vectorLength = 8

func (embeddingsAPI) whole(r *reply, dst []byte, now int64) []byte {
	dst = put(
		dst,
		`{"id":"embd-%","object":"list","created":%,"model":"%","data":[{"index":0,"object":"embedding","embedding":[`,
		r.id,
		r.createdS,
		r.model(),
	)
	dst = list(dst, vectorLength, func(dst []byte, k int) []byte {
		draw := rng(r.voice + uint64(k))
		return strconv.AppendFloat(dst, 2*draw.float()-1, 'g', -1, 64)
	})
	dst = append(dst, `]}]`...)
	if !r.hideUsage {
		dst = put(
			dst,
			`,"usage":{"prompt_tokens":%,"total_tokens":%,"completion_tokens":0,"prompt_tokens_details":null}`,
			r.promptTokens,
			r.promptTokens,
		)
	}
	return r.closeObject(dst, now)
}
