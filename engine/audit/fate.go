package audit

import "github.com/fastreplay/fastreplay/codec/record"

// Fate is what the examinations of a run need of a request: a sixth of its record. Instants and numbers of tokens are
// as those of a record.
type Fate struct {
	Phase    record.Phase
	Outcome  record.Outcome
	Status   int16
	Told     bool   // see record.Record.ToldUsage
	Instance string // who answered

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

// FateOf is the fate of a request that has ended.
func FateOf(r *record.Record) Fate {
	return Fate{
		Phase:    r.Phase,
		Outcome:  r.Outcome,
		Status:   int16(max(0, r.Status)),
		Told:     r.ToldUsage(),
		Instance: r.Instance,

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
