package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveFleet has for each instance every prompt's tokens written out, the most recently used prefix last.
type naiveFleet struct {
	engineTokens int
	capacity     []int64
	held         []map[string]int // by instance: the use of each token, known by all before it
	now          int
}

// written is a prompt as a list of what its tokens are.
type written []string

func writeOut(p prompt, blockTokens, row int) (w written) {
	before := ""
	for _, token := range p.sequence(blockTokens, row) {
		before += fmt.Sprint(token)
		w = append(w, before)
	}
	return w
}

func (n *naiveFleet) shared(w written, k int) (tokens int) {
	for tokens < len(w) && n.held[k][w[tokens]] > 0 {
		tokens++
	}
	tokens = min(tokens, len(w)-1)
	return tokens / n.engineTokens * n.engineTokens
}

// give uses a prompt's tokens, its last one first. With them it uses what is there of its last block beyond its own
// end, which is as recent as the block.
func (n *naiveFleet) give(w, beyond written, tail, k int) {
	body := len(w) - tail
	for _, part := range []written{w[body:], beyond, w[:body]} {
		for _, prefix := range slices.Backward(part) {
			n.now++
			if len(beyond) == 0 || &part[0] != &beyond[0] || n.held[k][prefix] > 0 {
				n.held[k][prefix] = n.now
			}
		}
	}
	if n.capacity[k] == 0 {
		return
	}
	var all []string
	for prefix := range n.held[k] {
		all = append(all, prefix)
	}
	slices.SortFunc(all, func(x, y string) int { return n.held[k][y] - n.held[k][x] })
	for _, prefix := range all[min(len(all), int(n.capacity[k])):] {
		delete(n.held[k], prefix)
	}
}

// TestFleetAgreesWithSetsOfPrefixes compares what each instance holds, and which hold the most, with one set of
// written-out prefixes for each instance. There are prompts with and without limits, templates and partial last blocks.
func TestFleetAgreesWithSetsOfPrefixes(t *testing.T) {
	for seed := range uint64(60) {
		chance := rand.New(rand.NewPCG(seed, 5))
		blockTokens, engineTokens := 1+chance.IntN(6), 1+chance.IntN(5)
		head, tail := chance.IntN(2)*chance.IntN(7), chance.IntN(2)*chance.IntN(4)
		instances := 1 + chance.IntN(5)
		if seed%10 == 0 {
			instances = 70 // more than a word has bits
		}
		capacity := make([]int64, instances)
		for k := range capacity {
			if seed%2 == 1 && chance.IntN(4) > 0 { // else without a limit
				capacity[k] = int64(1 + chance.IntN(80))
			}
		}
		var asked []prompt
		p := NewPrompts(blockTokens, head)
		for range 150 {
			one := randomPrompt(chance, blockTokens, asked)
			one.head, one.tail = head, tail
			asked = append(asked, one)
			p.Add(one.blocks, one.tokens, one.total())
		}
		f := NewFleet(p, engineTokens, capacity)
		naive := &naiveFleet{engineTokens: engineTokens, capacity: capacity}
		for range instances {
			naive.held = append(naive.held, map[string]int{})
		}
		among, who := NewSet(instances), NewSet(instances)
		for i, one := range asked {
			w := writeOut(one, blockTokens, i)
			clear(among)
			for k := range instances {
				if chance.IntN(3) > 0 {
					among.Add(k)
				}
			}
			if among.Next(0) < 0 {
				among.Add(chance.IntN(instances))
			}
			checkLongest(t, f, naive, w, i, head, among, who)
			k := chance.IntN(min(instances, 1+i/5))
			if got, want := f.Give(i, k), naive.shared(w, k); got != want {
				t.Fatalf("seed %d: instance %d holds %d tokens of prompt %d, want %d", seed, k, got, i, want)
			}
			whole := one
			whole.tokens, whole.tail = max(one.tokens, len(one.blocks)*blockTokens), 0
			naive.give(w, writeOut(whole, blockTokens, i)[head+one.tokens:], tail, k)
		}
	}
}

func checkLongest(t *testing.T, f *Fleet, naive *naiveFleet, w written, i, head int, among, who Set) {
	t.Helper()
	most, want := 0, []int(nil)
	for k := among.Next(0); k >= 0; k = among.Next(k + 1) {
		most = max(most, naive.shared(w, k))
	}
	for k := among.Next(0); k >= 0; k = among.Next(k + 1) {
		if most <= head || naive.shared(w, k) == most {
			want = append(want, k)
		}
	}
	got, found := f.Longest(i, among, who), []int(nil)
	for k := who.Next(0); k >= 0; k = who.Next(k + 1) {
		found = append(found, k)
	}
	if got != most || !slices.Equal(found, want) {
		t.Fatalf("prompt %d: %d tokens at %v, want %d at %v", i, got, found, most, want)
	}
}

// randomPrompt often goes on from an earlier one.
func randomPrompt(chance *rand.Rand, blockTokens int, earlier []prompt) prompt {
	var p prompt
	if len(earlier) > 0 && chance.IntN(3) > 0 {
		from := earlier[chance.IntN(len(earlier))]
		p.blocks = slices.Clone(from.blocks[:chance.IntN(len(from.blocks)+1)])
	}
	for range chance.IntN(4) {
		p.blocks = append(p.blocks, uint64(chance.IntN(6)))
	}
	p.tokens = max(1, len(p.blocks)*blockTokens-chance.IntN(blockTokens+1)+chance.IntN(2)*chance.IntN(5))
	p.blocks = p.blocks[:min(len(p.blocks), (p.tokens+blockTokens-1)/blockTokens)]
	return p
}

// TestTextsShareWhatIsEqual: prompts of which only the text is known are compared by it.
func TestTextsShareWhatIsEqual(t *testing.T) {
	p := NewPrompts(512, 0)
	a := make([]byte, 400)
	b := slices.Clone(a)
	b[200] = 1
	for _, text := range [][]byte{a, b, a, nil} {
		p.AddText(text)
	}
	f := NewFleet(p, 16, []int64{0, 0, 0})
	f.Give(0, 0)
	f.Give(1, 1)
	all, who := NewSet(3), NewSet(3)
	for k := range 3 {
		all.Add(k)
	}
	if n := f.Longest(2, all, who); n != 6*pieceTokens || who.Next(0) != 0 || who.Next(1) != -1 {
		t.Errorf("%d tokens at %b, want all six pieces at the first", n, who)
	}
	if n := f.Longest(3, all, who); n != 0 || who[0] != 7 || p.Tokens(2) != 0 {
		t.Errorf("an empty text: %d tokens at %b, counted as %d", n, who, p.Tokens(2))
	}
}
