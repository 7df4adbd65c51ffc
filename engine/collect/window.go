package collect

import (
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func (c *Collector) underLoad(s *metrics.Summary) (u metrics.UnderLoad) {
	end := int64(0)
	c.timings.each(func(k *timing) { // in order of completion
		switch {
		case k.outcome == record.OK:
			end = max(end, k.endNS)
			u.Waiting = 0
		case k.sent || !stopped(k.outcome):
			end = max(end, k.atNS)
			u.Waiting++
		}
	})
	if u.UntilS = min(seconds(end), s.Run.DurationS); u.UntilS > 0 {
		u.Throughput = throughput(s.Requests.OK, s.Tokens.Prompt, s.Tokens.Completion, u.UntilS)
	}
	return u
}

// Within makes c count what was planned in w. Add takes the other requests, too, for what does not count by planned
// times. Call it before Add.
func (c *Collector) Within(w *metrics.Window) { c.window = w }

// setRates sets throughput and requests in flight, over a run or a window of some duration.
func (c *Collector) setRates(s *metrics.Summary) {
	var requests, prompt, output, flight int64
	from, to := c.window.Bounds()
	for _, some := range []*timings{&c.timings, &c.outside} {
		some.each(func(k *timing) {
			if k.sent {
				flight += max(0, min(k.endNS, to)-max(k.atNS, from))
			}
			if k.outcome == record.OK && k.endNS >= from && k.endNS < to {
				requests++
			}
			if first, _ := k.chunksNS(); first >= from && first < to {
				prompt += int64(k.prompt)
			}
			output += k.cameBefore(to) - k.cameBefore(from)
		})
	}
	d := s.Run.DurationS
	s.Throughput = throughput(requests, prompt, output, d)
	s.InFlight = new(seconds(flight) / d)
	if s.UnderLoad = c.underLoad(s); c.window != nil {
		s.UnderLoad = metrics.UnderLoad{UntilS: d, Throughput: s.Throughput}
	}
}

func throughput(requests, inputTokens, outputTokens int64, seconds float64) metrics.Throughput {
	return metrics.Throughput{
		RequestsPerS:     float64(requests) / seconds,
		InputTokensPerS:  float64(inputTokens) / seconds,
		OutputTokensPerS: float64(outputTokens) / seconds,
	}
}
