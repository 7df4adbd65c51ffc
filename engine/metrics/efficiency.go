package metrics

import (
	"cmp"
	"errors"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// Cost is what answers cost, by a price for all servers together, in its currency. The whole price is laid on input
// tokens alone, on output tokens alone, or on both. Counts are those of throughput; what has none is null.
type Cost struct {
	PerHour    float64  `json:"price_per_hour"`       // as given by report --price-per-hour
	Total      float64  `json:"total"`                // of the run, or of its window
	PerMInput  *float64 `json:"per_1m_input_tokens"`  // of a million input tokens
	PerMOutput *float64 `json:"per_1m_output_tokens"` // of a million output tokens
	PerMTokens *float64 `json:"per_1m_tokens"`        // of a million input and output tokens
	PerRequest *float64 `json:"per_request"`          // of an ok request
	// of a finished whole job: of its lane's time, or without lanes all by such jobs
	PerJob *float64 `json:"per_job"`
}

// Energy is what the GPUs of server_metrics took: their mean power by throughput, so that both are of the same time.
type Energy struct {
	Joules    float64  `json:"joules"`             // that power for all of the time
	PerToken  *float64 `json:"j_per_token"`        // for each input and output token; null without any, as below
	PerOutput *float64 `json:"j_per_output_token"` // for each output token, if all energy is laid on these
	PerOK     *float64 `json:"j_per_request"`      // for each ok request
	PerJob    *float64 `json:"j_per_job"`          // for a finished whole job, as with cost
}

// Price sets the cost of s by the price of all servers for an hour; 0 sets none.
func (s *Summary) Price(perHour float64) {
	if t, perS := s.Throughput, perHour/3600; perS > 0 {
		in := stats.Ratio(1e6*perS, t.InputTokensPerS)
		out := stats.Ratio(1e6*perS, t.OutputTokensPerS)
		both := stats.Ratio(1e6*perS, t.InputTokensPerS+t.OutputTokensPerS)
		s.Cost = &Cost{perHour, perS * s.Run.DurationS, in, out, both, stats.Ratio(perS, t.RequestsPerS),
			s.perJob(perS)}
	}
}

// SetKVBytes sets how many bytes a second tiers gave, by the bytes of a token in the cache; 0 sets none. It is an error
// if no answer told tiers apart.
func (s *Summary) SetKVBytes(perToken int64) error {
	if perToken == 0 {
		return nil
	}
	t := s.PrefixCache.Tiers
	if t == nil {
		return errors.New("no answer of this run tells tiers apart; `fastreplay help caches` says which servers do")
	}
	bytes := func(tokensPerS *float64) *float64 {
		if tokensPerS == nil {
			return nil
		}
		return new(*tokensPerS * float64(perToken))
	}
	t.HostBytesPerS, t.ExternalBytesPerS = bytes(t.HostTokensPerS), bytes(t.ExternalTokensPerS)
	return nil
}

// SetOfGPUs sets the throughput of one of the servers' GPUs and the energy of all, if their number and power are known.
func (s *Summary) SetOfGPUs() {
	if s.Servers == nil {
		return
	}
	s.ByGPU(int64(s.Servers.All.GPUs))
	if s.Servers.All.PowerW != nil {
		t := s.Throughput
		w := s.Servers.All.PowerW.Mean
		s.Energy = &Energy{w * s.Run.DurationS, stats.Ratio(w, t.InputTokensPerS+t.OutputTokensPerS),
			stats.Ratio(w, t.OutputTokensPerS), stats.Ratio(w, t.RequestsPerS), s.perJob(w)}
	}
}

// perJob is what a finished whole job has of what comes per second; nil without any. With lanes that is what comes in
// the job's own time, by lanes: parts of jobs, and those that were cut off, had lanes, too.
func (s *Summary) perJob(perS float64) *float64 {
	if s.Jobs == nil {
		return nil
	}
	if lanes := s.Run.Lanes; lanes > 0 && s.Jobs.CompletionS != nil {
		return stats.Ratio(perS*s.Jobs.CompletionS.Mean, float64(lanes))
	}
	return stats.Ratio(perS*s.Run.DurationS, float64(s.Jobs.Finished))
}

// Interactivity is how fast users get output. Percentiles are 1 / those of ntpot_ms, so p90 is what nine of ten
// requests had at least. It is in tokens/s from a request's sending to its last token, the wait for the first one
// included. Primers and warm-up requests do not count.
type Interactivity struct {
	P75         float64     `json:"p75_tokens_per_s"` // 1 / p75 of ntpot_ms
	P90         float64     `json:"p90_tokens_per_s"` // 1 / p90 of ntpot_ms
	P75Interval *[2]float64 `json:"p75_interval"`     // of 95 %, from that of ntpot_ms; null if that has none
	P90Interval *[2]float64 `json:"p90_interval"`     // of 95 %, likewise from that of ntpot_ms
	// who gets output: lanes, or the slots of a closed loop; else requests in flight, on average
	Users float64 `json:"users"`
	// throughput by users, each of whom waits for tools, too, if they are lanes; null if it is unknown
	PerUser *float64 `json:"output_tokens_per_s_per_user"`
}

// PerGPU is throughput by the number of GPUs.
type PerGPU struct {
	GPUs int64 `json:"gpus"` // as given by report --gpus, or else those of server_metrics
	Throughput
}

// SetInteractivity sets it of a run with output.
func (s *Summary) SetInteractivity() {
	s.Interactivity = nil
	q := s.NTPOTMS
	if q == nil || q.P75 <= 0 {
		return
	}
	inverse := func(permille int64) *[2]float64 {
		ms, _ := s.Interval(latencies[NTPOT].Key, permille)
		if ms == nil || ms[0] <= 0 {
			return nil
		}
		return &[2]float64{1e3 / ms[1], 1e3 / ms[0]}
	}
	users := float64(cmp.Or(s.Run.Lanes, s.Run.Concurrency))
	if users == 0 && s.InFlight != nil {
		users = *s.InFlight
	}
	s.Interactivity = &Interactivity{1e3 / q.P75, 1e3 / q.P90, inverse(750), inverse(900), users,
		stats.Ratio(s.Throughput.OutputTokensPerS, users)}
}

// ByGPU sets throughput by so many GPUs; 0 sets none.
func (s *Summary) ByGPU(gpus int64) {
	if n, t := float64(gpus), s.Throughput; gpus > 0 {
		s.PerGPU = &PerGPU{gpus, Throughput{t.RequestsPerS / n, t.InputTokensPerS / n, t.OutputTokensPerS / n}}
	}
}
