package merge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/report"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/stats"
)

const url = "http://one"

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// planned is what request n was to be.
func planned(rng *rand.Rand, n int) (r record.Record) {
	r.Clear()
	r.Row, r.Session, r.Turn, r.Target, r.PlannedNS = int64(n), int64(n/3), int64(n%3), url, int64(n)*1e6
	r.RequestID = fmt.Sprintf("run-%09d", n)
	r.InputTokens, r.OutputTokens, r.ExpectedCachedTokens = int64(100+rng.IntN(900)), int64(2+rng.IntN(50)), int64(rng.IntN(100))
	return r
}

// answered is what became of a planned request.
func answered(rng *rand.Rand, r record.Record) record.Record {
	r.SentNS = r.PlannedNS + rng.Int64N(1e6)
	r.SentAt = record.Wall(start.UnixMicro() + r.SentNS/1000)
	if rng.IntN(9) == 0 {
		r.Outcome, r.Status, r.Error, r.HeadersNS, r.DoneNS = record.HTTPError, 503, "busy", r.SentNS+1e6, r.SentNS+2e6
		return r
	}
	r.Outcome, r.Status, r.FinishReason, r.TokensFrom = record.OK, 200, "length", record.TokensFromUsage
	r.FirstTokenNS = r.SentNS + 1e6 + rng.Int64N(1e9)
	r.LastTokenNS = r.FirstTokenNS + rng.Int64N(1e9)
	r.HeadersNS, r.DoneNS = r.FirstTokenNS-5e5, r.LastTokenNS+1e4
	r.PromptTokens, r.CompletionTokens, r.Chunks, r.CachedTokens = r.InputTokens, r.OutputTokens, r.OutputTokens, r.ExpectedCachedTokens
	return r
}

// part is what a shard had to do, and what it did.
type part struct {
	plan, done []record.Record
	gaps       [][]int64
	offsetNS   int64           // of its clock
	facts      metrics.Summary // what no record has
}

// load makes a load of n requests for shards, by conversations.
func load(seed uint64, n, shards int) (parts []part) {
	rng := rand.New(rand.NewPCG(seed, 1))
	parts = make([]part, shards)
	for i := range n {
		p := &parts[i/3%shards]
		r := planned(rng, i)
		p.plan = append(p.plan, r)
		p.done = append(p.done, answered(rng, r))
		if last := &p.done[len(p.done)-1]; last.Outcome == record.OK {
			p.gaps = append(p.gaps, []int64{rng.Int64N(1e7), rng.Int64N(1e7)})
		}
	}
	for i := range parts {
		slices.SortFunc(parts[i].done, func(a, b record.Record) int { return int(lastInstant(&a) - lastInstant(&b)) })
	}
	return parts
}

// randomFacts are those of a client, a few of each kind.
func randomFacts(rng *rand.Rand) (s metrics.Summary) {
	s.Run.Cut, s.Client.Realtime = rng.IntN(4) == 0, rng.IntN(4) > 0
	s.Requests.Unwritten, s.Tokens.OverLong, s.PrefixCache.OvertakenTokens = rng.Int64N(3), rng.Int64N(9), rng.Int64N(9)
	s.Tokens.OverLongTokens = rng.Int64N(99)
	s.Connections.Dialled, s.Writes.Whole, s.Client.SpinUS = rng.Int64N(9), rng.Int64N(9), float64(rng.IntN(9))
	s.Client.StolenS, s.Client.ReceiveLagUS = new(float64(rng.IntN(9))), &stats.Percentiles{P99: float64(rng.IntN(9))}
	s.Turns = &metrics.Turns{Sessions: "strict", FollowUps: rng.Int64N(9)}
	s.BuildAhead = &metrics.BuildAhead{LeastLeadMS: new(float64(rng.IntN(100) - 50))}
	s.Lateness.Reading = []metrics.Unsafe{{Metric: "itl", Percentile: "p99", EffectMS: float64(rng.IntN(9))}}
	return s
}

