package workload_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// verbatimWork is n texts over two instances with blocks of 16 and 24 tokens. A letter is a token.
func verbatimWork(t *testing.T, n int) (w *workload.Work, texts []string) {
	t.Helper()
	chance := rand.New(rand.NewPCG(3, 4))
	var file strings.Builder
	for i := range n {
		text := ""
		if i > 0 {
			before := texts[chance.IntN(i)]
			text = before[:chance.IntN(len(before)+1)]
		}
		for range 1 + chance.IntN(60) {
			text += string(rune('a' + chance.IntN(2)))
		}
		if i%7 == 6 {
			text = texts[i-1]
		}
		texts = append(texts, text)
		file.WriteString(`{"text_input":"` + text + `","output_length":1}` + "\n")
	}
	tr := must.Have(trace.Read(strings.NewReader(file.String()), "t", trace.Options{Format: "mooncake"}))(t)
	plan := sched.AtOnce(tr.Len(), 0)
	a, b := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	return &workload.Work{
		Trace: tr, Plan: plan, Targets: []workload.Target{{URL: "http://one:1", Endpoints: []netip.AddrPort{a}}, {URL: "http://two:2", Endpoints: []netip.AddrPort{b}}},
		Places: route.RoundRobin(plan.Requests, route.Even([]int{1, 1})), Caches: map[netip.AddrPort]workload.PrefixCache{a: {BlockTokens: 16}, b: {BlockTokens: 24}},
	}, texts
}

func letters(_ context.Context, l api.Verbatim) (ids []int64, err error) {
	for _, c := range l.Content {
		ids = append(ids, int64(c))
	}
	return ids, nil
}

// TestVerbatimIdealHits: against the longest prefix that any earlier text of the instance has, letter by letter.
func TestVerbatimIdealHits(t *testing.T) {
	w, texts := verbatimWork(t, 400)
	var done atomic.Int64
	if err := w.CountVerbatim(t.Context(), letters, &done); err != nil || done.Load() != 400 || w.Verbatim.BlockTokens != 8 {
		t.Fatalf("%v, %d done, blocks of %d", err, done.Load(), w.Verbatim.BlockTokens)
	}
	got := w.IdealHits()
	block := map[netip.AddrPort]int{w.Endpoint(0): 16, w.Endpoint(1): 24}
	seen := map[netip.AddrPort][]string{}
	hits := 0
	for i, text := range texts {
		shared := 0
		for _, before := range seen[w.Endpoint(i)] {
			k := 0
			for k < len(text) && k < len(before) && text[k] == before[k] {
				k++
			}
			shared = max(shared, k)
		}
		seen[w.Endpoint(i)] = append(seen[w.Endpoint(i)], text)
		want := min(shared, len(text)-1) / block[w.Endpoint(i)] * block[w.Endpoint(i)]
		if hits += want; got.Expected[i] != int64(want) || got.Most[i] != int64(want) || w.ServerTokens(i) != len(text) {
			t.Errorf("text %d: %d to %d of %d expected, want %d of %d", i, got.Expected[i], got.Most[i], w.ServerTokens(i), want, len(text))
		}
	}
	if hits == 0 {
		t.Error("no hits at all")
	}
	// Where the block size is assumed, a server with smaller blocks may have more.
	for addr := range w.Caches {
		w.Caches[addr] = workload.PrefixCache{BlockTokens: 16, Assumed: true}
	}
	must.Do(t, w.CountVerbatim(t.Context(), letters, &done))
	bounds := w.IdealHits()
	clear(seen)
	for i, text := range texts {
		for _, before := range seen[w.Endpoint(i)] {
			k := 0
			for k < min(len(text)-1, len(before)) && text[k] == before[k] {
				k++
			}
			if int64(k) > bounds.Most[i] || bounds.Most[i] >= int64(len(text)) {
				t.Errorf("text %d of %d shares %d tokens, at most %d expected", i, len(text), k, bounds.Most[i])
			}
		}
		seen[w.Endpoint(i)] = append(seen[w.Endpoint(i)], text)
	}
	// The router places a text where its longest prefix is, and finds some for equal texts.
	w.Routing = workload.Routing{Targets: route.Even([]int{1, 1})}
	w.Routing.Router = route.PrefixName
	w.Places = w.Placed(w.Routing.Targets, nil)
	all := make([]int32, w.Requests())
	for i := range all {
		all[i] = int32(i)
	}
	if p := w.Prompts(all); p.Tokens(6) != len(texts[6]) || w.Places[6] != w.Places[5] {
		t.Errorf("%d tokens for the router, want %d; equal texts at %v and %v", p.Tokens(6), len(texts[6]), w.Places[5], w.Places[6])
	}
}

// TestCountVerbatimAsksOnce: equal prompts are counted once, an error or the end of ctx leaves nothing known.
func TestCountVerbatimAsksOnce(t *testing.T) {
	w, texts := verbatimWork(t, 200)
	var asked, done atomic.Int64
	count := func(ctx context.Context, l api.Verbatim) ([]int64, error) {
		asked.Add(1)
		return letters(ctx, l)
	}
	must.Do(t, w.CountVerbatim(t.Context(), count, &done))
	slices.Sort(texts)
	expect.Equal(t, int(asked.Load()), len(slices.Compact(texts)), "%d asked that differ", asked.Load())
	w.Verbatim = nil
	broken := errors.New("broken")
	if err := w.CountVerbatim(t.Context(), func(context.Context, api.Verbatim) ([]int64, error) { return nil, broken }, &done); err != broken || w.Verbatim != nil {
		t.Errorf("%v, %v", err, w.Verbatim)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.CountVerbatim(ctx, count, &done); err != context.Canceled || w.IdealHits().Expected[0] != record.None {
		t.Errorf("%v, %v", err, w.IdealHits().Expected[0])
	}
}

// TestCountedPromptsThatAreTooLong: a text that was counted is found too long before the start, and the others keep
// their counts.
func TestCountedPromptsThatAreTooLong(t *testing.T) {
	const n = 400
	w, texts := verbatimWork(t, n)
	chat, longest := backendOf(t, "chat"), 0
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	if got := w.TooLong(longest/2, chat); len(got) > 0 {
		t.Errorf("%d too long before they were counted", len(got))
	}
	must.Do(t, w.CountVerbatim(t.Context(), letters, new(atomic.Int64)))
	list := w.TooLong(longest/2, chat)
	want, kept := 0, []int{}
	for i, text := range texts {
		if _, output := w.Lengths(i, chat); len(text)+output > longest/2 {
			want++
		} else {
			kept = append(kept, len(text))
		}
	}
	if len(list) != want || want == 0 || len(kept) == 0 {
		t.Fatalf("%d of %d too long, want %d", len(list), n, want)
	}
	w.LeaveOut(list, "00000000", chat, "too long")
	for i, tokens := range kept {
		must.Equal(t, w.ServerTokens(i), tokens, "text %d tokens", i)
	}
}
