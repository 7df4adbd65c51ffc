package setup

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

func openTrace(tb testing.TB, path string) *trace.Trace {
	tb.Helper()
	t := must.Have(trace.Open(path, trace.Options{}))(tb)
	return t
}

// conversationTrace is Mooncake's, if it is there.
func conversationTrace(tb testing.TB) *trace.Trace {
	tb.Helper()
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		tb.Skip("FASTREPLAY_TRACES does not name a folder with mooncake-conversation.jsonl.zst")
	}
	return openTrace(tb, filepath.Join(dir, "mooncake-conversation.jsonl.zst"))
}

const (
	bailianSample  = "../../bench/samples/bailian.jsonl"
	mooncakeSample = "../../bench/samples/mooncake.jsonl"
)

func amplified(tb testing.TB, t *trace.Trace, factor float64, seed uint64) (*trace.Trace, *metrics.Amplify) {
	tb.Helper()
	out, did, err := Amplify(factor).Apply(t, seed)
	must.Do(tb, err)
	return out, did
}

// naiveHits is the share of the tokens that a cache of all beginnings of prompts so far would have had.
func naiveHits(t *trace.Trace) float64 {
	seen := map[string]int{} // tokens of the last block of a beginning, at most
	hits, tokens := 0, 0
	for i := range t.Len() {
		left, key := int(t.InputTokens[i]), []byte(nil)
		tokens += left
		for _, id := range t.Blocks(i) {
			for s := range 8 {
				key = append(key, byte(id>>(8*s)))
			}
			n := min(left, t.BlockTokens)
			left -= n
			hits += min(n, seen[string(key)])
			seen[string(key)] = max(n, seen[string(key)])
		}
	}
	return float64(hits) / float64(tokens)
}

// TestAmplifyKeepsTheLoad: four times the requests at four times the rate, with the hits, the distances and about the
// bursts that were recorded.
func TestAmplifyKeepsTheLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		trace func(testing.TB) *trace.Trace
		naive bool
	}{
		{"Mooncake's conversation trace", conversationTrace, false},
		{"Bailian sample", func(tb testing.TB) *trace.Trace { return openTrace(tb, bailianSample) }, true},
		{"Mooncake sample", func(tb testing.TB) *trace.Trace { return openTrace(tb, mooncakeSample) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := c.trace(t)
			out, did := amplified(t, tr, 4, 0)
			b, a := did.Before, did.After
			t.Logf("hits %.4f to %.4f, CV %.2f to %.2f, peak %d to %d", *b.HitRatio, *a.HitRatio, *b.GapCV, *a.GapCV, *b.Peak, *a.Peak)
			if out.Len() != 4*tr.Len() || a.Requests != 4*b.Requests {
				t.Fatalf("%d requests became %d", tr.Len(), out.Len())
			}
			expect.Near(t, *a.RequestsPerS / *b.RequestsPerS, 4, 0.001, "the rate times the recorded")
			expect.Near(t, *a.HitRatio, *b.HitRatio, 0.01, "an ideal cache would of the tokens")
			if cv := *a.GapCV / *b.GapCV; cv < 0.6 || cv > 1.7 {
				t.Errorf("the CV of the gaps is %v times the recorded", cv)
			}
			if *a.Peak > 4**b.Peak {
				t.Errorf("the peak is %d, recorded %d", *a.Peak, *b.Peak)
			}
			if d := *a.ReuseP50 / *b.ReuseP50; d < 3 || d > 5 {
				t.Errorf("four conversations at once lie %v times as much between two uses", d)
			}
			if c.naive {
				if was, is := naiveHits(tr), naiveHits(out); math.Abs(was-*b.HitRatio) > 1e-9 || math.Abs(is-*a.HitRatio) > 1e-9 {
					t.Errorf("counted anew, the hits are %v and %v", was, is)
				}
			}
		})
	}
}

// TestAmplifyOnce: the same trace, not a copy of it.
func TestAmplifyOnce(t *testing.T) {
	tr := openTrace(t, bailianSample)
	if out, did := amplified(t, tr, 1, 7); out != tr || did != nil {
		t.Error("once is another trace")
	}
}

// TestThinnedTrace: whole conversations under their own names, also of verbatim prompts.
func TestThinnedTrace(t *testing.T) {
	for _, path := range []string{bailianSample, "../../bench/samples/multi_turn.jsonl", "../../bench/samples/azure.csv"} {
		tr := openTrace(t, path)
		out, _ := amplified(t, tr, 0.5, 3)
		rows := map[int32]bool{}
		for _, row := range out.Row {
			rows[row] = true
		}
		if n := len(rows); n != out.Len() || n < tr.Len()*4/10 || n > tr.Len()*6/10 {
			t.Errorf("%s: %d of %d requests, %d rows", path, out.Len(), tr.Len(), n)
		}
		if tr.Session == nil {
			continue
		}
		for i, session := range tr.Session {
			j := slices.Index(tr.Session, session) // its first row
			expect.Equal(t, rows[tr.Row[i]], rows[tr.Row[j]], "%s: conversation %d was torn apart", path, session)
		}
	}
}

