// Package stats has the formulas that summaries of runs and of traces share, so that both count alike, and
// distributions. It also has the type of what the machine took from a run.
//
// It imports nothing of this module. Functions are pure, but for Describe, which sorts; they may be called from
// anywhere. A Distribution belongs to one goroutine at a time.
//
// The package is not an API: any release may change it.
package stats

import (
	"math"
	"slices"
	"sort"
)

// Percentiles describes one distribution. Percentiles are by nearest rank: the smallest value that at least that share
// of the values do not exceed, as quantile_disc of DuckDB has it. They are exact, as Max and Mean always are, unless
// FromHistogram. The unit is in the key that holds it (drift_us, ttft_ms).
type Percentiles struct {
	P50  float64 `json:"p50"`  // median
	P75  float64 `json:"p75"`  // 75th percentile; 0 in results of earlier versions
	P90  float64 `json:"p90"`  // 90th percentile
	P95  float64 `json:"p95"`  // 95th percentile
	P99  float64 `json:"p99"`  // 99th percentile
	P999 float64 `json:"p999"` // 99.9th percentile
	Max  float64 `json:"max"`  // largest value
	Mean float64 `json:"mean"` // mean
	// how many values; p99 needs 662 and p999 6,636 to say something of the server
	Count int64 `json:"count"`
	// values were counted in buckets: percentiles are within 0.1 %; absent otherwise
	FromHistogram bool `json:"from_histogram,omitempty"`
}

// PercentileKeys are the keys of the percentiles in Percentiles, in rising order.
func PercentileKeys() []string { return []string{"p50", "p75", "p90", "p95", "p99", "p999"} }

// PerMille is which percentile has a key, in thousandths; 0 if none has it.
func PerMille(key string) int64 {
	return map[string]int64{"p50": 500, "p75": 750, "p90": 900, "p95": 950, "p99": 990, "p999": 999}[key]
}

// Machine is what the machine took from the client during the replay; what the system does not report is null.
type Machine struct {
	// processor time that the hypervisor gave to others, all cores together
	StolenS      *float64 `json:"stolen_s" merge:"sum"`
	StolenShare  *float64 `json:"stolen_share" merge:"max"`              // stolen_s as a share of all cores' time
	StolenWorst  *float64 `json:"stolen_share_worst_second" merge:"max"` // the same in the second with the most
	StolenByTime *Shares  `json:"stolen_by_time,omitempty" merge:"none"` // the same by time; absent if it is unknown
	// time for which a control group's CPU limit stopped the client, all cores together
	ThrottledS *float64 `json:"throttled_s" merge:"sum"`
	// time for which its threads were ready and had no core: all threads that were there at the end, and the sending
	// threads
	RunQueueS *float64 `json:"run_queue_delay_s" merge:"sum"`
	// of the sending threads together; null in a closed loop or with a cap, where receiving threads send
	SenderRunQueueS *float64 `json:"sender_run_queue_delay_s" merge:"sum"`
}

// LocalServers are the servers whose addresses are the client's own machine's.
type LocalServers struct {
	// that listen there, as "pid 4711, vllm"; several with "; " between them
	Processes string `json:"processes" merge:"first"`
	// time for which they and their descendants were ready and had no core. It is of the threads that were there at the
	// end: so long at least. null if unknown
	WaitedS *float64 `json:"waited_s" merge:"max"`
	// addresses where the process could not be read, and processes that ended during the run
	Unknown string `json:"unknown" merge:"first"`
}

// Shares is a share of each of several steps of time, the first of which begins with the run.
type Shares struct {
	StepS  float64   `json:"step_s"` // how long a step is
	Shares []float64 `json:"shares"` // 0 to 1, of at most 120 steps
}

// Describe sorts values and describes them in units of unit; nil without values.
func Describe[T int32 | int64 | float64](values []T, unit float64) *Percentiles {
	if len(values) == 0 {
		return nil
	}
	if whole, ok := any(values).([]int64); ok {
		Sort(whole)
	} else {
		slices.Sort(values)
	}
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	return describe(int64(len(values)), sum, unit, func(rank int64) float64 {
		return float64(values[rank-1])
	})
}

