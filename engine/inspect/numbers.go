package inspect

import (
	"math"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
)

// absent stands where a trace does not have what a number is about.
const absent = "–"

func whole(v float64) string { return format.Fixed(v, 0) }

// tokens prints a number of tokens: whole numbers whole, means with two decimals.
func tokens(v float64) string {
	if v == math.Trunc(v) {
		return whole(v)
	}
	return format.Fixed(v, 2)
}

// duration prints seconds in the unit that fits: milliseconds up to days.
func duration(s float64) string {
	const minute, hour, day = 60, 3600, 86400
	switch abs := math.Abs(s); {
	case s == 0:
		return "0 s"
	case abs < 119.5:
		return format.Duration(s*1e9, 3)
	case abs < 99.5*minute:
		return format.Number(s/minute, 3) + " min"
	case abs < 47.5*hour:
		return format.Number(s/hour, 3) + " h"
	default:
		return format.Number(s/day, 3) + " d"
	}
}

// inUnit prints seconds in the unit of the trace's timestamps, to the last digit that it can have.
func inUnit(s float64, unit string) string {
	scale := map[string]float64{"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1}[unit]
	text := format.Fixed(s*scale, 3)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " " + unit
}

// rate prints rows per second, or per hour where those are few.
func rate(perSecond float64) string {
	if perSecond < 0.01 {
		return format.Number(3600*perSecond, 3) + " rows/h"
	}
	return format.Rate(perSecond) + " rows/s"
}

// variation prints a coefficient of variation.
func variation(v float64) string { return format.Number(v, 3) }

// optional prints what may not be there.
func optional[T any](v *T, print func(T) string) string {
	if v == nil {
		return absent
	}
	return print(*v)
}

func count(n int64) string { return format.Count(n) }