// summaryOf is that of one machine that had all of these.
func summaryOf(parts ...part) (*collect.Collector, *metrics.Summary) {
	c, n, end := collect.NewCollector([]string{url}), int64(0), int64(0)
	var all []record.Record
	for _, p := range parts {
		all = append(all, p.done...)
		for _, gaps := range p.gaps {
			c.AddGaps(0, gaps, nil...)
		}
	}
	slices.SortStableFunc(all, func(a, b record.Record) int { return int(lastInstant(&a) - lastInstant(&b)) })
	for i := range all {
		r := all[i]
		r.BuiltTokens, r.LeastCachedTokens, r.MostCachedTokens = r.InputTokens, r.ExpectedCachedTokens, r.ExpectedCachedTokens
		c.Add(&r, 0)
		if end = max(end, lastInstant(&r)); r.Phase == record.Profiled {
			n++
		}
	}
	s := metrics.Summary{Requests: metrics.Requests{Planned: n}, Limits: metrics.DefaultLimits(), Run: metrics.Run{StartedAt: start, DurationS: float64(end) / 1e9, Host: metrics.Host{Name: "a", CPUs: 2}}}
	sum := c.Summary(s, collect.Probed{})
	sum.SetFacts(new(wholeOf(parts)))
	sum.Run.DurationS = s.Run.DurationS
	return c, sum
}

// wholeOf are the facts that one machine would have found, the last shard's first.
func wholeOf(parts []part) (whole metrics.Summary) {
	for i, p := range slices.Backward(parts) {
		whole.MergeFacts(&p.facts, i == len(parts)-1)
	}
	return whole
}

// write writes the directory of shard index; whole: its run came to its end.
func write(t *testing.T, parts []part, index, requests int, whole bool) string {
	t.Helper()
	return writeTo(t, t.TempDir(), parts, index, requests, whole)
}

func writeTo(t testing.TB, root string, parts []part, index, requests int, whole bool) string {
	t.Helper()
	dir, p := filepath.Join(root, fmt.Sprint("shard-", index)), parts[index]
	check := func(err error) {
		must.Do(t, err)
	}
	check(os.Mkdir(dir, 0o755))
	f := File{Schema: Schema, Index: index, Count: len(parts), Version: "v", Identity: "sha256:1", Requests: int64(len(p.plan)), Workload: metrics.Workload{Requests: int64(requests)}, Load: metrics.Load{Requests: int64(requests)}, StartAt: start}
	if p.offsetNS != 0 {
		f.Clock = []shard.Offset{{AtNS: 0, OffsetNS: p.offsetNS, ErrorNS: 1000}}
	}
	text, err := json.Marshal(f)
	check(err)
	check(os.WriteFile(filepath.Join(dir, FileName), text, 0o644))
	plan := report.Plan{Schema: metrics.Schema, Run: metrics.Run{Targets: []string{url}, Host: metrics.Host{Name: "a", CPUs: 2}}, Limits: metrics.DefaultLimits(), Workload: metrics.Workload{Requests: int64(len(p.plan))}}
	check(report.WritePlan(dir, &plan))
	next := parts[(index+1)%len(parts)]
	check(report.WriteWhole(filepath.Join(dir, PlannedNextName), func(w io.Writer) error {
		out, err := zstd.NewWriter(w)
		for i := range next.plan {
			_, _ = out.Write(next.plan[i].AppendJSON(nil))
		}
		check(out.Close())
		return err
	}))
	check(report.WriteWhole(filepath.Join(dir, DigestsName), func(w io.Writer) (err error) {
		for _, r := range p.plan {
			d := sha256.Sum256([]byte(r.RequestID))
			_, err = w.Write(append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(r.Row)), uint64(r.PlannedNS)), d[:]...))
		}
		return err
	}))
	w, err := report.NewWriter(dir, report.WriterOptions{Compress: index%2 == 1})
	check(err)
	for i := range p.done {
		r := p.done[i]
		for _, at := range []*int64{&r.SentNS, &r.HeadersNS, &r.FirstTokenNS, &r.LastTokenNS, &r.DoneNS} {
			if *at != record.None {
				*at += p.offsetNS
			}
		}
		if whole || i < len(p.done)/2 {
			w.Append(&r)
		}
	}
	_, err = w.Close()
	check(err)
	if whole {
		c, s := summaryOf(p)
		s.Records, s.Workload.Fingerprint = w.Lines(), fingerprintOf(p.plan)
		check(report.WriteSummary(dir, s))
		check(report.WriteHistograms(dir, c, start, start))
	}
	check(Seal(dir))
	return dir
}

