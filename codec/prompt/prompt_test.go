package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// shapes covers every way in which blocks and tokens can meet.
func shapes() []Spec {
	ids := []uint64{7, 0, 1 << 63, ^uint64(0), 7, 8}
	var all []Spec
	for _, blockTokens := range []int{-1, 0, 1, 2, 3, 4, 5, 15, 16, 512} {
		for _, blocks := range []int{0, 1, 2, 6} {
			full := blocks * max(0, blockTokens)
			for _, tokens := range []int{-1, 0, 1, 2, 3, 4, 5, 7, 8, 9, full - 1, full, full + 1, full + 2, full + 9} {
				all = append(all, Spec{Blocks: ids[:blocks], BlockTokens: blockTokens, Tokens: tokens, Unique: 7})
			}
		}
	}
	return all
}

// TestAppendAgreesWithOracle: of which a block depends on its id alone, wherever it stands and however long it is.
func TestAppendAgreesWithOracle(t *testing.T) {
	for _, seed := range []uint64{0, 1, ^uint64(0)} {
		for _, p := range pairs(t, seed) {
			for _, s := range shapes() {
				checkPrompt(t, p, s)
			}
		}
	}
}

// checkPrompt appends a prompt between guards: nothing but its bytes may change.
func checkPrompt(t *testing.T, p pair, s Spec) {
	t.Helper()
	want := p.oracle.prompt(s)
	must.Equal(t, p.source.Size(s), len(want), "%s: Size(%+v)", p.name, s)
	guard := strings.Repeat("#", 24)
	arena := []byte(guard + strings.Repeat("?", len(want)) + guard)
	got := p.source.Append(arena[:len(guard)], s)
	must.Equal(t, string(got), guard+want, "%s: Append(%+v) = %q, want %q", p.name, s, got[len(guard):], want)
	must.Equal(t, string(arena), guard+want+guard, "%s: Append(%+v) wrote outside its bytes: %q", p.name, s, arena)
}

func FuzzAppend(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), 16, 40, 5)
	f.Add(uint64(0), uint64(0), uint64(0), 512, 2000, 3)
	f.Add(uint64(9), uint64(9), uint64(9), 0, 17, 1)
	f.Fuzz(func(t *testing.T, seed, id, unique uint64, blockTokens, tokens, blocks int) {
		s := Spec{BlockTokens: blockTokens % 1000, Tokens: tokens % 5000, Unique: unique}
		for b := range uint64(blocks) % 20 {
			s.Blocks = append(s.Blocks, id+b)
		}
		for _, p := range pairs(t, seed) {
			checkPrompt(t, p, s)
		}
	})
}

// The first bytes of prompts must never change: results on disk, caches and fingerprints of different versions and
// machines are compared by them.
func TestGoldenPrompts(t *testing.T) {
	s := Spec{Blocks: []uint64{46, 47, 48}, BlockTokens: 4, Tokens: 13, Unique: 5}
	ids := must.Have(NewTokenIDs(42, BuiltInIDs()))(t)
	golden := []struct {
		source Source
		want   string
	}{
		{ids, "15249,30270,22457,23706,10471,23989,19205,19786,19464,12977,30906,25251,28712"},
		{newText(t, 42), "ears turns narrow parents area press honest however incl capac vector project synd"},
	}
	for _, g := range golden {
		expect.Equal(t, string(g.source.Append(nil, s)), g.want, g.source)
	}
}

