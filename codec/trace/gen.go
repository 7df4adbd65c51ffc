package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/formats"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Gen describes a trace to be made. ArrivalNS, InputTokens and OutputTokens must be given; the zero values of the rest
// stand for those of [DefaultGen].
type Gen struct {
	Format      string  // a name of [Written]
	ArrivalNS   []int64 // of each request, ascending from 0
	Burst       int     // of every BurstEvery requests the first Burst share one instant; 0 = no bursts
	BurstEvery  int
	BlockTokens int // tokens a block; 0 = the format's own

	InputTokens  Lengths // tokens of a conversation's first prompt; the longest possible bounds later prompts too
	OutputTokens Lengths // tokens to generate
	// Reuse is the wanted share of blocks that an earlier request had already, 0..1. Each prompt reuses as much of its
	// beginning as brings the share so far there; it falls short where the structure below offers less.
	Reuse float64

	Turns      Range // requests a conversation has
	TurnTokens Range // tokens that a later turn adds to prompt and answer of the turn before
	Active     int   // conversations going on at once; 0 = one for every eight rows
	// tokens with which all conversations begin; 0 = a conversation may begin like any earlier one
	SystemTokens int
	Types        []string // of conversations, in formats that have types

	Seed uint64 // equal descriptions with equal seeds make equal traces
}

// DefaultGen describes unrelated requests of middling length.
func DefaultGen() Gen {
	return Gen{
		Format:       formats.Default,
		InputTokens:  Range{256, 4096},
		OutputTokens: Range{16, 256},
		Turns:        Range{1, 1},
		TurnTokens:   Range{16, 256},
		Types:        []string{"text"},
	}
}

// withDefaults fills in the zero values and checks the rest.
func (g Gen) withDefaults() (Gen, *formats.Format, error) {
	usual := DefaultGen()
	g.Format = cmp.Or(g.Format, usual.Format)
	f, err := formats.ToWrite(g.Format)
	if err != nil {
		return g, nil, err
	}
	g.BlockTokens = cmp.Or(g.BlockTokens, f.BlockTokens)
	g.Turns = cmp.Or(g.Turns, usual.Turns)
	g.TurnTokens = cmp.Or(g.TurnTokens, usual.TurnTokens)
	g.Active = cmp.Or(g.Active, max(1, len(g.ArrivalNS)/8))
	if g.Types == nil {
		g.Types = usual.Types
	}
	if err := g.check(f); err != nil {
		return g, nil, fmt.Errorf("generating a trace: %w", err)
	}
	return g, f, nil
}

// check refuses what makes no sense, or what the format has no place for.
func (g *Gen) check(f *formats.Format) error {
	switch {
	case len(g.ArrivalNS) < 1 || len(g.ArrivalNS) > math.MaxInt32:
		return fmt.Errorf("%d rows; at least 1 is needed", len(g.ArrivalNS))
	case g.ArrivalNS[0] != 0 || !slices.IsSorted(g.ArrivalNS):
		return errors.New("instants that do not ascend from 0")
	case g.InputTokens == nil || g.OutputTokens == nil:
		return errors.New("no lengths")
	case g.Burst < 0 || g.Burst > g.BurstEvery:
		return fmt.Errorf("bursts of %d in every %d requests", g.Burst, g.BurstEvery)
	case g.BlockTokens < 1 || g.BlockTokens > rows.MaxTokens:
		return fmt.Errorf("%d tokens a block; it must be from 1 to %d", g.BlockTokens, rows.MaxTokens)
	case !(g.Reuse >= 0 && g.Reuse <= 1):
		return fmt.Errorf("a reuse of %v; it is a share from 0 to 1", g.Reuse)
	case g.Active < 1 || g.SystemTokens < 0 || g.SystemTokens > rows.MaxTokens:
		return fmt.Errorf("%d conversations at once, %d system tokens", g.Active, g.SystemTokens)
	case len(g.Types) == 0 || len(g.Types) > math.MaxUint16:
		return errors.New("no types, or too many")
	case (g.Reuse > 0 || g.SystemTokens > 0) && !f.HasBlocks():
		return fmt.Errorf("%s has no block ids, so that no prompt can reuse another's; leave out the reuse and "+
			"the system tokens", f.Name)
	}
	return errors.Join(
		g.InputTokens.check("input tokens", rows.MaxTokens),
		g.OutputTokens.check("output tokens", rows.MaxTokens),
		g.Turns.check("turns", math.MaxInt32),
		g.TurnTokens.check("tokens a turn", rows.MaxTokens),
	)
}

