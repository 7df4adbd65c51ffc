package tokenizer

import (
	"bytes"
	_ "embed"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/dlclark/regexp2/v2"
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

// tiktoken is a built-in vocabulary. Names of special tokens inside a text are ordinary text to it.
type tiktoken struct {
	pattern expression
	text    []byte   // all pieces in order of their ids
	ends    []uint32 // in text, of each id
	slots   []int32  // ids by hash, none where empty; a power of two, at most half full
	seed    maphash.Seed
	pool    pool
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
	re := regexp2.MustCompile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	re.MatchTimeout = maxMatchTime
	t := &tiktoken{pattern: expression{re}, seed: maphash.MakeSeed()}
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
		at := t.slot(t.piece(int32(id)))
		for ; t.slots[at] != none; at = (at + 1) % len(t.slots) {
		}
		t.slots[at] = int32(id)
	}
}

// slot returns where the search for a piece begins.
func (t *tiktoken) slot(piece []byte) int {
	return int(maphash.Bytes(t.seed, piece) % uint64(len(t.slots)))
}

// piece returns the bytes of an id.
func (t *tiktoken) piece(id int32) []byte {
	if id == 0 {
		return t.text[:t.ends[0]]
	}
	return t.text[t.ends[id-1]:t.ends[id]]
}

// find returns the id of a piece, or none.
func (t *tiktoken) find(piece []byte) int32 {
	for at := t.slot(piece); ; at = (at + 1) % len(t.slots) {
		if id := t.slots[at]; id == none || bytes.Equal(t.piece(id), piece) {
			return id
		}
	}
}

func (t *tiktoken) encode(dst []int32, text string) []int32 {
	s := t.pool.take()
	for len(text) > 0 {
		n := cutLength(text)
		ids, known := s.recall(text[:n])
		if known {
			dst = append(dst, ids...)
		} else {
			from := len(dst)
			dst = t.encodeFresh(dst, text[:n], s)
			s.remember(text[:n], dst[from:])
		}
		text = text[n:]
	}
	t.pool.give(s)
	return dst
}

// encodeFresh cuts a text into words. A word that is no piece begins as its bytes, which are merged like those of
// [bpe].
func (t *tiktoken) encodeFresh(dst []int32, text string, s *scratch) []int32 {
	for _, at := range t.pattern.find(text) {
		s.word = append(s.word[:0], text[at[0]:at[1]]...)
		if id := t.find(s.word); id != none {
			dst = append(dst, id)
			continue
		}
		s.symbols = s.symbols[:0]
		for i := range s.word {
			s.addSymbol(t.find(s.word[i : i+1]))
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
	id := t.find(both[:n])
	return merge{rank: id, id: id}, id != none
}

// maxPiece is how many bytes a piece has at most, since its length is packed into one.
const maxPiece = 255

// cutLength returns how much of a text can be encoded by itself. It ends at a space between a visible character and a
// letter, where both patterns always cut. How they cut one side does not depend on the other.
func cutLength(text string) int {
	for i := 1; i < len(text)-1; i++ {
		if text[i] == ' ' && text[i-1] > ' ' && text[i-1] < 0x7f && text[i+1]|0x20-'a' < 26 {
			return i
		}
	}
	return len(text)
}

func (t *tiktoken) special() (head, tail []int32) { return nil, nil }
func (t *tiktoken) addedIDs() []addedToken        { return nil }

func (t *tiktoken) pieces(yield func(id int32, piece, text string)) {
	for id := range int32(len(t.ends)) {
		text := string(t.piece(id))
		yield(id, text, text)
	}
}

// cut is what both patterns do to that which words are chosen from: lower-case letters and single spaces.
func (t *tiktoken) cut(text string) []string {
	words := strings.Split(text, " ")
	for i := 1; i < len(words); i++ {
		words[i] = " " + words[i]
	}
	return words
}