// fingerprintOf is that of requests with the digests that write writes.
func fingerprintOf(plan []record.Record) string {
	h := sha256.New()
	for _, r := range plan {
		d := sha256.Sum256([]byte(r.RequestID))
		h.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(r.PlannedNS)), d[:]...))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// merged merges directories, and reads the result back.
func merged(t *testing.T, dirs ...string) (*metrics.Summary, []record.Record) {
	t.Helper()
	s := must.Have(Open(dirs))(t)
	out := t.TempDir()
	must.Have(s.Write(out, new(atomic.Int64)))(t)
	sum := must.Have(report.Load(out))(t)
	if plan, err := report.ReadPlan(out); err != nil || plan.Load.Requests != s.Records() || plan.Workload.Requests != s.Records() {
		t.Errorf("%s is not of the whole load: %v, %+v", report.PlanName, err, plan)
	}
	var all []record.Record
	must.Do(t, report.EachRecord(out, func(r *record.Record) { all = append(all, *r) }))
	return sum, all
}

// same compares what one machine would have written, as JSON.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	expect.Equal(t, string(a), string(b), what)
}

// keysOf are the values of summary.json by their keys.
func keysOf(t *testing.T, s *metrics.Summary) (keys map[string]any) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	must.Do(t, err)
	return keys
}

// TestMergeIsOneRun: each key of the summary of the shards of random loads is that of one machine with all their
// records and facts, whatever the shards and their clocks.
func TestMergeIsOneRun(t *testing.T) {
	t.Parallel()
	seeds := uint64(6)
	if testing.Short() {
		seeds = 3 // the larger ones take half a minute under the race detector
	}
	for seed := range seeds {
		n, shards := 50+int(seed)*333, 1+int(seed)
		parts := load(seed, n, shards)
		for i := range parts {
			parts[i].facts = randomFacts(rand.New(rand.NewPCG(seed, uint64(i))))
			for k := range parts[i].done {
				if seed%2 == 1 && k%17 == 5 {
					parts[i].done[k].Phase = record.Warmup
				}
			}
		}
		_, want := summaryOf(parts...)
		if shards > 2 {
			parts[2].offsetNS = 3e6 // which the merge takes out
		}
		var dirs []string
		for i := range parts {
			dirs = append(dirs, write(t, parts, i, n, true))
		}
		slices.Reverse(dirs)
		got, all := merged(t, dirs...)
		for _, pair := range [][2]*stats.Percentiles{{got.ITLMS, want.ITLMS}, {got.Targets[0].ITLMS, want.Targets[0].ITLMS}} {
			if math.Abs(pair[0].Mean-pair[1].Mean) > 1.5e-6 { // shards' means are whole ns
				t.Errorf("seed %d: mean gap %v ms, want %v", seed, pair[0].Mean, pair[1].Mean)
			}
			pair[0].Mean = pair[1].Mean
		}
		keys, wanted := keysOf(t, got), keysOf(t, want)
		for _, own := range []string{"verdict", "run", "workload", "shards", "notes", "note_codes", "records"} { // of the merge, or of its plan
			delete(keys, own)
			delete(wanted, own)
		}
		if got.Run.Cut != want.Run.Cut || got.Run.DurationS != want.Run.DurationS {
			t.Errorf("seed %d: %+v, want %+v", seed, got.Run, want.Run)
		}
		for key := range wanted {
			same(t, fmt.Sprintf("seed %d, %s", seed, key), keys[key], wanted[key])
		}
		expect.Equal(t, len(keys), len(wanted), "seed %d: keys", seed)
		if !slices.IsSortedFunc(all, func(a, b record.Record) int { return int(lastInstant(&a) - lastInstant(&b)) }) || len(all) != n || len(got.Shards) != shards {
			t.Errorf("seed %d: %d records in order of completion of %d shards", seed, len(all), len(got.Shards))
		}
		h := sha256.New()
		for i := range n {
			_ = binary.Write(h, binary.LittleEndian, int64(i)*1e6)
			d := sha256.Sum256([]byte(fmt.Sprintf("run-%09d", i)))
			h.Write(d[:])
		}
		if want := "sha256:" + hex.EncodeToString(h.Sum(nil)); got.Workload.Fingerprint != want || got.Workload.Requests != int64(n) {
			t.Errorf("seed %d: fingerprint %s, want %s; %d requests", seed, got.Workload.Fingerprint, want, got.Workload.Requests)
		}
	}
}

