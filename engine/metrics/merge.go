package metrics

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/fastreplay/fastreplay/engine/stats"
)

// A merge tag stands on every field that a merge meets. It says what the values of two targets, or of two clients,
// come to.
//
//	sum, max, min  of numbers
//	and, or        of what is true or false
//	first          the first that is not empty
//	worst          of percentiles: those with the larger p99, for no record has their values
//	union          all values of both; of doubts about percentiles the larger of each
//	each           each field by its own tag
//	records        what is there stays: it is counted anew from the records of all
//	none           what is there stays
//
// Behind a comma, records says so of clients alone: of two targets nothing is counted anew.

// merger merges values by their tags.
type merger struct {
	clients bool // they are of clients, and not of targets
	empty   bool // nothing was merged yet
	replace bool // what one client found out takes the place of what is there
}

// fields merges from, a struct, into to. It writes to nothing that from points to.
func (m merger) fields(to, from reflect.Value) {
	for i := range to.NumField() {
		rule, counted, _ := strings.Cut(to.Type().Field(i).Tag.Get("merge"), ",")
		if !m.clients || counted == "" {
			m.value(to.Field(i), from.Field(i), rule)
		}
	}
}

func (m merger) value(to, from reflect.Value, rule string) {
	switch {
	case rule == "none" || rule == "records":
	case m.replace && rule != "each" && to.Kind() != reflect.Pointer:
		to.Set(from)
	case to.Kind() == reflect.Array:
		for i := range to.Len() {
			m.value(to.Index(i), from.Index(i), rule)
		}
	case rule == "union":
		union(to.Addr().Interface(), from.Addr().Interface())
	case to.Kind() == reflect.Pointer:
		m.pointer(to, from, rule)
	case rule == "each":
		m.fields(to, from)
	case m.empty || rule == "first" && to.IsZero():
		to.Set(from)
	case rule == "first":
	case rule == "and":
		to.SetBool(to.Bool() && from.Bool())
	case rule == "or":
		to.SetBool(to.Bool() || from.Bool())
	case to.CanInt():
		to.SetInt(chosen(to.Int(), from.Int(), rule))
	default:
		to.SetFloat(chosen(to.Float(), from.Float(), rule))
	}
}

// pointer merges what is not nil, which is unknown and changes nothing.
func (m merger) pointer(to, from reflect.Value, rule string) {
	if from.IsNil() {
		return
	}
	if m.replace && (rule != "each" || to.IsNil()) {
		to.Set(from)
		return
	}
	if rule == "worst" {
		if to.IsNil() ||
			to.Interface().(*stats.Percentiles).P99 < from.Interface().(*stats.Percentiles).P99 {
			to.Set(from)
		}
		return
	}
	own := reflect.New(to.Type().Elem())
	m.empty = to.IsNil()
	if !m.empty {
		own.Elem().Set(to.Elem())
	}
	m.value(own.Elem(), from.Elem(), rule)
	to.Set(own)
}

func union(to, from any) {
	switch to := to.(type) {
	case *stats.Distribution:
		to.Merge(from.(*stats.Distribution))
	case *FailureKinds:
		to.Merge(*from.(*FailureKinds))
	case *[]Unsafe:
		*to = OnceEach(append(*to, *from.(*[]Unsafe)...))
	default:
		panic(fmt.Sprintf("BUG: metrics: no union of %T", to))
	}
}

func chosen[T int64 | float64](a, b T, rule string) T {
	switch rule {
	case "max":
		return max(a, b)
	case "min":
		return min(a, b)
	case "sum":
		return a + b
	}
	panic("BUG: metrics: a field has the merge tag " + rule)
}

// MergeCounts adds what was counted of a target to what was counted of others.
func MergeCounts[T any](to, from *T) {
	merger{}.fields(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

// MergeFacts adds to s what another client found out and no record has; first: s has nothing of any yet.
func (s *Summary) MergeFacts(of *Summary, first bool) {
	merger{clients: true, empty: first}.fields(reflect.ValueOf(s).Elem(), reflect.ValueOf(of).Elem())
}

// SetFacts sets in s what no record has to what it is in of.
func (s *Summary) SetFacts(of *Summary) {
	merger{clients: true, replace: true}.fields(reflect.ValueOf(s).Elem(), reflect.ValueOf(of).Elem())
}
