package prompt

// A block's tokens come from a counter-based generator: draw g of a key is
// mix(key + g·golden), so any position is reached without the ones before it.

// golden is 2^64 divided by the golden ratio, the odd increment of SplitMix64
// (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
const golden = 0x9e3779b97f4a7c15

// Domains keep the tokens of hash ids apart from those unique to a row.
const (
	blockDomain  = 0x626c6f636b   // "block"
	uniqueDomain = 0x756e69717565 // "unique"
)

// mix is the output function of SplitMix64, a bijection: different ids under
// one seed never share a key.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// keys derives the keys of runs from the seed.
type keys struct{ block, unique uint64 }

func (k keys) ofBlock(id uint64) uint64   { return mix(k.block ^ id) }
func (k keys) ofUnique(row uint64) uint64 { return mix(k.unique ^ row) }

// draw returns the 64 random bits from which the four tokens of group g come.
func draw(key, g uint64) uint64 { return mix(key + g*golden) }
