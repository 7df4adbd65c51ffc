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
}

func newTiktoken(name string) tiktoken {
	if name == CL100K {
		return tiktoken{codec: codec.NewCl100kBase(), size: 100256}
	}
	return tiktoken{codec: codec.NewO200kBase(), size: 199998}
}

func (t tiktoken) encode(dst []int32, text string) []int32 {
	ids, _, err := t.codec.Encode(text)
	if err != nil {
		panic("BUG: tokenizer: a built-in pattern failed: " + err.Error())
	}
	for _, id := range ids {
		dst = append(dst, int32(id))
	}
	return dst
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
