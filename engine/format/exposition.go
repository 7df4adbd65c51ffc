package format

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Exposition gathers metrics in Prometheus' text format, version 0.0.4. With gauges alone and "# EOF" at its end it is
// OpenMetrics, version 1.0.0, too.
type Exposition struct{ strings.Builder }

// Head begins a metric and returns its whole name. Without a kind it is a counter if it ends with _total, else a gauge.
func (e *Exposition) Head(name, kind, help string) string {
	name = "fastreplay_" + name
	if kind == "" {
		kind = "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
	}
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
	return name
}

// Value appends a sample, unless it is NaN; labels are names and values in turn.
func (e *Exposition) Value(name string, v float64, labels ...string) {
	if math.IsNaN(v) {
		return
	}
	e.WriteString(name)
	separator := "{"
	for pair := range slices.Chunk(labels, 2) { // what is visible needs no other escapes than Prometheus has
		e.WriteString(separator + pair[0] + "=" + strconv.QuoteToGraphic(Visible(pair[1])))
		separator = ","
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	fmt.Fprintln(e, "", strconv.FormatFloat(v, 'g', -1, 64))
}
