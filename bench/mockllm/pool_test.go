package mockllm

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// idsBody is a streaming completion request for the tokens.
func idsBody(tokens []uint64, output int) string {
	var b strings.Builder
	for i, v := range tokens {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, v)
	}
	return fmt.Sprintf(`{"prompt":[%s],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, b.String(), output)
}

// TestPoolOneAtATime: requests on connections of their own, each sent when the one before was answered, find exactly
// what the oracle's cache has. Nothing but the answers orders them.
func TestPoolOneAtATime(t *testing.T) {
	for _, capacity := range []int{-1, 7, 12, 30} {
		r := rand.New(rand.NewPCG(uint64(capacity+2), 5))
		requests := randomRequests(r, 120, capacity)
		for i, q := range requests {
			q.arrival, q.ttft, q.stay = int64(i)*10, 1, 2
		}
		oracle := newNaive(capacity, 0, 0)
		oracle.run(requests)
		driven := capacity == 12 // answers with gzip are written by goroutines of their own
		ts := start(t, Config{CacheTokens: int64(capacity) * naiveBlockTokens, BlockTokens: naiveBlockTokens, Gzip: driven})
		ts.client.Transport.(*http.Transport).DisableKeepAlives = true
		hits := 0
		for i, q := range requests {
			if got := ts.stream(completions, idsBody(q.tokens, q.output)).cached(); got != q.cached {
				t.Fatalf("capacity %d, request %d: %d tokens cached, want %d", capacity, i, got, q.cached)
			}
			hits += q.cached
		}
		if st := ts.Stats(); st.CachedBlocks != oracle.findable() || st.HeldBlocks != 0 || st.CachedTokens != int64(hits) || hits == 0 {
			t.Errorf("capacity %d: %+v, want %d blocks, %d tokens", capacity, st, oracle.findable(), hits)
		}
	}
}

// same returns a prompt of equal tokens, so that prompts of one token share their whole blocks.
func same(token uint64, n int) []uint64 { return slices.Repeat([]uint64{token}, n) }

// TestPoolWaits: requests wait for room, in order of arrival, also those that would fit.
func TestPoolWaits(t *testing.T) {
	ts := start(t, Config{CacheTokens: 64, TTFT: time.Hour})
	var conns []net.Conn
	send := func(token uint64, prompt int) {
		conns = append(conns, ts.raw(idsBody(same(token, prompt), 1), fmt.Sprint("X-Request-Id: ", len(conns))))
		eventually(t, "the request is seen", func() bool { st := ts.Stats(); return st.Running+st.Waiting+int(st.Gone) == len(conns) })
	}
	state := func(running, waiting, held int) {
		t.Helper()
		eventually(t, fmt.Sprint(running, " run, ", waiting, " wait"), func() bool {
			st := ts.Stats()
			return st.Running == running && st.Waiting == waiting && st.HeldBlocks == held
		})
	}
	send(1, 33) // three blocks with its output
	send(2, 40) // three
	send(3, 10) // one: it would fit
	send(4, 10)
	send(5, 20)
	state(1, 4, 3)
	if text := ts.page("/metrics"); !strings.Contains(string(text.body), `vllm:kv_cache_usage_perc{engine="0",model_name="mock"} 0.75`) {
		t.Errorf("%s", text.body)
	}
	conns[0].Close()
	state(2, 2, 4)
	conns[3].Close() // leaves the queue, in which the next still finds no room
	state(2, 1, 4)
	conns[2].Close()
	state(1, 1, 3)
	conns[1].Close()
	state(1, 0, 2)
	conns[4].Close()
	state(0, 0, 0)
	lines := ts.lines()
	if l := lines["3"]; l.BeginNS != nil || l.Cached != nil || l.End != endGone {
		t.Errorf("the request that left the queue: %+v", l)
	}
	if !(*lines["1"].BeginNS <= *lines["2"].BeginNS && *lines["2"].BeginNS <= *lines["4"].BeginNS) {
		t.Error("not in order of arrival")
	}
}

// TestPoolHeadLeaves: when the first that waits goes away, the next may have room at once.
func TestPoolHeadLeaves(t *testing.T) {
	ts := start(t, Config{CacheTokens: 64, TTFT: time.Hour})
	ts.raw(idsBody(same(1, 33), 1))
	eventually(t, "it runs", func() bool { return ts.Stats().Running == 1 })
	head := ts.raw(idsBody(same(2, 33), 1))
	eventually(t, "it waits", func() bool { return ts.Stats().Waiting == 1 })
	ts.raw(idsBody(same(3, 10), 1))
	eventually(t, "both wait", func() bool { return ts.Stats().Waiting == 2 })
	head.Close()
	eventually(t, "the second runs", func() bool { st := ts.Stats(); return st.Running == 2 && st.Waiting == 0 })
}

// TestPoolTooLarge: what can never fit is refused.
func TestPoolTooLarge(t *testing.T) {
	ts := start(t, Config{CacheTokens: 70})
	ts.stream(completions, idsBody(same(1, 60), 4))
	_, text := ts.mustPost(400, completions, idsBody(same(1, 60), 5))
	if !strings.Contains(text, "maximum context length is 64 tokens. However, you requested 65 tokens (60 in the prompt, 5 in the completion)") {
		t.Error(text)
	}
	if body := string(ts.page("/v1/models").body); !strings.Contains(body, `"max_model_len":64}`) {
		t.Error(body)
	}
}

// TestPoolOneByOne: with room for one, requests run one after the other whenever they arrived, each from the moment the
// one before gave its blocks back.
func TestPoolOneByOne(t *testing.T) {
	const ttft = 2 * time.Millisecond
	ts := start(t, Config{CacheTokens: 48, TTFT: ttft})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { ts.stream(completions, idsBody(same(uint64(i), 33), 3), "X-Request-Id", fmt.Sprint(i)) })
	}
	wg.Wait()
	lines := slices.Collect(maps.Values(ts.lines()))
	slices.SortFunc(lines, func(a, b logLine) int { return cmp.Compare(*a.BeginNS, *b.BeginNS) })
	for i, l := range lines {
		if *l.BeginNS < *l.ArrivedNS || *l.FirstNS-*l.BeginNS < int64(ttft) {
			t.Errorf("answer %d: arrived %d, begun %d, first token %d", i, *l.ArrivedNS, *l.BeginNS, *l.FirstNS)
		}
		if i > 0 && *l.BeginNS < *lines[i-1].DoneNS {
			t.Errorf("answer %d began %d ns before the end of the one before", i, *lines[i-1].DoneNS-*l.BeginNS)
		}
	}
}

// TestPoolHammer: with clients that read, hang up early or never read at all, in the end everything is free again.
func TestPoolHammer(t *testing.T) {
	const clients, rounds = 24, 30
	ts := start(t, Config{CacheTokens: 40 * 16, TTFT: 2 * time.Millisecond, ITL: 100 * time.Microsecond, Spread: 0.9, Slots: 12})
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 9))
			for range rounds {
				body := idsBody(same(r.Uint64N(3), 1+r.IntN(300)), 1+r.IntN(30))
				if r.IntN(3) > 0 {
					ts.stream(completions, body)
					continue
				}
				nc := ts.raw(body)
				_, _ = io.ReadFull(nc, make([]byte, r.IntN(600)))
				nc.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "all is free", func() bool { st := ts.Stats(); return st.Done+st.Gone == clients*rounds })
	if st := ts.Stats(); st.Running != 0 || st.Waiting != 0 || st.HeldBlocks != 0 || st.CachedBlocks == 0 || st.CachedBlocks > 40 {
		t.Errorf("stats %+v", st)
	}
}

func TestBlockTokens(t *testing.T) {
	for _, block := range []int{1, 5, 128} {
		ts := start(t, Config{CacheTokens: -1, BlockTokens: block})
		body := idsBody(same(1, 300), 1)
		ts.stream(completions, body)
		if got, want := ts.stream(completions, body).cached(), 299/block*block; got != want {
			t.Errorf("blocks of %d: %d tokens cached, want %d", block, got, want)
		}
		text := string(ts.page("/metrics").body)
		if !strings.Contains(text, fmt.Sprintf(`vllm:cache_config_info{block_size="%d",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks_override=`, block)) {
			t.Error(text)
		}
	}
}
