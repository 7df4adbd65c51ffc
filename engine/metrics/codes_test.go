package metrics

import (
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestCodes: what each code is about, by lists that are written by hand.
func TestCodes(t *testing.T) {
	machine := []Code{LateSending, LateReading, Starved, ClientFailures}
	unseen := []Code{NoSummary, Unwritten, ClientFailures, Starved, ShortRows, Refused, LateReading, Models}
	for _, code := range []Code{
		SenderDied, Interrupted, Unaccounted, Unwritten, NothingOK, ClientFailures, SentEarly, Starved, Prompts, ShortRows,
		WrongAnswers, CutShort, Warm, Refused, LateSending, LateReading, NoSummary, Records, LostShards,
		Models, EmptyFirst,
	} {
		client := slices.Contains(machine, code) || code == SentEarly || code == SenderDied
		ending := code == Interrupted || code == NoSummary || code == NothingOK
		want := CodeTraits{slices.Contains(machine, code), client, slices.Contains(unseen, code), ending}
		expect.Equal(t, code.Traits(), want, code)
	}
}
