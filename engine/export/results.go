package export

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
)

// results is what a run left on disk.
type results struct {
	dir     string
	summary *metrics.Summary
	gaps    *hdrhistogram.Histogram // between token chunks, ns; nil where there are none
}

// load reads a run; summary takes the place of that on disk, unless it is nil.
func load(dir string, summary *metrics.Summary) (r *results, err error) {
	if summary == nil {
		if summary, err = report.Load(dir); err != nil {
			return nil, err
		}
	}
	gaps, err := report.Gaps(dir)
	return &results{dir, summary, gaps}, err
}

// verdict says whether the measurement can be used, and why not.
func (r *results) verdict() string {
	v := &r.summary.Verdict
	words := format.Present(string(v.Measurement))
	for _, reason := range v.Reasons {
		words = append(words, reason.String())
	}
	return strings.Join(words, "; ")
}

// verdictKey is what files call it that may have keys of our own.
const verdictKey = ourName + "_measurement"

// gapMS is a percentile of the gaps by nearest rank, as in the summary. The library rounds q/100 of the samples to
// the nearest rank; asking for the rank itself makes that exact.
func (r *results) gapMS(q float64) float64 {
	n := float64(r.gaps.TotalCount())
	rank := max(1, math.Ceil(q*n/100))
	return min(float64(r.gaps.ValueAtQuantile(100*rank/n))/1e6, r.longestGapMS())
}

// longestGapMS is exact where the summary has it.
func (r *results) longestGapMS() float64 {
	if itl := r.summary.ITLMS; itl != nil {
		return itl.Max
	}
	return float64(r.gaps.Max()) / 1e6
}

// each calls f with every record but those of requests that an interrupted run never sent, which other tools do not
// know.
func (r *results) each(f func(*record.Record)) error {
	for rec, err := range report.Checked(r.dir, r.summary) {
		if err != nil {
			return err
		}
		if rec.Outcome != record.NotSent {
			f(rec)
		}
	}
	return nil
}

// wall turns an instant of the run into wall-clock time; false where the run's start is not known, as after a crash.
func (r *results) wall(ns int64) (time.Time, bool) {
	start := r.summary.Run.StartedAt
	return start.Add(time.Duration(ns)), !start.IsZero() && ns != record.None
}

// end is the wall-clock time of the run's end.
func (r *results) end() (time.Time, bool) {
	return r.wall(int64(math.Round(r.summary.Run.DurationS * 1e9)))
}

// option is a flag that has one value, as text; "" where it was not given.
func (r *results) option(name string) string {
	switch v := r.summary.Run.Options[name].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// A value that is absent is NaN while one computes, so that what follows from it is absent too.

// known reports whether there is a value; a ratio to 0 is none.
func known(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// spanNS is to - from.
func spanNS(from, to int64) float64 { return record.Float(to) - record.Float(from) }

// promptTokens is the prompt's length as the server counted it, or as recorded where it counts none.
func promptTokens(r *record.Record) float64 {
	return record.Float(metrics.PromptTokens(r))
}

func outputTokens(r *record.Record) float64 { return record.Float(r.CompletionTokens) }

// number is null in JSON where it is absent.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if !known(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// sample is the known values of one quantity, ascending. Its statistics are numpy's, which both tools use; of an
// empty one they are absent.
type sample []float64

func newSample(values []float64) sample {
	s := sample(slices.DeleteFunc(slices.Clone(values), func(v float64) bool {
		return !known(v)
	}))
	slices.Sort(s)
	return s
}

// percentile interpolates between the two nearest ranks, as numpy.percentile does by default.
func (s sample) percentile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	rank := q / 100 * float64(len(s)-1)
	low := int(rank)
	high := min(low+1, len(s)-1)
	return s[low] + (rank-float64(low))*(s[high]-s[low])
}

func (s sample) sum() (sum float64) {
	for _, v := range s {
		sum += v
	}
	return sum
}

func (s sample) mean() float64 {
	return s.sum() / float64(len(s))
}

// deviation is the standard deviation of the population, as numpy.std by default.
func (s sample) deviation() float64 {
	mean := s.mean()
	squares := 0.0
	for _, v := range s {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(s)))
}

// total is the sum of what is known; absent where there are values, all of them unknown.
func total(values []float64) float64 {
	s := newSample(values)
	if len(s) == 0 && len(values) > 0 {
		return math.NaN()
	}
	return s.sum()
}
