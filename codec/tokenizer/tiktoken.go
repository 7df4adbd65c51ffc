package tokenizer

import (
	"bytes"
	_ "embed"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// CL100K and O200K name the built-in vocabularies, OpenAI's of GPT-4 and of GPT-4o and gpt-oss.
const (
	CL100K = "cl100k_base"
	O200K  = "o200k_base"
)

// The built-in vocabularies, compressed with zstd: for each id from 0 on the length of its piece in one byte, then all
// pieces. TestVocabulariesAreOpenAIs makes the files and compares their checksums with those of OpenAI's own files.
//
//go:generate go test . -run ^TestVocabulariesAreOpenAIs$ -update
var (
	//go:embed cl100k_base.zst
	packedCL100K string
	//go:embed o200k_base.zst
	packedO200K string
)

// How many ids each vocabulary has in OpenAI's file; ids above are those of special tokens.
const (
	sizeCL100K = 100256
	sizeO200K  = 199998
)

// The patterns that cut a text into words, from https://github.com/openai/tiktoken (tiktoken_ext/openai_public.py).
const (
	patternCL100K = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200K = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// builtIn is the tokenizer of a built-in vocabulary. Names of special tokens inside a text are ordinary text to it.
func builtIn(name string) stages {
	return stages{
		preTokenizers: []preTokenizer{betweenWords{}},
		model:         newTiktoken(name),
		pool:          newPool(),
	}
}

// tiktoken is a built-in vocabulary.
type tiktoken struct {
	pattern expression
	text    []byte   // all pieces in order of their ids
	ends    []uint32 // in text, of each id
	slots   []int32  // ids by hash, none where empty; a power of two, at most half full
	seed    maphash.Seed
}

func newTiktoken(name string) *tiktoken {
	packed := packedO200K
	pattern := patternO200K
	size := sizeO200K
	if name == CL100K {
		packed = packedCL100K
		pattern = patternCL100K
		size = sizeCL100K
	}
	cut, err := compile(pattern)
	if err != nil {
		panic("BUG: tokenizer: " + err.Error())
	}
	t := &tiktoken{pattern: cut, seed: maphash.MakeSeed()}
	t.unpack(packed, size)
	return t
}

// unpack reads a packed vocabulary of so many ids. For o200k_base this takes 21 ms (2026, 2 cores). A map compiled into
// the program took 27 ms, and a map filled here three times as long.
func (t *tiktoken) unpack(packed string, size int) {
	unpacker, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic("BUG: tokenizer: " + err.Error())
	}
	defer unpacker.Close()
	data, err := unpacker.DecodeAll([]byte(packed), nil)
	if err != nil {
		panic("BUG: tokenizer: a built-in vocabulary: " + err.Error())
	}
	t.text = data[size:]
	t.ends = make([]uint32, size)
	t.slots = slices.Repeat([]int32{none}, 2<<bits.Len(uint(size)))
	end := uint32(0)
	for id, n := range data[:size] {
		end += uint32(n)
		t.ends[id] = end
		t.slots[t.slot(t.piece(int32(id)))] = int32(id)
	}
}

// slot returns the slot of a piece, or the free one where it belongs.
func (t *tiktoken) slot(piece []byte) int {
	hash := maphash.Bytes(t.seed, piece)
	at := int(hash % uint64(len(t.slots)))
	for {
		id := t.slots[at]
		if id == none || bytes.Equal(t.piece(id), piece) {
			return at
		}
		at = (at + 1) % len(t.slots)
	}
}

// piece returns the bytes of an id.
func (t *tiktoken) piece(id int32) []byte {
	if id == 0 {
		return t.text[:t.ends[0]]
	}
	return t.text[t.ends[id-1]:t.ends[id]]
}

// idOf returns the id of a piece, or none.
func (t *tiktoken) idOf(piece []byte) int32 {
	return t.slots[t.slot(piece)]
}

func (t *tiktoken) find(piece string) int32 { return t.idOf([]byte(piece)) }

func (t *tiktoken) size() int { return len(t.ends) }

// append cuts a text into words. A word that is no piece begins as its bytes, which are merged like those of
// [bpe].
func (t *tiktoken) append(dst []int32, text string, s *scratch) []int32 {
	for _, at := range t.pattern.find(text) {
		s.word = append(s.word[:0], text[at[0]:at[1]]...)
		id := t.idOf(s.word)
		if id != none {
			dst = append(dst, id)
			continue
		}
		s.symbols = s.symbols[:0]
		for i := range s.word {
			s.addSymbol(t.idOf(s.word[i : i+1]))
		}
		dst = s.mergeAll(dst, t)
	}
	return dst
}

// merge looks up what two pieces make: any two that are a piece together merge, and its id is the rank.
func (t *tiktoken) merge(left, right int32) (merge, bool) {
	var both [2 * maxPiece]byte
	n := copy(both[:], t.piece(left))
	n += copy(both[n:], t.piece(right))
	id := t.idOf(both[:n])
	return merge{rank: id, id: id}, id != none
}

// maxPiece is how many bytes a piece has at most, since its length is packed into one.
const maxPiece = 255

// betweenWords cuts at a space between a visible character and a letter, where both patterns always cut. How they cut
// one side does not depend on the other, so that what lies between is remembered.
type betweenWords struct{}

func (betweenWords) split(dst []string, text string, _ bool) []string {
	from := 0
	for i := 1; i < len(text)-1; i++ {
		before := text[i-1]
		behind := text[i+1]
		visible := before > ' ' && before < 0x7f
		if text[i] == ' ' && visible && behind|0x20-'a' < 26 {
			dst = append(dst, text[from:i])
			from = i
		}
	}
	return append(dst, text[from:])
}

func (t *tiktoken) each(yield func(id int32, piece, text string)) {
	for id := range int32(len(t.ends)) {
		text := string(t.piece(id))
		yield(id, text, text)
	}
}
