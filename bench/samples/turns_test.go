package samples_test

import (
	"testing"

	"github.com/fastreplay/fastreplay/bench/samples"
	"github.com/fastreplay/fastreplay/codec/trace"
)

func TestTurns(t *testing.T) {
	for path, c := range map[string]struct {
		made     []byte
		format   string
		rows     int
		messages int // rows with the messages of a chat; the rest is text
		answers  int
		left     int
	}{
		"single_turn.jsonl": {made: samples.SingleTurn(), format: "single_turn", rows: 150, messages: 30},
		"multi_turn.jsonl":  {made: samples.MultiTurn(), format: "multi_turn", rows: 100, messages: 100, answers: 100},
		"sharegpt.json":     {made: samples.ShareGPT(), format: "sharegpt", rows: 162, messages: 162, answers: 162, left: 3},
	} {
		checkFile(t, path, c.made)
		tr, err := trace.Open(path, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		messages, answers := 0, 0
		for i := range tr.Len() {
			if tr.Verbatim(i).Kind == trace.VerbatimMessages {
				messages++
			}
			if tr.Answer(i) != nil {
				answers++
			}
		}
		if tr.Format != c.format || tr.Len() != c.rows || tr.Verbatims() != c.rows || messages != c.messages || answers != c.answers || tr.Lint.Unanswered != c.left || tr.Untimed != (c.format == "sharegpt") || tr.SpanNS() > 8e9 {
			t.Errorf("%s: %s, %d rows, %d verbatim, %d messages, %d answers, %d left out, untimed %v, %d ns", path, tr.Format, tr.Len(), tr.Verbatims(), messages, answers, tr.Lint.Unanswered, tr.Untimed, tr.SpanNS())
		}
	}
}
