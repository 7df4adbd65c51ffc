package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// preTokenizer cuts a text into words, which a model encodes one by one. opens reports whether the piece begins where
// the whole text does.
type preTokenizer interface {
	split(dst []string, piece string, opens bool) []string
}

// plain is a pre-tokenizer that only cuts.
type plain struct{ splitter }

func (p plain) split(dst []string, piece string, _ bool) []string {
	return p.splitter.split(dst, piece)
}

// isWord is \w of the reference: Alphabetic, Mark, Decimal_Number, Connector_Punctuation and Join_Control.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}

// isPunctuation is the reference's: ASCII's own notion, and category P.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && strings.ContainsRune("$+<=>^`|~", r)
}

// metaspace writes a mark for each space and cuts before the marks.
type metaspace struct {
	mark   string
	prefix string // "always", "first" or "never" a mark before the text
	cut    splitter
}

func (m metaspace) split(dst []string, piece string, opens bool) []string {
	piece = strings.ReplaceAll(piece, " ", m.mark)
	wanted := m.prefix == "always" || m.prefix == "first" && opens
	if wanted && !strings.HasPrefix(piece, m.mark) {
		piece = m.mark + piece
	}
	return m.cut.split(dst, piece)
}

// byteLevel writes each byte as a letter, after it has cut by GPT-2's pattern.
type byteLevel struct {
	letters [256]rune
	space   bool // before each piece
	cut     splitter
	late    bool // the model writes the letters
}

// gpt2Pattern is that of OpenAI's encoder.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (b *byteLevel) split(dst []string, piece string, _ bool) []string {
	if b.space && !strings.HasPrefix(piece, " ") {
		piece = " " + piece
	}
	from := len(dst)
	dst = b.cut.split(dst, piece)
	if !b.late {
		for i := from; i < len(dst); i++ {
			dst[i] = byteLetters(&b.letters, dst[i])
		}
	}
	return dst
}

// preTokenizerFile has the fields of every kind.
type preTokenizerFile struct {
	PreTokenizers    []json.RawMessage `json:"pretokenizers"`
	Pattern          json.RawMessage   `json:"pattern"`
	Behaviour        behaviour         `json:"behavior"`
	Invert           bool              `json:"invert"`
	AddPrefixSpace   bool              `json:"add_prefix_space"`
	UseRegex         bool              `json:"use_regex"`
	Replacement      string            `json:"replacement"`
	PrependScheme    string            `json:"prepend_scheme"`
	Split            bool              `json:"split"`
	IndividualDigits bool              `json:"individual_digits"`
	Delimiter        string            `json:"delimiter"`
}

// newPreTokenizers reads the chain of pre-tokenizers, sequences unrolled.
func newPreTokenizers(raw json.RawMessage) ([]preTokenizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	f := preTokenizerFile{
		Behaviour:      isolated,
		AddPrefixSpace: true,
		UseRegex:       true,
		Split:          true,
	}
	component, kind, err := readComponent("pre_tokenizer", raw, &f)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return unroll(f.PreTokenizers, newPreTokenizers)
	case "Whitespace": // runs of word characters, and runs of what is neither such nor space
		words := class{holds: isWord, runs: true}
		return []preTokenizer{cutAt(class{holds: unicode.IsSpace}, removed), cutAt(words, isolated)}, nil
	}
	p, err := newPreTokenizer(component, kind, &f)
	return []preTokenizer{p}, err
}

