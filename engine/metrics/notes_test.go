package metrics

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestAddNotes: a code stands at the place of its text, also behind notes of a version that had no codes.
func TestAddNotes(t *testing.T) {
	s := &Summary{Notes: []string{"old one", "old two"}}
	own := s.Notes[:1:2]
	s.AddNotes(2, NotesOf("last", "%d %%", 5))
	var notes Notes
	notes.Add(false, "none", "left out")
	notes.Add(true, "first", "one")
	notes.Add(true, "second", "two")
	s.AddNotes(1, notes)
	expect.List(t, s.Notes, []string{"old one", "one", "two", "old two", "5 %"}, "texts")
	expect.List(t, s.NoteCodes, []string{"", "first", "second", "", "last"}, "codes")
	expect.Equal(t, own[:2][1], "old two", "the caller's notes")
	empty := new(Summary)
	empty.AddNotes(0, nil)
	if empty.Notes == nil || empty.NoteCodes == nil {
		t.Error("no notes are null in JSON")
	}
}

// TestFailedWhere: one way to fail is all, one that is more than half is most, and of others the counts are said.
func TestFailedWhere(t *testing.T) {
	of := func(counts ...int64) *Summary {
		s := new(Summary)
		for i, n := range counts {
			s.Requests.Failed += n
			s.Requests.Failures = append(s.Requests.Failures, Failure{Outcome: string(rune('a' + i)), Count: n})
		}
		return s
	}
	for want, s := range map[string]*Summary{
		"": of(), "all by a": of(150), "most by a (3 of 5)": of(3, 2), "1 by a, 1 by b": of(1, 1), "1 by a, 1 by b, 1 by c": of(1, 1, 1),
		"2 by a, 1 by b, 1 by c, 2 further ways": of(2, 1, 1, 1, 1),
	} {
		expect.Equal(t, s.FailedWhere(), want)
	}
	refused := Outage{Target: "http://d", Requests: 150, Failed: 150, Outcome: "connect_error"}
	for alike, want := range map[int64]string{150: ", all by connect_error)", 149: ", most by connect_error)", 0: ", most by connect_error)"} {
		refused.Alike = alike
		expect.Contains(t, refused.Words(), want)
	}
}

// TestTrendWords: small changes are in percent, large ones are factors.
func TestTrendWords(t *testing.T) {
	for _, test := range []struct {
		first, last float64
		want        string
	}{
		{10, 13, "TTFT p50 rose by 30 %"},
		{13, 10, "TTFT p50 fell by 23 %"},
		{10, 25, "TTFT p50 rose by a factor of 2.50"},
		{25.6, 8842, "TTFT p50 rose by a factor of 345"},
		{8842, 25.6, "TTFT p50 fell by a factor of 345"},
	} {
		trend := Trend{Quantity: "ttft", First: test.first, Last: test.last}
		expect.Equal(t, trend.Short(), test.want, "%v to %v", test.first, test.last)
	}
	trend := Trend{Quantity: "ttft", First: 10, Last: 13,
		Load: map[string]float64{"prompt_tokens": 2.4, "requests_per_s": 0.4}}
	if got := trend.Words(); !strings.HasSuffix(got, "(prompt tokens × 3.40, requests/s +40 %)") {
		t.Errorf("words of a load: %q", got)
	}
	trend.Last = 1
	if got := trend.Words(); strings.Contains(got, "the load changed") {
		t.Errorf("a load that grew made it faster: %q", got)
	}
}
