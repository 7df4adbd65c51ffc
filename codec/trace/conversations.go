package trace

import (
	"cmp"
	"slices"

	"github.com/fastreplay/fastreplay/codec/trace/lists"
)

// Conversations holds which requests of a trace belong together, and which part of their prompts many conversations
// share.
type Conversations struct {
	Session  []int32 // of each request, numbered from 0 in order of arrival
	Sessions int
	Inferred bool // the file names no sessions

	// Shared is for each request how many of its leading blocks are truly shared: a system prompt, not a conversation.
	Shared       []int32
	SharedBlocks int // how many different ones
}

// manySessions is how many sessions must begin alike so that their beginning counts as shared by all.
//
// Mooncake's conversation trace, which names no sessions, continues its first block in 7,373 ways, and the next most
// frequent beginning in 11. So any number from 12 to 7,373 divides that trace the same way. A beginning of fewer
// sessions is renumbered in each clone. A clone therefore has as many hits as were recorded, and not more.
const manySessions = 16

// Conversations finds the sessions of a trace and the beginnings of prompts that many of them share.
//
// A beginning is a run of blocks from the first one on. It is shared if at least 16 sessions have it.
//
// If the file has jobs, those are the sessions, see [Trace.JobNumbers], or else its conversations. Else requests belong
// to one session if they have blocks in common behind what is shared. A system prompt alone would then join all
// requests. So a beginning counts as shared if it continues in at least 16 different ways, or if it leads to one that
// does. A prompt that ends there is one way. Short requests of one conversation cannot be distinguished from those of
// others if only a system prompt is common to them.
func (t *Trace) Conversations() *Conversations {
	k := &conversationFinder{
		t: t,
		Conversations: Conversations{
			Session:  make([]int32, t.Len()),
			Shared:   make([]int32, t.Len()),
			Inferred: t.Session == nil && t.Job == nil,
		},
	}
	rows := lists.UpTo(t.Len())
	if !k.Inferred {
		k.Session, k.Sessions = t.JobNumbers()
		slices.SortStableFunc(rows, func(a, b int32) int {
			return cmp.Compare(k.Session[a], k.Session[b])
		})
	}
	k.follow(rows, 0)
	if k.Inferred {
		k.Session, k.Sessions = inNumbers(k.Session)
	}
	return &k.Conversations
}

type conversationFinder struct {
	t *Trace
	Conversations
}

// follow looks at rows whose first depth blocks are the same, and reports whether these are shared. Rows of sessions
// that the file names are in order of these. It changes the rows' order.
func (k *conversationFinder) follow(rows []int32, depth int) (shared bool) {
	shared = depth == 0 || !k.Inferred && k.sessionsIn(rows) >= manySessions
	ways := k.ways(rows, depth)
	shared = shared || k.Inferred && len(ways) >= manySessions
	own := ways[:0]
	for _, way := range ways {
		if len(way) >= manySessions && k.follow(way, depth+1) {
			shared = true
		} else {
			own = append(own, way)
		}
	}
	if !shared {
		return false
	}
	for _, row := range rows {
		k.Shared[row] = max(k.Shared[row], int32(depth))
	}
	if depth > 0 {
		k.SharedBlocks++
	}
	if k.Inferred {
		for _, way := range own {
			for _, row := range way {
				k.Session[row] = int32(k.Sessions)
			}
			k.Sessions++
		}
	}
	return true
}

// sessionsIn counts the sessions of rows that are in order of them.
func (k *conversationFinder) sessionsIn(rows []int32) int {
	n := 0
	for i, row := range rows {
		if i == 0 || k.Session[row] != k.Session[rows[i-1]] {
			n++
		}
	}
	return n
}

// ways divides rows by their block at a depth. A row that ends there is a way of its own, without it.
func (k *conversationFinder) ways(rows []int32, depth int) [][]int32 {
	// compare compares blocks at the depth; none come first.
	compare := func(a, b int32) int {
		ids := k.t.Blocks(int(a))
		others := k.t.Blocks(int(b))
		if len(ids) <= depth || len(others) <= depth {
			n := min(len(ids), depth+1)
			m := min(len(others), depth+1)
			return cmp.Compare(n, m)
		}
		return cmp.Compare(ids[depth], others[depth])
	}
	slices.SortStableFunc(rows, compare)
	var ways [][]int32
	from := 0
	for i := 1; i <= len(rows); i++ {
		before := rows[i-1]
		ends := len(k.t.Blocks(int(before))) <= depth
		if i == len(rows) || ends || compare(before, rows[i]) != 0 {
			ways = append(ways, rows[from:i])
			from = i
		}
	}
	return ways
}

// numbering gives names numbers from 0, in order of their first appearance.
type numbering[T comparable] struct {
	names   []T
	numbers map[T]int32
}

// number is that of a name, a new one for a name that is new.
func (m *numbering[T]) number(name T) int32 {
	n, known := m.numbers[name]
	if !known {
		if m.numbers == nil {
			m.numbers = map[T]int32{}
		}
		n = int32(len(m.names))
		m.names = append(m.names, name)
		m.numbers[name] = n
	}
	return n
}

// inNumbers is the numbers of names, and how many different ones there are.
func inNumbers[T comparable](names []T) (numbers []int32, n int) {
	var all numbering[T]
	numbers = make([]int32, len(names))
	for i, name := range names {
		numbers[i] = all.number(name)
	}
	return numbers, len(all.names)
}
