package merge

import (
	"reflect"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// addFacts adds the facts of a client to those of others, as the merge tags of metrics.Summary declare it; first: there are none yet.
func addFacts(sum, of *metrics.Summary, first bool) {
	addEach(reflect.ValueOf(sum).Elem(), reflect.ValueOf(of).Elem(), first)
}

func addEach(sum, of reflect.Value, first bool) {
	for i := range sum.NumField() {
		if rule := sum.Type().Field(i).Tag.Get("merge"); rule != "" {
			addValue(sum.Field(i), of.Field(i), rule, first)
		}
	}
}

// addValue adds of to sum. What is nil is unknown and changes nothing. It writes to nothing that of points to.
func addValue(sum, of reflect.Value, rule string, first bool) {
	if sum.Kind() == reflect.Pointer && rule != "none" {
		addPointer(sum, of, rule)
		return
	}
	switch {
	case rule == "none":
	case rule == "each":
		addEach(sum, of, first)
	case first || rule == "first" && sum.IsZero():
		sum.Set(of)
	case rule == "and":
		sum.SetBool(sum.Bool() && of.Bool())
	case rule == "first":
	case sum.CanInt():
		sum.SetInt(chosen(sum.Int(), of.Int(), rule))
	default:
		sum.SetFloat(chosen(sum.Float(), of.Float(), rule))
	}
}

func addPointer(sum, of reflect.Value, rule string) {
	switch {
	case of.IsNil():
	case rule == "worst":
		if sum.IsNil() || sum.Interface().(*stats.Percentiles).P99 < of.Interface().(*stats.Percentiles).P99 {
			sum.Set(of)
		}
	default:
		own := reflect.New(sum.Type().Elem())
		unknown := sum.IsNil()
		if !unknown {
			own.Elem().Set(sum.Elem())
		}
		addValue(own.Elem(), of.Elem(), rule, unknown)
		sum.Set(own)
	}
}

func chosen[T int64 | float64](a, b T, rule string) T {
	switch rule {
	case "max":
		return max(a, b)
	case "min":
		return min(a, b)
	}
	return a + b
}

// countUnrecorded puts into out what no record has: the sums of what the shards counted by their own clocks and bodies.
func (s *Shards) countUnrecorded(out *metrics.Summary) {
	var reading []metrics.Unsafe
	out.Requests.Early = 0
	out.Tokens.PromptMismatches, out.Tokens.OverLong = 0, 0
	out.PrefixCache.AboveIdealTokens, out.PrefixCache.AboveIdealRequests = 0, 0
	for _, k := range s.all {
		t := k.summary
		if t == nil {
			continue
		}
		out.Requests.Early += t.Requests.Early
		out.Tokens.PromptMismatches += t.Tokens.PromptMismatches
		out.Tokens.OverLong += t.Tokens.OverLong
		out.PrefixCache.AboveIdealTokens += t.PrefixCache.AboveIdealTokens
		out.PrefixCache.AboveIdealRequests += t.PrefixCache.AboveIdealRequests
		reading = append(reading, t.Lateness.Reading...)
	}
	out.Lateness.Reading = metrics.OnceEach(reading)
}
