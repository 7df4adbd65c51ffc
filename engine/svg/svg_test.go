package svg

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestDrawing: a picture is well-formed, and shares of its axes lie where they must.
func TestDrawing(t *testing.T) {
	d := New()
	d.Scale(func(share float64) string { return fmt.Sprint(100 * share) })
	d.Below(1, "end", "6 s")
	d.Bar("bar", 0, 0.5, 1, "a title")
	d.Line("first", [][2]float64{{0, 0}, {1, 1}})
	d.Line("second", nil)
	text := d.Close()
	for r := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := r.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
	for _, want := range []string{
		`viewBox="0 0 480 200"`, ">0</text>", ">50</text>", ">100</text>", `text-anchor="end">6 s</text>`,
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
