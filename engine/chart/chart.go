// Package chart draws numbers: of blocks for a terminal, and as the graphs of our HTML pages, whose style and frame it has. It
// has no notion of what they mean.
package chart

import (
	"math"
	"slices"
	"strings"
)

// Bar draws a share 0..1 of so many cells of a terminal, in eighths of a cell; anything above 0 is seen.
func Bar(share float64, cells int) string {
	n := eighths(share, cells)
	return strings.Repeat("█", n/8) + strings.TrimSpace(string([]rune(" ▏▎▍▌▋▊▉")[n%8]))
}

// Skyline draws counts as columns of that many lines of a terminal, the highest first.
func Skyline(counts []int64, lines int) []string {
	most := max(1, slices.Max(counts))
	drawn := make([]string, lines)
	for line := range drawn {
		for _, count := range counts {
			n := eighths(float64(count)/float64(most), lines) - 8*(lines-1-line)
			drawn[line] += string([]rune(" ▁▂▃▄▅▆▇█")[min(8, max(0, n))])
		}
	}
	return drawn
}

// eighths of so many cells are a share of them; at least one for anything above 0.
func eighths(share float64, cells int) int {
	n := int(math.Round(share * float64(8*cells)))
	if share > 0 {
		n = max(1, n)
	}
	return n
}
