package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Options are what to look for; the zero value is usable.
type Options struct {
	// what the trace was read with; Lenient and Strict decide what a replay would refuse
	Read        trace.Options
	CacheTokens []int64              // capacities of the LRU caches, ascending; empty = by the size of the trace
	Tiers       []int64              // capacities of cache tiers in tokens, ascending, Unlimited at most; empty = none
	Policies    []string             // of kvcache.Policies, for Tiers; empty = LRU
	KVBytes     int64                // of one token in the cache; 0 = unknown
	MaxModelLen int                  // tokens of the model's context; 0 = unknown
	Instances   int                  // compare the routers of so many, at least 2; 0 = none
	LoadBound   float64              // see route.ByPrefix; at least 1 where Instances is above 0
	Assumed     sched.AssumedLatency // how long every request is assumed to take, from which its end follows
}

// Validate refuses what cannot be meant.
func (o *Options) Validate() error {
	switch {
	case o.MaxModelLen < 0:
		return fmt.Errorf("a context of %d tokens; want at least 1", o.MaxModelLen)
	case o.Instances < 0 || o.Instances == 1 || o.Instances > route.MostInstances:
		return fmt.Errorf("%s; want 2 to %s", format.Many(o.Instances, "instance"), format.Count(route.MostInstances))
	case o.Instances > 0 && !(o.LoadBound >= 1):
		return fmt.Errorf("a load bound of %v; want at least 1", o.LoadBound)
	case slices.Contains(o.CacheTokens, Unlimited):
		return errors.New("--cache-tokens has inf, but the hits of an unlimited cache are always shown; leave it out")
	case len(o.CacheTokens) > 0 && (!slices.IsSorted(o.CacheTokens) || o.CacheTokens[0] < 1):
		return fmt.Errorf("cache capacities %v; want them ascending, from 1 token on", o.CacheTokens)
	}
	return cmp.Or(o.checkTiers(), o.Assumed.Validate())
}

// Analyse looks at a trace; read it with Options.Collect, so that a trace that a replay refuses is analysed too.
func Analyse(t *trace.Trace, o Options) *Report {
	p := picture(t)
	r := &Report{
		Trace:        t.Name,
		Format:       t.Format,
		TimeUnit:     trace.UnitName(t.TimeUnit),
		BlockTokens:  t.BlockTokens,
		FileRows:     int64(t.FileRows),
		Rows:         int64(t.Len()),
		Untimed:      t.Untimed,
		Verbatim:     verbatim(t),
		Replayable:   !t.Lint.Refused(o.Read),
		InputTokens:  lengths(t.InputTokens, "Input tokens", p),
		OutputTokens: lengths(t.OutputTokens, "Output tokens", p),
		TotalTokens:  totals(t),
		Types:        types(t),
		Sessions:     sessions(t, o, p),
		Agents:       agentsOf(t, o, p),
		Context:      contextOf(t, o.MaxModelLen),
		Replay:       replay(t),
		pictures:     p,
	}
	r.Arrivals = arrivals(t, r.InputTokens.Total, r.OutputTokens.Total, p)
	if t.BlockRefs() > 0 {
		var references *kvcache.References
		if len(o.Tiers) > 0 {
			references = &kvcache.References{}
		}
		f := follow(t, map[uint64]seenID{}, references)
		r.Blocks = f.summary()
		r.Cache = f.cache(o.CacheTokens)
		r.Reuse = f.distances()
		p.addHeld(f, t.SpanNS())
		r.Routing = routing(t, o)
		r.Tiers = tiersOf(t, f, o)
	}
	if a := r.Agents; a != nil && a.WithinJobs != nil {
		across := r.Cache.Infinite.Tokens - *a.WithinJobs
		a.AcrossJobs = new(max(0, across))
	}
	r.Findings = findings(r, t, o)
	return r
}

func verbatim(t *trace.Trace) *Verbatim {
	if t.Verbatims() == 0 {
		return nil
	}
	var l Verbatim
	for i := range t.Len() {
		row := t.Verbatim(i)
		l.Bytes += sizeOf(row)
		switch row.Kind {
		case trace.VerbatimText:
			l.Texts++
		case trace.VerbatimMessages:
			l.Messages++
		case trace.VerbatimPayload:
			l.Payloads++
		}
	}
	return &l
}