// Generate makes a trace. It is the same on every machine for the same description.
func Generate(g Gen) (*Trace, error) {
	g, f, err := g.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Trace{
		Name:        "generated",
		Format:      f.Name,
		TimeUnit:    f.Unit,
		BlockTokens: g.BlockTokens,
		FileRows:    len(g.ArrivalNS),
		ArrivalNS:   g.bursts(),
	}
	m := &maker{g: g, rng: rand.NewPCG(g.Seed, 1)}
	for i := range g.ArrivalNS {
		c := m.pick()
		m.extend(c)
		t.Row = append(t.Row, int32(i))
		t.InputTokens = append(t.InputTokens, int32(c.tokens))
		t.OutputTokens = append(t.OutputTokens, int32(c.output))
		if !f.HasBlocks() {
			c.ids = nil
		}
		t.ids.Add(c.ids)
		if f.Has(rows.TypeField) || f.Conversations() && g.Turns.Max > 1 {
			t.addTurn(c, int64(i))
		}
		c.chat = int64(i)
	}
	if f.Has(rows.TypeField) {
		t.Types = g.Types
	} else {
		t.Type = nil
	}
	return t, nil
}

// addTurn appends to the columns of conversations.
func (t *Trace) addTurn(c *conversation, chat int64) {
	if c.turn == 1 {
		c.root = chat
	}
	t.Session = append(t.Session, c.root)
	t.Turn = append(t.Turn, int32(c.turn))
	t.Chat = append(t.Chat, chat)
	t.Parent = append(t.Parent, c.chat)
	t.Type = append(t.Type, c.kind)
}

// bursts are the instants with bursts.
func (g *Gen) bursts() []int64 {
	at := slices.Clone(g.ArrivalNS)
	for i := range at {
		place := i % max(1, g.BurstEvery)
		if place < g.Burst {
			at[i] = at[i-place]
		}
	}
	return at
}

// Lengths is how numbers of tokens are distributed: a Range or a Lognormal. What is drawn must not change with Go's
// releases, so it is made of the generator's bits.
type Lengths interface {
	draw(rng *rand.PCG) int
	longest() int
	check(what string, most int) error
}

// Range is the whole numbers from Min to Max, both included; each is equally likely.
type Range struct{ Min, Max int }

func (r Range) draw(rng *rand.PCG) int {
	high, _ := bits.Mul64(rng.Uint64(), uint64(r.Max-r.Min)+1)
	return r.Min + int(high)
}

func (r Range) longest() int { return r.Max }

func (r Range) check(what string, most int) error {
	if r.Min < 1 || r.Max < r.Min || r.Max > most {
		return fmt.Errorf("%s from %d to %d; the range must lie within 1 to %d", what, r.Min, r.Max, most)
	}
	return nil
}

// Lognormal is whole numbers whose logarithm is normal: many short ones and a long tail, as prompts have. Mean and
// StdDev are those of the numbers themselves, before what lies outside 1 to Max is drawn again.
type Lognormal struct {
	Mean, StdDev float64
	Max          int
}

func (l Lognormal) draw(rng *rand.PCG) int {
	variance := math.Log1p(l.StdDev / l.Mean * (l.StdDev / l.Mean))
	middle := math.Log(l.Mean) - variance/2
	for {
		u := (float64(rng.Uint64()>>12) + 0.5) / (1 << 52) // inside (0, 1)
		x := math.Exp(middle + math.Sqrt(variance)*math.Sqrt2*math.Erfinv(2*u-1))
		if x >= 0.5 && x < float64(l.Max)+0.5 {
			return int(math.Round(x))
		}
	}
}

func (l Lognormal) longest() int { return l.Max }

// check asks the mean to lie within the bounds, so that a draw is not repeated for long.
func (l Lognormal) check(what string, most int) error {
	switch {
	case !(l.Mean >= 1 && l.Mean <= float64(l.Max)):
		return fmt.Errorf("%s of mean %v; want 1 up to the longest, %d", what, l.Mean, l.Max)
	case !(l.StdDev >= 0 && l.StdDev <= 10*l.Mean):
		return fmt.Errorf("%s of standard deviation %v; want 0 to ten times the mean", what, l.StdDev)
	case l.Max > most:
		return fmt.Errorf("%s up to %d; want %d at most", what, l.Max, most)
	}
	return nil
}
