package engine

import "github.com/fastreplay/fastreplay/codec/record"

// gatewayHeaders are the response headers by which gateways tell times, all in ms and of a stream until its head.
//   - LiteLLM's proxy: from when it had the request to the head of the server's response; and what of that it took itself
//     (litellm_core_utils/llm_response_utils/response_metadata.py, 1.106).
//   - Envoy: from when it had the whole request to the head of the upstream's response
//     (source/common/router/router.cc, Filter::onUpstreamHeaders).
func gatewayHeaders() []string {
	return []string{"x-litellm-response-duration-ms", "x-litellm-overhead-duration-ms", "x-envoy-upstream-service-time"}
}

// gatewayShare notes what a gateway says of its own time and of the server's. Of two gateways, the one next to the server counts.
func (p *reply) gatewayShare() {
	at := p.names.headers
	all, own := msToNS(p.head.Kept(at)), msToNS(p.head.Kept(at+1))
	p.rec.GatewayNS, p.rec.UpstreamNS = own, msToNS(p.head.Kept(at+2))
	if own != record.None && all >= own {
		p.rec.UpstreamNS = all - own
	}
}

// msToNS reads a decimal number of ms, to the ns and at most a day; record.None for anything else. It allocates nothing.
func msToNS(text []byte) int64 {
	const day = 24 * 3600 * 1_000_000_000
	ns, scale, point := int64(0), int64(1_000_000), false
	for _, c := range text {
		switch {
		case c == '.' && !point:
			point = true
		case c < '0' || c > '9':
			return record.None
		case !point:
			ns = ns*10 + int64(c-'0')*scale
		default:
			scale /= 10
			ns += int64(c-'0') * scale
		}
		if ns > day {
			return record.None
		}
	}
	if len(text) == 0 {
		return record.None
	}
	return ns
}