// TestAmplifyUntimed: clones are mixed, and still no row says when.
func TestAmplifyUntimed(t *testing.T) {
	var rows []string
	for i := range 100 {
		rows = append(rows, `{"input_length":512,"output_length":1,"hash_ids":[`+string(rune('1'+i%9))+`]}`)
	}
	file := filepath.Join(t.TempDir(), "untimed.jsonl")
	must.Do(t, os.WriteFile(file, []byte(strings.Join(rows, "\n")), 0o644))
	out, did := amplified(t, openTrace(t, file), 3, 0)
	if !out.Untimed || slices.Max(out.ArrivalNS) != 0 || out.Len() != 300 || did.After.RequestsPerS != nil || did.After.Peak != nil {
		t.Errorf("%+v", did.After)
	}
	early := map[int32]bool{}
	for _, clone := range out.Clone[:30] {
		early[clone] = true
	}
	expect.Equal(t, len(early), 3, "the first 30 requests are of clones")
}

func TestAmplifyRefusals(t *testing.T) {
	for factor, want := range map[float64]string{0: "--amplify: a factor of 0", -2: "above 0", 1e9: "at most"} {
		_, _, err := Amplify(factor).Apply(openTrace(t, bailianSample), 0)
		expect.Error(t, err, want, factor)
	}
	_, _, err := Amplify(2).Apply(openTrace(t, "../../bench/samples/sharegpt.json"), 0)
	expect.Error(t, err, "verbatim prompts")
}

// TestAmplifyHasRoom: a load that would not fit is refused before it is made, with what it takes and what there is.
func TestAmplifyHasRoom(t *testing.T) {
	tr := openTrace(t, bailianSample)
	for _, c := range []struct {
		times, perRequest, perBlock float64
		most                        int64 // that is too little; half as much again is not
		want                        string
	}{
		{4, peakPerRequest, peakPerBlock, 12 << 20, "--amplify 4: 1,200 requests would take about 14.2 MB, more than the 12.6 MB allowed (all there is); use a smaller --amplify, or take fewer rows with --limit or --from/--to"},
		{3, heldPerRequest, heldPerBlock, 700e3, "--amplify 4: 1,200 requests would take about 760 kB, more than the 700 kB allowed (all there is); use a smaller --amplify, or take fewer rows with --limit or --from/--to"},
	} {
		check := func(bytes int64) error {
			return Amplify(4).refuse(tr, allowance{bytes, "all there is"}, c.times, c.perRequest, c.perBlock)
		}
		expect.Error(t, check(c.most), c.want, "%d bytes allowed", c.most)
		expect.Equal(t, check(c.most+c.most/2), nil)
	}
	err := Amplify(0.5).refuse(tr, allowance{1, "next to nothing"}, -0.5, heldPerRequest, heldPerBlock)
	expect.Equal(t, err, nil, "a part of the load")
	if got, _ := amplified(t, tr, 4, 0); got.Len() != 1200 {
		t.Errorf("%d requests", got.Len())
	}
}

// BenchmarkAmplify is hours of traffic: 32 times the conversation trace, and what is said about it.
func BenchmarkAmplify(b *testing.B) {
	tr := conversationTrace(b)
	b.Run("copies", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := Amplify(32).Copies(tr, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("with the load after", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := Amplify(32).Apply(tr, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestAmplifyTakesJobsWhole multiplies jobs of agents: each copy of a job is one whole, later or earlier, with the
// waits of the recorded one.
func TestAmplifyTakesJobsWhole(t *testing.T) {
	tr := openTrace(t, "../../bench/samples/agentic_mooncake.jsonl")
	recorded, _ := tr.JobNumbers()
	requests := map[string]int{}
	for i := range recorded {
		requests[tr.JobName(i)]++
	}
	for _, factor := range []float64{0.5, 1.5, 3} {
		out, did := amplified(t, tr, factor, 7)
		jobs, n := out.JobNumbers()
		if want := int(factor * 4); n != want || !did.Jobs || did.Sessions != 4 {
			t.Errorf("%v times 4 jobs are %d, of %d; want %d", factor, n, did.Sessions, want)
		}
		g, all := out.Graph(out.Len()), tr.Graph(tr.Len())
		copied, named := make([]int, n), make([]string, n)
		for i, job := range jobs {
			name, _, _ := strings.Cut(out.JobName(i), "~")
			copied[job]++
			named[job] = name
			from := slices.Index(tr.Row, out.Row[i])
			must.Equal(t, len(g.Of(i)), len(all.Of(from)), "%v times: request %d waits", factor, i)
			for k, w := range g.Of(i) {
				was := all.Of(from)[k]
				if out.Row[w.On] != tr.Row[was.On] || jobs[w.On] != job || w.DelayNS != was.DelayNS || out.ArrivalNS[i]-out.ArrivalNS[w.On] != tr.ArrivalNS[from]-tr.ArrivalNS[was.On] {
					t.Fatalf("%v times: request %d waits for %+v, the recorded one for %+v", factor, i, w, was)
				}
			}
		}
		for job, requestsOf := range copied {
			expect.Equal(t, requestsOf, requests[named[job]], "%v times: requests of a copy of %s", factor, named[job])
		}
	}
}
