package tokenizer

import "slices"

// behaviour is what becomes of a pattern's matches when a text is split by it.
type behaviour string

// The behaviours, by their names in the file.
const (
	removed            behaviour = "Removed"
	isolated           behaviour = "Isolated"
	mergedWithPrevious behaviour = "MergedWithPrevious"
	mergedWithNext     behaviour = "MergedWithNext"
	contiguous         behaviour = "Contiguous"
)

func (b behaviour) valid() bool {
	return slices.Contains([]behaviour{removed, isolated, mergedWithPrevious, mergedWithNext, contiguous}, b)
}

// splitter cuts a text at the matches of a pattern, or with invert at what lies
// between them.
type splitter struct {
	pattern   pattern
	behaviour behaviour
	invert    bool
}

// part is a stretch of a text that matches or does not.
type part struct {
	from, end int
	matches   bool
}

// split appends the parts that are not empty.
func (s splitter) split(dst []string, text string) []string {
	parts := s.parts(text)
	switch s.behaviour {
	case removed:
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.matches })
	case contiguous:
		parts = join(parts, func(before, p part) bool { return before.matches == p.matches })
	case mergedWithPrevious:
		parts = join(parts, func(before, p part) bool { return p.matches && !before.matches })
	case mergedWithNext:
		slices.Reverse(parts)
		parts = join(parts, func(behind, p part) bool { return p.matches && !behind.matches })
		slices.Reverse(parts)
	}
	for _, p := range parts {
		if p.from < p.end {
			dst = append(dst, text[p.from:p.end])
		}
	}
	return dst
}

// parts covers the text without gaps.
func (s splitter) parts(text string) []part {
	matches := s.pattern.find(text)
	parts := make([]part, 0, 2*len(matches)+1)
	at := 0
	for _, m := range matches {
		if at < m[0] {
			parts = append(parts, part{at, m[0], s.invert})
		}
		parts = append(parts, part{m[0], m[1], !s.invert})
		at = m[1]
	}
	if at < len(text) {
		parts = append(parts, part{at, len(text), s.invert})
	}
	return parts
}

// join puts each part for which with holds, given it and its neighbour as both
// came, together with that neighbour.
func join(parts []part, with func(before, p part) bool) []part {
	joined := parts[:0]
	var before part
	for i, p := range parts {
		if i > 0 && with(before, p) {
			last := &joined[len(joined)-1]
			last.from, last.end = min(last.from, p.from), max(last.end, p.end)
		} else {
			joined = append(joined, p)
		}
		before = p
	}
	return joined
}