// TestLostShards: a shard without a directory, and one that ended early, are named, and each planned request has a
// record.
func TestLostShards(t *testing.T) {
	t.Parallel()
	const n = 400
	parts := load(9, n, 4)
	dirs := []string{write(t, parts, 0, n, true), write(t, parts, 1, n, false), write(t, parts, 3, n, true)} // 2 is missing; 1 knows what it was to send
	got, all := merged(t, dirs...)
	seen, unsent := map[int64]bool{}, 0
	for _, r := range all {
		seen[r.Row] = true
		if r.Outcome == record.NotSent {
			unsent++
			if !strings.HasPrefix(r.Error, "shard ") || r.PlannedNS != r.Row*1e6 || r.InputTokens == record.None {
				t.Fatalf("%+v", r)
			}
		}
	}
	lost := len(parts[2].plan) + len(parts[1].done) - len(parts[1].done)/2
	if len(seen) != n || unsent != lost || got.Requests.ByOutcome["not_sent"] != int64(lost) || got.Requests.Planned != n {
		t.Errorf("%d of %d requests, %d not sent, want %d: %+v", len(seen), n, unsent, lost, got.Requests)
	}
	r := got.Verdict.Reasons
	if len(r) == 0 || got.Verdict.Valid || r[0].Code != "shards" || !strings.Contains(r[0].What, "shard 1 ended before its run did; shard 2 left no results") {
		t.Errorf("%+v", got.Verdict)
	}
	for i, want := range []string{metrics.ShardWhole, metrics.ShardEnded, metrics.ShardMissing, metrics.ShardWhole} {
		expect.Equal(t, got.Shards[i].State, want, "shard %d", i)
	}
	expect.Equal(t, got.Workload.Fingerprint, "", "a fingerprint, though a shard's digests are lost")
}

// TestLostNeighbours: of a shard that is missing together with the one before it only the number of requests is known.
func TestLostNeighbours(t *testing.T) {
	t.Parallel()
	const n = 400
	parts := load(9, n, 4)
	got, all := merged(t, write(t, parts, 0, n, true), write(t, parts, 3, n, true)) // 0 knows what 1 was to send, and nobody knows of 2
	lost := int64(len(parts[1].plan) + len(parts[2].plan))
	if r := got.Requests; r.Planned != n || r.ByOutcome["not_sent"] != lost || r.OK+r.Failed+r.Stopped != n || len(all) != n-len(parts[2].plan) {
		t.Errorf("%d records; %+v; want %d not sent", len(all), r, lost)
	}
	if why := got.Verdict.Reasons[0].Why; !strings.HasPrefix(why, fmt.Sprint(lost)) {
		t.Errorf("%s; want %d", why, lost)
	}
}

// TestUntold: a shard that was killed before it was told the start is lost, if another one was told.
func TestUntold(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	if s, err := Open([]string{d.dirs[1], d.dirs[0]}); err != nil || len(s.lost) != 0 {
		t.Errorf("%v", err)
	}
	d.set(1, "start_at", `"0001-01-01T00:00:00Z"`)
	d.seal()
	if s, err := Open([]string{d.dirs[1], d.dirs[0]}); err != nil || len(s.lost) != 1 || s.lost[0].file.Index != 1 {
		t.Errorf("%v, %+v", err, s)
	}
	expect.Refused(Open(d.dirs[1:]))(t, "no shard was told the start")
}

// TestAhead: offsets are a line between measurements, without what the start took out, and 0 within the error.
func TestAhead(t *testing.T) {
	t.Parallel()
	f := &File{StartNS: 1000, Clock: []shard.Offset{{AtNS: -1e9, OffsetNS: 1000, ErrorNS: 10}, {AtNS: 10e9, OffsetNS: 2000, ErrorNS: 10}, {AtNS: 20e9, OffsetNS: 2000, ErrorNS: 5000}}}
	for at, want := range map[int64]int64{-5e9: 0, -1e9: 0, 4_500_000_000: 500, 10e9: 1000, 15e9: 0, 30e9: 0} {
		expect.Equal(t, ahead(f, at), want, "at %d", at)
	}
	expect.Equal(t, ahead(&File{}, 5), 0, "unknown clock")
}
