package workload_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/codec/trace/lists"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// dividedWork is a bundled trace over three weighted targets, as it is to be replayed.
func dividedWork(t *testing.T, name, mode string) *workload.Work {
	t.Helper()
	file := must.Have(os.ReadFile(filepath.Join("..", "..", "bench", "samples", name)))(t)
	tr, err := trace.Read(bytes.NewReader(file), name, trace.Options{Limit: 600})
	if err == nil && mode == "twice" {
		tr, err = tr.Repeat(2)
	}
	w := workloadtest.Routed(t, 1, 2, 3)
	w.Trace = tr
	if err == nil {
		w.Plan, err = sched.FromTrace(tr.ArrivalNS, 3, 0)
	}
	switch mode {
	case "closed":
		w.Plan, err = sched.Closed(tr.Len(), 40, 0)
	case "think":
		w.Plan, err = w.Plan.Following(workload.FollowPolicy{Think: true, Bounded: true, Speed: 3}.Dependencies(tr, tr.Len()))
	}
	must.Do(t, err)
	w.Places = route.RoundRobin(w.Requests(), w.Routing.Targets)
	return w
}

// TestPartsAreTheWhole: the parts of a load are, together, the whole load: each request is in one of them, with the
// same number, bytes, instant, place and expected hits. Jobs, conversations and what depends on each other stay
// together, and all machines divide alike.
func TestPartsAreTheWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mode string }{
		{"bailian.jsonl", "open"}, {"bailian.jsonl", "twice"}, {"mooncake.jsonl", "closed"}, {"mooncake.jsonl", "open"}, {"weka.jsonl", "think"}, {"dynamo.jsonl", "think"}, {"dag.jsonl", "open"},
		{"multi_turn.jsonl", "open"},
	} {
		whole := dividedWork(t, c.name, c.mode)
		b := workloadtest.Builder(t, "", "run", 7)
		if !whole.Made(0) {
			b.Backend = backendOf(t, "chat")
		}
		built := workloadtest.Build(t, b, whole)
		ideal := whole.IdealHits()
		records := whole.Records("run", ideal, b.Backend)
		jobs, _ := whole.Trace.JobNumbers()
		counts := []int{1, 2, 3, 16}
		if testing.Short() {
			counts = []int{3}
		}
		for _, count := range counts {
			of, costs := whole.Divide(count)
			if again, _ := dividedWork(t, c.name, c.mode).Divide(count); !slices.Equal(of, again) {
				t.Fatalf("%s: two machines divide differently", c.name)
			}
			checkWhole(t, whole, of, jobs, costs)
			identities := map[string]bool{}
			digests, inFlight, seen := make([][sha256.Size]byte, whole.Requests()), 0, 0
			for index := range count {
				w := dividedWork(t, c.name, c.mode)
				hits := w.IdealHits()
				identities[w.Identity(of, hits, c.name)] = true
				p := sched.Part{Index: index, Count: count}
				hits, next := w.KeepPart(p, of, "run", hits, b.Backend)
				if want := slices.DeleteFunc(slices.Clone(records), func(r record.Record) bool { return of[number(t, &r)] != int32((index+1)%count) }); !slices.Equal(next, want) {
					t.Fatalf("%s, shard %v: the next shard's records differ", c.name, p)
				}
				inFlight += w.Plan.Concurrency
				m := workloadtest.Build(t, b, w)
				var out bytes.Buffer
				must.Do(t, m.WriteDigests(&out))
				for i, r := range w.Records("other", hits, b.Backend) {
					n := w.Number(i)
					seen++
					if r != records[n] || w.Plan.Open() && w.Plan.ReleaseNS[i] != whole.Plan.ReleaseNS[n] || w.Endpoint(i) != whole.Endpoint(n) || hits.Least[i] != ideal.Least[n] {
						t.Fatalf("%s, shard %v: request %d\n%+v\nin the whole work\n%+v", c.name, p, n, r, records[n])
					}
					if !bytes.Equal(m.At(i), built.At(n)) {
						t.Fatalf("%s, shard %v: request %d has other bytes than in the whole work", c.name, p, n)
					}
					line := out.Next(16 + sha256.Size)
					if got, at := binary.LittleEndian.Uint64(line), int64(binary.LittleEndian.Uint64(line[8:])); got != uint64(n) || at != max(0, r.PlannedNS) {
						t.Fatalf("the digest of request %d at %d ns is at %d", got, at, n)
					}
					copy(digests[n][:], line[16:])
				}
				if w.Plan.Dependencies != nil {
					checkWaits(t, whole, w)
				}
			}
			if seen != whole.Requests() || len(identities) != 1 || inFlight != whole.Plan.Concurrency {
				t.Errorf("%s in %d: %d of %d requests, %d identities, %d of %d in flight", c.name, count, seen, whole.Requests(), len(identities), inFlight, whole.Plan.Concurrency)
			}
			expect.Equal(t, fingerprintOf(whole, digests), built.Fingerprint(), "%s in %d: fingerprint", c.name, count)
		}
	}
}

