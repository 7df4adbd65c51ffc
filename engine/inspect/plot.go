package inspect

import (
	"math"
	"slices"
	"strings"
)

// bar draws a share 0..1 of so many cells, in eighths of a cell; anything above 0 is seen.
func bar(share float64, cells int) string {
	eighths := int(math.Round(share * float64(8*cells)))
	if share > 0 {
		eighths = max(1, eighths)
	}
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// skyline draws counts as columns of that many lines, the highest first.
func skyline(counts []int64, lines int) []string {
	most := max(1, slices.Max(counts))
	drawn := make([]string, lines)
	for line := range drawn {
		var b strings.Builder
		for _, n := range counts {
			eighths := int(math.Round(float64(n) / float64(most) * float64(8*lines)))
			if n > 0 {
				eighths = max(1, eighths)
			}
			b.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[min(8, max(0, eighths-8*(lines-1-line)))])
		}
		drawn[line] = b.String()
	}
	return drawn
}

// mostOf is the highest count, at least 1.
func mostOf(bins []Bin) int64 {
	most := int64(1)
	for _, b := range bins {
		most = max(most, b.Count)
	}
	return most
}
