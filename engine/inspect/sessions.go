package inspect

import (
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// sessions follows each row to the turn before it, as a replay does. A row without one in the selection begins or continues a
// session, but has no gap.
func sessions(t *trace.Trace, o Options) *Sessions {
	if t.Session == nil {
		return nil
	}
	s := &Sessions{TTFTS: o.Assumed.TTFT.Seconds(), TPOTS: o.Assumed.TPOT.Seconds()}
	s.count(t)
	var gaps, thinks []int64
	for i, before := range t.TurnsBefore(t.Len()) {
		if t.Parent[i] < 0 {
			continue
		}
		if before == trace.NoTurn {
			s.Orphans++
			continue
		}
		s.Followups++
		if t.Untimed {
			continue
		}
		gap := t.ArrivalNS[i] - t.ArrivalNS[before]
		gaps = append(gaps, gap)
		if gap <= 0 {
			s.AtOnce++
		}
		lasts := o.Assumed.LastNS(t.OutputTokens[before])
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
	s.GapS, s.ThinkS = stats.Describe(gaps, 1e9), stats.Describe(thinks, 1e9)
	return s
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
	s.Sessions, s.Turns = int64(len(all)), stats.Describe(all, 1)
}
