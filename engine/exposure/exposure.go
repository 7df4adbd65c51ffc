// Package exposure says what a stranger could learn from a trace that is handed out, and takes some of it away.
//
// It owns what is rare in a trace: ids of blocks, lengths, sessions and parameters. It owns the remedies, and what they
// cost of the hits of an ideal cache. It does not own how text became ids. Functions change no trace that they are
// given, and hold about 50 bytes a distinct id.
package exposure

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fastreplay/fastreplay/codec/kvcache"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/rows"
)

// Report is what a stranger could learn.
type Report struct {
	Rows     int
	Sessions int // a row without one counts as one
	Nameless int // rows without one
	Fewest   int // what fewer sessions have is rare

	IDs     int // distinct ids of blocks, those of answers too
	Alone   int // of them, those of one session
	RareIDs int // of them, those of several sessions that are rare
	Least   int // fewest sessions that share an id; 0 = no two do

	RareInputs  int // rows whose length of prompt is rare
	RareOutputs int // rows whose length of answer is
	Longest     []Job
	Values      int   // different values of members of bodies, of owners and of headers
	RareValues  int   // of them, those that are rare
	Hits        int64 // tokens of prompts that an ideal cache holds
	Tokens      int64 // of prompts
	Generated   int64 // of answers
}

// Job is a session that stands out.
type Job struct {
	Name   string // "" if the trace gives it none
	Row    int    // its first, from 0
	Turns  int
	SpanNS int64
	Tokens int64 // of prompts and answers
}

// sessions are those of a trace's rows, by number.
type sessions struct {
	of       []int32 // row's session
	rows     [][]int32
	nameless int
}

func sessionsOf(t *trace.Trace) *sessions {
	of, n := t.JobNumbers()
	s := &sessions{of: of, rows: make([][]int32, n)}
	for i, session := range of {
		s.rows[session] = append(s.rows[session], int32(i))
		if t.Session == nil || t.Session[i] < 0 {
			s.nameless++
		}
	}
	return s
}

// shared is how many sessions have a value.
type shared struct {
	sessions int32
	latest   int32 // of the sessions
}

// count counts the sessions of each value. Each calls yield with those of a row.
func count[K comparable](s *sessions, each func(row int, yield func(K))) map[K]shared {
	all := map[K]shared{}
	for n, list := range s.rows {
		for _, row := range list {
			each(int(row), func(value K) {
				known, there := all[value]
				if !there || known.latest != int32(n) {
					all[value] = shared{known.sessions + 1, int32(n)}
				}
			})
		}
	}
	return all
}

// blocks are how many sessions have each id.
func blocks(t *trace.Trace, s *sessions) map[uint64]shared {
	return count(s, func(row int, yield func(uint64)) {
		for _, id := range t.Blocks(row) {
			yield(id)
		}
		for _, id := range t.AnswerBlocks(row) {
			yield(id)
		}
	})
}

// rare counts the rows whose value fewer sessions have.
func rare(s *sessions, fewest int, of []int32) (n int) {
	all := count(s, func(row int, yield func(int32)) { yield(of[row]) })
	for _, value := range of {
		if int(all[value].sessions) < fewest {
			n++
		}
	}
	return n
}

// Look reports what a stranger could learn of a trace. What is of fewer sessions than fewest is rare.
func Look(t *trace.Trace, fewest int) *Report {
	s := sessionsOf(t)
	r := &Report{
		Rows:        t.Len(),
		Sessions:    len(s.rows),
		Nameless:    s.nameless,
		Fewest:      fewest,
		RareInputs:  rare(s, fewest, t.InputTokens),
		RareOutputs: rare(s, fewest, t.OutputTokens),
		Longest:     s.longest(t),
	}
	for _, id := range blocks(t, s) {
		n := int(id.sessions)
		r.IDs++
		if n == 1 {
			r.Alone++
			continue
		}
		if n < fewest {
			r.RareIDs++
		}
		if r.Least == 0 || n < r.Least {
			r.Least = n
		}
	}
	values := count(s, func(row int, yield func(string)) {
		members, _ := rows.MembersOf(t.Verbatim(row).Extra) // none, if there is no object
		for _, m := range members {
			yield(m.Key + ":" + string(m.Value))
		}
		owner := t.OwnerOf(row)
		for _, field := range rows.OwnerFields() {
			if value := owner.Value(field); value != "" {
				yield(field + ":" + value)
			}
		}
		for header := range strings.Lines(owner.Headers) {
			yield("header " + strings.TrimSuffix(header, "\n"))
		}
	})
	r.Values = len(values)
	for _, value := range values {
		if int(value.sessions) < fewest {
			r.RareValues++
		}
	}
	cache := kvcache.NewInfinite(t.BlockTokens, t.BlockTokens)
	for i, n := range t.InputTokens {
		r.Hits += int64(cache.Expected(t.Blocks(i), int(n), 0, int(n)))
		r.Tokens += int64(n)
		r.Generated += int64(t.OutputTokens[i])
	}
	return r
}

// longest are the sessions with the most turns, the longest time and the most tokens, each once.
func (s *sessions) longest(t *trace.Trace) (all []Job) {
	for _, list := range s.rows {
		job := Job{
			Name:   t.SessionName(int(list[0])),
			Row:    int(list[0]),
			Turns:  len(list),
			SpanNS: t.ArrivalNS[list[len(list)-1]] - t.ArrivalNS[list[0]],
		}
		for _, row := range list {
			job.Tokens += int64(t.InputTokens[row] + t.OutputTokens[row])
		}
		all = append(all, job)
	}
	var chosen []Job
	for _, by := range []func(a, b Job) int{
		func(a, b Job) int { return cmp.Compare(a.Turns, b.Turns) },
		func(a, b Job) int { return cmp.Compare(a.SpanNS, b.SpanNS) },
		func(a, b Job) int { return cmp.Compare(a.Tokens, b.Tokens) },
	} {
		job := slices.MaxFunc(all, by)
		if !slices.Contains(chosen, job) {
			chosen = append(chosen, job)
		}
	}
	return chosen
}
