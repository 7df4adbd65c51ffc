package tokenizer

import (
	"strings"
	"sync"
)

// Limits of the memory of one encoding: words longer than maxCachedBytes come
// too seldom twice, and a cache that is full is emptied. 65,536 words are more
// than a prompt's vocabulary; with their tokens they take about 8 MB.
const (
	maxCachedBytes = 128
	maxCachedWords = 1 << 16
)

// scratch is what one call of Append works with. It goes back to a pool, with
// the words that it remembers.
type scratch struct {
	words   map[string]span
	ids     []int32 // of the words remembered
	symbols []symbol
	heap    candidates
	nodes   []node
	word    []byte   // of a built-in vocabulary
	now     []string // pieces between two pre-tokenizers
	next    []string
}

type span struct{ from, end int32 }

// pool keeps what was worked with for the next call. Unlike sync.Pool it does
// not forget at every garbage collection, which would cost the caches.
type pool struct {
	mutex sync.Mutex
	free  []*scratch
}

// maxPooled is how many are kept; more are in use only with as many goroutines.
const maxPooled = 64

func (p *pool) take() *scratch {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	n := len(p.free)
	if n == 0 {
		return newScratch()
	}
	s := p.free[n-1]
	p.free = p.free[:n-1]
	return s
}

func (p *pool) give(s *scratch) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.free) < maxPooled {
		p.free = append(p.free, s)
	}
}

func newScratch() *scratch { return &scratch{words: make(map[string]span)} }

// recall returns the tokens of a word, valid until the next remember.
func (s *scratch) recall(word string) ([]int32, bool) {
	at, ok := s.words[word]
	return s.ids[at.from:at.end], ok
}

// remember keeps the tokens of a word.
func (s *scratch) remember(word string, ids []int32) {
	if len(word) > maxCachedBytes {
		return
	}
	if len(s.words) >= maxCachedWords {
		clear(s.words)
		s.ids = s.ids[:0]
	}
	from := int32(len(s.ids))
	s.ids = append(s.ids, ids...)
	s.words[strings.Clone(word)] = span{from: from, end: int32(len(s.ids))}
}