func number(t *testing.T, r *record.Record) (n int) {
	must.Have(fmt.Sscanf(r.RequestID, "run-%d", &n))(t)
	return n
}

// fingerprintOf is the fingerprint as the design defines it.
func fingerprintOf(w *workload.Work, digests [][sha256.Size]byte) string {
	h := sha256.New()
	for i := range digests {
		at := uint64(0)
		if w.Plan.Open() {
			at = uint64(w.Plan.ReleaseNS[i])
		}
		_ = binary.Write(h, binary.LittleEndian, at)
		h.Write(digests[i][:])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// checkWhole: no job, and nothing that depends on each other, is in two parts, and no part has more than its share and
// the dearest job, by costs of 10 µs a request, 20 µs a token that comes and 15 ns a token that is sent.
func checkWhole(t *testing.T, w *workload.Work, of, jobs []int32, costs []int64) {
	t.Helper()
	job, whole, parts := map[int32]int32{}, map[int32]int64{}, make([]int64, len(costs))
	for i, k := range of {
		if other, known := job[jobs[i]]; known && other != k {
			t.Fatalf("job %d is in parts %d and %d", jobs[i], other, k)
		}
		job[jobs[i]] = k
		for _, wait := range w.Trace.Graph(w.Requests()).Of(i) {
			must.Equal(t, of[wait.On], k, "request %d of part", i)
		}
		sent := int(w.Trace.InputTokens[i])
		if !w.Made(i) {
			sent = len(w.Trace.Verbatim(i).Content) / 4
		}
		cost := 10_000 + 20_000*int64(w.Trace.OutputTokens[i]) + 15*int64(sent)
		whole[jobs[i]] += cost
		parts[k] += cost
	}
	var dearest, least, most int64
	for _, cost := range whole {
		dearest = max(dearest, cost)
	}
	for _, cost := range parts {
		if cost > 0 {
			least, most = cmp.Or(min(least, cost), cost), max(most, cost)
		}
	}
	expect.List(t, costs, parts, "parts cost")
	if len(whole) == len(job) && w.Plan.Dependencies == nil && len(parts) > 1 && most-least > dearest {
		t.Errorf("parts cost %d to %d; the dearest job %d", least, most, dearest)
	}
}

// checkWaits: the requests of a part wait for the same ones, by their numbers in the whole work.
func checkWaits(t *testing.T, whole, part *workload.Work) {
	t.Helper()
	for i := range part.Requests() {
		want, got := whole.Plan.Dependencies.Of(int32(part.Number(i))), slices.Clone(part.Plan.Dependencies.Of(int32(i)))
		for k := range got {
			got[k].On = int32(part.Number(int(got[k].On)))
		}
		must.Equal(t, len(got), len(want), "request %d waits for %v, in the whole work for %v", i, got, want)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Fatalf("request %d waits for %v, in the whole work for %v", i, got, want)
			}
		}
	}
}

// TestIdentity: what changes what is sent changes the identity.
func TestIdentity(t *testing.T) {
	t.Parallel()
	of := func(change func(w *workload.Work, of []int32)) string {
		w := dividedWork(t, "mooncake.jsonl", "open")
		parts, _ := w.Divide(2)
		change(w, parts)
		return w.Identity(parts, w.IdealHits(), "1.0", uint64(3))
	}
	same := of(func(*workload.Work, []int32) {})
	must.Equal(t, same, of(func(*workload.Work, []int32) {}), "an identity changes by itself")
	for name, change := range map[string]func(*workload.Work, []int32){
		"an instant":  func(w *workload.Work, _ []int32) { w.Plan.ReleaseNS[9]++ },
		"a length":    func(w *workload.Work, _ []int32) { w.Trace.InputTokens[9]-- },
		"an answer":   func(w *workload.Work, _ []int32) { w.Trace.OutputTokens[9]++ },
		"a block":     func(w *workload.Work, _ []int32) { w.Trace.Blocks(9)[0]++ },
		"a place":     func(w *workload.Work, _ []int32) { w.Places[9].Target = (w.Places[9].Target + 1) % 3 },
		"a shard":     func(_ *workload.Work, of []int32) { of[9] = 1 - of[9] },
		"a row":       func(w *workload.Work, _ []int32) { w.Trace.Row[9]++ },
		"a target":    func(w *workload.Work, _ []int32) { w.Targets[2].URL += "x" },
		"a template":  func(w *workload.Work, _ []int32) { w.Overhead.Tail++ },
		"one request": func(w *workload.Work, _ []int32) { w.Plan = w.Plan.Only(lists.UpTo(w.Requests() - 1)) },
	} {
		if of(change) == same {
			t.Errorf("another load by %s has the same identity", name)
		}
	}
}

// BenchmarkDivide divides the sample among 16.
func BenchmarkDivide(b *testing.B) {
	w := workloadtest.Work(b, 100_000)
	for b.Loop() {
		w.Divide(16)
	}
}
