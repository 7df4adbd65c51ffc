package agents

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/must"
)

// said is a request with its tokens, each a number of its own.
type said struct {
	session            string
	at, end            int64
	prompt, stream     []int // stream: and the answer
	kept, cached, from int   // -1 = not said
}

// speak makes up requests of a few conversations, whose prompts are written out token by token: answers and new tokens
// are behind what is kept of an earlier prompt.
func speak(chance *rand.Rand, n int) []said {
	var all []said
	token := 1000
	fresh := func(tokens []int, n int) []int {
		for range n {
			token++
			tokens = append(tokens, token)
		}
		return tokens
	}
	head := fresh(nil, 400)
	for i := range n {
		s := said{session: fmt.Sprint("s", chance.IntN(3)), at: int64(i * 10), kept: -1, cached: -1, from: -1}
		s.end = s.at + int64(chance.IntN(40))
		for b := i - 1; b >= 0 && s.from < 0; b-- {
			if all[b].session == s.session && all[b].end <= s.at {
				s.from = b
			}
		}
		switch {
		case s.from < 0 && chance.IntN(2) == 0: // it begins a conversation, with what many begin
			s.cached = chance.IntN(len(head))
			s.prompt = fresh(slices.Clone(head[:s.cached]), 1+chance.IntN(200))
		case s.from < 0:
			s.prompt = fresh(nil, 1+chance.IntN(200))
		case chance.IntN(6) == 0: // compacted, to what was cached
			s.cached = chance.IntN(len(all[s.from].prompt))
			s.prompt = fresh(slices.Clone(all[s.from].prompt[:s.cached]), 1+chance.IntN(len(all[s.from].prompt)-s.cached))
			if len(s.prompt) == len(all[s.from].prompt) {
				s.prompt = s.prompt[:len(s.prompt)-1] // as long as before, it would have grown
			}
			s.prompt = append(s.prompt, fresh(nil, btoi(len(s.prompt) == 0))...)
			s.cached = min(s.cached, len(s.prompt))
		case chance.IntN(6) == 0: // it says what it kept
			s.kept = chance.IntN(len(all[s.from].stream))
			s.prompt = fresh(slices.Clone(all[s.from].stream[:s.kept]), 1+chance.IntN(300))
		default:
			s.prompt = fresh(slices.Clone(all[s.from].stream), chance.IntN(100))
			if chance.IntN(3) == 0 { // of the answer, only some was kept
				s.prompt = s.prompt[:len(all[s.from].prompt)+chance.IntN(len(s.prompt)-len(all[s.from].prompt))]
			}
			s.cached = chance.IntN(len(s.prompt)) // the server forgot some of it
		}
		s.stream = fresh(slices.Clone(s.prompt), 1+chance.IntN(60))
		all = append(all, s)
	}
	return all
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestGrowth compares what prompts have in common by their ids with what they have in common token by token.
func TestGrowth(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	shared, compacted := 0, 0
	for round := range 60 {
		all := speak(chance, 40)
		p := Prompts{BlockTokens: []int{1, 7, 16, 64}[round%4]}
		numbers := map[string]int64{}
		var order []int32
		for i, s := range all {
			if _, known := numbers[s.session]; !known {
				numbers[s.session] = int64(len(numbers))
			}
			growth := GrowByLength("m")
			growth.Kept = int32(s.kept)
			if s.kept >= 0 && i%2 == 0 {
				growth.From = int32(s.from)
			}
			p.Growth = append(p.Growth, growth)
			p.BeganNS = append(p.BeganNS, s.at)
			p.TookNS = append(p.TookNS, s.end-s.at)
			p.InputTokens = append(p.InputTokens, int32(len(s.prompt)))
			p.OutputTokens = append(p.OutputTokens, int32(len(s.stream)-len(s.prompt)))
			p.CachedTokens = append(p.CachedTokens, int32(s.cached))
			order = append(order, int32(i))
			compacted += btoi(s.from >= 0 && len(s.prompt) < len(all[s.from].prompt))
		}
		p.Conversation = func(i int32) int64 { return numbers[all[i].session] }
		grown := p.Grow(order)
		for i, a := range all {
			ids := grown.Row(i)
			must.Equal(t, len(ids), len(a.prompt)/p.BlockTokens, "round %d, request %d: ids for %d tokens in blocks of %d", round, i, len(a.prompt), p.BlockTokens)
			for j, b := range all[:i] {
				got, want := alike(ids, grown.Row(j)), alike(a.prompt, b.prompt)/p.BlockTokens
				must.Equal(t, got, want, "round %d, requests %d and %d: blocks of %d tokens in common", round, j, i, p.BlockTokens)
				shared += got
			}
			if seen := len(ids); seen > 0 && slices.Contains(ids[:seen-1], ids[seen-1]) {
				t.Fatalf("round %d, request %d has an id twice", round, i)
			}
		}
	}
	if shared == 0 || compacted == 0 {
		t.Errorf("%d shared blocks, %d compactions", shared, compacted)
	}
}

// alike is how many elements two lists begin with alike.
func alike[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestSpans compares the dependencies of requests with those found by looking at each pair and each third request
// between them.
func TestSpans(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	joins := 0
	for range 200 {
		n := 1 + chance.IntN(12)
		calls := make([]Call, n)
		jobs := []*Node{{EndNS: NoTime}, {EndNS: NoTime}}
		of := make([]*Node, n)
		for i := range calls {
			calls[i] = Call{BeganNS: int64(chance.IntN(30)), TookNS: int64(chance.IntN(9))}
			of[i] = jobs[chance.IntN(len(jobs))]
			of[i].Calls = append(of[i].Calls, int32(i))
		}
		links := must.Have(Link(jobs, calls, 0, new(Budget)))(t)
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(calls[a].BeganNS, calls[b].BeganNS) })
		place := make([]int, n)
		for at, i := range order {
			place[i] = at
		}
		before := func(a, b int) bool { // a had ended when b began
			return of[a] == of[b] && calls[a].EndNS() <= calls[b].BeganNS && place[a] < place[b]
		}
		for i := range n {
			var on []int32
			until := int64(0)
			for _, b := range order {
				if before(b, i) && !slices.ContainsFunc(order, func(c int) bool { return before(b, c) && before(c, i) }) {
					on, until = append(on, int32(b)), max(until, calls[b].EndNS())
				}
			}
			trigger := OnCompletion
			if len(on) == 0 {
				for _, b := range order[:place[i]] {
					if of[b] == of[i] {
						on, until, trigger = []int32{int32(b)}, calls[b].BeganNS, OnDispatch
					}
				}
			}
			joins += btoi(len(on) > 1)
			got := links.Dependencies[i]
			must.Equal(t, len(got), len(on), "request %d waits for %v, and not %v", i, got, on)
			for w, d := range got {
				if d.On != on[w] || d.DelayNS != calls[i].BeganNS-until || d.Trigger != trigger {
					t.Fatalf("request %d waits for %+v, want %v for %v", i, got, on, time.Duration(calls[i].BeganNS-until))
				}
				must.Equal(t, d.Relation == Sequence, trigger == OnCompletion, "request %d: %+v", i, d)
			}
		}
	}
	if joins == 0 {
		t.Error("no request waits for two")
	}
}

