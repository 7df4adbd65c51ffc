package report

import (
	"strings"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// aligned prints ns with its unit two columns wide, so that columns of
// numbers align.
func aligned(ns float64, digits int) string {
	text := human.Duration(ns, digits)
	if strings.HasSuffix(text, " s") {
		text += " "
	}
	return text
}

// seconds prints s seconds in the unit that fits.
func seconds(s float64) string { return human.Duration(s*1e9, 3) }

func count(n int64, what string) string { return human.Count(n) + " " + what }

// some is count, or "" for none.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return count(n, what)
}

func hits(ratio *float64, what string) string {
	if ratio == nil {
		return what + " unknown"
	}
	return human.Percent(*ratio) + " " + what
}
