package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is SentencePiece's normalization: a double-array trie whose values
// are offsets of zero-terminated replacements. The layout is that of Darts-clone
// (github.com/s-yata/darts-clone).
type charsmap struct {
	units []uint32
	texts string
	keeps [utf8.RuneSelf]bool // ASCII characters that it does not change
}

// longestCluster is how long a grapheme cluster may be, in bytes, to be looked
// up whole; the reference's limit.
const longestCluster = 5

// newCharsmap reads the size of the trie, the trie and the replacements.
func newCharsmap(component string, data []byte) (*charsmap, error) {
	if len(data) < 4 {
		return nil, fmt.Errorf("%s: precompiled_charsmap has %d bytes: want the size of a trie and the trie", component, len(data))
	}
	size := int(binary.LittleEndian.Uint32(data)) / 4 * 4
	data = data[4:]
	if size > len(data) || size == 0 {
		return nil, fmt.Errorf("%s: precompiled_charsmap: a trie of %d bytes in %d", component, size, len(data))
	}
	c := &charsmap{units: make([]uint32, size/4), texts: string(data[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.ValidString(c.texts) {
		return nil, fmt.Errorf("%s: precompiled_charsmap: its replacements are no UTF-8", component)
	}
	for to := range strings.SplitSeq(c.texts, "\x00") {
		atMost(maxTextBytes, len(to), component+": bytes of a replacement")
	}
	for b := range c.keeps {
		s := string(rune(b))
		to, ok := c.replacement(s)
		c.keeps[b] = b != '\r' && (!ok || to == s)
	}
	return c, nil
}

// replacement returns what stands for the shortest prefix of s that the trie
// knows. That the shortest decides, and then for the whole of s, is how the
// reference does it.
func (c *charsmap) replacement(s string) (string, bool) {
	unit := func(i uint32) (uint32, bool) {
		if int64(i) >= int64(len(c.units)) {
			return 0, false
		}
		return c.units[i], true
	}
	at := offsetOf(c.units[0])
	for i := range len(s) {
		if s[i] == 0 {
			return "", false
		}
		at ^= uint32(s[i])
		u, ok := unit(at)
		if !ok || u&(1<<31|0xFF) != uint32(s[i]) {
			return "", false
		}
		at ^= offsetOf(u)
		if u>>8&1 == 0 {
			continue
		}
		leaf, ok := unit(at)
		from := int(leaf & (1<<31 - 1))
		if !ok || from > len(c.texts) {
			return "", false
		}
		to, _, _ := strings.Cut(c.texts[from:], "\x00")
		return to, true
	}
	return "", false
}

// offsetOf returns where a unit's children lie.
func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func (c *charsmap) normalize(text string, opens bool) (string, bool) {
	kept := 0
	for kept < len(text) && text[kept] < utf8.RuneSelf && c.keeps[text[kept]] {
		kept++
	}
	if kept == len(text) {
		return text, opens
	}
	var b strings.Builder
	b.Grow(len(text))
	state, cluster := -1, ""
	for len(text) > 0 {
		cluster, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if len(cluster) <= longestCluster {
			if to, ok := c.replacement(cluster); ok {
				b.WriteString(to)
				continue
			}
		}
		for i, r := range cluster {
			one := cluster[i : i+utf8.RuneLen(r)]
			if to, ok := c.replacement(one); ok {
				one = to
			}
			b.WriteString(one)
		}
	}
	return b.String(), opens
}