// TestLimits: many that wait for many are refused, and so is what leads over them.
func TestLimits(t *testing.T) {
	const n = 3000
	calls := make([]Call, n)
	job := &Node{EndNS: NoTime}
	for i := range calls { // half of them at once, and then the others
		calls[i] = Call{BeganNS: int64(i / (n / 2) * 10), TookNS: 5}
		job.Calls = append(job.Calls, int32(i))
	}
	_, err := Link([]*Node{job}, calls, 0, new(Budget))
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Call < n/2 || limit.Fix() == "" {
		t.Errorf("%d wait for %d: %v", n/2, n/2, err)
	}
	if budget := (Budget{waits: mostWaits + waitsPerCall}); budget.Take(0, 0, 1) != nil || budget.Take(1, 0, 1) == nil {
		t.Error("the budget of one call is not what it is")
	}
}

// TestClimb: parents that lead back to themselves are a circle, as is what comes from it; else they lead to the root.
func TestClimb(t *testing.T) {
	root := &Node{Name: "root"}
	child := &Node{Name: "child", Parent: root}
	below := &Node{Name: "below", Parent: child}
	first, second := &Node{Name: "first"}, &Node{Name: "second"}
	first.Parent, second.Parent = second, first
	tail := &Node{Name: "tail", Parent: first}
	for _, n := range []*Node{below, tail, child, root, first, second} {
		n.Climb()
	}
	if below.Root != root || below.Depth != 2 || child.Depth != 1 || root.Root != root || root.Depth != 0 || below.Circle {
		t.Errorf("below %+v, child %+v, root %+v", below, child, root)
	}
	if !first.Circle || !second.Circle || !tail.Circle {
		t.Errorf("in circles: %v, %v, %v", first.Circle, second.Circle, tail.Circle)
	}
}
