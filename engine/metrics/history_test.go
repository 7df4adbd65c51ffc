package metrics

import (
	"reflect"
	"testing"
)

func TestHistoryNotes(t *testing.T) {
	for _, c := range []struct {
		h    *History
		want []string
	}{
		{nil, nil},
		{&History{Turns: 5, Live: 5}, nil},
		{&History{Turns: 9, Live: 2, Partly: 3, Recorded: 4, Why: HistoryGaps{Late: 1, Failed: 2, NoText: 1, Tools: 2, Apart: 1}}, []string{
			"live history: 7 of 9 follow-up turns were sent with what the file has in place of an answer: 1 left before an earlier turn had ended " +
				"(--sessions gated or think wait for it), 2 follow one that failed, 1 follow an answer without text, 2 follow a tool call, " +
				"1 do not begin with the messages of a turn before"}},
	} {
		if got := historyNotes(c.h); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v\ngot  %q\nwant %q", c.h, got, c.want)
		}
	}
}
