package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/must"
)

// ofBlocks is a trace of one request a second with these block ids.
func ofBlocks(rows [][]uint64) *Trace {
	t := &Trace{Name: "t.jsonl", BlockTokens: 16, FileRows: len(rows)}
	for i, ids := range rows {
		t.ArrivalNS = append(t.ArrivalNS, int64(i)*1e9)
		t.InputTokens, t.OutputTokens, t.Row = append(t.InputTokens, int32(16*len(ids)+1)), append(t.OutputTokens, 1), append(t.Row, int32(i))
		t.ids.Add(ids)
	}
	return t
}

// talk makes rows of conversations behind system prompts; some ids follow different blocks.
func talk(rng *rand.Rand, rows int) (ids [][]uint64, session []int64) {
	type conversation struct {
		ids []uint64
		n   int64
	}
	var all []conversation
	next := uint64(100)
	for range rows {
		if len(all) == 0 || rng.IntN(3) > 0 {
			var c conversation
			for range rng.IntN(4) { // up to three blocks of a few, of which the same may follow different ones
				c.ids = append(c.ids, uint64(rng.IntN(2)))
			}
			c.n = int64(len(all))
			all = append(all, c)
		}
		c := &all[rng.IntN(len(all))]
		if rng.IntN(3) > 0 {
			c.ids = slices.Clone(c.ids)
			for range 1 + rng.IntN(3) {
				c.ids = append(c.ids, next)
				next++
			}
		}
		row := c.ids
		if rng.IntN(3) == 0 { // a last block that is not whole
			row = append(slices.Clone(row), next)
			next++
		}
		ids, session = append(ids, row), append(session, c.n)
	}
	return ids, session
}

// conversationsOracle says by brute force how many leading blocks of each row are shared.
func conversationsOracle(rows [][]uint64, session []int64) []int32 {
	has := map[string]map[string]bool{} // beginnings, and who or what comes behind them
	for i, ids := range rows {
		for n := range len(ids) + 1 {
			key := fmt.Sprint(ids[:n])
			if has[key] == nil {
				has[key] = map[string]bool{}
			}
			switch {
			case session != nil:
				has[key][fmt.Sprint(session[i])] = true
			case n == len(ids):
				has[key][fmt.Sprint("row", i)] = true
			default:
				has[key][fmt.Sprint(ids[n])] = true
			}
		}
	}
	common := map[string]bool{} // those of many, and all that lead to them
	for _, ids := range rows {
		for n := range len(ids) + 1 {
			for m := n; m <= len(ids) && !common[fmt.Sprint(ids[:n])]; m++ {
				common[fmt.Sprint(ids[:n])] = len(has[fmt.Sprint(ids[:m])]) >= manySessions
			}
		}
	}
	shared := make([]int32, len(rows))
	for i, ids := range rows {
		for n := range len(ids) + 1 {
			if common[fmt.Sprint(ids[:n])] {
				shared[i] = int32(n)
			}
		}
	}
	return shared
}

// sessionsOracle joins rows that have blocks in common behind what is shared.
func sessionsOracle(rows [][]uint64, shared []int32) [][]bool {
	same := make([][]bool, len(rows))
	for i, ids := range rows {
		same[i] = make([]bool, len(rows))
		for j, other := range rows {
			n := int(max(shared[i], shared[j])) + 1
			same[i][j] = i == j || len(ids) >= n && len(other) >= n && slices.Equal(ids[:n], other[:n])
		}
	}
	return same
}

func TestConversations(t *testing.T) {
	everShared, everLonger := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rows, session := talk(rng, 20+int(seed)*5)
		tr := ofBlocks(rows)
		for _, named := range []bool{false, true} {
			want := conversationsOracle(rows, nil)
			tr.Session = nil
			if named {
				want, tr.Session = conversationsOracle(rows, session), session
			}
			k := tr.Conversations()
			if !slices.Equal(k.Shared, want) {
				t.Fatalf("seed %d, named %v: shared blocks\ngot  %v\nwant %v", seed, named, k.Shared, want)
			}
			distinct := map[string]bool{}
			for i, n := range want {
				for j := range n {
					distinct[fmt.Sprint(rows[i][:j+1])] = true
					everShared++
				}
			}
			if k.SharedBlocks != len(distinct) || k.Inferred == named {
				t.Fatalf("seed %d: %d shared blocks, want %d", seed, k.SharedBlocks, len(distinct))
			}
			next := int32(0)
			for _, s := range k.Session {
				if s > next {
					t.Fatalf("sessions are not numbered in order of arrival: %v", k.Session)
				}
				next = max(next, s+1)
			}
			must.Equal(t, int(next), k.Sessions, "%d sessions, said to be", next)
			same := sessionsOracle(rows, want)
			for i := range rows {
				for j := range rows {
					together := same[i][j]
					if named {
						together = session[i] == session[j]
					}
					if together && i != j {
						everLonger++
					}
					must.Equal(t, k.Session[i] == k.Session[j], together, "seed %d, named %v: rows %d and %d of one session: %v", seed, named, i, j, !together)
				}
			}
		}
	}
	if everShared < 1000 || everLonger < 1000 {
		t.Errorf("only %d shared blocks, %d pairs of one session: the test says little", everShared, everLonger)
	}
}

// TestConversationsFindSessions: with the names taken away, most rows are found to be of the sessions that they are of.
func TestConversationsFindSessions(t *testing.T) {
	g := chat()
	g.Reuse = 1
	tr := generate(t, g)
	names := tr.Session
	tr.Session = nil
	k := tr.Conversations()
	found, pairs := 0, 0
	for i := range names {
		for j := range i {
			if names[i] == names[j] {
				pairs++
				if k.Session[i] == k.Session[j] {
					found++
				}
			} else if k.Session[i] == k.Session[j] {
				t.Fatalf("rows %d and %d are of different sessions", i, j)
			}
		}
	}
	if pairs < 1000 || found < pairs*95/100 || k.SharedBlocks != 10 {
		t.Errorf("%d of %d pairs found, %d shared blocks; want 10, for 160 tokens", found, pairs, k.SharedBlocks)
	}
}

// TestConversationsOfMooncake: the beginning of all is shared, nothing else is, and conversations are what is left.
func TestConversationsOfMooncake(t *testing.T) {
	tr := must.Have(Open(realPath(t), Options{}))(t)
	k := tr.Conversations()
	if k.SharedBlocks != 1 || k.Sessions != 7373 || slices.Min(k.Shared) != 1 || slices.Max(k.Shared) != 1 {
		t.Errorf("%d shared blocks, %d sessions", k.SharedBlocks, k.Sessions)
	}
}

func BenchmarkConversations(b *testing.B) {
	tr, err := Open(realPath(b), Options{})
	must.Do(b, err)
	b.ReportAllocs()
	for b.Loop() {
		tr.Conversations()
	}
}
