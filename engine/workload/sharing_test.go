package workload_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// sharedWork is prompts of conversations that go on, fork and are cut short, in blocks of any number of tokens. Some
// are of one token, many end within a block, or with unique tokens.
func sharedWork(t testing.TB, rng *rand.Rand) *workload.Work {
	n := 5 + rng.IntN(60)
	w := workloadtest.Work(t, n)
	blockTokens := 1 + rng.IntN(40)
	var rows []string
	var prompts [][]uint64
	input, output := make([]int32, n), make([]int32, n)
	next := uint64(1 + rng.IntN(1000))
	for i := range n {
		var ids []uint64
		if len(prompts) > 0 && rng.IntN(4) > 0 {
			from := prompts[rng.IntN(len(prompts))]
			ids = append(ids, from[:rng.IntN(len(from)+1)]...)
		}
		for range rng.IntN(6) {
			if rng.IntN(8) == 0 && next > 20 {
				ids = append(ids, next-uint64(rng.IntN(20))) // a block behind another one than before
				continue
			}
			next++
			ids = append(ids, next*0x9e3779b97f4a7c15>>2)
		}
		if len(ids) == 0 {
			ids = []uint64{next}
		}
		prompts, output[i] = append(prompts, ids), int32(1+rng.IntN(200))
		input[i] = int32(len(ids)*blockTokens + rng.IntN(50) - rng.IntN(len(ids)*blockTokens))
		rows = append(rows, fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":1,"hash_ids":%s}`, i*1000, len(ids)*blockTokens, bracketed(ids)))
	}
	made, order := readRows(t, rows, blockTokens), make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	w.Trace = made.Fitted(order, input, output)
	w.Overhead = workload.Overhead{Head: rng.IntN(4), Tail: rng.IntN(4)}
	return w
}

func bracketed(ids []uint64) string {
	text := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Append(text, id)
	}
	return string(append(text, ']'))
}

// sharingBuilders are all APIs with token ids and text, with salts and without.
func sharingBuilders(t testing.TB, rng *rand.Rand) *workload.Builder {
	names := api.Names()
	for {
		o := api.Options{Model: "m\"\\", Stream: true, ForceOutput: rng.IntN(2) == 0, TokenIDs: rng.IntN(2) == 0}
		o.Answers = o.TokenIDs && rng.IntN(2) == 0
		if rng.IntN(2) == 0 {
			o.CacheSalt = "salt-1"
		}
		backend, err := api.New(names[rng.IntN(len(names))], o)
		if err != nil || backend.Takes(api.Verbatim{}) != nil {
			continue // it takes no token ids, no text, or no salt
		}
		var source prompt.Source
		if o.TokenIDs {
			source, err = prompt.NewTokenIDs(rng.Uint64(), prompt.BuiltInIDs()[rng.IntN(3000):])
		} else {
			source, err = prompt.NewText(rng.Uint64(), prompt.BuiltIn())
		}
		must.Do(t, err)
		return &workload.Builder{Backend: backend, Source: source, RunID: "run"}
	}
}

func readRows(t testing.TB, rows []string, blockTokens int) *trace.Trace {
	t.Helper()
	made := must.Have(trace.Read(bytes.NewReader([]byte(strings.Join(rows, "\n"))), "rows.jsonl", trace.Options{Format: "mooncake", BlockTokens: blockTokens}))(t)
	return made
}

// TestPiecesAreWhatWholeRequestsAre: for random works, APIs and prompts, each request in pieces is the whole one byte
// for byte. Both forms have one fingerprint.
func TestPiecesAreWhatWholeRequestsAre(t *testing.T) {
	several, most, told := 0, 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w, r := sharedWork(t, rng), sharingBuilders(t, rng)
		if source, ids := r.Source.(*prompt.TokenIDs); ids && r.Backend.AnswerEnd() > 0 {
			w.TellAnswers(source)
			told++
		}
		if rng.IntN(4) == 0 {
			w.Routing.Late = true
		}
		whole := workloadtest.Build(t, r, w)
		r.AlwaysShare = true
		parts := workloadtest.Build(t, r, w)
		for i := range w.Requests() {
			if target := rng.IntN(2); w.Routing.Late {
				whole.SetTarget(int32(i), target)
				parts.SetTarget(int32(i), target)
			}
			l := parts.List(i)
			if got, want := l.Append(nil), whole.At(i); !bytes.Equal(got, want) || l.Len() != int64(len(want)) {
				t.Fatalf("seed %d, request %d:\n%s\nwant\n%s", seed, i, got, want)
			}
			if l.Pieces() > 3 {
				several++
			}
			most = max(most, l.Pieces())
		}
		must.Equal(t, parts.Fingerprint(), whole.Fingerprint(), "seed %d: fingerprint", seed)
		if parts.Bytes() != whole.Bytes() || parts.Held() != parts.MappedBytes() || whole.Held() != whole.Bytes() {
			t.Fatalf("seed %d: %d bytes in %d, whole %d in %d", seed, parts.Bytes(), parts.Held(), whole.Bytes(), whole.Held())
		}
	}
	if several < 30 || most < 5 || told == 0 {
		t.Errorf("%d requests of more than 3 pieces, at most %d, and %d works with answers", several, most, told)
	}
}

