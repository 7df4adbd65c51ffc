package tokenizer

import (
	"cmp"
	"slices"
)

// trie finds the pieces that a text begins with. A node's children lie side by
// side, in order of their byte; node 0 is the root.
type trie struct{ nodes []trieNode }

type trieNode struct {
	first    int32 // of the children
	value    int32 // id of the piece that ends here, or none
	children uint16
	label    byte
}

// newTrie builds the trie level by level from the sorted pieces.
func newTrie(ids map[string]int32) *trie {
	type entry struct {
		piece string
		id    int32
	}
	entries := make([]entry, 0, len(ids))
	for piece, id := range ids {
		entries = append(entries, entry{piece, id})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.piece, b.piece) })

	type todo struct{ node, from, end, depth int }
	t := &trie{nodes: []trieNode{{value: none}}}
	for queue := []todo{{0, 0, len(entries), 0}}; len(queue) > 0; queue = queue[1:] {
		q := queue[0]
		if q.from < q.end && len(entries[q.from].piece) == q.depth {
			t.nodes[q.node].value = entries[q.from].id
			q.from++
		}
		t.nodes[q.node].first = int32(len(t.nodes))
		for from := q.from; from < q.end; {
			label, end := entries[from].piece[q.depth], from+1
			for end < q.end && entries[end].piece[q.depth] == label {
				end++
			}
			queue = append(queue, todo{len(t.nodes), from, end, q.depth + 1})
			t.nodes = append(t.nodes, trieNode{value: none, label: label})
			t.nodes[q.node].children++
			from = end
		}
	}
	return t
}

// child returns the node behind n by byte b, or 0.
func (t *trie) child(n int32, b byte) int32 {
	from, size := t.nodes[n].first, int32(t.nodes[n].children)
	for size > 8 {
		half := size / 2
		if t.nodes[from+half].label <= b {
			from += half
			size -= half
		} else {
			size = half
		}
	}
	for i := from; i < from+size; i++ {
		if t.nodes[i].label == b {
			return i
		}
	}
	return 0
}
