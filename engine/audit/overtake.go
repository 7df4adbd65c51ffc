package audit

import (
	"slices"
	"sync"

	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// OvertakenTokens is how many of the tokens that were cached above the ideal are explained by the order of arrival.
// Requests that are sent at nearly the same time overtake each other on their way. Then the one that was planned first
// hits what the other one brought. A cache that began cold can have had those tokens.
func OvertakenTokens(w *workload.Work, fates []Fate) (tokens int64) {
	// requests by their first block; needed only if a hit is above the ideal
	alike := sync.OnceValue(func() map[uint64][]int32 {
		all := map[uint64][]int32{}
		for i := range w.Requests() {
			if p, _ := w.CachePrompt(i); len(p.Blocks) > 0 {
				first := p.Blocks[0]
				all[first] = append(all[first], int32(i))
			}
		}
		return all
	})
	for i := range fates {
		rec := &fates[i]
		if rec.Outcome != record.OK || rec.MostCachedTokens == record.None ||
			rec.CachedTokens <= rec.MostCachedTokens {
			continue
		}
		p, _ := w.CachePrompt(i)
		if len(p.Blocks) > 0 {
			above := rec.CachedTokens - rec.MostCachedTokens
			reached := reach(w, fates, i, alike()[p.Blocks[0]])
			tokens += min(above, max(0, reached-rec.MostCachedTokens))
		}
	}
	return tokens
}

// reach is the most that request i could hit of prompts that begin alike. Those count that were sent before its own
// first token arrived, in any order.
func reach(w *workload.Work, fates []Fate, i int, alike []int32) int64 {
	until := max(fates[i].FirstTokenNS, fates[i].HeadersNS)
	longest := 0
	for _, j := range alike {
		other := int(j)
		sent := fates[j].SentNS
		before := sent != record.None && sent < until
		if other != i && before && w.Endpoint(i) == w.Endpoint(other) {
			longest = max(longest, sharedTokens(w, i, other))
		}
		if int64(longest) > fates[i].CachedTokens {
			break // more explains no more
		}
	}
	p, _ := w.CachePrompt(i)
	block := w.Cache(w.Endpoint(i)).FinestBlock()
	reached := max(0, min(longest, p.Total-1))
	return int64(reached / block * block)
}

// sharedTokens is the longest common prefix of two requests' prompts as a server sees them. It is the longest possible
// one if the template's head is unknown. So it is if the server may have smaller blocks than are known of a verbatim
// prompt.
func sharedTokens(w *workload.Work, i, j int) int {
	a, _ := w.CachePrompt(i)
	b, _ := w.CachePrompt(j)
	made := w.Made(i)
	n := a.Head
	if made && w.Overhead.HeadUnknown {
		n = w.Overhead.Tokens()
	}
	left := min(a.Tokens, b.Tokens)
	for k := 0; left > 0; k++ {
		if k >= len(a.Blocks) || k >= len(b.Blocks) || a.Blocks[k] != b.Blocks[k] {
			if !made {
				finest := w.Cache(w.Endpoint(i)).FinestBlock()
				n += min(left, a.BlockTokens-finest)
			}
			return n
		}
		n += min(left, a.BlockTokens)
		left -= a.BlockTokens
	}
	if made && a.Tokens == b.Tokens {
		n += w.Overhead.Tail
	}
	return n
}

// Turns counts the requests that were sent before what they depend on. That is the end of the previous turn or of a
// sub-agent, or the sending of what they only had to follow. The requests in leftOut, in ascending order, are not part
// of the run. If a pacer waits for others, held is for how long it held requests back; it may be nil. The result is nil
// if no request depends on another, unless lanes run jobs. What prepares does not count.
func Turns(w *workload.Work, fates []Fate, leftOut []int32, held *stats.Distribution) *metrics.Turns {
	var found metrics.Turns
	early := new(stats.Distribution)
	graph := w.Trace.Graph(w.Requests())
	for i := range graph.Len() {
		waits := graph.Of(i)
		by := int64(0)
		_, out := slices.BinarySearch(leftOut, int32(i))
		if out || len(waits) == 0 || !fates[i].Profiled {
			continue
		}
		for _, wait := range waits {
			early := overtook(&fates[i], &fates[wait.On], wait.Trigger)
			by = max(by, early)
		}
		found.FollowUps++
		if by > 0 {
			found.Overtaking++
			early.Add(by)
		}
	}
	d := w.Plan.Dependencies
	if found.FollowUps == 0 && (d == nil || d.Job == nil) {
		return nil
	}
	found.OvertakingMS = early.Percentiles(1e6)
	if held != nil && d != nil {
		found.LaterMS = held.Percentiles(1e6)
	}
	return &found
}

// overtook returns how many ns before the end, or before the sending, of another request a request was sent. It is 0 if
// it was sent later, or if one of them was not sent.
func overtook(rec, other *Fate, trigger trace.Trigger) int64 {
	since := other.EndNS
	if trigger == trace.OnDispatch {
		since = other.SentNS
	}
	unsent := rec.SentNS == record.None || other.SentNS == record.None
	if unsent || since == record.None {
		return 0
	}
	return max(0, since-rec.SentNS)
}
