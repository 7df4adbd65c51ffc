package inspect

import "github.com/fastreplay/fastreplay/codec/trace"

// sessions follows each row to its parent. A row without a parent in the selection begins or continues a session, but
// has no gap.
func sessions(t *trace.Trace, o Options) *Sessions {
	if t.Session == nil {
		return nil
	}
	s := &Sessions{TTFTS: o.AssumeTTFT.Seconds(), TPOTS: o.AssumeTPOT.Seconds()}
	s.count(t)
	rowOf := firstByChat(t)
	var gaps, thinks []int64
	for i := range t.Len() {
		if t.Parent[i] < 0 {
			continue
		}
		parent, ok := rowOf[t.Parent[i]]
		if !ok || parent == i {
			s.Orphans++
			continue
		}
		s.Followups++
		if t.Untimed {
			continue
		}
		gap := t.ArrivalNS[i] - t.ArrivalNS[parent]
		gaps = append(gaps, gap)
		if gap <= 0 {
			s.AtOnce++
		}
		lasts := lastsNS(t, parent, o)
		if gap < lasts {
			s.Overlaps++
		} else {
			thinks = append(thinks, gap-lasts)
		}
	}
	if len(gaps) > 0 {
		v := share(s.Overlaps, s.Followups)
		s.OverlapShare = &v
	}
	s.GapS, s.ThinkS = describe(gaps, 1e9), describe(thinks, 1e9)
	return s
}

// lastsNS is how long row i is taken to last.
func lastsNS(t *trace.Trace, i int, o Options) int64 {
	return int64(o.AssumeTTFT) + int64(max(1, t.OutputTokens[i])-1)*int64(o.AssumeTPOT)
}

// count counts the sessions and their turns.
func (s *Sessions) count(t *trace.Trace) {
	turns := map[int64]int64{}
	for _, id := range t.Session {
		turns[id]++
	}
	all := make([]int64, 0, len(turns))
	for _, n := range turns {
		all = append(all, n)
		if n > 1 {
			s.MultiTurn++
		}
	}
	s.Sessions, s.Turns = int64(len(all)), describe(all, 1)
}

// firstByChat finds the row of a chat id, the first in the file where several have it, as the reader does.
func firstByChat(t *trace.Trace) map[int64]int {
	rowOf := make(map[int64]int, t.Len())
	for i, chat := range t.Chat {
		if other, taken := rowOf[chat]; !taken || t.Row[i] < t.Row[other] {
			rowOf[chat] = i
		}
	}
	return rowOf
}
