package metrics

import (
	"fmt"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Gateway is what a gateway before the servers said of its own time and of theirs, over ok requests.
type Gateway struct {
	Requests    int64              `json:"requests"`      // those whose gateway told one of the two times
	OwnMS       *stats.Percentiles `json:"own_ms"`        // time that the gateway took itself; null if it does not say
	UpstreamMS  *stats.Percentiles `json:"upstream_ms"`   // time that it waited for the head of the server's response; null if it does not say
	Share       *float64           `json:"gateway_share"` // of TTFT: the time to the response head, less upstream_ms; null without these
	ServerShare *float64           `json:"server_share"`  // of TTFT: upstream_ms
}

// gatewayCounts is over ok requests.
type gatewayCounts struct {
	requests            int64
	own, upstream       *Distribution
	ttft, head, waiting int64 // ns, summed over requests that have all three: waiting is until the head of the server's response
}

func newGatewayCounts() gatewayCounts {
	return gatewayCounts{own: NewDistribution(), upstream: NewDistribution()}
}

func (g *gatewayCounts) add(r *record.Record) {
	if r.GatewayNS == record.None && r.UpstreamNS == record.None {
		return
	}
	g.requests++
	addKnown(g.own, r.GatewayNS)
	addKnown(g.upstream, r.UpstreamNS)
	// Headers tell whole milliseconds. A longer time than TTFT is not that until the head of the server's response.
	if ttft := r.TTFTNS(); ttft != record.None && r.HeadersNS != record.None && r.UpstreamNS != record.None && r.UpstreamNS <= ttft+1e6 {
		g.ttft += ttft
		g.head += r.HeadersNS - r.SentNS
		g.waiting += min(r.UpstreamNS, ttft)
	}
}

func (g *gatewayCounts) merge(o *gatewayCounts) {
	g.requests += o.requests
	g.own.Merge(o.own)
	g.upstream.Merge(o.upstream)
	g.ttft += o.ttft
	g.head += o.head
	g.waiting += o.waiting
}

// summary is nil where no gateway told anything.
func (g *gatewayCounts) summary() *Gateway {
	if g.requests == 0 {
		return nil
	}
	return &Gateway{
		Requests: g.requests, OwnMS: g.own.Percentiles(1e6), UpstreamMS: g.upstream.Percentiles(1e6),
		Share: ratio(max(0, g.head-g.waiting), g.ttft), ServerShare: ratio(g.waiting, g.ttft),
	}
}

// gatewayNotes names a gateway that took most of TTFT. LiteLLM holds its response head back until the first chunk, so where its own
// time does not explain that, the server may have worked on after its own head.
func gatewayNotes(s *Summary, all *gatewayCounts) []string {
	if g := s.Gateway; g == nil || g.Share == nil || *g.Share <= 0.5 {
		return nil
	}
	ms := func(ns float64) string { return format.Duration(ns, 3) }
	text := fmt.Sprintf("the gateway took %s of TTFT, the server %s until the head of its response", format.Percent(*s.Gateway.Share), format.Percent(*s.Gateway.ServerShare))
	if own := s.Gateway.OwnMS; own != nil {
		text += fmt.Sprintf("; it counts %s a request as its own", ms(own.Mean*1e6))
		if float64(all.own.sum) <= 0.5*float64(all.ttft) {
			text += ", and the rest is its queue, unless the server sends its head long before the first token"
		}
	}
	return []string{text}
}
