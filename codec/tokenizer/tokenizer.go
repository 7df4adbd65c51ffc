// Package tokenizer counts a text's tokens as a model's own tokenizer does.
//
// It owns the reading of Hugging Face's tokenizer.json, and an encoder that gives the ids of their tokenizers library
// for the same file. It owns the choice of words that are single tokens beside any others. It does not own prompts, nor
// chat templates, nor decoding.
//
// A Tokenizer is immutable but for a pool of caches and may be used by any number of goroutines. It holds the
// vocabulary, some tens of MB for the largest models. Encoding allocates a few bytes a word. Each goroutine that
// encodes at one time keeps a cache of at most about 8 MB.
//
// Two things differ from the reference. Its truncation and padding are not applied. Character classes and normalization
// forms follow the version of Unicode of Go and golang.org/x/text. So characters that only newer or older versions
// assign may be cut in another way.
//
// It is our own because no pure-Go library does this (November 2026). Version 0.3.0 of sugarme/tokenizer panics on the
// patterns of Qwen and Llama 3. With that of Llama 2 it did not end within minutes on our texts. Version 0.3.1 of
// gomlx/go-huggingface reads no tokenizer.json.
//
// The package is not an API: any release may change it.
package tokenizer

import (
	"slices"
	"strings"
	"sync"
)

// Tokenizer turns text into token ids.
type Tokenizer struct {
	name string
	stages
	once  sync.Once
	found choice
}

// Open reads a tokenizer: a tokenizer.json, a folder that holds one, or one of the built-in names CL100K and O200K. It
// refuses what it cannot read; errors do not repeat the name.
func Open(name string) (*Tokenizer, error) {
	if name == CL100K || name == O200K {
		return &Tokenizer{name: name, stages: builtIn(name)}, nil
	}
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	s, err := parse(data)
	return &Tokenizer{name: name, stages: s}, err
}

// Name returns the name that it was opened by.
func (t *Tokenizer) Name() string { return t.name }

// Append adds the ids of text to dst; special reports whether with those that the tokenizer puts before and behind it.
// Bytes that are no UTF-8 count as U+FFFD. The error is a LimitError.
func (t *Tokenizer) Append(dst []int32, text string, special bool) (ids []int32, err error) {
	defer catch(&err)
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !special {
		return t.encode(dst, text), nil
	}
	dst = append(dst, t.head...)
	return append(t.encode(dst, text), t.tail...), nil
}

// Count returns how many ids Append adds.
func (t *Tokenizer) Count(text string, special bool) (int, error) {
	ids, err := t.Append(nil, text, special)
	return len(ids), err
}

// Special returns how many tokens it puts before and behind a text.
func (t *Tokenizer) Special() (head, tail int) {
	return len(t.head), len(t.tail)
}

// Ordinary returns the ids of ordinary text, sorted. They are those of the model's vocabulary that are no added token,
// no single byte and no name in brackets (<unk>, [PAD], <0x0A>).
func (t *Tokenizer) Ordinary() []int {
	added := make(map[int32]bool)
	for _, a := range t.added.all {
		added[a.id] = true
	}
	var ids []int
	t.model.each(func(id int32, piece, text string) {
		if !added[id] && len(text) > 1 && !bracketed(piece) {
			ids = append(ids, int(id))
		}
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// bracketed reports whether a piece is the name of something rather than text.
func bracketed(piece string) bool {
	if len(piece) <= 2 {
		return false
	}
	first := piece[0]
	last := piece[len(piece)-1]
	return first == '<' && last == '>' || first == '[' && last == ']'
}

// stages are what a text goes through, as a tokenizer.json describes them.
type stages struct {
	added         addedTokens
	normalizer    normalizers
	preTokenizers []preTokenizer
	model         model
	head, tail    []int32 // put before and behind a text
	pool          pool
}

// model encodes single words.
type model interface {
	// append adds the tokens of a word that is not remembered.
	append(dst []int32, word string, s *scratch) []int32
	find(piece string) int32 // its id, or none
	size() int
	// each calls yield for every id. piece is spelled as in the file; text is what it stands for.
	each(yield func(id int32, piece, text string))
}

// encode adds the ids of a text that is valid UTF-8. It runs the stages: added tokens, normalizing, added tokens of
// normalized text, pre-tokenizing, the model.
func (h *stages) encode(dst []int32, text string) []int32 {
	s := h.pool.take()
	h.stretches(text, func(stretch string, opens bool) {
		for _, word := range h.words(stretch, opens, s) {
			dst = s.append(dst, word, h.model)
		}
	}, func(id int32) { dst = append(dst, id) })
	h.pool.give(s)
	return dst
}

// stretches finds the added tokens and calls plain for the normalized text between them.
func (h *stages) stretches(text string, plain func(stretch string, opens bool), added func(id int32)) {
	h.added.raw.each(text, func(from, end int) {
		stretch, opens := h.normalizer.normalize(text[from:end], from == 0)
		h.added.later.each(stretch, func(from, end int) {
			plain(stretch[from:end], opens && from == 0)
		}, added)
	}, added)
}

// words pre-tokenizes; the result is valid until the next call with s.
func (h *stages) words(stretch string, opens bool, s *scratch) []string {
	s.now = append(s.now[:0], stretch)
	for _, p := range h.preTokenizers {
		s.next = s.next[:0]
		for i, piece := range s.now {
			s.next = p.split(s.next, piece, opens && i == 0)
		}
		s.now, s.next = s.next, s.now
	}
	return s.now
}

// cut returns the words into which pre-tokenizing cuts a text.
func (h *stages) cut(text string) (words []string) {
	h.stretches(text, func(stretch string, opens bool) {
		words = append(words, h.words(stretch, opens, newScratch())...)
	}, func(int32) {})
	return words
}
