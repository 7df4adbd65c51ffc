package metrics

import "github.com/fastreplay/fastreplay/engine/stats"

// Cost is what answers cost, by a price for all servers together, in its currency. The whole price is laid on input
// tokens alone, on output tokens alone, or on both. Counts are those of throughput; what has none is null.
type Cost struct {
	PerHour    float64  `json:"price_per_hour"`       // as given by report --price-per-hour
	Total      float64  `json:"total"`                // of the run, or of its window
	PerMInput  *float64 `json:"per_1m_input_tokens"`  // of a million input tokens
	PerMOutput *float64 `json:"per_1m_output_tokens"` // of a million output tokens
	PerMTokens *float64 `json:"per_1m_tokens"`        // of a million input and output tokens
	PerRequest *float64 `json:"per_request"`          // of an ok request
}

// Energy is what the GPUs of server_metrics took: their mean power by throughput, so that both are of the same time.
type Energy struct {
	Joules    float64  `json:"joules"`             // that power for all of the time
	PerToken  *float64 `json:"j_per_token"`        // for each input and output token; null without any, as below
	PerOutput *float64 `json:"j_per_output_token"` // for each output token, if all energy is laid on these
	PerOK     *float64 `json:"j_per_request"`      // for each ok request
}

// Price sets the cost of s by the price of all servers for an hour; 0 sets none.
func (s *Summary) Price(perHour float64) {
	if t, perS := s.Throughput, perHour/3600; perS > 0 {
		in := stats.Ratio(1e6*perS, t.InputTokensPerS)
		out := stats.Ratio(1e6*perS, t.OutputTokensPerS)
		both := stats.Ratio(1e6*perS, t.InputTokensPerS+t.OutputTokensPerS)
		s.Cost = &Cost{perHour, perS * s.Run.DurationS, in, out, both, stats.Ratio(perS, t.RequestsPerS)}
	}
}

// energy is nil if no GPU's power is known.
func energy(s *Summary) *Energy {
	if s.Servers == nil || s.Servers.All.PowerW == nil {
		return nil
	}
	t := s.Throughput
	w := s.Servers.All.PowerW.Mean
	return &Energy{w * s.Run.DurationS, stats.Ratio(w, t.InputTokensPerS+t.OutputTokensPerS),
		stats.Ratio(w, t.OutputTokensPerS), stats.Ratio(w, t.RequestsPerS)}
}
