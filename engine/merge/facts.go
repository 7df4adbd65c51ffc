package merge

import (
	"reflect"
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// add adds the facts of a client to those of others, key by key. Numbers are summed, but for those whose names say that they are a
// largest, a share or a setting: of these the largest remains. Of percentiles those with the largest p99 remain, for no record has their values.
func add[T any](sum *T, of *T) {
	if of != nil {
		addValue(reflect.ValueOf(sum).Elem(), reflect.ValueOf(of).Elem(), "")
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
		if of.IsNil() || of.Type() == reflect.TypeFor[*stats.Shares]() {
			return
		}
		if p, is := of.Interface().(*stats.Percentiles); is {
			if sum.IsNil() || sum.Interface().(*stats.Percentiles).P99 < p.P99 {
				sum.Set(of)
			}
			return
		}
		if sum.IsNil() {
			sum.Set(reflect.New(sum.Type().Elem()))
		}
		addValue(sum.Elem(), of.Elem(), name)
	}
}

// worst keeps of each percentile the largest effect of late reads.
func worst(all, more []metrics.Unsafe) []metrics.Unsafe {
	for _, u := range more {
		known := false
		for i := range all {
			if o := &all[i]; o.Metric == u.Metric && o.Percentile == u.Percentile {
				known = true
				if o.EffectMS < u.EffectMS {
					*o = u
				}
			}
		}
		if !known {
			all = append(all, u)
		}
	}
	return all
}
