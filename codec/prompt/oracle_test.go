package prompt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// oracle writes prompts the slow way: token by token from a sequential generator, with no groups, tables or sizes.
type oracle struct {
	seed      uint64
	first     []string
	byPlace   [4][]string
	separator string
}

func oracleOfIDs(seed uint64, from, end int) oracle {
	o := oracle{seed: seed, separator: ","}
	for id := from; id < end; id++ {
		o.first = append(o.first, fmt.Sprint(id))
	}
	o.byPlace = [4][]string{o.first, o.first, o.first, o.first}
	return o
}

func oracleOfText(seed uint64) oracle {
	o := oracle{seed: seed, separator: " "}
	for _, line := range strings.Split(words, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		word := strings.TrimRight(line, "*")
		place := len(word) - 4
		o.byPlace[place] = append(o.byPlace[place], word)
		if word != line && place == 0 {
			o.first = append(o.first, word)
		}
	}
	return o
}

// splitMix is SplitMix64 as published.
func splitMix(x uint64) uint64 {
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// run returns the first n tokens of a run; atStart says that it opens a prompt.
func (o oracle) run(domain string, id uint64, n int, atStart bool) []string {
	domainNumber := uint64(0)
	for _, c := range []byte(domain) {
		domainNumber = domainNumber<<8 | uint64(c)
	}
	const gamma = 0x9e3779b97f4a7c15
	state := splitMix(splitMix(splitMix(o.seed+gamma)+domainNumber) ^ id)
	var tokens []string
	var bits uint64
	for p := range n {
		if p%4 == 0 {
			bits = splitMix(state)
			state += gamma
		}
		list := o.byPlace[p%4]
		if p == 0 && atStart {
			list = o.first
		}
		tokens = append(tokens, list[int(bits&0xffff)*len(list)/65536])
		bits >>= 16
	}
	return tokens
}

func (o oracle) tokens(s Spec) []string {
	var all []string
	blocks := s.Blocks
	if s.BlockTokens <= 0 {
		blocks = nil
	}
	for _, id := range blocks {
		if left := s.Tokens - len(all); left > 0 {
			all = append(all, o.run("block", id, min(left, s.BlockTokens), len(all) == 0)...)
		}
	}
	if left := s.Tokens - len(all); left > 0 {
		all = append(all, o.run("unique", s.Unique, left, len(all) == 0)...)
	}
	return all
}

func (o oracle) prompt(s Spec) string { return strings.Join(o.tokens(s), o.separator) }

// pair is a source and the oracle that it must agree with.
type pair struct {
	name   string
	source Source
	oracle oracle
}

func pairs(t testing.TB, seed uint64) []pair {
	t.Helper()
	usual := must.Have(NewTokenIDs(seed, BuiltInIDs()))(t)
	seven := must.Have(NewTokenIDs(seed, span(1000000, 1000999)))(t)
	return []pair{
		{"ids", usual, oracleOfIDs(seed, 10000, 32000)},
		{"long ids", seven, oracleOfIDs(seed, 1000000, 1001000)},
		{"text", newText(t, seed), oracleOfText(seed)},
	}
}
