package blockhash

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// keyOf is a key of the test's own.
func keyOf(b byte) (k Key) {
	k.secret[0] = b
	return k
}

// prompts are of few different tokens, and many begin alike.
func prompts(chance *rand.Rand, n int) [][]int32 {
	var all [][]int32
	for range n {
		var p []int32
		if len(all) > 0 && chance.IntN(4) > 0 {
			before := all[chance.IntN(len(all))]
			p = slices.Clone(before[:chance.IntN(len(before)+1)])
		}
		for range chance.IntN(3*BlockTokens) + 1 {
			p = append(p, chance.Int32N(2))
		}
		all = append(all, p)
	}
	return all
}

// regrouped is every so-manieth id, and the last one.
func regrouped(ids []uint64, every int) (out []uint64) {
	for at := every; at < len(ids)+every; at += every {
		out = append(out, ids[min(at, len(ids))-1])
	}
	return out
}

// TestPartition: two ids are equal if and only if the prompts are, up to the ends of their blocks. The oracle compares
// tokens. Larger blocks are the same of every 4th and 32nd id.
func TestPartition(t *testing.T) {
	all := prompts(rand.New(rand.NewPCG(1, 2)), 400)
	chain := keyOf(1).Chain("tokens")
	for _, every := range []int{1, 4, 32} {
		type block struct {
			prompt, end int
			id          uint64
		}
		var blocks []block
		size := every * BlockTokens
		for p, tokens := range all {
			ids := chain.Append(nil, tokens)
			ids = regrouped(ids, every)
			expect.Equal(t, len(ids), (len(tokens)+size-1)/size, "ids of a prompt")
			for i, id := range ids {
				blocks = append(blocks, block{p, min((i+1)*size, len(tokens)), id})
			}
		}
		same := 0
		for i, a := range blocks {
			for _, b := range blocks[:i] {
				equal := slices.Equal(all[a.prompt][:a.end], all[b.prompt][:b.end])
				if equal {
					same++
				}
				if equal != (a.id == b.id) {
					t.Fatalf("%d tokens of prompt %d and %d of %d: equal %v, ids %d and %d", a.end, a.prompt, b.end, b.prompt,
						equal, a.id, b.id)
				}
			}
		}
		if every == 1 && same < 500 {
			t.Errorf("only %d pairs of equal prefixes: the test shows nothing", same)
		}
	}
}

// TestVector: the ids are those that hashlib of Python's library makes by the manual's page on the format.
func TestVector(t *testing.T) {
	var tokens []int32
	for token := range int32(40) {
		tokens = append(tokens, token)
	}
	ids := keyOf(1).Chain("token\x00cl100k_base\x00chatml").Append(nil, tokens)
	expect.List(t, ids, []uint64{5888523469831383013, 4658980458901568570, 2144623321768744710}, "ids")
}

// TestGoesOn: the ids of a text are those of its beginning's whole blocks, and then more: so answers are in the chain.
func TestGoesOn(t *testing.T) {
	chain := keyOf(1).Chain("tokens")
	chance := rand.New(rand.NewPCG(3, 4))
	for _, text := range prompts(chance, 200) {
		prompt := chance.IntN(len(text) + 1)
		ids := chain.Append(nil, text[:prompt])
		expect.List(t, chain.Append(ids[:prompt/BlockTokens], text), chain.Append(nil, text), "ids")
	}
}

// TestAttack: who has each prompt and no key finds no block, with any number of other keys. Other domains and
// purposes, too, have nothing in common.
func TestAttack(t *testing.T) {
	all := prompts(rand.New(rand.NewPCG(5, 6)), 200)
	secret := map[uint64]bool{}
	for _, p := range all {
		for _, id := range keyOf(1).Chain("tokens").Append(nil, p) {
			secret[id] = true
		}
	}
	hits := func(k Key, domain string) (n int) {
		for _, p := range all {
			for _, id := range k.Chain(domain).Append(nil, p) {
				if secret[id] {
					n++
				}
			}
		}
		return n
	}
	if hits(keyOf(1), "tokens") < len(all) {
		t.Fatal("the true key finds nothing: the test shows nothing")
	}
	expect.Equal(t, hits(keyOf(1), "bytes"), 0, "blocks found in another domain")
	for wrong := range 40 {
		expect.Equal(t, hits(keyOf(byte(wrong+2)), "tokens"), 0, "blocks found with another key")
	}
	expect.Equal(t, hits(Key{}, "tokens"), 0, "blocks found without a key")
	k := keyOf(1)
	names := map[string]bool{k.ID(): true, keyOf(2).ID(): true}
	for _, purpose := range []string{"session", "tenant", "sessio"} {
		for _, name := range []string{"a", "na", ""} {
			names[k.Pseudonym(purpose, name)] = true
		}
	}
	expect.Equal(t, len(names), 2+9, "different names")
}

// TestIndependence: under two keys, each pair of bits of the ids of one block is as often equal as not. Of 3969 such
// counts none is further than six standard deviations from a half, and together they scatter as chance would have it.
func TestIndependence(t *testing.T) {
	const blocks = 4000
	a, b := keyOf(1).Chain("tokens"), keyOf(2).Chain("tokens")
	var equal [63][63]int
	distance := 0
	for n := range int32(blocks) {
		x, y := a.Append(nil, []int32{n})[0], b.Append(nil, []int32{n})[0]
		distance += bits.OnesCount64(x ^ y)
		for i := range 63 {
			for j := range 63 {
				if x>>i&1 == y>>j&1 {
					equal[i][j]++
				}
			}
		}
	}
	deviation := math.Sqrt(blocks) / 2
	var chi2 float64
	for _, row := range equal {
		for _, n := range row {
			z := (float64(n) - blocks/2) / deviation
			chi2 += z * z
			if math.Abs(z) > 6 {
				t.Errorf("bits agree in %d of %d blocks", n, blocks)
			}
		}
	}
	const pairs = 63 * 63
	expect.Near(t, chi2, pairs, 6*math.Sqrt(2*pairs), "chi squared pairs")
	mean := float64(distance) / blocks
	expect.Near(t, mean, 31.5, 6*math.Sqrt(63.0/4/blocks), "the mean distance in bits")
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	made := must.Have(OpenKey("new:" + path))(t)
	read := must.Have(OpenKey(path))(t)
	expect.Equal(t, read, made, "key")
	if info := must.Have(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o", info.Mode().Perm())
	}
	text := strings.TrimSpace(string(must.Have(os.ReadFile(path))(t)))
	one, other := NewKey(), NewKey()
	if one == other || strings.Contains(text, made.ID()) || NewKey().Kept || !made.Kept {
		t.Error("keys are not drawn as they should be")
	}
	refused := func(path, why string) {
		t.Helper()
		if _, err := OpenKey(path); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", path, err, why)
		}
	}
	refused("new:"+path, "is there already")
	refused(filepath.Join(dir, "other"), "new:")
	must.Do(t, os.Chmod(path, 0o640))
	refused(path, "chmod 600")
	bad := filepath.Join(dir, "bad")
	for _, content := range []string{"", text[:62], text + "00", strings.Repeat("g", 64), strings.Repeat("0", 1<<20)} {
		must.Do(t, os.WriteFile(bad, []byte(content), 0o600))
		refused(bad, "holds no key")
	}
	refused(dir, "")
}

func BenchmarkChain(b *testing.B) {
	chain := keyOf(1).Chain("tokens")
	tokens := make([]int32, 8192)
	ids := make([]uint64, 0, len(tokens)/BlockTokens)
	b.ReportAllocs()
	for b.Loop() {
		ids = chain.Append(ids[:0], tokens)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/block")
}