// What should differ does: at equal positions two runs agree no more often than chance allows.
func TestDifferentRunsDiffer(t *testing.T) {
	const n = 4096
	block := func(id uint64) Spec { return Spec{Blocks: []uint64{id}, BlockTokens: n, Tokens: n} }
	row := func(key uint64) Spec { return Spec{Tokens: n, Unique: key} }
	cases := []struct {
		name string
		a, b Spec
		seed uint64 // of b; a has 1
	}{
		{"neighbouring ids", block(1), block(2), 1},
		{"ids a bit apart at the top", block(5), block(5 | 1<<63), 1},
		{"id and row of one number", block(1), row(1), 1},
		{"neighbouring rows", row(1), row(2), 1},
		{"row and probe", row(1), row(1 | 1<<63), 1},
		{"neighbouring seeds", block(1), block(1), 2},
		{"id and seed exchanged", block(2), block(1), 2},
	}
	for _, c := range cases {
		as, bs := pairs(t, 1), pairs(t, c.seed)
		for i, p := range as {
			a := strings.Split(string(p.source.Append(nil, c.a)), p.oracle.separator)
			b := strings.Split(string(bs[i].source.Append(nil, c.b)), p.oracle.separator)
			same := 0
			for j := range a {
				if a[j] == b[j] {
					same++
				}
			}
			if limit := n / 150; same > limit {
				t.Errorf("%s, %s: %d of %d tokens agree, want at most %d", c.name, p.name, same, n, limit)
			}
		}
	}
}

// Every token of a table comes as often as its share of the 65,536 draws says.
func TestTokensAreSpreadEvenly(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing in it runs beside another")
	}
	const perToken = 32
	for _, p := range pairs(t, 11) {
		for place, list := range p.oracle.byPlace {
			n := len(list) * perToken
			s := Spec{Tokens: 4 + 4*n, Unique: uint64(place)}
			all := strings.Split(string(p.source.Append(nil, s)), p.oracle.separator)
			counts := make(map[string]int, len(list))
			for i := 4 + place; i < len(all); i += 4 {
				counts[all[i]]++
			}
			draws := make([]int, len(list))
			for v := range 65536 {
				draws[v*len(list)/65536]++
			}
			for i, token := range list {
				want := float64(n) * float64(draws[i]) / 65536
				expect.Near(t, float64(counts[token]), want, 6*math.Sqrt(want), "%s: token %s occurs times at place %d", p.name, token, place)
			}
		}
	}
}

func TestPromptsAreReadyForJSON(t *testing.T) {
	s := Spec{Blocks: []uint64{1, 2, 3}, BlockTokens: 16, Tokens: 60}
	ps := pairs(t, 5)
	var ids []int
	must.Do(t, json.Unmarshal(fmt.Appendf(nil, "[%s]", ps[0].source.Append(nil, s)), &ids))
	if len(ids) != 60 || slices.Min(ids) < 10000 || slices.Max(ids) >= 32000 {
		t.Errorf("got %d ids from %d to %d, want 60 in [10000, 32000)", len(ids), slices.Min(ids), slices.Max(ids))
	}
	text := ps[2].source.Append(nil, s)
	if quoted, err := json.Marshal(string(text)); err != nil || string(quoted) != `"`+string(text)+`"` {
		t.Errorf("text needs escaping: %s, %v", quoted, err)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	s := Spec{Blocks: []uint64{1, 2, 3}, BlockTokens: 16, Tokens: 60}
	for _, p := range pairs(t, 5) {
		buf := make([]byte, 0, p.source.Size(s))
		expect.Equal(t, testing.AllocsPerRun(100, func() { buf = p.source.Append(buf[:0], s) }), 0, "%s: allocations a prompt", p.name)
	}
}

// Sources are shared by all builders; the race detector watches.
func TestSourcesAreSafeForConcurrentUse(t *testing.T) {
	for _, p := range pairs(t, 5) {
		s := Spec{Blocks: []uint64{1, 2, 3}, BlockTokens: 16, Tokens: 60}
		want := []byte(p.oracle.prompt(s))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if got := p.source.Append(nil, s); !bytes.Equal(got, want) {
						t.Errorf("%s: got %q, want %q", p.name, got, want)
					}
				}
			})
		}
		wg.Wait()
	}
}

// randomSpec is a prompt as traces have them.
func randomSpec(chance *rand.Rand, blockTokens, maxBlocks int) Spec {
	s := Spec{BlockTokens: blockTokens, Unique: chance.Uint64()}
	for range chance.IntN(maxBlocks) + 1 {
		s.Blocks = append(s.Blocks, chance.Uint64())
	}
	s.Tokens = 1 + chance.IntN(len(s.Blocks)*blockTokens+blockTokens/2)
	return s
}
