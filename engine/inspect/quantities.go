package inspect

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/engine/metrics/human"
)

// quantity is a line of a table in which traces stand side by side.
type quantity struct {
	label string
	of    func(*Report) string // absent where the trace does not have it
}

// section is a group of quantities.
type section struct {
	title      string
	quantities []quantity
}

// sections are the tables of these reports. Lines that no report can fill are left out.
func sections(reports []*Report) []section {
	all := []section{fileSection(), amplifySection(), arrivalSection(), tokenSection(), sessionSection(), blockSection()}
	all = append(all, typeSections(reports)...)
	all = append(all, lruSections(reports)...)
	all = append(all, routingSections(reports)...)
	all = append(all, replaySection())
	var filled []section
	for _, s := range all {
		s.quantities = slices.DeleteFunc(s.quantities, func(q quantity) bool {
			return !slices.ContainsFunc(reports, func(r *Report) bool { return q.of(r) != absent })
		})
		if len(s.quantities) > 0 {
			filled = append(filled, s)
		}
	}
	return filled
}

func fileSection() section {
	return section{"trace", []quantity{
		{"format", func(r *Report) string { return r.Format }},
		{"timestamps", func(r *Report) string {
			if r.Untimed {
				return absent
			}
			return r.TimeUnit
		}},
		{"tokens a block", func(r *Report) string { return count(int64(r.BlockTokens)) }},
		{"a replay would", func(r *Report) string {
			if r.Replayable {
				return "take it"
			}
			return "REFUSE it"
		}},
		{"rows", func(r *Report) string { return count(r.Rows) }},
		{"rows in the file", func(r *Report) string { return count(r.FileRows) }},
	}}
}

func arrivalSection() section {
	number := func(v float64) string { return human.Number(v, 3) }
	s := section{"arrivals", []quantity{
		{"span", func(r *Report) string { return duration(r.Arrivals.SpanS) }},
		{"last row at", func(r *Report) string { return inUnit(r.Arrivals.SpanS, r.TimeUnit) }},
		{"mean rate", func(r *Report) string { return optional(r.Arrivals.RowsPerS, rate) }},
		{"input tok/s", func(r *Report) string { return optional(r.Arrivals.InputTokensPerS, human.Rate) }},
		{"output tok/s", func(r *Report) string { return optional(r.Arrivals.OutputTokensPerS, human.Rate) }},
		{"distinct instants", func(r *Report) string { return count(r.Arrivals.Instants) }},
		{"most rows at one", func(r *Report) string { return count(r.Arrivals.LargestBurst) }},
		{"most rows within 1 s", func(r *Report) string { return count(r.Arrivals.PeakRows) }},
		{"interarrival CV", func(r *Report) string { return optional(r.Arrivals.GapCV, number) }},
	}}
	for i, q := range s.quantities {
		s.quantities[i].of = func(r *Report) string {
			if r.Untimed {
				return absent
			}
			return q.of(r)
		}
	}
	return s
}

func tokenSection() section {
	s := section{title: "tokens"}
	for _, d := range []struct {
		label string
		of    func(*Report) *Distribution
	}{
		{"input", func(r *Report) *Distribution { return r.InputTokens.known() }},
		{"output", func(r *Report) *Distribution { return r.OutputTokens.known() }},
		{"together", func(r *Report) *Distribution { return r.TotalTokens }},
	} {
		for _, name := range []string{"mean", "p50", "p90", "p95", "p99", "p99.9", "max"} {
			if d.label == "together" && name != "p99" && name != "max" {
				continue
			}
			s.quantities = append(s.quantities, quantity{d.label + " " + name, func(r *Report) string {
				return optional(d.of(r), func(d Distribution) string { return tokens(named(&d, name)) })
			}})
		}
	}
	s.quantities = append(s.quantities,
		quantity{"input total", func(r *Report) string { return r.InputTokens.total() }},
		quantity{"output total", func(r *Report) string { return r.OutputTokens.total() }},
		quantity{"word for word", func(r *Report) string {
			return optional(r.Literal, func(l Literal) string { return human.Bytes(l.Bytes) })
		}},
		quantity{"rows over the context", func(r *Report) string {
			return optional(r.Context, func(c Context) string { return count(c.RowsOver) })
		}})
	return s
}

// typeSections have a line for each type, the most frequent of the first trace first.
func typeSections(reports []*Report) []section {
	var names []string
	for _, r := range reports {
		for _, t := range r.Types {
			if !slices.Contains(names, t.Name) && len(names) < maxTypesShown {
				names = append(names, t.Name)
			}
		}
	}
	of := func(title string, print func(Type) string) section {
		s := section{title: title}
		for _, name := range names {
			s.quantities = append(s.quantities, quantity{shorten(typeName(name), quantityWidth-3), func(r *Report) string {
				for _, t := range r.Types {
					if t.Name == name {
						return print(t)
					}
				}
				return absent
			}})
		}
		return s
	}
	return []section{
		of("rows of a type", func(t Type) string { return human.Share(t.Share) }),
		of("mean input of a type", func(t Type) string { return human.Fixed(t.MeanInput, 2) }),
		of("mean output of a type", func(t Type) string { return human.Fixed(t.MeanOutput, 2) }),
	}
}

