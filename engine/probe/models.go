package probe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bytedance/sonic"
	"github.com/valyala/fasthttp"

	"github.com/fastreplay/fastreplay/engine/workload"
)

// Models are the models that a server lists.
type Models []Model

// Model is one of them. All but the name have the type any, since servers use different JSON types for them.
type Model struct {
	ID     string `json:"id"`
	Parent any    `json:"parent"` // of an adapter (LoRA): the model whose limits it has
	// How many tokens a prompt and its output may have together, by one name or another.
	MaxModelLen      any `json:"max_model_len"`      // vLLM, SGLang
	MaxContextLength any `json:"max_context_length"` // Mistral
	ContextLength    any `json:"context_length"`     // OpenRouter, Together
	ContextWindow    any `json:"context_window"`     // Groq
}

// Models asks a target which models it serves: at least one.
func (b *Prober) Models(ctx context.Context, t *workload.Target) (Models, error) {
	status, body, err := b.ask(ctx, t, t.Endpoints[0], fasthttp.MethodGet, t.Base+"/v1/models", nil)
	if err != nil {
		return nil, fmt.Errorf("%w: asking %s/v1/models for the model: %w%s", ErrProbe, t.Base, err, certificateHint(err))
	}
	if hint := credentialsHint(status); hint != "" {
		return nil, fmt.Errorf("%w: %s/v1/models answers HTTP %d%s", ErrProbe, t.Base, status, hint)
	}
	var list struct {
		Data Models `json:"data"`
	}
	hint := "give it with --model"
	if t.Base != t.URL {
		hint = "correct the path of --url, or give --model"
	}
	if status != 200 || sonic.Unmarshal(body, &list) != nil || len(list.Data) == 0 || list.Data[0].ID == "" {
		return nil, fmt.Errorf("%w: %s/v1/models names no model (HTTP %d); %s", ErrProbe, t.Base, status, hint)
	}
	return list.Data, nil
}

// Lists reports whether a model of that name is served. A name with a * stands for many, as with LiteLLM.
func (m Models) Lists(name string) bool {
	return slices.ContainsFunc(m, func(o Model) bool { return o.ID == name || strings.Contains(o.ID, "*") })
}

// Context is how many tokens a prompt and its output may have together with a model; 0 if the server does not report it.
func (m Models) Context(name string) int {
	for range 2 { // the model, then its parent
		i := slices.IndexFunc(m, func(o Model) bool { return o.ID == name })
		if i < 0 {
			return 0
		}
		for _, told := range []any{m[i].MaxModelLen, m[i].MaxContextLength, m[i].ContextLength, m[i].ContextWindow} {
			if n, ok := told.(float64); ok && n >= 1 && n <= math.MaxInt32 {
				return int(n)
			}
		}
		name, _ = m[i].Parent.(string)
	}
	return 0
}
