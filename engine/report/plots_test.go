package report

import (
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/engine/svg"
)

// TestGaps: a line ends where a value is missing, and a value alone can be seen.
func TestGaps(t *testing.T) {
	one, two := 1.0, 2.0
	for _, c := range []struct {
		name   string
		values []*float64
		want   []int // points of each line
	}{
		{"whole", []*float64{&one, &two, &one}, []int{3}},
		{"a gap", []*float64{&one, &two, nil, nil, &two, &one}, []int{2, 2}},
		{"gaps at the ends", []*float64{nil, &one, &two, nil}, []int{2}},
		{"alone", []*float64{&one, nil, &two}, []int{2, 2}},
		{"nothing", []*float64{nil, nil}, nil},
	} {
		d := svg.New()
		drawSeries(d, "first", len(c.values), func(i int) float64 { return float64(i) / 10 }, 2, func(i int) *float64 { return c.values[i] })
		lines := strings.Split(d.Close(), "<polyline ")[1:]
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d lines, want %d", c.name, len(lines), len(c.want))
			continue
		}
		for i, line := range lines {
			if n := strings.Count(line, ","); n != c.want[i] {
				t.Errorf("%s: line %d has %d points, want %d", c.name, i, n, c.want[i])
			}
		}
	}
}
