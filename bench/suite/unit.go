package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is what the values of a measure are counted in.
type unit string

const (
	nanoseconds unit = "ns"
	bytes       unit = "B"
	bytesPerS   unit = "B/s"
	perSecond   unit = "/s"
	ratio       unit = "ratio"
	count       unit = "count"
)

// scale is a prefix of a unit: values from `from` on are divided by it.
type scale struct {
	from float64
	name string
}

func scales(u unit) []scale {
	switch u {
	case nanoseconds:
		return []scale{{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}, {1, " ns"}}
	case bytes:
		return []scale{{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}, {1, " B"}}
	case bytesPerS:
		return []scale{{1e9, " GB/s"}, {1e6, " MB/s"}, {1e3, " kB/s"}, {1, " B/s"}}
	case perSecond:
		return []scale{{1e6, "M/s"}, {1, "/s"}}
	case ratio:
		return []scale{{1, "×"}}
	}
	return []scale{{1, ""}}
}

// scaleFor is the prefix in which v is written.
func scaleFor(u unit, v float64) scale {
	all := scales(u)
	for _, s := range all {
		if math.Abs(v) >= s.from {
			return s
		}
	}
	return all[len(all)-1]
}

// text writes v with its unit.
func (u unit) text(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	s := scaleFor(u, v)
	return number(v/s.from) + s.name
}

// spread writes a median with smallest and largest value, all in the median's prefix.
func (u unit) spread(s spread) string {
	if math.IsNaN(s.Median) {
		return "–"
	}
	p := scaleFor(u, s.Median)
	if s.Min == s.Max {
		return u.text(s.Median)
	}
	return fmt.Sprintf("%s%s (%s–%s)", number(s.Median/p.from), p.name, number(s.Min/p.from), number(s.Max/p.from))
}

// number writes three significant digits, whole numbers with separators.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100 || v == math.Trunc(v):
		return grouped(int64(math.Round(v)))
	case a < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// grouped writes an integer with a comma every three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}
