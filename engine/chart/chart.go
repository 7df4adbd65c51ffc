// Package chart draws numbers: of blocks for a terminal, and as the graphs of our HTML pages, whose style and frame it
// has. It has no notion of what they mean.
//
// The package is not an API: any release may change it.
package chart

import (
	"math"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/engine/format"
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

// Sample is values in rising order, and how many each stands for.
type Sample struct {
	Name       string
	At, Counts []float64
}

// size is how many values there are.
func (s *Sample) size() (n float64) {
	for _, count := range s.Counts {
		n += count
	}
	return n
}

// Distributions draws a sample as bars, with the share of values up to the end of each. Of several, which share the
// bars, it draws a line each, and a second graph with the shares up to each. Whole values have bars of whole numbers.
func Distributions(title, unit string, whole bool, samples []Sample) []Graph {
	samples = slices.DeleteFunc(samples, func(s Sample) bool {
		return s.size() <= 1
	})
	if len(samples) == 0 {
		return nil
	}
	edges, log := edgesOf(samples, whole, unit == "ratio")
	n := len(edges) - 1
	g := Graph{Title: title, X: Axis{
		Label: "between",
		Unit:  unit,
		Log:   log,
		From:  &edges[0],
		To:    &edges[n],
	}}
	if g.X.Step = edges[1] - edges[0]; log {
		g.X.Step = edges[1] / edges[0]
	}
	for i := range n {
		at := (edges[i] + edges[i+1]) / 2
		if log {
			at = math.Sqrt(edges[i] * edges[i+1])
		}
		g.At = append(g.At, at)
	}
	soFar := g
	var zeros []string
	for _, s := range samples {
		counts := make(Values, n)
		up := make(Values, n)
		size := s.size()
		sum := 0.0
		for i, v := range s.At {
			if log && v <= 0 { // a logarithmic axis has no place for it
				sum += s.Counts[i]
				continue
			}
			bar, exact := slices.BinarySearch(edges, v)
			if !exact {
				bar--
			}
			counts[min(n-1, max(0, bar))] += s.Counts[i]
		}
		if sum > 0 {
			zeros = append(zeros, format.Share(sum/size)+" are 0")
		}
		for i, count := range counts {
			sum += count
			counts[i] = math.Round(count)
			up[i] = sum / size
			if len(samples) > 1 {
				counts[i] = count / size
			}
		}
		g.Series = append(g.Series, Series{Name: s.Name, Values: counts})
		soFar.Series = append(soFar.Series, Series{Name: s.Name, Values: up})
	}
	g.Note = strings.Join(zeros, ", ")
	if len(samples) == 1 {
		g.Series[0].Name = "values"
		g.Series[0].Style = Bars
		g.Series = append(g.Series, Series{
			Name:   "share so far",
			Share:  true,
			Values: soFar.Series[0].Values,
		})
		return []Graph{g}
	}
	g.Y.Unit = "ratio"
	soFar.Y = Axis{Unit: "ratio", To: new(1.0)}
	soFar.Title += ": share so far"
	return []Graph{g, soFar}
}

const mostBars = 48

// edgesOf cuts the range of all values into bars, fewer of whole numbers if there are fewer. The axis is logarithmic if
// the range is wide, but of ratios. The smallest hundredth of the values is below the first bar, which has it, too.
func edgesOf(samples []Sample, whole, ratio bool) (edges []float64, log bool) {
	least := math.Inf(1)
	most := 0.0
	zeros := false
	for _, s := range samples {
		zeros = zeros || s.At[0] <= 0
		size := s.size()
		below := 0.0
		for i, v := range s.At {
			if below += s.Counts[i]; v > 0 && below > size/100 {
				least = min(least, v)
				most = max(most, s.At[len(s.At)-1])
				break
			}
		}
	}
	log = most > 8*least && !ratio && (!whole || most > mostBars)
	n := mostBars
	switch {
	case ratio:
		least = 0
		most = 1
	case !log && whole && most-least < mostBars:
		n = int(most-least) + 1
		least -= 0.5
		most += 0.5
	case !log && (zeros || whole):
		least = 0
		most = max(most, 1e-9)
	case !log:
		most += 1e-9 * most // of equal values
	case whole:
		least = max(1, least) - 0.5
		most += 0.5
	}
	for i := range n + 1 {
		share := float64(i) / float64(n)
		edge := least + (most-least)*share
		if log {
			edge = least * math.Pow(most/least, share)
		}
		edges = append(edges, edge)
	}
	return edges, log
}