// sizeOf is how many bytes a row has verbatim.
func sizeOf(row trace.Verbatim) int64 {
	return int64(len(row.Content) + len(row.Tools) + len(row.Extra))
}

func lengths(tokens []int32, title string, p *pictures) Lengths {
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(n int32) bool {
		return n == 0
	}) // not recorded
	p.distributions[title] = distribution{outlineOf(tokens, 1), "", true}
	var ones []stats.Counted
	var l Lengths
	for _, n := range tokens {
		ones = append(ones, stats.Counted{Value: int64(n), Count: 1})
		l.Total += int64(n)
	}
	l.Histogram = binned(powersOfTwo(), ones, 1)
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
	kinds := typesOf(t, t.Types, func(i int) int {
		return int(t.Type[i])
	})
	slices.SortStableFunc(kinds, func(a, b Type) int {
		return int(b.Rows - a.Rows)
	})
	return kinds
}

// typesOf are the rows by kind, without kinds that are not in the selection.
func typesOf(t *trace.Trace, names []string, of func(row int) int) []Type {
	kinds := make([]Type, len(names))
	for i := range t.Len() {
		k := &kinds[of(i)]
		k.Rows++
		k.MeanInput += float64(t.InputTokens[i])
		k.MeanOutput += float64(t.OutputTokens[i])
	}
	for i := range kinds {
		k := &kinds[i]
		n := float64(k.Rows)
		k.Name = names[i]
		k.Share = n / float64(t.Len())
		k.MeanInput /= n
		k.MeanOutput /= n
	}
	return slices.DeleteFunc(kinds, func(k Type) bool {
		return k.Rows == 0
	})
}

