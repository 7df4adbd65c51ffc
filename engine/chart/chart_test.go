package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestDrawing: a picture is well-formed, and values lie where they must.
func TestDrawing(t *testing.T) {
	d := New(200, func(v float64) string { return fmt.Sprint(v) })
	d.Ends("6 s")
	d.Mark(0.5, "half")
	d.Bar("bar", 0, 2, 200, "a title")
	values := []float64{0, 200}
	d.Line("first", 2, func(i int) (float64, *float64) { return float64(i), &values[i] })
	d.Line("second", 0, nil)
	f := d.Figure("a", "b", "c")
	text := string(f.SVG)
	for r := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := r.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
	for _, want := range []string{
		`viewBox="0 0 480 200"`, ">0</text>", ">100</text>", ">200</text>", `text-anchor="end">6 s</text>`, `text-anchor="middle">half</text>`,
		`<rect class="bar" x="52.5" y="10.0" width="206.0" height="166.0"><title>a title</title></rect>`,
		`<polyline class="first" points="52.0,176.0 466.0,10.0 "/>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "second") {
		t.Error("a line without points")
	}
}

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
		d := New(2, func(float64) string { return "" })
		d.Line("first", len(c.values), func(i int) (float64, *float64) { return float64(i) / 10, c.values[i] })
		lines := strings.Split(string(d.Figure("").SVG), "<polyline ")[1:]
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

// TestBlocks: what is above 0 is seen, and the highest fills its cells.
func TestBlocks(t *testing.T) {
	for share, want := range map[float64]string{0: "", 0.0001: "▏", 0.25: "█", 0.3: "█▎", 1: "████"} {
		if got := Bar(share, 4); got != want {
			t.Errorf("Bar(%v) = %q, want %q", share, got, want)
		}
	}
	if got := Skyline([]int64{0, 1, 50, 100}, 2); got[0] != "   █" || got[1] != " ▁██" {
		t.Errorf("Skyline: %q", got)
	}
}
