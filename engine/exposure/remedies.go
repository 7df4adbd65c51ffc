package exposure

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Remedies are what to take away. The zero value takes nothing.
type Remedies struct {
	DropRare     int           // ids of several sessions, but of fewer than so many, become each session's own
	RoundLengths int           // lengths of prompts and answers become multiples of so many tokens, by rounding up
	Jitter       time.Duration // by how much each instant is moved at most, to either side
}

// The largest remedies. Larger ones leave nothing to replay, and each row would have thousands of new ids.
const (
	mostRounding = 1 << 16
	mostJitter   = 24 * time.Hour
)

// Check refuses remedies that are too large.
func (m Remedies) Check() error {
	switch {
	case m.RoundLengths > mostRounding:
		return fmt.Errorf("--round-lengths %d: want at most %d tokens", m.RoundLengths, mostRounding)
	case m.Jitter > mostJitter:
		return fmt.Errorf("--jitter %v: want at most %v", m.Jitter, mostJitter)
	}
	return nil
}

// Apply returns the trace without what the remedies take away, in fastreplay's own format. Names of tenants and models,
// parameters, headers and dependencies are taken away as well. Sessions are numbered, since a file may name them after
// people.
func (m Remedies) Apply(t *trace.Trace) *trace.Trace {
	s := sessionsOf(t)
	all := m.rows(t, s)
	at := m.instants(t, s)
	order := lists.UpTo(t.Len())
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(at[a], at[b]) })
	sorted := make([]trace.Hashed, len(all))
	for i, row := range order {
		sorted[i] = all[row]
	}
	head := m.head(t)
	if head.Scope == trace.FileScope {
		trace.Renumber(sorted)
	}
	out := t.Hashed(order, sorted, head)
	for i, row := range order {
		out.ArrivalNS[i] = at[row] - at[order[0]]
	}
	if m.Jitter > 0 {
		out.DelayNS = nil // they would tell the instants
	}
	return out
}

// head says what was taken away.
func (m Remedies) head(t *trace.Trace) trace.Head {
	head := t.Head()
	head.Scope = cmp.Or(head.Scope, trace.FileScope)
	head.Kept = nil
	head.RoundLengths = m.RoundLengths
	head.JitterMS = float64(m.Jitter) / 1e6
	head.Dropped = slices.Clone(head.Dropped)
	for _, what := range []string{"names", "models", "parameters", "headers", "dependencies"} {
		if !slices.Contains(head.Dropped, what) {
			head.Dropped = append(head.Dropped, what)
		}
	}
	if m.DropRare > 0 {
		head.Dropped = append(head.Dropped, fmt.Sprintf("blocks of fewer than %d sessions", m.DropRare))
	}
	return head
}

// rows are what becomes of each row's ids and lengths.
func (m Remedies) rows(t *trace.Trace, s *sessions) (all []trace.Hashed) {
	known := blocks(t, s)
	type own struct {
		session int32
		id      uint64
	}
	made := map[own]uint64{}
	rename := func(ids []uint64, session int32) []uint64 {
		ids = slices.Clone(ids)
		for k, id := range ids {
			n := int(known[id].sessions)
			if n < 2 || n >= m.DropRare {
				continue
			}
			name, again := made[own{session, id}]
			if !again {
				name = newID()
				made[own{session, id}] = name
			}
			ids[k] = name
		}
		return ids
	}
	names := map[string]string{} // of sessions
	for i := range t.Len() {
		row := trace.Hashed{
			InputTokens:  t.InputTokens[i],
			OutputTokens: t.OutputTokens[i],
			IDs:          rename(t.Blocks(i), s.of[i]),
			AnswerIDs:    rename(t.AnswerBlocks(i), s.of[i]),
			Guessed:      t.Guessed != nil && t.Guessed[i],
		}
		if name, _ := t.Conversation(i); name != "" {
			if names[name] == "" {
				names[name] = fmt.Sprint("s", len(names)+1)
			}
			row.Session = names[name]
		}
		m.round(&row, t.BlockTokens)
		all = append(all, row)
	}
	return all
}

// newID is one that no other block has.
func newID() uint64 { return rand.Uint64() >> 1 }

// round makes lengths longer. Blocks of the prompt that come with that are new, and none of the answer is in two
// places.
func (m Remedies) round(row *trace.Hashed, blockTokens int) {
	was := int(row.InputTokens)
	row.InputTokens = m.rounded(row.InputTokens)
	row.OutputTokens = m.rounded(row.OutputTokens)
	is := int(row.InputTokens)
	blocksOf := func(tokens int) int { return (tokens + blockTokens - 1) / blockTokens }
	if len(row.IDs) == blocksOf(was) {
		for len(row.IDs) < blocksOf(is) {
			row.IDs = append(row.IDs, newID())
		}
	}
	within := is/blockTokens - was/blockTokens // blocks that ended in the answer and now end in the prompt
	row.AnswerIDs = row.AnswerIDs[min(within, len(row.AnswerIDs)):]
}

func (m Remedies) rounded(tokens int32) int32 {
	to := int32(max(1, m.RoundLengths))
	return min((tokens+to-1)/to*to, rows.MaxTokens)
}

// instants are when requests come, in the order of their rows. Within a session none overtakes another.
func (m Remedies) instants(t *trace.Trace, s *sessions) []int64 {
	at := slices.Clone(t.ArrivalNS)
	if m.Jitter <= 0 || t.Untimed {
		return at
	}
	for i := range at {
		at[i] += rand.Int64N(2*int64(m.Jitter)+1) - int64(m.Jitter)
	}
	for _, list := range s.rows {
		for k := 1; k < len(list); k++ {
			at[list[k]] = max(at[list[k]], at[list[k-1]])
		}
	}
	return at
}
