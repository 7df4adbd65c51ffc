package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// none marks an id that is not there.
const none = int32(-1)

// bpe is a byte-pair encoding. A word begins as its characters. The pair of neighbours of the lowest rank is merged
// until no pair has a rank. It is immutable.
type bpe struct {
	vocabulary
	merges        map[uint64]merge
	ascii         [utf8.RuneSelf]int32 // ids of single characters
	bytes         [256]int32           // ids of "<0x00>" to "<0xFF>", for characters without an id
	allBytes      bool                 // whether byte fallback is on
	unknown       int32                // id for what has none; none drops it
	fuseUnknown   bool
	prefix        string // before every character of a word but the first
	suffix        string // behind the last character
	wholeFirst    bool   // a word that is in the vocabulary needs no merges
	letters       *[256]rune
	cuts          bool // whether words fall apart at cutMark
	unsafeToCutAt [utf8.RuneSelf]bool
}

// merge is what becomes of a pair.
type merge struct{ rank, id int32 }

// cutMark stands for a space in SentencePiece's vocabularies.
const cutMark = '▁'

// pairKey packs two ids.
func pairKey(left, right int32) uint64 {
	return uint64(uint32(left))<<32 | uint64(uint32(right))
}

// bpeFile is the model's part of the file.
type bpeFile struct {
	Dropout      float64          `json:"dropout"`
	Unknown      string           `json:"unk_token"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
	FuseUnknown  bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int64 `json:"vocab"`
	Merges       json.RawMessage  `json:"merges"`
}

// newBPE builds the model; letters is set where words come as bytes that have yet to be spelt in byte letters.
func newBPE(raw json.RawMessage, letters *[256]rune) (*bpe, error) {
	var f bpeFile
	if err := decode(raw, &f); err != nil {
		return nil, fmt.Errorf("model BPE: %w", err)
	}
	if f.Dropout != 0 {
		return nil, unsupported("model BPE", fmt.Sprintf("dropout %v, which makes tokens random", f.Dropout))
	}
	atMost(maxTextBytes, len(f.Prefix)+len(f.Suffix), "model BPE: bytes beside a character")
	m := &bpe{
		vocabulary:  make(vocabulary, len(f.Vocab)),
		unknown:     none,
		fuseUnknown: f.FuseUnknown,
		allBytes:    f.ByteFallback,
		wholeFirst:  f.IgnoreMerges,
		letters:     letters,
		prefix:      f.Prefix,
		suffix:      f.Suffix,
	}
	for piece, id := range f.Vocab {
		if id < 0 || id > maxID {
			return nil, fmt.Errorf("model BPE: id %d of %.40q: want 0 to %d", id, piece, maxID)
		}
		m.vocabulary[piece] = int32(id)
	}
	if f.Unknown != "" {
		m.unknown = m.find(f.Unknown)
		if m.unknown == none {
			return nil, fmt.Errorf("model BPE: unk_token %.40q is not in the vocabulary", f.Unknown)
		}
	}
	if err := m.readMerges(f.Merges); err != nil {
		return nil, fmt.Errorf("model BPE: %w", err)
	}
	m.bytes = byteIDs(m.find)
	for c := range m.ascii {
		m.ascii[c] = m.find(string(rune(c)))
	}
	return m, nil
}

// vocabulary is the ids of a model's pieces.
type vocabulary map[string]int32

func (v vocabulary) find(piece string) int32 {
	if id, ok := v[piece]; ok {
		return id
	}
	return none
}

// byteIDs looks up the pieces that stand for single bytes.
func byteIDs(find func(string) int32) (ids [256]int32) {
	for b := range ids {
		ids[b] = find(fmt.Sprintf("<0x%02X>", b))
	}
	return ids
}

// readMerges takes merges as "a b" or as ["a","b"], in order of their rank.
func (m *bpe) readMerges(raw json.RawMessage) error {
	var pairs [][]string
	if err := decode(raw, &pairs); err != nil {
		var lines []string
		if err := decode(raw, &lines); err != nil {
			return fmt.Errorf("merges are neither strings nor pairs: %w", err)
		}
		pairs = make([][]string, 0, len(lines))
		for _, line := range lines {
			if !strings.HasPrefix(line, "#version") {
				pairs = append(pairs, strings.Split(line, " "))
			}
		}
	}
	crossing := make(map[rune]bool)
	m.merges = make(map[uint64]merge, len(pairs))
	var joined []byte
	for rank, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("merge %d is no pair: %.60q", rank, pair)
		}
		left := pair[0]
		right := pair[1]
		inner := right
		if len(right) >= len(m.prefix) {
			inner = right[len(m.prefix):] // whatever it begins with
		}
		joined = append(append(joined[:0], left...), inner...)
		id, known := m.vocabulary[string(joined)]
		a, knownA := m.vocabulary[left]
		b, knownB := m.vocabulary[right]
		if !known || !knownA || !knownB {
			return fmt.Errorf("merge %d, %.40q and %.40q: one of them or their sum is not in the vocabulary", rank,
				left,
				right)
		}
		m.merges[pairKey(a, b)] = merge{rank: int32(rank), id: id}
		if strings.HasPrefix(right, string(cutMark)) {
			last, _ := utf8.DecodeLastRuneInString(left)
			crossing[last] = true
		}
	}
	m.allowCuts(crossing)
	return nil
}

// allowCuts finds where a word falls apart into words that are encoded alone. No merge joins a character that is not in
// crossing to a mark behind it, so the two sides are never merged. A prompt that no pre-tokenizer cuts (SentencePiece)
// then costs a look-up a word. Only ASCII characters of the vocabulary are considered; others may become bytes or
// unknown.
func (m *bpe) allowCuts(crossing map[rune]bool) {
	bare := m.prefix == "" && m.suffix == ""
	m.cuts = bare && !m.wholeFirst && m.letters == nil && m.find(string(cutMark)) != none
	for c := range m.unsafeToCutAt {
		known := m.find(string(rune(c))) != none
		m.unsafeToCutAt[c] = crossing[rune(c)] || !known
	}
}

// cut returns where the first part of a word ends.
func (m *bpe) cut(word string) int {
	const mark = string(cutMark)
	for at := 1; m.cuts && at < len(word); {
		next := strings.Index(word[at:], mark)
		if next < 0 {
			break
		}
		at += next
		c := word[at-1]
		if c < utf8.RuneSelf && !m.unsafeToCutAt[c] {
			return at
		}
		at += len(mark)
	}
	return len(word)
}

// append encodes a word. If it falls apart, its parts are remembered, too.
func (m *bpe) append(dst []int32, word string, s *scratch) []int32 {
	for at := m.cut(word); at < len(word); at = m.cut(word) {
		dst = s.append(dst, word[:at], m)
		word = word[at:]
	}
	if m.letters != nil {
		word = byteLetters(m.letters, word)
	}
	if m.wholeFirst {
		if id, ok := m.vocabulary[word]; ok {
			return append(dst, id)
		}
	}
	m.spell(word, s)
	return s.mergeAll(dst, m)
}

func (m *bpe) merge(left, right int32) (merge, bool) {
	found, ok := m.merges[pairKey(left, right)]
	return found, ok
}

// spell fills s.symbols with the word's characters.
func (m *bpe) spell(word string, s *scratch) {
	s.symbols = s.symbols[:0]
	unknown := false // one is due
	for i, c := range word {
		end := i + utf8.RuneLen(c)
		text := m.affixed(word[i:end], i == 0, end == len(word))
		id := m.character(text)
		if id != none {
			if unknown {
				s.addSymbol(m.unknown)
				unknown = false
			}
			s.addSymbol(id)
			continue
		}
		if m.allBytes && m.spellBytes(text, s) {
			continue
		}
		if m.unknown == none {
			continue
		}
		if unknown && !m.fuseUnknown {
			s.addSymbol(m.unknown)
		}
		unknown = true
	}
	if unknown {
		s.addSymbol(m.unknown)
	}
}

// character returns the id of one character of a word, with what belongs beside it.
func (m *bpe) character(text string) int32 {
	if len(text) == 1 && text[0] < utf8.RuneSelf {
		return m.ascii[text[0]]
	}
	return m.find(text)
}

// affixed is a character with what belongs beside it.
func (m *bpe) affixed(c string, first, last bool) string {
	if !first {
		c = m.prefix + c
	}
	if last {
		c += m.suffix
	}
	return c
}

// spellBytes adds c byte by byte if the vocabulary has them all.
func (m *bpe) spellBytes(c string, s *scratch) bool {
	for i := range len(c) {
		if m.bytes[c[i]] == none {
			return false
		}
	}
	for i := range len(c) {
		s.addSymbol(m.bytes[c[i]])
	}
	return true
}

func (m *bpe) size() int { return len(m.vocabulary) }

// each names every piece. In a byte-level vocabulary the text is the bytes that its letters stand for.
func (m *bpe) each(yield func(id int32, piece, text string)) {
	read := byteReader()
	for piece, id := range m.vocabulary {
		text := piece
		if m.letters != nil {
			text = read(piece)
		}
		yield(id, piece, text)
	}
}