func contextOf(t *trace.Trace, most int) *Context {
	if most == 0 {
		return nil
	}
	c := &Context{MaxModelLen: int64(most)}
	for i := range t.Len() {
		tokens := int(t.InputTokens[i]) + int(t.OutputTokens[i])
		if tokens <= most {
			continue
		}
		c.RowsOver++
		row := int64(t.Row[i])
		if c.FirstRow == nil || row < *c.FirstRow {
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

// sessions follows each row to the turn before it, as a replay does. A row without one in the selection begins or
// continues a session, but has no gap.
func sessions(t *trace.Trace, o Options, p *pictures) *Sessions {
	if t.Session == nil {
		return nil
	}
	s := &Sessions{
		TTFTS: o.Assumed.TTFT.Seconds(),
		TPOTS: o.Assumed.TPOT.Seconds(),
	}
	s.count(t, p)
	var gaps, thinks []int64
	graph := t.Graph(t.Len())
	for i, before := range t.TurnsBefore(t.Len()) {
		since := int64(-1)
		for _, wait := range graph.Of(i) {
			if wait.Trigger == trace.OnCompletion && wait.Relation != trace.Barrier {
				since = max(since, endOf(t, int(wait.On), o.Assumed))
			}
		}
		if since >= 0 && since <= t.ArrivalNS[i] && !t.Untimed {
			thinks = append(thinks, t.ArrivalNS[i]-since)
		}
		if t.Parent[i] < 0 {
			continue
		}
		if before == trace.NoTurn {
			s.Orphans++
			continue
		}
		s.Followups++
		if t.Untimed {
			continue
		}
		gap := t.ArrivalNS[i] - t.ArrivalNS[before]
		gaps = append(gaps, gap)
		if gap <= 0 {
			s.AtOnce++
		}
		lasts := endOf(t, int(before), o.Assumed) - t.ArrivalNS[before]
		if t.TookNS != nil && t.TookNS[before] >= 0 {
			s.Recorded++
		}
		if gap < lasts {
			s.Overlaps++
		}
	}
	if len(gaps) > 0 {
		s.OverlapShare = new(share(s.Overlaps, s.Followups))
	}
	s.GapS = p.describe("Time from turn to turn", "s", gaps)
	s.ThinkS = p.describe("Think and tool time", "s", thinks)
	return s
}

// count counts the sessions and their turns.
func (s *Sessions) count(t *trace.Trace, p *pictures) {
	turns := map[int64]int64{}
	for _, id := range t.Session {
		turns[id]++
	}
	all := slices.Collect(maps.Values(turns))
	for _, n := range all {
		if n > 1 {
			s.MultiTurn++
		}
	}
	s.Sessions = int64(len(all))
	s.Turns = p.describe("Turns of a conversation", "", all)
}

// aroundPrompt is about how many bytes of a request's image are not its prompt: head, model, lengths and options. With
// a short model name and no headers of one's own it is 350 (the conversation trace: 873 MB of images, 869 MB of
// prompts).
const aroundPrompt = 350

// replay adds up the prompts. No content is needed for those that are made: their sizes follow from the lengths.
func replay(t *trace.Trace) Replay {
	ids, badIDs := prompt.NewTokenIDs(0, prompt.BuiltInIDs())
	text, badWords := prompt.NewText(0, prompt.BuiltIn())
	if err := cmp.Or(badIDs, badWords); err != nil {
		panic("BUG: inspect: " + err.Error())
	}
	r := Replay{
		TokenIDs: volume(t, ids),
		Text:     volume(t, text),
	}
	backend, err := api.New("completions", api.Options{
		Model:       "model",
		Stream:      true,
		ForceOutput: true,
		TokenIDs:    true,
	})
	if err != nil {
		panic("BUG: inspect: " + err.Error())
	}
	work := workload.Work{
		Trace:   t,
		Plan:    sched.Plan{Requests: t.Len()},
		Targets: make([]workload.Target, 1),
		Places:  make([]route.Place, t.Len()),
	}
	builder := workload.Builder{Backend: backend, Source: ids}
	m, err := builder.Layout(context.Background(), &work)
	if err == nil && m.Held() < m.Bytes() { // texts share as much
		held := float64(m.Held())
		r.Text.MemoryBytes = int64(float64(r.Text.MemoryBytes) * held / float64(m.Bytes()))
		r.TokenIDs.MemoryBytes = m.Held()
	}
	return r
}

func volume(t *trace.Trace, s prompt.Source) Volume {
	var v Volume
	for i := range t.Len() {
		l := t.Verbatim(i)
		size := sizeOf(l)
		if l.Kind == trace.NoVerbatim {
			size = int64(s.Size(prompt.Spec{
				Blocks:      t.Blocks(i),
				BlockTokens: t.BlockTokens,
				Tokens:      int(t.InputTokens[i]),
			}))
		}
		v.PromptBytes += size
		v.LargestBytes = max(v.LargestBytes, size)
	}
	v.MemoryBytes = v.PromptBytes + aroundPrompt*int64(t.Len())
	return v
}

// timelineBins is how many bins the span is cut into: one for each column of the plot on a terminal of 80.
const timelineBins = 64

const second = int64(1e9) // ns

func arrivals(t *trace.Trace, input, output int64, p *pictures) Arrivals {
	span := t.SpanNS()
	a := Arrivals{SpanS: seconds(span)}
	a.burst(t.ArrivalNS)
	a.peak(t.ArrivalNS)
	gaps := make([]int64, max(0, t.Len()-1))
	for i := range gaps {
		gaps[i] = t.ArrivalNS[i+1] - t.ArrivalNS[i]
	}
	if cv, exists := stats.Variation(gaps); exists {
		a.GapCV = &cv
	}
	a.GapS = stats.Describe(gaps, 1e9)
	if span > 0 {
		a.RowsPerS = perSecond(int64(t.Len()), span)
		if input > 0 {
			a.InputTokensPerS = perSecond(input, span)
		}
		if output > 0 {
			a.OutputTokensPerS = perSecond(output, span)
		}
		a.BinS = seconds(span) / timelineBins
		a.Timeline = make([]int64, timelineBins)
		for _, ns := range t.ArrivalNS {
			a.Timeline[stepOf(ns, span, timelineBins)]++
		}
		p.describe("Time from a row to the next", "s", gaps)
	}
	return a
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func perSecond(n, spanNS int64) *float64 {
	return new(float64(n) / seconds(spanNS))
}

// burst counts instants and finds the largest crowd at one; at ascends.
func (a *Arrivals) burst(at []int64) {
	var crowd int64
	for i := range at {
		if i == 0 || at[i] != at[i-1] {
			a.Instants++
			crowd = 0
		}
		crowd++
		if crowd > a.LargestBurst {
			a.LargestBurst = crowd
			a.LargestBurstAtS = seconds(at[i])
		}
	}
}

// peak finds the second with the most rows; it may as well begin at an arrival.
func (a *Arrivals) peak(at []int64) {
	first := 0
	for i := range at {
		for at[i]-at[first] >= second {
			first++
		}
		rows := int64(i - first + 1)
		if rows > a.PeakRows {
			a.PeakRows = rows
			a.PeakAtS = seconds(at[first])
		}
	}
}

// binned counts values in units of unit between edges, which ascend and enclose all. Empty bins at both ends are left
// out.
func binned(edges []float64, values []stats.Counted, unit float64) []Bin {
	bins := make([]Bin, len(edges)-1)
	for i := range bins {
		bins[i] = Bin{From: edges[i], To: edges[i+1]}
	}
	for _, v := range values {
		i, exact := slices.BinarySearch(edges, float64(v.Value)/unit)
		if !exact {
			i--
		}
		i = min(max(0, i), len(bins)-1)
		bins[i].Count += v.Count
	}
	some := func(b Bin) bool { return b.Count > 0 }
	from := max(0, slices.IndexFunc(bins, some))
	to := len(bins)
	for to > from && !some(bins[to-1]) {
		to--
	}
	return bins[from:to]
}

// powersOfTwo is 1, 2, 4, … beyond the longest lengths of a trace.
func powersOfTwo() []float64 {
	edges := make([]float64, 32)
	for i := range edges {
		edges[i] = math.Exp2(float64(i))
	}
	return edges
}

// oneThreeTen is 0, then 1, 3, 10, 30, … times the unit.
func oneThreeTen(unit float64, steps int) []float64 {
	edges := []float64{0}
	for i := range steps {
		digit := float64(1 + 2*(i%2))
		edges = append(edges, unit*math.Pow(10, float64(i/2))*digit)
	}
	return edges
}

// findings lists what people should know, the worst first.
func findings(r *Report, t *trace.Trace, o Options) []Finding {
	lint := &t.Lint
	all := []Finding{}
	add := func(s Severity, text string) {
		all = append(all, Finding{s, text})
	}
	for _, f := range lint.Refusals {
		add(Refusal, placed(f))
	}
	badRows(lint, o.Read, add)
	corrected := *lint
	corrected.Dropped = 0
	corrected.Faults = nil // are listed above
	for _, note := range format.Present(append(corrected.Notes(), t.ModelsNote())...) {
		add(Note, note)
	}
	for _, head := range t.Heads {
		add(Note, head.String())
	}
	if b := r.Blocks; b != nil && b.TwoLengths > 0 {
		add(Note, number(b.TwoLengths, "id stands", "ids stand")+" for different numbers of tokens in different "+
			"places: a shorter block counts as the beginning of the longer one")
	}
	if b := r.Blocks; b != nil && b.ManyBefore > 0 {
		add(Note, number(b.ManyBefore, "id follows", "ids follow")+" different ids: the ids name contents, not "+
			"prefixes, and a block hits only behind the same blocks")
	}
	if o.Instances > 0 && r.Blocks == nil {
		add(Note, "no block ids, so routers cannot be compared")
	}
	if c := r.Context; c != nil && c.RowsOver > 0 {
		add(Note, fmt.Sprintf("%s more than %s tokens of input and output, the first is row %d (from 0): a "+
			"server with that --max-model-len refuses such requests",
			number(c.RowsOver, "row needs", "rows need"), format.Count(c.MaxModelLen), *c.FirstRow))
	}
	return all
}

// badRows lists the rows that were left out, and how to go on without them.
func badRows(lint *trace.Lint, o trace.Options, add func(Severity, string)) {
	if lint.Dropped == 0 {
		return
	}
	severity := Refusal
	rest := " be replayed; correct the file, or leave out with --bad-rows drop what is left out here"
	if o.Lenient {
		severity = Note
		rest = " be replayed; left out"
	}
	add(severity, number(int64(lint.Dropped), "bad row cannot", "bad rows cannot")+rest)
	for _, f := range lint.Faults {
		add(BadRow, placed(f))
	}
	if more := lint.Dropped - len(lint.Faults); more > 0 {
		add(BadRow, "… and "+format.Count(more)+" more")
	}
}

// placed is a fault without the file's name, which stands above.
func placed(f trace.Fault) string {
	text := f.What
	if f.Line > 0 {
		text = fmt.Sprintf("line %d: %s", f.Line, text)
	}
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return text
}

func number(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return format.Count(n) + " " + many
}
