package collect

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
)

// TestModelsThatAreAlike: where nothing is loaded and TTFT does not depend on the model, no note tells models apart,
// although the longest wait of most requests is longer than that of a few.
func TestModelsThatAreAlike(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := NewCollector([]string{"http://a"})
		for range 2000 {
			r := answered()
			if r.Model = "base"; rng.IntN(10) == 0 {
				r.Model = fmt.Sprint("lora-", rng.IntN(20))
			}
			ttftNS := int64(50e6 * math.Exp(rng.NormFloat64()))
			r.FirstTokenNS = r.SentNS + ttftNS
			r.LastTokenNS, r.DoneNS = r.FirstTokenNS+1e9, r.FirstTokenNS+1e9
			c.Add(r, 0)
		}
		s := planned(c, 0)
		expect.Equal(t, len(s.Owners.Models.Parts), 21, "models")
		expect.Lacks(t, strings.Join(s.Notes, "\n"), "model", "seed %d", seed)
	}
}
