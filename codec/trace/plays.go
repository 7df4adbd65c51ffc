package trace

import (
	"fmt"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// Plays describes the requests of plays. A play is one run through a job.
type Plays struct {
	Source       []int32 // request i is a copy of this request
	Again        []int32 // how often its job was played before
	ArrivalNS    []int64 // ascending
	OutputTokens []int32
	// Markers are the ids of blocks that stand before the prompts, each as long as any block. The requests of a play
	// have one marker. Nil = none.
	Markers []uint64
}

// Plays returns the trace of plays of t's jobs. Jobs, sessions and chats are those of one play: their names get a tail,
// such as "a~2". Other block ids than markers are the recorded ones, so their content is held once for all plays.
func (t *Trace) Plays(p Plays) (*Trace, error) {
	out := t.cloned(p.Source, p.Again, p.ArrivalNS)
	out.OutputTokens = slices.Clone(p.OutputTokens)
	again := slices.Max(append([]int32{0}, p.Again...))
	if err := out.copySessions(t, p.Source, again); err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	if p.Markers == nil {
		out.ids = *t.ids.ChooseWhole(p.Source)
		return out, nil
	}
	out.ids = lists.Store[uint64]{}
	type agent struct {
		marker  uint64
		session int64
	}
	latest := map[agent]int{}
	var ids []uint64
	for i, from := range p.Source {
		ids = append(append(ids[:0], p.Markers[i]), t.Blocks(int(from))...)
		of := agent{marker: p.Markers[i]}
		if out.Session != nil {
			of.session = out.Session[i]
		}
		before, known := latest[of]
		if !known {
			before = -1
		}
		out.ids.AddShared(ids, before)
		latest[of] = i
		out.InputTokens[i] += int32(t.BlockTokens)
	}
	return out, nil
}
