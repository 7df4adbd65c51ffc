package capacity

import (
	"reflect"
	"strings"
	"testing"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	want := []Outcome{
		{Probe: Probe{1, 1}, Slices: []Slice{{3, 1, []int64{2, 0}, 0.1}}, SliceS: 0.5, Verdict: Holds, Why: "all is well", SpentS: 12.3, Numbers: map[string]float64{"ttft.p95": 1.1}},
		{Probe: Probe{2, 3.417}, Verdict: Edge, Cut: true, Client: "its CPU was busy"},
		{Probe: Probe{3, 1e-3}, Verdict: Breaks, Limiter: "TTFT on instance 2", Directory: "probe-3"},
	}
	var journal []byte
	ends := []int{0}
	for _, o := range want {
		var err error
		if journal, err = AppendOutcome(journal, o); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(journal))
	}
	lines := 0
	for length := range len(journal) + 1 { // killed after any byte
		if length == ends[min(lines+1, len(want))] {
			lines = min(lines+1, len(want))
		}
		got, whole, err := ReadOutcomes(journal[:length])
		if err != nil || whole != ends[lines] || len(got) != lines || lines > 0 && !reflect.DeepEqual(got, want[:lines]) {
			t.Fatalf("of %d bytes: got %+v, %d, %v; want %d outcomes of %d bytes", length, got, whole, err, lines, ends[lines])
		}
	}
	for text, want := range map[string]string{
		"{\"number\":1}\n{]\n{\"number\":3}\n": "line 2",
		"{\"number\":2}\n":                     "line 1 has the outcome of probe 2",
	} {
		if _, _, err := ReadOutcomes([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if got, whole, err := ReadOutcomes([]byte("{\"number\":1}\n\x00\x00\n")); len(got) != 1 || whole != 13 || err != nil {
		t.Errorf("a last line that makes no sense: got %v, %d, %v; want the one before it", got, whole, err)
	}
}