// typeName is the name of a kind of requests for people: also where there is none, or one that would upset a terminal.
func typeName(name string) string {
	switch {
	case name == "":
		return "(none)"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(name)
	}
	return name
}

func sessionSection() section {
	of := func(print func(*Sessions) string) func(*Report) string {
		return func(r *Report) string {
			return optional(r.Sessions, func(s Sessions) string { return print(&s) })
		}
	}
	times := func(name string, d func(*Sessions) *Distribution) func(*Report) string {
		return of(func(s *Sessions) string {
			return optional(d(s), func(d Distribution) string { return duration(named(&d, name)) })
		})
	}
	gaps := func(s *Sessions) *Distribution { return s.GapS }
	thinks := func(s *Sessions) *Distribution { return s.ThinkS }
	return section{"sessions", []quantity{
		{"sessions", of(func(s *Sessions) string { return count(s.Sessions) })},
		{"of several turns", of(func(s *Sessions) string { return count(s.MultiTurn) })},
		{"turns a session, mean", of(func(s *Sessions) string { return tokens(s.Turns.Mean) })},
		{"turns a session, max", of(func(s *Sessions) string { return tokens(s.Turns.Max) })},
		{"turn to turn p50", times("p50", gaps)},
		{"turn to turn p99", times("p99", gaps)},
		{"think time p50", times("p50", thinks)},
		{"overlapping turns", of(func(s *Sessions) string { return optional(s.OverlapShare, human.Share) })},
	}}
}

func blockSection() section {
	of := func(print func(*Report) string) func(*Report) string {
		return func(r *Report) string {
			if r.Blocks == nil {
				return absent
			}
			return print(r)
		}
	}
	infinite := func(ratio func(*Infinite) float64) func(*Report) string {
		return of(func(r *Report) string { return human.Share(ratio(&r.Cache.Infinite)) })
	}
	reuse := func(d func(*Reuse) *Distribution, print func(float64) string) func(*Report) string {
		return of(func(r *Report) string {
			return optional(d(r.Reuse), func(d Distribution) string { return print(d.P50) })
		})
	}
	return section{"blocks, unlimited cache", []quantity{
		{"references", of(func(r *Report) string { return count(r.Blocks.References) })},
		{"distinct ids", of(func(r *Report) string { return count(r.Blocks.Distinct) })},
		{"ids name", of(func(r *Report) string { return r.Blocks.Names })},
		{"hits, of blocks", infinite(func(i *Infinite) float64 { return i.Blocks })},
		{"hits, of tokens", infinite(func(i *Infinite) float64 { return i.Tokens })},
		{"hits, of full blocks", infinite(func(i *Infinite) float64 { return i.FullBlocks })},
		{"hits, mean per request", infinite(func(i *Infinite) float64 { return i.MeanRequest })},
		{"blocks seen, by id alone", infinite(func(i *Infinite) float64 { return i.IDs })},
		{"reused after, p50", reuse(func(u *Reuse) *Distribution { return u.TimeS }, duration)},
		{"other tokens since, p50", reuse(func(u *Reuse) *Distribution { return u.Tokens }, human.Short)},
	}}
}

// lruSections have a line for each capacity that some report has.
func lruSections(reports []*Report) []section {
	var capacities []int64
	for _, r := range reports {
		if r.Cache == nil {
			continue
		}
		for _, at := range r.Cache.LRU {
			capacities = append(capacities, at.Tokens)
		}
	}
	slices.Sort(capacities)
	capacities = slices.Compact(capacities)
	of := func(title string, ratio func(Capacity) float64) section {
		s := section{title: title}
		for _, tokens := range capacities {
			s.quantities = append(s.quantities, quantity{human.Short(float64(tokens)) + " tokens", func(r *Report) string {
				return optional(r.Cache, func(c Cache) string { return human.Share(ratio(c.at(tokens))) })
			}})
		}
		return s
	}
	return []section{
		of("LRU in order, of blocks", func(c Capacity) float64 { return c.BlockRatio }),
		of("LRU in order, of tokens", func(c Capacity) float64 { return c.TokenRatio }),
		of("LRU tail first, of blocks", func(c Capacity) float64 { return c.TailFirstBlocks }),
		of("LRU tail first, of tokens", func(c Capacity) float64 { return c.TailFirstTokens }),
	}
}

func replaySection() section {
	return section{"memory to replay, about", []quantity{
		{"--prompt token-ids", func(r *Report) string { return human.Bytes(r.Replay.TokenIDs.MemoryBytes) }},
		{"--prompt text", func(r *Report) string { return human.Bytes(r.Replay.Text.MemoryBytes) }},
	}}
}
