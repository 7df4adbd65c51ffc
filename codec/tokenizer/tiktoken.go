package tokenizer

import (
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// CL100K and O200K name the built-in vocabularies, OpenAI's of GPT-4 and of
// GPT-4o and gpt-oss.
const (
	CL100K = "cl100k_base"
	O200K  = "o200k_base"
)

// tiktoken is a built-in vocabulary. Names of special tokens inside a text are
// ordinary text to it.
type tiktoken struct {
	codec *codec.Codec
	size  int // ids in the file that tiktoken reads it from
	pool  *pool
}

func newTiktoken(name string) tiktoken {
	if name == CL100K {
		return tiktoken{codec: codec.NewCl100kBase(), size: 100256, pool: &pool{}}
	}
	return tiktoken{codec: codec.NewO200kBase(), size: 199998, pool: &pool{}}
}

func (t tiktoken) encode(dst []int32, text string) []int32 {
	s := t.pool.take()
	for len(text) > 0 {
		n := cutLength(text)
		ids, known := s.recall(text[:n])
		if known {
			dst = append(dst, ids...)
		} else {
			from := len(dst)
			dst = t.encodeFresh(dst, text[:n])
			s.remember(text[:n], dst[from:])
		}
		text = text[n:]
	}
	t.pool.give(s)
	return dst
}

func (t tiktoken) encodeFresh(dst []int32, text string) []int32 {
	ids, _, err := t.codec.Encode(text)
	if err != nil {
		panic("BUG: tokenizer: a built-in pattern failed: " + err.Error())
	}
	for _, id := range ids {
		dst = append(dst, int32(id))
	}
	return dst
}

// cutLength is how much of a text can be encoded by itself: up to a space between a visible character and a letter, where both
// patterns always cut. What they do on one side of it depends on nothing on the other.
func cutLength(text string) int {
	for i := 1; i < len(text)-1; i++ {
		if text[i] == ' ' && text[i-1] > ' ' && text[i-1] < 0x7f && text[i+1]|0x20-'a' < 26 {
			return i
		}
	}
	return len(text)
}

func (t tiktoken) special() (head, tail []int32) { return nil, nil }
func (t tiktoken) addedIDs() []addedToken        { return nil }

func (t tiktoken) pieces(yield func(id int32, piece, text string)) {
	for id := range t.size {
		if text, err := t.codec.Decode([]uint{uint(id)}); err == nil {
			yield(int32(id), text, text)
		}
	}
}

// cut is what both patterns do to that which words are chosen from: lower-case
// letters and single spaces.
func (t tiktoken) cut(text string) []string {
	words := strings.Split(text, " ")
	for i := 1; i < len(words); i++ {
		words[i] = " " + words[i]
	}
	return words
}
