package report

import (
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// aligned prints ns with its unit two columns wide, so that columns of
// numbers align.
func aligned(ns float64, digits int) string {
	text := format.Duration(ns, digits)
	if strings.HasSuffix(text, " s") {
		text += " "
	}
	return text
}

// seconds prints s seconds in the unit that fits.
func seconds(s float64) string { return format.Duration(s*1e9, 3) }

func count(n int64, what string) string { return format.Count(n) + " " + what }

// some is count, or "" for none.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return count(n, what)
}

// known prints a value and what it is, or "" where there is none.
func known(print func(float64) string, v *float64, what string) string {
	if v == nil {
		return ""
	}
	return print(*v) + " " + what
}

// spread prints some of a distribution in units of unitNS, what before the first; nothing where there is none.
func spread(what string, q *stats.Percentiles, unitNS float64, names ...string) (parts []string) {
	if q == nil {
		return nil
	}
	at := map[string]float64{"p50": q.P50, "p99": q.P99, "max": q.Max}
	for _, name := range names {
		parts = append(parts, what+name+" "+format.Duration(at[name]*unitNS, 3))
		what = ""
	}
	return parts
}

func hits(ratio *float64, what string) string {
	if ratio == nil {
		return what + " unknown"
	}
	return format.Percent(*ratio) + " " + what
}
