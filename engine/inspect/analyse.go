package inspect

import (
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// Options say what to look for; the zero value is usable.
type Options struct {
	Read        trace.Options // what the trace was read with; Lenient and Strict decide what a replay would refuse
	CacheTokens []int64       // capacities of the LRU caches, ascending; empty = by the size of the trace
	MaxModelLen int           // tokens of the model's context; 0 = unknown
	Instances   int           // compare the routers of so many, at least 2; 0 = none
	LoadBound   float64       // see route.ByPrefix; at least 1 where Instances is above 0
	Assumed     sched.Assumed // how long every request took, to tell when it ended
}

// Validate refuses what cannot be meant.
func (o *Options) Validate() error {
	switch {
	case o.MaxModelLen < 0:
		return fmt.Errorf("a context of %d tokens; want at least 1", o.MaxModelLen)
	case o.Instances < 0 || o.Instances == 1 || o.Instances > route.MostInstances:
		return fmt.Errorf("%s; want 2 to %s", format.Many(int64(o.Instances), "instance"), format.Count(route.MostInstances))
	case o.Instances > 0 && !(o.LoadBound >= 1):
		return fmt.Errorf("a load bound of %v; want at least 1", o.LoadBound)
	case len(o.CacheTokens) > 0 && (!slices.IsSorted(o.CacheTokens) || o.CacheTokens[0] < 1):
		return fmt.Errorf("cache capacities %v; want them ascending, from 1 token on", o.CacheTokens)
	}
	return o.Assumed.Validate()
}

// Analyse looks at a trace; read it with Options.Collect, so that a trace that a replay refuses is analysed too.
func Analyse(t *trace.Trace, o Options) *Report {
	r := &Report{
		Trace: t.Name, Format: t.Format, TimeUnit: trace.UnitName(t.TimeUnit), BlockTokens: t.BlockTokens, FileRows: int64(t.FileRows), Rows: int64(t.Len()),
		Untimed: t.Untimed, Literal: literal(t),
		Replayable: !t.Lint.Refused(o.Read), InputTokens: lengths(t.InputTokens), OutputTokens: lengths(t.OutputTokens), TotalTokens: totals(t),
		Types: types(t), Sessions: sessions(t, o), Context: context(t, o.MaxModelLen), Replay: replay(t),
	}
	r.Arrivals = arrivals(t, r.InputTokens.Total, r.OutputTokens.Total)
	if t.BlockRefs() > 0 {
		caches(r, t, o.CacheTokens)
		r.Routing = routing(t, o)
	}
	r.Findings = findings(r, &t.Lint, o)
	return r
}

func literal(t *trace.Trace) *Literal {
	if t.Literals() == 0 {
		return nil
	}
	var l Literal
	for i := range t.Len() {
		row := t.Literal(i)
		l.Bytes += int64(len(row.Content) + len(row.Tools) + len(row.Extra))
		switch row.Kind {
		case trace.TextLiteral:
			l.Texts++
		case trace.MessagesLiteral:
			l.Messages++
		case trace.PayloadLiteral:
			l.Payloads++
		}
	}
	return &l
}

func lengths(tokens []int32) Lengths {
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(n int32) bool { return n == 0 }) // not recorded
	l := Lengths{Histogram: binned(powersOfTwo(), tokens, 1)}
	for _, n := range tokens {
		l.Total += int64(n)
	}
	if d := stats.Describe(tokens, 1); d != nil {
		l.Percentiles = *d
	}
	return l
}

func totals(t *trace.Trace) *stats.Percentiles {
	var sums []int32 // each of the two is below 2^25
	for i := range t.Len() {
		if t.InputTokens[i] > 0 && t.OutputTokens[i] > 0 {
			sums = append(sums, t.InputTokens[i]+t.OutputTokens[i])
		}
	}
	return stats.Describe(sums, 1)
}

func types(t *trace.Trace) []Type {
	if t.Type == nil {
		return nil
	}
	all := make([]Type, len(t.Types))
	for i, kind := range t.Type {
		k := &all[kind]
		k.Rows++
		k.MeanInput += float64(t.InputTokens[i])
		k.MeanOutput += float64(t.OutputTokens[i])
	}
	var kinds []Type
	for i, k := range all {
		if k.Rows == 0 {
			continue // not in the selection
		}
		n := float64(k.Rows)
		kinds = append(kinds, Type{Name: t.Types[i], Rows: k.Rows, Share: n / float64(t.Len()), MeanInput: k.MeanInput / n, MeanOutput: k.MeanOutput / n})
	}
	slices.SortStableFunc(kinds, func(a, b Type) int { return int(b.Rows - a.Rows) })
	return kinds
}

func context(t *trace.Trace, most int) *Context {
	if most == 0 {
		return nil
	}
	c := &Context{MaxModelLen: int64(most)}
	for i := range t.Len() {
		if int(t.InputTokens[i])+int(t.OutputTokens[i]) <= most {
			continue
		}
		c.RowsOver++
		if row := int64(t.Row[i]); c.FirstRow == nil || row < *c.FirstRow {
			c.FirstRow = &row
		}
	}
	c.Share = share(c.RowsOver, int64(t.Len()))
	return c
}

// share is part / all, 0 of nothing.
func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
