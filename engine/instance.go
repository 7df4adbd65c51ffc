package engine

import (
	"sync"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/redact"
)

// InstanceHeaders are the response headers by which gateways and servers are known to name the instance that answered:
// AIBrix's gateway, llm-d's simulator, gateways that show the endpoint which the Gateway API's inference extension has chosen, and
// LiteLLM's proxy, by the server's address or else by the deployment's id.
func InstanceHeaders() []string {
	return []string{"target-pod", "x-inference-pod", "x-gateway-destination-endpoint-served", "x-litellm-model-api-base", "x-litellm-model-id"}
}

// maxInstances bounds the names that are kept; a header that has more names no instances.
const maxInstances = 1 << 16

// instanceNames keeps each name once, so that reading it allocates nothing from the second time on.
type instanceNames struct {
	secrets *redact.Redactor
	headers int      // the first so many of those that are kept may have it
	field   []string // of an answer's JSON; nil = where it is known to be

	mu    sync.RWMutex
	known map[string]string
}

// in notes who has sent an event or a whole answer, unless a header or an event before has said it.
func (n *instanceNames) in(data []byte, d *api.Delta, rec *record.Record) {
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

// of is the name in the first of the kept headers that came; "" for none.
func (n *instanceNames) of(head *http1.Response) string {
	for i := range n.headers {
		if value := head.Kept(i); len(value) > 0 {
			return n.intern(value)
		}
	}
	return ""
}

// intern returns the name as results have it. What is longer than twice its bound is cut before credentials are looked for.
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