func newPreTokenizer(component, kind string, f *preTokenizerFile) (preTokenizer, error) {
	if !f.Behaviour.valid() {
		return nil, unsupported(component, fmt.Sprintf("behavior %.40q", f.Behaviour))
	}
	switch kind {
	case "ByteLevel":
		return newByteLevel(f)
	case "Split":
		p, err := newPattern(component, f.Pattern)
		return plain{splitter{p, f.Behaviour, f.Invert}}, err
	case "Metaspace":
		return newMetaspace(component, f)
	case "WhitespaceSplit":
		return cutAt(class{holds: unicode.IsSpace}, removed), nil
	case "Digits":
		return cutAt(class{holds: unicode.IsNumber, runs: !f.IndividualDigits}, isolated), nil
	case "Punctuation":
		return cutAt(class{holds: isPunctuation}, f.Behaviour), nil
	case "CharDelimiterSplit":
		return cutAt(literal(f.Delimiter), removed), nil
	}
	return nil, unsupported("pre_tokenizer", fmt.Sprintf("type %.40q", kind))
}

// cutAt is a pre-tokenizer that only cuts.
func cutAt(p pattern, b behaviour) plain {
	return plain{splitter{pattern: p, behaviour: b}}
}

func newByteLevel(f *preTokenizerFile) (preTokenizer, error) {
	b := &byteLevel{
		letters: byteRunes(),
		space:   f.AddPrefixSpace,
		cut:     splitter{pattern: literal(""), behaviour: isolated},
	}
	var err error
	if f.UseRegex {
		b.cut.pattern, err = newExpression(gpt2Pattern)
	}
	return b, err
}

func newMetaspace(component string, f *preTokenizerFile) (preTokenizer, error) {
	if utf8.RuneCountInString(f.Replacement) != 1 {
		return nil, fmt.Errorf("%s: replacement %.40q: want one character", component, f.Replacement)
	}
	m := metaspace{
		mark:   f.Replacement,
		prefix: f.PrependScheme,
		cut:    splitter{pattern: literal(""), behaviour: mergedWithNext},
	}
	if f.Split {
		m.cut.pattern = literal(f.Replacement)
	}
	switch {
	case !f.AddPrefixSpace && m.prefix == "": // before prepend_scheme was
		m.prefix = "never"
	case !f.AddPrefixSpace && m.prefix != "never":
		return nil, fmt.Errorf(
			"%s: add_prefix_space false and prepend_scheme %.40q: want one of them",
			component,
			m.prefix,
		)
	case m.prefix == "":
		m.prefix = "always"
	case m.prefix != "always" && m.prefix != "first" && m.prefix != "never":
		return nil, unsupported(component, fmt.Sprintf("prepend_scheme %.40q", m.prefix))
	}
	return m, nil
}

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

// splitter cuts a text at the matches of a pattern, or with invert at what lies between them.
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

// join puts each part for which with holds, given it and its neighbour as both came, together with that neighbour.
func join(parts []part, with func(before, p part) bool) []part {
	joined := parts[:0]
	var before part
	for i, p := range parts {
		if i > 0 && with(before, p) {
			last := &joined[len(joined)-1]
			last.from = min(last.from, p.from)
			last.end = max(last.end, p.end)
		} else {
			joined = append(joined, p)
		}
		before = p
	}
	return joined
}

// byteRunes returns the letter that byte-level vocabularies write for each byte: the byte's own character where that
// prints, else one from U+0100 on. The table is OpenAI's, from the encoder of GPT-2.
func byteRunes() (table [256]rune) {
	next := rune(256)
	for b := range table {
		switch {
		case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
			table[b] = rune(b)
		default:
			table[b] = next
			next++
		}
	}
	return table
}

// byteLetters spells every byte of s by its letter.
func byteLetters(table *[256]rune, s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	for i := range len(s) {
		b.WriteRune(table[s[i]])
	}
	return b.String()
}

// byteReader returns the reverse of byteLetters. It makes nothing of a text that holds a letter which stands for no
// byte.
func byteReader() func(s string) string {
	reverse := make(map[rune]byte, 256)
	for b, r := range byteRunes() {
		reverse[r] = byte(b)
	}
	return func(s string) string {
		out := make([]byte, 0, len(s))
		for _, r := range s {
			b, ok := reverse[r]
			if !ok {
				return ""
			}
			out = append(out, b)
		}
		return string(out)
	}
}