// describe asks for values by their rank, from 1, in rising order.
func describe(n int64, sum, unit float64, ranked func(int64) float64) *Percentiles {
	at := func(permille int64) float64 {
		return ranked(Rank(n, permille)) / unit
	}
	return &Percentiles{
		P50:   at(500),
		P75:   at(750),
		P90:   at(900),
		P95:   at(950),
		P99:   at(990),
		P999:  at(999),
		Max:   at(1000),
		Mean:  sum / float64(n) / unit,
		Count: n,
	}
}

// Counted is a value and how often it is there. Lists of them are in rising order.
type Counted struct{ Value, Count int64 }

// Ranked returns how many values there are, and a function that finds one by its rank, from 1. Ranks must not fall from
// call to call.
func Ranked(values []Counted) (n int64, ranked func(int64) int64) {
	for _, v := range values {
		n += v.Count
	}
	i := -1
	upTo := int64(0)
	return n, func(rank int64) int64 {
		for upTo < rank {
			i++
			upTo += values[i].Count
		}
		return values[i].Value
	}
}

// DescribeCounted describes values in units of unit; nil without values.
func DescribeCounted(values []Counted, unit float64) *Percentiles {
	n, ranked := Ranked(values)
	if n == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range values {
		sum += float64(v.Value) * float64(v.Count)
	}
	return describe(n, sum, unit, func(rank int64) float64 {
		return float64(ranked(rank))
	})
}

// surely is how certain it must be that a percentile has values above it.
const surely = 0.99

// EnoughSamples reports whether a percentile of n independent values says something of what they were drawn from. With
// a certainty of 99 %, at least two of them must lie above the true quantile (0 to 1). So no single value decides. How
// many do is binomial, so p50 needs 11, p90 64, p99 662 and p999 6,636.
func EnoughSamples(n int64, quantile float64) bool {
	return n >= 2 && quantile < 1 && AtMost(1, n, 1-max(0, quantile)) <= 1-surely
}

// SamplesFor is how many values EnoughSamples wants for a quantile below 1.
func SamplesFor(quantile float64) int64 {
	return int64(sort.Search(math.MaxInt, func(n int) bool {
		return EnoughSamples(int64(n), quantile)
	}))
}

// AtMost is how likely at most k of n independent requests are of a kind that each is with a probability p. The
// one-sided bound of C. Clopper and E. Pearson (Biometrika 26, 1934) for a share is the p at which it is as likely as
// one wants to be wrong.
func AtMost(k, n int64, p float64) (sum float64) {
	switch {
	case p <= 0 || k >= n:
		return 1
	case p >= 1:
		return 0
	}
	term := float64(n) * math.Log1p(-p) // the logarithm of how likely none is
	for i := int64(0); i <= k; i++ {
		sum += math.Exp(term)
		term += math.Log(float64(n-i)/float64(i+1)) + math.Log(p) - math.Log1p(-p)
	}
	return sum
}

// Rank returns the place, from 1, of a percentile by nearest rank among n sorted values. It is the first that at least
// that share of the values do not exceed.
func Rank(n, perMille int64) int64 {
	return max(1, n/1000*perMille+(n%1000*perMille+999)/1000) // n*perMille might not fit
}

// Moments are the mean and the variance of values, which is 0 of one.
func Moments(values []float64) (mean, variance float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / max(1, n-1)
	}
	return mean, variance
}

// Ratio returns part/whole, or nil when there is no whole.
func Ratio[T int64 | float64](part, whole T) *float64 {
	if whole <= 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
}

// OrZero is *v, or 0 where there is none.
func OrZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// Variation is the coefficient of variation: population standard deviation / mean. There is none where the mean is 0.
func Variation[T int64 | float64](values []T) (cv float64, exists bool) {
	sum := 0.0
	squares := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	if sum == 0 {
		return 0, false
	}
	n := float64(len(values))
	mean := sum / n
	for _, v := range values {
		d := float64(v) - mean
		squares += d * d
	}
	return math.Sqrt(squares/n) / mean, true
}

// MostAtOnce is the largest number of spans that have begun and not ended at any time. One that ends as another begins
// is not beside it. Both lists are sorted.
func MostAtOnce(starts, ends []float64) (most int) {
	slices.Sort(starts)
	slices.Sort(ends)
	ended := 0
	for i, start := range starts {
		for ended < len(ends) && ends[ended] <= start {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}
