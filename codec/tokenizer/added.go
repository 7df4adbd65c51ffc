package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in a text before the model sees it: "<|im_end|>" and its like.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
	id         int32  // the one that counts; see assignIDs
}

// addedTokens finds the added tokens of a text: some before it is normalized, some after.
type addedTokens struct {
	all        []addedToken
	raw, later matcher
}

// newAddedTokens builds both matchers.
func newAddedTokens(list []addedToken, find func(string) int32, size int, n normalizers) addedTokens {
	list = assignIDs(list, find, size)
	a := addedTokens{all: list}
	// The reference lists special tokens first, and of equal patterns the first one wins.
	for _, special := range []bool{true, false} {
		for _, t := range list {
			if t.Special != special {
				continue
			}
			if !t.Normalized {
				a.raw.add(t.Content, t)
				continue
			}
			content, _ := n.normalize(t.Content, true)
			a.later.add(content, t)
		}
	}
	return a
}

// assignIDs gives every token its id: that of the model's vocabulary, or the next one free. Like the reference it
// ignores the id in the file.
func assignIDs(list []addedToken, find func(string) int32, size int) []addedToken {
	var out []addedToken
	known := make(map[string]int, len(list)) // by content, in out
	next := int32(size)
	for _, t := range list {
		if t.Content == "" {
			continue
		}
		if i, again := known[t.Content]; again {
			t.id = out[i].id
			t.Special = t.Special || out[i].Special
			out[i] = t
			continue
		}
		t.id = find(t.Content)
		if t.id == none {
			t.id = next
		}
		next = max(next, t.id+1)
		known[t.Content] = len(out)
		out = append(out, t)
	}
	return out
}

// matcher finds patterns: at the leftmost place the longest.
type matcher struct {
	patterns map[string]addedToken
	lengths  [256][]int // of the patterns that begin with a byte, longest first
}

func (m *matcher) add(content string, t addedToken) {
	if _, taken := m.patterns[content]; taken || content == "" {
		return
	}
	if m.patterns == nil {
		m.patterns = make(map[string]addedToken)
	}
	m.patterns[content] = t
	lengths := &m.lengths[content[0]]
	if !slices.Contains(*lengths, len(content)) {
		*lengths = append(*lengths, len(content))
		slices.SortFunc(*lengths, func(a, b int) int { return b - a })
	}
}

// next returns where the next match begins and ends.
func (m *matcher) next(text string, from int) (start, end int, t addedToken, ok bool) {
	if len(m.patterns) == 0 {
		return 0, 0, t, false
	}
	for at := from; at < len(text); at++ {
		for _, n := range m.lengths[text[at]] {
			if at+n > len(text) {
				continue
			}
			if t, ok := m.patterns[text[at:at+n]]; ok {
				return at, at + n, t, true
			}
		}
	}
	return 0, 0, t, false
}

// each calls between for what lies between matches and found for each match, in order. A token that takes the spaces
// beside it leaves them out of both.
func (m *matcher) each(text string, between func(from, end int), found func(id int32)) {
	done := 0
	for from := 0; ; {
		start, end, t, ok := m.next(text, from)
		if !ok {
			break
		}
		from = end
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		behind, _ := utf8.DecodeRuneInString(text[end:])
		if t.SingleWord && (isWord(before) || isWord(behind)) {
			continue
		}
		if t.LStrip {
			before := strings.TrimRightFunc(text[done:start], unicode.IsSpace)
			start = done + len(before)
		}
		if t.RStrip {
			behind := strings.TrimLeftFunc(text[end:], unicode.IsSpace)
			end = len(text) - len(behind)
		}
		if done < start {
			between(done, start)
		}
		found(t.id)
		done = end
	}
	if done < len(text) {
		between(done, len(text))
	}
}
