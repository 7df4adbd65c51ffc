package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestTLSRing: bytes that are needed stay as they were added, at any place, and only a lack of room is a refusal.
func TestTLSRing(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g := &tlsRing{bytes: make([]byte, 1000)}
		type put struct {
			place int64
			p     []byte
		}
		held := map[int32]put{}
		needed := func(i int32, place int64) bool { h, ok := held[i]; return ok && h.place == place }
		refused := 0
		for i := range int32(500) {
			p := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(200))
			if g.fits(int64(len(p)), needed) {
				held[i] = put{g.add(i, p), p}
			} else if refused++; len(held) == 0 {
				t.Fatalf("seed %d: an empty ring refuses %d bytes", seed, len(p))
			}
			for j, h := range held {
				if !bytes.Equal(g.bytes[h.place:][:len(h.p)], h.p) {
					t.Fatalf("seed %d: request %d was overwritten by request %d", seed, j, i)
				}
				if rng.IntN(4) == 0 {
					delete(held, j)
				}
			}
		}
		if refused == 500 {
			t.Fatal("all were refused")
		}
	}
}
