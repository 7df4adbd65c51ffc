package merge

import (
	"reflect"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// addFacts adds the facts of a client to those of others, key by key. Numbers are summed, but for those whose names say that they are a
// largest, a share or a setting: of these the largest remains. Of percentiles those with the largest p99 remain, for no record has their values.
func addFacts(sum, of *metrics.Summary) {
	for _, name := range []string{"Client", "Connections", "Writes", "Cap", "Turns", "History", "Answers", "BuildAhead"} {
		addValue(reflect.ValueOf(sum).Elem().FieldByName(name), reflect.ValueOf(of).Elem().FieldByName(name), name)
	}
}

func addValue(sum, of reflect.Value, name string) {
	largest := strings.HasPrefix(name, "Max") || strings.HasPrefix(name, "Step") || strings.HasSuffix(name, "Share") || strings.HasSuffix(name, "Worst") || name == "SpinUS" || name == "LoadS" || name == "PrebuildS"
	switch sum.Kind() {
	case reflect.Int, reflect.Int64:
		if sum.SetInt(sum.Int() + of.Int()); largest {
			sum.SetInt(max(sum.Int()-of.Int(), of.Int()))
		}
	case reflect.Float64:
		if sum.SetFloat(sum.Float() + of.Float()); largest {
			sum.SetFloat(max(sum.Float()-of.Float(), of.Float()))
		}
	case reflect.Bool:
		sum.SetBool(sum.Bool() || of.Bool())
	case reflect.String:
		if sum.String() == "" {
			sum.Set(of)
		}
	case reflect.Struct:
		for i := range sum.NumField() {
			if t := sum.Type().Field(i); t.IsExported() {
				addValue(sum.Field(i), of.Field(i), t.Name)
			}
		}
	case reflect.Pointer:
		p, percentiles := of.Interface().(*stats.Percentiles)
		switch {
		case of.IsNil() || of.Type() == reflect.TypeFor[*stats.Shares]():
		case percentiles && (sum.IsNil() || sum.Interface().(*stats.Percentiles).P99 < p.P99):
			sum.Set(of)
		case !percentiles:
			if sum.IsNil() {
				sum.Set(reflect.New(sum.Type().Elem()))
			}
			addValue(sum.Elem(), of.Elem(), name)
		}
	}
}

// countUnrecorded puts into out what no record has: the sums of what the shards counted by their own clocks and bodies.
func (s *Shards) countUnrecorded(out *metrics.Summary) {
	out.Lateness.Reading, out.Requests.Early, out.Tokens.PromptMismatches, out.Tokens.OverLong = []metrics.Unsafe{}, 0, 0, 0
	out.PrefixCache.AboveIdealTokens, out.PrefixCache.AboveIdealRequests = 0, 0
	for i := range s.all {
		t := s.all[i].summary
		if t == nil {
			continue
		}
		out.Requests.Early += t.Requests.Early
		out.Tokens.PromptMismatches += t.Tokens.PromptMismatches
		out.Tokens.OverLong += t.Tokens.OverLong
		out.PrefixCache.AboveIdealTokens += t.PrefixCache.AboveIdealTokens
		out.PrefixCache.AboveIdealRequests += t.PrefixCache.AboveIdealRequests
		all := &out.Lateness.Reading // of each percentile the largest effect of late reads
		for _, u := range t.Lateness.Reading {
			k := slices.IndexFunc(*all, func(o metrics.Unsafe) bool { return o.Metric == u.Metric && o.Percentile == u.Percentile })
			if k < 0 {
				*all = append(*all, u)
			} else if (*all)[k].EffectMS < u.EffectMS {
				(*all)[k] = u
			}
		}
	}
}
