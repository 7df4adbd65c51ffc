package metrics

import (
	"fmt"
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// Interval is how well the percentiles of a latency of the run are known. It has a 95 % interval of each, in ms, from
// its low to its high end, or null if that cannot be said.
type Interval struct {
	Metric string      `json:"metric"`  // ttft, tpot, e2e, drift, …; gaps (itl) and values in buckets have none
	P50    *[2]float64 `json:"p50_ms"`  // of the median
	P75    *[2]float64 `json:"p75_ms"`  // of the 75th percentile
	P90    *[2]float64 `json:"p90_ms"`  // of the 90th percentile
	P95    *[2]float64 `json:"p95_ms"`  // of the 95th percentile
	P99    *[2]float64 `json:"p99_ms"`  // of the 99th percentile
	P999   *[2]float64 `json:"p999_ms"` // of the 99.9th percentile
	// how many independent values would differ as much between parts of the run; at most its values
	Independent float64 `json:"independent_values"`
	// why there are no intervals: few, dependent, conversations or at_once; "" if it is not said of all
	Unknown stats.Unknown `json:"unknown"`
}

// Of is the interval of a percentile that has one.
func (i *Interval) Of(perMille int64) **[2]float64 {
	return map[int64]**[2]float64{
		500: &i.P50,
		750: &i.P75,
		900: &i.P90,
		950: &i.P95,
		990: &i.P99,
		999: &i.P999,
	}[perMille]
}

// Interval returns what is known of a percentile of a latency, in ms; nil if no interval can be said. sought is false
// of latencies that have none in any case.
func (s *Summary) Interval(metric string, perMille int64) (ms *[2]float64, sought bool) {
	for i := range s.Intervals {
		if s.Intervals[i].Metric == metric {
			if of := s.Intervals[i].Of(perMille); of != nil {
				return *of, true
			}
		}
	}
	return nil, false
}

// Enough reports whether a percentile of so many values says something of the server. It does if it has an interval.
// Where none was sought, stats.EnoughSamples says so.
func (s *Summary) Enough(metric string, perMille, count int64) bool {
	if interval, sought := s.Interval(metric, perMille); sought {
		return interval != nil
	}
	return stats.EnoughSamples(count, float64(perMille)/1000)
}

// Until is how well a percentile is known that ends the run when it is known well enough.
type Until struct {
	Text      string  `json:"text"`       // as given, such as ttft.p99±5%
	Metric    string  `json:"metric"`     // the percentile, such as ttft.p99
	Within    float64 `json:"within"`     // how far the ends of the interval may be from the percentile, as a share of it
	PlusMinus float64 `json:"plus_minus"` // how far they are; -1 = there is no interval
	Reached   bool    `json:"reached"`    // that was near enough at a look, which ended the run
	Requests  int64   `json:"requests"`   // that the latest look saw; 0 = none came
	// why the run has no interval: few, dependent, conversations or at_once; "" if it has
	Unknown stats.Unknown `json:"unknown"`
}

// Progress is how well the percentile was known at the latest look; "" before it.
func (u *Until) Progress() string {
	switch {
	case u.Requests == 0:
		return ""
	case u.PlusMinus < 0:
		return u.Text + ": unknown so far"
	}
	return fmt.Sprintf("%s ±%s, until ±%s", u.Metric, format.Percent(u.PlusMinus), format.Percent(u.Within))
}

// Words says how the run came out.
func (u *Until) Words() string {
	finding := u.Finding()
	words := "after " + format.Requests(u.Requests) + " " + finding[0]
	if len(finding) > 1 {
		words += ": " + strings.Join(finding[1:], "; ")
	}
	return words
}

// Finding says how well the percentile is known, and then why it is not known better, or what would tell.
func (u *Until) Finding() []string {
	switch {
	case u.Unknown == stats.Dependent:
		return []string{
			u.Metric + " is not known",
			"requests depend on each other for longer than a part of the run",
			"only a longer run can tell",
		}
	case u.Unknown == stats.FewGroups:
		return []string{u.Metric + " is not known", "there are too few conversations"}
	case u.PlusMinus < 0:
		return []string{u.Metric + " is not known", "too few requests, or all at once"}
	}
	known := u.Metric + " is known within ±" + format.Percent(u.PlusMinus)
	if u.PlusMinus <= u.Within {
		return []string{known, "of the server as it was meanwhile"}
	}
	known += ", not ±" + format.Percent(u.Within)
	if u.Reached {
		return []string{known, "it was at the last look, before the requests in flight had ended"}
	}
	ratio := u.PlusMinus / u.Within
	need := format.Requests(int64(math.Ceil(float64(u.Requests) * ratio * ratio)))
	return []string{known, "it may need about " + need + " like these"}
}
