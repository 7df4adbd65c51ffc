package inspect

import (
	"fmt"
	"math"
	"slices"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/format"
)

// Tiers is what a cache of several tiers would have held of the prompts. Tiers are such as a GPU's memory, the host's,
// and a store that all instances share.
type Tiers struct {
	BytesPerToken *int64       `json:"bytes_per_token"` // of --kv-bytes; null without
	Policies      []TierPolicy `json:"policies"`        // one for each of --policy
	Definition    string       `json:"definition"`      // how the tiers work, in sentences
}

// TierPolicy is what the tiers would have held under one policy.
type TierPolicy struct {
	Policy        kvcache.Policy `json:"policy"`         // lru, fifo, s3fifo or belady
	Tiers         []Tier         `json:"tiers"`          // the fastest first
	ComputedRatio float64        `json:"computed_ratio"` // share of the input tokens that no tier would have had
}

// Tier is what one tier would have served.
type Tier struct {
	CapacityTokens *int64  `json:"capacity_tokens"` // room of the tier; null = unlimited
	TokenRatio     float64 `json:"token_ratio"`     // share of the input tokens that it would have served
	// tokens that it would have served / the span of the trace; null if the trace has no times or no span
	MeanTokensPerS    *float64 `json:"mean_tokens_per_s"`
	BusiestTokensPerS *int64   `json:"busiest_tokens_per_s"` // in the second of the most of them; null likewise
}

// Unlimited is the capacity in Options.Tiers of a tier that holds everything.
const Unlimited = math.MaxInt64

// mostTiers is far more than any server has.
const mostTiers = 8

// checkTiers refuses what cannot be meant.
func (o *Options) checkTiers() error {
	switch {
	case len(o.Tiers) > mostTiers:
		return fmt.Errorf("--tiers has %d; want %d at most", len(o.Tiers), mostTiers)
	case len(o.Tiers) == 0 && (len(o.Policies) > 0 || o.KVBytes > 0):
		return fmt.Errorf("--policy and --kv-bytes are about --tiers; give that, too")
	case o.KVBytes < 0:
		return fmt.Errorf("--kv-bytes %d; want the bytes of one token in the cache", o.KVBytes)
	}
	for _, p := range o.Policies {
		if !slices.Contains(kvcache.Policies, kvcache.Policy(p)) {
			return fmt.Errorf("--policy %q; want some of %v", p, kvcache.Policies)
		}
	}
	return nil
}

// tiersOf follows the blocks of a trace through the tiers; nil if nobody asked for that.
func tiersOf(t *trace.Trace, f *follower, o Options) *Tiers {
	if len(o.Tiers) == 0 {
		return nil
	}
	all := &Tiers{
		Definition: fmt.Sprintf("A tier of n tokens has ⌊n / %d⌋ slots, for a block of %d tokens each. Every tier "+
			"is given every block that is computed or used, and keeps by its policy what it can. A block is read from "+
			"the first tier that has it, if all before it in its row were found. Rows count from their arrival, all "+
			"their blocks are looked up at that instant, and output takes no room. Belady knows the future: "+
			"in whole blocks, no policy finds more in all tiers together.", f.blockTokens, f.blockTokens),
	}
	if o.KVBytes > 0 {
		all.BytesPerToken = &o.KVBytes
	}
	var slots []int64
	for _, tokens := range o.Tiers {
		slots = append(slots, tokens/int64(f.blockTokens))
	}
	policies := o.Policies
	if len(policies) == 0 {
		policies = []string{string(kvcache.PolicyLRU)}
	}
	for _, policy := range policies {
		all.Policies = append(all.Policies, f.tiers(t, kvcache.Policy(policy), o.Tiers, slots))
	}
	return all
}

// tiers follows the blocks under one policy.
func (f *follower) tiers(t *trace.Trace, policy kvcache.Policy, capacities, slots []int64) TierPolicy {
	served := make([]int64, len(slots))
	second := make([]int64, len(slots)) // of them, those of the latest second with rows
	busiest := make([]int64, len(slots))
	latest := int64(math.MinInt64)
	f.references.Follow(policy, slots, func(row int, hit []int64) {
		if at := f.held[row].atNS / 1e9; at != latest {
			latest = at
			clear(second)
		}
		for k, tokens := range hit {
			served[k] += tokens
			second[k] += tokens
			busiest[k] = max(busiest[k], second[k])
		}
	})
	input := int64(0)
	for _, row := range f.held {
		input += int64(row.tokens)
	}
	p := TierPolicy{Policy: policy, ComputedRatio: 1}
	for k, tokens := range served {
		tier := Tier{TokenRatio: share(tokens, input)}
		p.ComputedRatio -= tier.TokenRatio
		if capacities[k] != Unlimited {
			tier.CapacityTokens = &capacities[k]
		}
		if span := t.SpanNS(); span > 0 && !t.Untimed {
			tier.MeanTokensPerS = perSecond(tokens, span)
			tier.BusiestTokensPerS = &busiest[k]
		}
		p.Tiers = append(p.Tiers, tier)
	}
	return p
}

// rows are the table of the page: the share of the tokens that each tier serves under each policy, and its rates.
func (t *Tiers) rows() (rows [][]string) {
	if t == nil {
		return nil
	}
	for _, p := range t.Policies {
		name := string(p.Policy) + " "
		for _, tier := range p.Tiers {
			capacity := "unlimited"
			if tier.CapacityTokens != nil {
				capacity = format.Short(float64(*tier.CapacityTokens))
			}
			row := []string{name + capacity, format.Share(tier.TokenRatio)}
			rows = append(rows, append(row, t.rates(tier)...))
		}
		rows = append(rows, []string{name + "computed", format.Share(max(0, p.ComputedRatio)), "", "", "", ""})
	}
	return rows
}

// rates are tokens/s and GB/s that a tier serves, each on average and in the busiest second; "" where unknown.
func (t *Tiers) rates(tier Tier) []string {
	cells := make([]string, 4)
	if tier.MeanTokensPerS == nil {
		return cells
	}
	mean := *tier.MeanTokensPerS
	busiest := float64(*tier.BusiestTokensPerS)
	cells[0] = format.Short(mean)
	cells[1] = format.Short(busiest)
	if t.BytesPerToken != nil {
		perToken := float64(*t.BytesPerToken) / 1e9
		cells[2] = format.Short(mean * perToken)
		cells[3] = format.Short(busiest * perToken)
	}
	return cells
}
