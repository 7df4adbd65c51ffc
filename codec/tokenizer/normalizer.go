package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is cut. opens reports whether the text's first character comes from the first of
// the whole text; some pre-tokenizers need that. The returned bool reports it of the new first character.
type normalizer interface {
	normalize(text string, opens bool) (string, bool)
}

// normalizers work one after the other.
type normalizers []normalizer

func (n normalizers) normalize(text string, opens bool) (string, bool) {
	most := maxGrowth*len(text) + maxTextBytes
	for _, each := range n {
		text, opens = each.normalize(text, opens)
		atMost(most, len(text), "normalizer: bytes that it makes of a text")
	}
	return text, opens
}

// rewritten is a text rewritten so that its first character stays the first one's.
type rewritten func(string) string

func (r rewritten) normalize(text string, opens bool) (string, bool) { return r(text), opens }

// mapped rewrites each character on its own. A negative one is dropped.
type mapped func(rune) rune

func (m mapped) normalize(text string, opens bool) (string, bool) {
	first, _ := utf8.DecodeRuneInString(text)
	if text != "" && m(first) < 0 {
		opens = false
	}
	return strings.Map(m, text), opens
}

// lowercase is each character's own lower case, of which one has two.
func lowercase(text string) string {
	return strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i̇"))
}

type strip struct{ left, right bool }

func (s strip) normalize(text string, opens bool) (string, bool) {
	if s.left {
		stripped := strings.TrimLeftFunc(text, unicode.IsSpace)
		opens = opens && len(stripped) == len(text)
		text = stripped
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, opens
}

type replace struct {
	pattern pattern
	content string
}

func (r replace) normalize(text string, opens bool) (string, bool) {
	matches := r.pattern.find(text)
	if len(matches) == 0 {
		return text, opens
	}
	// What is written for a match counts as coming from its last character.
	if m := matches[0]; m[0] == 0 && (r.content == "" || utf8.RuneCountInString(text[:m[1]]) > 1) {
		opens = false
	}
	var b strings.Builder
	at := 0
	for _, m := range matches {
		b.WriteString(text[at:m[0]])
		b.WriteString(r.content)
		at = m[1]
	}
	b.WriteString(text[at:])
	return b.String(), opens
}

// withoutMarks drops combining marks.
func withoutMarks(r rune) rune {
	if unicode.Is(unicode.M, r) {
		return -1
	}
	return r
}

// nmt is SentencePiece's treatment of controls and spaces for machine translation.
func nmt(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200B <= r && r <= 0x200F,
		r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
		return ' '
	case 0x01 <= r && r <= 0x08, r == 0x0B, 0x0E <= r && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		return -1
	}
	return r
}

// normalizerFile has the fields of every kind.
type normalizerFile struct {
	Normalizers []json.RawMessage `json:"normalizers"`
	Prepend     string            `json:"prepend"`
	Pattern     json.RawMessage   `json:"pattern"`
	Content     string            `json:"content"`
	StripLeft   bool              `json:"strip_left"`
	StripRight  bool              `json:"strip_right"`
	Charsmap    []byte            `json:"precompiled_charsmap"`
}

// newNormalizer reads the chain of normalizers, sequences unrolled.
func newNormalizer(raw json.RawMessage) ([]normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var f normalizerFile
	component, kind, err := readComponent("normalizer", raw, &f)
	if err != nil {
		return nil, err
	}
	if kind == "Sequence" {
		return unroll(f.Normalizers, newNormalizer)
	}
	atMost(maxTextBytes, len(f.Prepend)+len(f.Content), component+": bytes of its text")
	n, err := newOneNormalizer(component, kind, &f)
	return []normalizer{n}, err
}

