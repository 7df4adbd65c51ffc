package engine

import (
	"sync"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/redact"
)

// InstanceHeaders returns the response headers in which gateways and servers name the instance that answered. They are
// those of AIBrix's gateway and llm-d's simulator, and of gateways with the Gateway API's inference extension (the
// endpoint it chose). LiteLLM's proxy names the server's address, or else the deployment's id.
func InstanceHeaders() []string {
	return []string{
		"target-pod",
		"x-inference-pod",
		"x-gateway-destination-endpoint-served",
		"x-litellm-model-api-base",
		"x-litellm-model-id",
	}
}

// prefillHeader is the response header in which AIBrix's gateway names the instance that prefilled, where another one
// decodes (pkg/plugins/gateway/algorithms/pd_disaggregation.go). llm-d names it to its sidecar alone, not to clients.
const prefillHeader = "prefill-target-pod"

// maxInstances bounds the names that are kept; a header with more values does not name instances.
const maxInstances = 1 << 16

// instanceNames keeps each name once, so that only the first response with a name allocates.
type instanceNames struct {
	secrets *redact.Redactor
	headers int      // that many of the kept headers, from the first, may have the name
	field   []string // path in an answer's JSON; nil = the API's own

	mu    sync.RWMutex
	known map[string]string
}

// in notes the model and the instance that an event or a whole answer names, unless an earlier event has named it. A
// header may have named the instance, too.
func (n *instanceNames) in(data []byte, d *api.Delta, rec *record.Record) {
	if rec.AnswerModel == "" && len(d.Model) > 0 {
		rec.AnswerModel = n.intern(d.Model)
	}
	if rec.PrefillInstance == "" && len(d.Prefill) > 0 {
		rec.PrefillInstance = n.intern(d.Prefill)
	}
	if rec.Instance != "" {
		return
	}
	name := d.Instance
	if n.field != nil {
		name = api.Field(data, n.field)
	}
	if len(name) > 0 {
		rec.Instance = n.intern(name)
	}
}

// of returns the name in the first of the kept headers that is present; "" if none is.
func (n *instanceNames) of(head *http1.Response) string {
	for i := range n.headers {
		if value := head.Kept(i); len(value) > 0 {
			return n.intern(value)
		}
	}
	return ""
}

// intern returns the name as results have it. It cuts a name at twice its bound before it looks for credentials.
func (n *instanceNames) intern(name []byte) string {
	name = name[:min(len(name), 2*redact.MaxInstanceName)]
	n.mu.RLock()
	known, ok := n.known[string(name)]
	n.mu.RUnlock()
	if ok {
		return known
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.known[string(name)]; ok {
		return known
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	if len(n.known) == maxInstances {
		return ""
	}
	known = n.secrets.Label(string(name))
	n.known[string(name)] = known
	return known
}

// gatewayHeaders returns the response headers in which gateways report times, all in ms and, of a stream, until its
// head.
//   - LiteLLM's proxy: from when it had the request to the head of the server's response; and its own share of that
//     time
//     (litellm_core_utils/llm_response_utils/response_metadata.py, 1.106).
//   - Envoy: from when it had the whole request to the head of the upstream's response
//     (source/common/router/router.cc, Filter::onUpstreamHeaders).
func gatewayHeaders() []string {
	return []string{"x-litellm-response-duration-ms", "x-litellm-overhead-duration-ms", "x-envoy-upstream-service-time"}
}
