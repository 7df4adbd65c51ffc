package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unknownPenalty is what an unknown character costs beyond the least likely piece; SentencePiece's kUnkPenalty.
const unknownPenalty = 10.0

// unigram chooses the pieces whose log probabilities have the largest sum. It is immutable.
type unigram struct {
	vocabulary
	scores   []float64
	longest  [256]int // bytes of a piece that begins with a byte
	unknown  int32
	least    float64
	bytes    [256]int32
	allBytes bool
}

// node is the best way to reach a byte of the word.
type node struct {
	score float64
	from  int32 // where its last piece begins; -1 if it cannot be reached
	id    int32
}

type unigramFile struct {
	Unknown      int64             `json:"unk_id"`
	Vocab        []json.RawMessage `json:"vocab"`
	ByteFallback bool              `json:"byte_fallback"`
}

func newUnigram(raw json.RawMessage) (*unigram, error) {
	f := unigramFile{Unknown: -1}
	if err := decode(raw, &f); err != nil {
		return nil, fmt.Errorf("model Unigram: %w", err)
	}
	if len(f.Vocab) == 0 || len(f.Vocab) > maxID {
		return nil, fmt.Errorf("model Unigram: %d pieces: want 1 to %d", len(f.Vocab), maxID)
	}
	if f.Unknown < 0 || f.Unknown >= int64(len(f.Vocab)) {
		return nil, fmt.Errorf("model Unigram: unk_id: want a place among its %d pieces", len(f.Vocab))
	}
	u := &unigram{
		vocabulary: make(vocabulary, len(f.Vocab)),
		unknown:    int32(f.Unknown),
		least:      math.Inf(1),
		allBytes:   f.ByteFallback,
	}
	for id, raw := range f.Vocab {
		piece, score, err := scored(raw)
		if err != nil {
			return nil, fmt.Errorf("model Unigram: piece %d: %w", id, err)
		}
		atMost(maxTextBytes, len(piece), "model Unigram: bytes of a piece")
		u.vocabulary[piece] = int32(id)
		u.scores = append(u.scores, score)
		u.least = min(u.least, score)
		if piece != "" {
			u.longest[piece[0]] = max(u.longest[piece[0]], len(piece))
		}
	}
	u.bytes = byteIDs(u.find)
	return u, nil
}

// scored reads one ["piece", -1.5].
func scored(raw json.RawMessage) (string, float64, error) {
	var pair []any
	if err := decode(raw, &pair); err != nil {
		return "", 0, err
	}
	if len(pair) == 2 {
		piece, isText := pair[0].(string)
		score, isNumber := pair[1].(float64)
		if isText && isNumber {
			return piece, score, nil
		}
	}
	return "", 0, errors.New(`want a pair of text and score, as ["the", -3.5]`)
}

// append adds the tokens of a word.
func (u *unigram) append(dst []int32, word string, s *scratch) []int32 {
	u.search(word, s)
	return u.collect(dst, word, s)
}

// search fills s.nodes with the best way to every byte.
func (u *unigram) search(word string, s *scratch) {
	s.nodes = slices.Grow(s.nodes[:0], len(word)+1)[:len(word)+1]
	for i := range s.nodes {
		s.nodes[i] = node{from: -1}
	}
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		reached := s.nodes[at].score
		single := false
		most := min(len(word), at+u.longest[word[at]])
		for end := at + 1; end <= most; end++ {
			if id, is := u.vocabulary[word[at:end]]; is {
				s.nodes[end].improve(reached+u.scores[id], at, id)
				single = single || end-at == width
			}
		}
		if !single {
			unlikely := reached + u.least - unknownPenalty
			s.nodes[at+width].improve(unlikely, at, u.unknown)
		}
		at += width
	}
}

func (n *node) improve(score float64, from int, id int32) {
	if n.from < 0 || score > n.score {
		*n = node{score: score, from: int32(from), id: id}
	}
}

// collect walks the best way back and adds its tokens in order. Neighbouring unknown characters are one token, or their
// bytes.
func (u *unigram) collect(dst []int32, word string, s *scratch) []int32 {
	first := len(dst)
	for end := int32(len(word)); end > 0; {
		n := s.nodes[end]
		from := n.from
		if n.id != u.unknown {
			dst = append(dst, n.id)
			end = from
			continue
		}
		for from > 0 && s.nodes[from].id == u.unknown {
			from = s.nodes[from].from
		}
		dst = u.appendUnknownReversed(dst, word[from:end])
		end = from
	}
	slices.Reverse(dst[first:])
	return dst
}

// appendUnknownReversed adds what stands for a text without a piece.
func (u *unigram) appendUnknownReversed(dst []int32, text string) []int32 {
	if id, ok := u.vocabulary[text]; ok {
		return append(dst, id)
	}
	if !u.allBytes {
		return append(dst, u.unknown)
	}
	for i := range len(text) {
		if u.bytes[text[i]] == none {
			return append(dst, u.unknown)
		}
	}
	for i := len(text) - 1; i >= 0; i-- {
		dst = append(dst, u.bytes[text[i]])
	}
	return dst
}

func (u *unigram) size() int { return len(u.scores) }

func (u *unigram) each(yield func(id int32, piece, text string)) {
	for piece, id := range u.vocabulary {
		yield(id, piece, piece)
	}
}
