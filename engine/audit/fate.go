package audit

import "github.com/fastreplay/fastreplay/codec/record"

// Fate is what the examinations of a run need of a request: an eighth of its record. Instants and numbers of tokens are
// as those of a record. It has no pointers, since the collector would look through millions of them. With a million
// fates it would first touch memory that is written later, which costs 10 µs a page.
type Fate struct {
	Profiled bool // it is no primer, and no warm-up
	Outcome  record.Outcome
	Status   int16
	Told     bool  // see record.Record.ToldUsage
	instance int32 // who answered, by Names

	PlannedNS    int64
	SentNS       int64
	BegunNS      int64 // it was sent, or written if that came later
	HeadersNS    int64
	FirstTokenNS int64
	EndNS        int64 // the last instant of its answer

	PromptTokens         int64
	CompletionTokens     int64
	CachedTokens         int64
	ExpectedCachedTokens int64
	MostCachedTokens     int64
}

// Names are those of the instances of a run's fates.
type Names struct {
	numbers map[string]int32
	list    []string // by number
}

// FateOf is the fate of a request that has ended.
func (n *Names) FateOf(r *record.Record) Fate {
	instance, known := n.numbers[r.Instance]
	if !known {
		if n.numbers == nil {
			n.numbers = map[string]int32{}
		}
		instance = int32(len(n.list))
		n.numbers[r.Instance] = instance
		n.list = append(n.list, r.Instance)
	}
	return Fate{
		Profiled: r.Phase == record.Profiled,
		Outcome:  r.Outcome,
		Status:   int16(max(0, r.Status)),
		Told:     r.ToldUsage(),
		instance: instance,

		PlannedNS:    r.PlannedNS,
		SentNS:       r.SentNS,
		BegunNS:      max(r.SentNS, r.WrittenNS),
		HeadersNS:    r.HeadersNS,
		FirstTokenNS: r.FirstTokenNS,
		EndNS:        max(r.HeadersNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS),

		PromptTokens:         r.PromptTokens,
		CompletionTokens:     r.CompletionTokens,
		CachedTokens:         r.CachedTokens,
		ExpectedCachedTokens: r.ExpectedCachedTokens,
		MostCachedTokens:     r.MostCachedTokens,
	}
}