func newOneNormalizer(component, kind string, f *normalizerFile) (normalizer, error) {
	switch kind {
	case "NFC", "NFD", "NFKC", "NFKD":
		forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
		return rewritten(forms[kind].String), nil
	case "Lowercase":
		return rewritten(lowercase), nil
	case "Prepend":
		return rewritten(func(text string) string {
			if text == "" {
				return text
			}
			return f.Prepend + text
		}), nil
	case "Replace":
		p, err := newPattern(component, f.Pattern)
		return replace{pattern: p, content: f.Content}, err
	case "Strip":
		return strip{left: f.StripLeft, right: f.StripRight}, nil
	case "StripAccents":
		return mapped(withoutMarks), nil
	case "Nmt":
		return mapped(nmt), nil
	case "Precompiled":
		return newCharsmap(component, f.Charsmap)
	case "ByteLevel":
		letters := byteRunes()
		return rewritten(func(text string) string { return byteLetters(&letters, text) }), nil
	}
	return nil, unsupported("normalizer", fmt.Sprintf("type %.40q", kind))
}

// charsmap is SentencePiece's normalization: a double-array trie whose values are offsets of zero-terminated
// replacements. The layout is that of Darts-clone (github.com/s-yata/darts-clone).
type charsmap struct {
	units []uint32
	texts string
	keeps [utf8.RuneSelf]bool // ASCII characters that it does not change
}

// longestCluster is how long a grapheme cluster may be, in bytes, to be looked up whole; the reference's limit.
const longestCluster = 5

// newCharsmap reads the size of the trie, the trie and the replacements.
func newCharsmap(component string, data []byte) (*charsmap, error) {
	if len(data) < 4 {
		return nil, fmt.Errorf(
			"%s: precompiled_charsmap has %d bytes: want the size of a trie and the trie",
			component,
			len(data),
		)
	}
	size := int(binary.LittleEndian.Uint32(data)) / 4 * 4
	data = data[4:]
	if size > len(data) || size == 0 {
		return nil, fmt.Errorf("%s: precompiled_charsmap: a trie of %d bytes in %d", component, size, len(data))
	}
	c := &charsmap{units: make([]uint32, size/4), texts: string(data[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.ValidString(c.texts) {
		return nil, fmt.Errorf("%s: precompiled_charsmap: its replacements are no UTF-8", component)
	}
	for to := range strings.SplitSeq(c.texts, "\x00") {
		atMost(maxTextBytes, len(to), component+": bytes of a replacement")
	}
	for b := range c.keeps {
		s := string(rune(b))
		to, ok := c.replacement(s)
		c.keeps[b] = b != '\r' && (!ok || to == s)
	}
	return c, nil
}

// replacement returns the replacement of the shortest prefix of s in the trie. As in the reference, the shortest
// decides, and for the whole of s.
func (c *charsmap) replacement(s string) (string, bool) {
	unit := func(i uint32) (uint32, bool) {
		if int64(i) >= int64(len(c.units)) {
			return 0, false
		}
		return c.units[i], true
	}
	at := offsetOf(c.units[0])
	for i := range len(s) {
		if s[i] == 0 {
			return "", false
		}
		at ^= uint32(s[i])
		u, ok := unit(at)
		if !ok || u&(1<<31|0xFF) != uint32(s[i]) {
			return "", false
		}
		at ^= offsetOf(u)
		if u>>8&1 == 0 {
			continue
		}
		leaf, ok := unit(at)
		from := int(leaf & (1<<31 - 1))
		if !ok || from > len(c.texts) {
			return "", false
		}
		to, _, _ := strings.Cut(c.texts[from:], "\x00")
		return to, true
	}
	return "", false
}

// offsetOf returns where a unit's children lie.
func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func (c *charsmap) normalize(text string, opens bool) (string, bool) {
	kept := 0
	for kept < len(text) && text[kept] < utf8.RuneSelf && c.keeps[text[kept]] {
		kept++
	}
	if kept == len(text) {
		return text, opens
	}
	var b strings.Builder
	b.Grow(len(text))
	state := -1
	cluster := ""
	for len(text) > 0 {
		cluster, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if len(cluster) <= longestCluster {
			if to, ok := c.replacement(cluster); ok {
				b.WriteString(to)
				continue
			}
		}
		for i, r := range cluster {
			one := cluster[i : i+utf8.RuneLen(r)]
			if to, ok := c.replacement(one); ok {
				one = to
			}
			b.WriteString(one)
		}
	}
	return b.String(), opens
}