// TestTurnsLieTogether: the turns of conversations that go on at once, whose last blocks are not full, are three pieces
// each, or four with the last block.
func TestTurnsLieTogether(t *testing.T) {
	const conversations, turns = 20, 30
	var rows []string
	prompts, next := make([][]uint64, conversations), uint64(10)
	for turn := range turns {
		for c := range conversations {
			for range 3 {
				next++
				prompts[c] = append(prompts[c], next)
			}
			next++
			rows = append(rows, fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":5,"hash_ids":%s}`, 1000*(turn*conversations+c), 16*3*(turn+1)+7, bracketed(append(prompts[c][:len(prompts[c]):len(prompts[c])], next))))
		}
	}
	w := workloadtest.Work(t, len(rows))
	w.Trace = readRows(t, rows, 16)
	r := workloadtest.Builder(t, "", "a", 1)
	r.AlwaysShare = true
	m := workloadtest.Build(t, r, w)
	for i := range w.Requests() {
		if l := m.List(i); l.Pieces() > 4 {
			t.Fatalf("request %d has %d pieces", i, l.Pieces())
		}
	}
}

// TestSharingIsChosenByWhatItSaves: and then prompts of which little is shared stay whole, until memory is short.
func TestSharingIsChosenByWhatItSaves(t *testing.T) {
	for _, c := range []struct {
		name           string
		rows, prefix   int // tokens that prompts share; each has 4,096 more of its own
		limit          int64
		shared, atNeed bool
	}{
		{"much", 800, 32 << 10, 0, true, true},
		{"little", 3000, 2 << 10, 80 << 20, false, true},
		{"few bytes", 100, 32 << 10, 8 << 20, false, true},
		{"not less than the limit", 3000, 2 << 10, 1 << 20, false, false},
	} {
		rows := make([]string, c.rows)
		for i := range rows {
			ids := make([]uint64, 0, (c.prefix+4096)/512)
			for k := range cap(ids) {
				ids = append(ids, uint64(k))
				if k*512 >= c.prefix {
					ids[k] = uint64(1000 + 8*i + k - c.prefix/512)
				}
			}
			rows[i] = fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":5,"hash_ids":%s}`, i*1000, c.prefix+4096, bracketed(ids))
		}
		w := workloadtest.Work(t, c.rows)
		w.Trace, w.Overhead = readRows(t, rows, 512), workload.Overhead{}
		r := workloadtest.Builder(t, "", "a", 1)
		m := must.Have(r.Layout(context.Background(), w))(t)
		expect.Equal(t, m.Held() < m.Bytes(), c.shared, "%s: in pieces, of %d bytes", c.name, m.Bytes())
		m.ShareFor(context.Background(), c.limit)
		expect.Equal(t, m.Held() < m.Bytes(), c.atNeed, "%s: in pieces if memory is short", c.name)
	}
}

// BenchmarkFillShared lays out and builds the requests of BenchmarkFill in pieces.
func BenchmarkFillShared(b *testing.B) {
	w := workloadtest.Work(b, 2000)
	r := workloadtest.Builder(b, "", "a", 1)
	r.AlwaysShare = true
	b.ReportAllocs()
	for b.Loop() {
		m, err := r.Layout(context.Background(), w)
		if err == nil {
			err = m.Fill(context.Background(), new(atomic.Int64))
		}
		must.Do(b, err)
		b.SetBytes(m.Bytes())
		_ = m.Free()
	}
}
