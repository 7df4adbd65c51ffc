package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// SLO bounds one latency of a request. A value as long as the bound meets it, an absent one does not. If several tokens
// came at once, their TPOT is absent, and meets a bound if it would had they taken all of E2E. It is made by ParseSLOs.
type SLO struct {
	Latency int // place in Latencies
	LimitNS int64
	// whose requests alone it bounds, such as class and gold; "" = all that have no bound of that latency of their own
	Field, Value string

	own []SLO // of others, of that latency
}

// Name is that of its bound: "ttft", or "class=gold ttft".
func (o *SLO) Name() string {
	name := latencies[o.Latency].Key
	if o.Field != "" {
		name = o.Field + "=" + o.Value + " " + name
	}
	return name
}

// concerns reports whether it bounds r.
func (o *SLO) concerns(r *record.Record) bool {
	if o.Field == "" && o.own == nil {
		return true
	}
	owner := OwnerOf(r)
	if o.Field != "" {
		return owner.Value(o.Field) == o.Value
	}
	return !slices.ContainsFunc(o.own, func(own SLO) bool { return owner.Value(own.Field) == own.Value })
}

// Met reports whether r, which ended OK, keeps within the bound, or is none of the requests that it bounds.
func (o *SLO) Met(r *record.Record) bool {
	if !o.concerns(r) {
		return true
	}
	ns := o.most(r)
	return ns != record.None && ns <= o.LimitNS
}

// Exceeds is the opposite of Met, but that an answer of one token, which has no TPOT, is within a bound of that.
func (o *SLO) Exceeds(r *record.Record) bool {
	return !o.Met(r) && (o.Latency != TPOT || o.most(r) != record.None)
}

// most is the longest that the latency can have been; record.None if nothing bounds it.
func (o *SLO) most(r *record.Record) int64 {
	if o.Latency == TPOT && r.AtOnce() {
		return r.TPOTMostNS()
	}
	return latencies[o.Latency].Of(r)
}

// maxSLOMS is more than 11 days: a bound beyond it is a mistake.
const maxSLOMS = 1e9

// ParseSLOs reads lists such as "ttft:500 tpot:50ms e2e:2s", milliseconds without a unit, separated
// by spaces or commas. A list that begins with an owner, such as "class=gold ttft:300ms", bounds that one's requests,
// in place of what bounds all. The result is in the order of Latencies; no list makes no SLO, an empty list is an
// error.
func ParseSLOs(lists ...string) ([]SLO, error) {
	var slos []SLO
	for _, list := range lists {
		field, value, rest := rows.CutOwner(list)
		parts := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" ,\t\n", r) })
		if len(parts) == 0 {
			return nil, fmt.Errorf("%q has no SLO in it; want NAME:TIME, such as ttft:500ms", list)
		}
		for _, part := range parts {
			o, err := parseSLO(part)
			if err != nil {
				return nil, err
			}
			o.Field = field
			o.Value = value
			if slices.ContainsFunc(slos, func(other SLO) bool { return other.Name() == o.Name() }) {
				return nil, fmt.Errorf("%q: %s has a bound already", part, o.Name())
			}
			slos = append(slos, o)
		}
	}
	slices.SortStableFunc(slos, func(a, b SLO) int { return cmp.Compare(a.Latency, b.Latency) })
	for i := range slos {
		for _, other := range slos {
			if o := &slos[i]; o.Field == "" && other.Field != "" && other.Latency == o.Latency {
				o.own = append(o.own, other)
			}
		}
	}
	return slos, nil
}

func parseSLO(text string) (SLO, error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return SLO{}, fmt.Errorf("%q has no colon; want NAME:TIME, such as ttft:500ms", text)
	}
	i := FindLatency(name)
	if i < 0 || !latencies[i].Bounded {
		return SLO{}, unknownLatency(name)
	}
	ms, err := ParseMS(value)
	limit := math.Round(ms * 1e6)
	if err != nil || !(limit >= 1) || ms > maxSLOMS {
		return SLO{}, fmt.Errorf("%q: want a time above 0, such as 500 or 500ms, of at most %.0f ms", text, maxSLOMS)
	}
	return SLO{Latency: i, LimitNS: int64(limit)}, nil
}

func unknownLatency(name string) error {
	if name == "itl" {
		return errors.New(
			"itl has many values in one request; bound their mean with tpot, which AIPerf calls inter_token_latency")
	}
	var names, aliases []string
	for _, l := range BoundedLatencies() {
		names = append(names, l.Key)
		aliases = append(aliases, l.Aliases...)
	}
	return &UnknownName{name, names, fmt.Sprintf(
		"%q is no latency of a request; there are %s (and, as others call them, %s)",
		name, strings.Join(names, ", "), strings.Join(aliases, ", "))}
}

// UnknownName is why what a user wants of a number is refused: there is none of that name.
type UnknownName struct {
	Name  string
	Names []string // that there are
	Why   string   // what is printed
}

func (e *UnknownName) Error() string { return e.Why }

// ParseMS reads a time; without a unit it is in ms.
func ParseMS(text string) (ms float64, err error) {
	for _, unit := range []struct {
		name string
		ms   float64
	}{{"ms", 1}, {"us", 1e-3}, {"µs", 1e-3}, {"s", 1e3}} {
		if number, ok := strings.CutSuffix(text, unit.name); ok {
			ms, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
			return ms * unit.ms, err
		}
	}
	return strconv.ParseFloat(text, 64)
}
