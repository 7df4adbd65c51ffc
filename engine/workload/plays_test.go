package workload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/internal/workloadtest"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// pool is one that plans plays for so many s.
func pool(lanes int, seconds float64, speed float64) workload.Pool {
	return workload.Pool{
		Lanes:        lanes,
		Seed:         7,
		Follow:       workload.FollowPolicy{Think: true, Jobs: true, Speed: speed, Assumed: sched.AssumedLatency{TTFT: 1e9}},
		RunNS:        int64(seconds * 1e9),
		IdleNS:       int64(10 * time.Second),
		MostRequests: math.MaxInt32,
	}
}

// TestPlaysByHand: a lane begins at 20 s, when a sub-agent is at work for which its parent waits.
func TestPlaysByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.jsonl")
	var line bytes.Buffer
	must.Do(t, json.Compact(&line, []byte(`{"id":"job","block_size":8,"hash_id_scope":"local","requests":[
		{"t":0,"type":"n","in":16,"out":2,"hash_ids":[1,2],"api_time":4},
		{"t":10,"type":"n","in":24,"out":2,"hash_ids":[1,2,3],"api_time":2},
		{"t":32.5,"type":"subagent","agent_id":"a","duration_ms":20000,"requests":[
			{"t":0.5,"type":"n","in":16,"out":2,"hash_ids":[11,12],"api_time":3},
			{"t":10,"type":"n","in":24,"out":2,"hash_ids":[11,12,13],"api_time":4}]},
		{"t":40,"type":"n","in":32,"out":2,"hash_ids":[1,2,3,4],"api_time":2},
		{"t":100,"type":"n","in":40,"out":2,"hash_ids":[1,2,3,4,5],"api_time":1}]}`)))
	must.Do(t, os.WriteFile(path, line.Bytes(), 0o600))
	recorded := must.Have(trace.OpenAll([]string{path}, trace.Options{}))(t)
	p := pool(1, 4, 20)
	p.Snapshot = &workload.Snapshot{From: 0.2, To: 0.2}
	p.WarmUp = 1
	p.Recycle = true
	plays := must.Have(p.Of(recorded))(t)
	p.Follow = plays.Follow(p.Follow)
	follow := p.Follow.Dependencies(plays.Trace, plays.Trace.Len())
	var got []string // of the first play
	for i := range plays.Trace.Len() {
		if plays.Trace.Clone[i] > 0 {
			continue
		}
		got = append(got, fmt.Sprintf("%s row %d of %d tokens at %d s asks %d, not before %d ms, after %v", plays.Trace.JobName(i),
			plays.Trace.Row[i], plays.Trace.InputTokens[i], plays.Trace.ArrivalNS[i]/1e9, plays.Trace.OutputTokens[i],
			follow.NotBeforeNS[i]/1e6, follow.Of(int32(i))))
	}
	want := []string{
		"job row 1 of 32 tokens at 0 s asks 1, not before 0 ms, after []",
		"job row 2 of 24 tokens at 3 s asks 1, not before 150 ms, after []",
		"job row 3 of 32 tokens at 10 s asks 1, not before 500 ms, after [{0 0 false} {0 1 false}]",
		"job row 4 of 40 tokens at 10 s asks 2, not before 0 ms, after []",
		"job row 5 of 48 tokens at 70 s asks 2, not before 0 ms, after [{2900000000 3 false}]", // 4 is of the next play
	}
	if !slices.Equal(got, want) || plays.Primers != 2 || plays.Prepare != 3 {
		t.Errorf("%d primers, %d prepare\n%q, want\n%q", plays.Primers, plays.Prepare, got, want)
	}
	if plays.Count != 2 || plays.Trace.Len() != 11 || plays.Trace.JobName(4) != "job~1" || plays.Trace.Row[4] != 0 {
		t.Errorf("%d plays of %d requests", plays.Count, plays.Trace.Len())
	}
}

// drawn is what the manual says of random numbers.
func drawn(text string) uint64 {
	sum := sha256.Sum256([]byte(text + "\n"))
	return binary.BigEndian.Uint64(sum[:8])
}

// TestPlaysOfPools compares what pools with random numbers of lanes make of a sample with what one finds row by row.
func TestPlaysOfPools(t *testing.T) {
	recorded := must.Have(trace.OpenAll([]string{"../../bench/samples/weka.jsonl"}, trace.Options{}))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	job, jobs := recorded.JobNumbers()
	rows := make([][]int, jobs)
	ofRow := map[int32]int{}
	for i, k := range job {
		rows[k] = append(rows[k], i)
		ofRow[recorded.Row[i]] = int(k)
	}
	later := 0
	for range 20 {
		p := pool(1+rng.IntN(2*jobs), float64(rng.IntN(40)), 400)
		p.Seed = rng.Uint64N(100)
		p.Recycle = rng.IntN(3) > 0
		p.WarmUp = rng.IntN(12)
		if rng.IntN(4) > 0 {
			from := rng.Float64()
			p.Snapshot = &workload.Snapshot{From: from, To: from + rng.Float64()*(1-from)}
		}
		plays := must.Have(p.Of(recorded))(t)
		phases := map[[3]int]string{} // by row and how often its job was taken before
		for i := range plays.Trace.Len() {
			phase := "measured"
			switch {
			case i < plays.Primers:
				phase = "primer"
			case i < plays.Prepare:
				phase = "warm-up"
			}
			phases[[3]int{int(plays.Trace.Row[i]), int(plays.Trace.Clone[i])}] = phase
		}
		if len(phases) != plays.Trace.Len() || !slices.IsSorted(plays.Trace.ArrivalNS) {
			t.Fatalf("%+v: %d requests of %d, sorted %t", p, len(phases), plays.Trace.Len(), slices.IsSorted(plays.Trace.ArrivalNS))
		}
		before := map[int]int{}
		for i, n := range plays.Before {
			before[int(plays.Trace.Clone[i])*jobs+ofRow[plays.Trace.Row[i]]] = int(n)
		}
		warmUps := map[int]int{} // of lanes
		for play := range plays.Count {
			want := rowsOfPlay(recorded, p, rows[play%jobs], play)
			if play < len(plays.Begun) {
				counted := map[string]int{}
				f := plays.Begun[play]
				if play < p.Lanes {
					must.Equal(t, [2]int{f.Lane, f.After}, [2]int{play, -1}, "%+v: first play %d", p, play)
				} else {
					of := plays.Begun[f.After]
					must.Equal(t, [3]int{f.Lane, of.Measured, f.Primers}, [3]int{of.Lane, 0, 0}, "%+v: play %d of a lane that warms up", p, play)
					for k, row := range rows[play%jobs] {
						if want[row] = "measured"; k < p.WarmUp-warmUps[f.Lane] {
							want[row] = "warm-up"
						}
					}
				}
				for _, phase := range want {
					counted[phase]++
				}
				warmUps[f.Lane] += counted["warm-up"]
				must.Equal(t, [3]int{f.Primers, f.WarmUp, f.Measured}, [3]int{counted["primer"], counted["warm-up"], counted["measured"]}, "%+v: play %d, %+v", p, play, f)
			}
			must.Equal(t, before[play], len(rows[play%jobs])-len(want), "%+v: requests before play %d", p, play)
			for row, phase := range want {
				key := [3]int{int(recorded.Row[row]), play / jobs}
				must.Equal(t, phases[key], phase, "%+v: row %d of play %d", p, row, play)
				delete(phases, key)
			}
		}
		if len(phases) > 0 {
			t.Fatalf("%+v: too many: %v", p, phases)
		}
		for lane := range p.Lanes {
			if p.Recycle && p.Snapshot != nil {
				must.Equal(t, warmUps[lane], p.WarmUp, "%+v: warm-up requests of lane %d", p, lane)
				later += len(plays.Begun) - p.Lanes
			}
		}
		number, _ := plays.Trace.JobNumbers()
		for i, k := range number { // first plays come before all others
			play := int(plays.Trace.Clone[i])*jobs + ofRow[plays.Trace.Row[i]]
			must.Equal(t, play < len(plays.Begun), int(k) < min(len(plays.Begun), plays.Count), "%+v: job %d of the plan, begun before the barrier", p, k)
			if play >= p.Lanes && play < len(plays.Begun) {
				must.Equal(t, int(k), play, "%+v: job of the plan that lanes take in this order", p)
			}
		}
	}
	if later < 20 {
		t.Errorf("only %d lanes ended a job as they warmed up", later)
	}
}

// rowsOfPlay is what a play sends: the phase of each row.
func rowsOfPlay(recorded *trace.Trace, p workload.Pool, rows []int, play int) map[int]string {
	at := recorded.ArrivalNS
	first, last := at[rows[0]], at[rows[len(rows)-1]]
	snapshot := first
	if p.Snapshot != nil && play < p.Lanes {
		u := float64(drawn(fmt.Sprintf("snapshot %d %s %d", p.Seed, recorded.JobName(rows[0]), play))>>11) / (1 << 53)
		snapshot += int64(math.Round((p.Snapshot.From + u*(p.Snapshot.To-p.Snapshot.From)) * float64(last-first)))
	}
	want := map[int]string{}
	for k, row := range rows {
		after := 0
		for _, other := range rows {
			if at[other] >= snapshot && other < row {
				after++
			}
		}
		left := 0
		for _, other := range rows[k:] {
			if at[other] >= snapshot {
				left++
			}
		}
		goesOn, later := false, false
		for _, other := range rows[k+1:] {
			if recorded.Session[other] == recorded.Session[row] {
				goesOn = goesOn || at[other] >= snapshot
				later = later || at[other] < snapshot
			}
		}
		switch {
		case at[row] < snapshot && goesOn && !later:
			want[row] = "primer"
		case at[row] >= snapshot && p.Snapshot != nil && play < p.Lanes && after < p.WarmUp && (left > 1 || p.Recycle):
			want[row] = "warm-up"
		case at[row] >= snapshot:
			want[row] = "measured"
		}
	}
	return want
}

// workOfPlays is the requests of plays of a sample, built.
func workOfPlays(t *testing.T, seconds float64) (*workload.Work, *workload.Requests) {
	t.Helper()
	recorded := must.Have(trace.OpenAll([]string{"../../bench/samples/weka.jsonl"}, trace.Options{Limit: 60}))(t)
	p := pool(4, seconds, 400)
	p.Snapshot = &workload.Snapshot{From: 0.25, To: 0.75}
	p.WarmUp = 2
	p.Recycle = true
	plays := must.Have(p.Of(recorded))(t)
	p.Follow = plays.Follow(p.Follow)
	n := plays.Trace.Len()
	plan := must.Have(sched.Closed(n, 4, 0))(t)
	plan.Dependencies = p.Follow.Dependencies(plays.Trace, n)
	addr := netip.MustParseAddrPort("127.0.0.1:1")
	w := &workload.Work{
		Trace:    plays.Trace,
		Plan:     plan,
		Targets:  []workload.Target{{URL: "http://one:1", Host: "one:1", Path: "/v1/completions", Endpoints: []netip.AddrPort{addr}}},
		Places:   make([]route.Place, n),
		Overhead: workload.Overhead{Head: 18, Tail: 1},
		Caches:   map[netip.AddrPort]workload.PrefixCache{addr: {BlockTokens: 16}},
	}
	b := workloadtest.Builder(t, "", "run", 3)
	b.AlwaysShare = true
	return w, workloadtest.Build(t, b, w)
}

// promptOf are the token ids of a built request.
func promptOf(t *testing.T, m *workload.Requests, i int) []int {
	t.Helper()
	_, body, _ := bytes.Cut(m.At(i), []byte("\r\n\r\n"))
	var read struct{ Prompt []int }
	must.Do(t, json.Unmarshal(body, &read))
	return read.Prompt
}

// TestHitsOfPlays compares expected hits, and those of what primers and warm-up requests bring, with the tokens of all
// prompts, as they are built. Requests of a play have one marker, which those of no other have.
func TestHitsOfPlays(t *testing.T) {
	w, m := workOfPlays(t, 1.5)
	ideal := w.IdealHits()
	var prompts [][]int
	var primed, hits int64
	plays := map[[64]int]int32{}
	for i := range w.Requests() {
		own := promptOf(t, m, i)
		marker := [64]int(own[:64])
		play := w.Plan.Dependencies.Job[i]
		if other, known := plays[marker]; known != (other == play && known) {
			t.Fatalf("request %d of play %d has the marker of play %d", i, play, other)
		}
		plays[marker] = play
		total := int64(len(own) + w.Overhead.Tokens())
		held := func(among [][]int) int64 {
			if len(among) == 0 {
				return 0
			}
			longest := 0
			for _, other := range among {
				n := 0
				for n < min(len(own), len(other)) && own[n] == other[n] {
					n++
				}
				longest = max(longest, n)
			}
			return min(int64(w.Overhead.Head+longest), total-1) / 16 * 16
		}
		must.Equal(t, ideal.Expected[i], held(prompts), "request %d of play %d: tokens expected", i, play)
		if prepare := int(w.Plan.Dependencies.Prepare); i >= prepare {
			primed += held(prompts[:prepare])
			hits += ideal.Expected[i]
		}
		prompts = append(prompts, own)
	}
	expect.Equal(t, len(plays), w.Plan.Dependencies.Jobs())
	got, known := w.PrimedTokens(func(int) bool { return true })
	if !known || got != primed || primed == 0 || primed >= hits {
		t.Errorf("%d tokens primed of %d, want %d", got, hits, primed)
	}
	w.Overhead.HeadUnknown = true
	if _, known := w.PrimedTokens(func(int) bool { return true }); known {
		t.Error("primed tokens are known, and the template is not")
	}
}

// TestFingerprintsOfPlays: they do not depend on how requests lie in memory, and change with the seeds of prompts and
// markers, with lengths and with the API's members.
func TestFingerprintsOfPlays(t *testing.T) {
	w, _ := workOfPlays(t, 1)
	w.Played = true
	seen := map[string]string{}
	for name, change := range map[string]func(*workload.Builder, *workload.Work){
		"in pieces":    func(b *workload.Builder, _ *workload.Work) { b.AlwaysShare = true },
		"whole":        func(*workload.Builder, *workload.Work) {},
		"other run":    func(b *workload.Builder, _ *workload.Work) { b.RunID = "another" },
		"other seed":   func(b *workload.Builder, _ *workload.Work) { b.Source = workloadtest.Builder(t, "", "run", 4).Source },
		"other length": func(_ *workload.Builder, w *workload.Work) { w.Overhead.Tail++ },
		"other path":   func(_ *workload.Builder, w *workload.Work) { w.Targets[0].Path = "/other" },
	} {
		b := workloadtest.Builder(t, "", "run", 3)
		own := *w
		own.Targets = slices.Clone(w.Targets)
		change(b, &own)
		seen[name] = workloadtest.Build(t, b, &own).Fingerprint()
	}
	same := map[string]bool{}
	for name, print := range seen {
		if (print == seen["whole"]) != slices.Contains([]string{"whole", "in pieces", "other run"}, name) {
			t.Errorf("%s: %s, whole %s", name, print, seen["whole"])
		}
		same[print] = true
	}
	expect.Equal(t, len(same), 4, "different fingerprints: %v", seen)
}

// TestBlocksOfPlaysAreHeldOnce: more plays take no more memory than what is their requests' own.
func TestBlocksOfPlaysAreHeldOnce(t *testing.T) {
	few, once := workOfPlays(t, 1)
	many, again := workOfPlays(t, 40)
	own := int64(many.Requests()-few.Requests()) * 2048
	if many.Requests() < 3*few.Requests() || again.Held() > once.Held()+own {
		t.Errorf("%d requests take %d bytes, %d took %d", many.Requests(), again.Held(), few.Requests(), once.Held())
	}
}

// TestSnapshotOfALongJob: a job that lasts longer than floats are exact for is cut within it.
func TestSnapshotOfALongJob(t *testing.T) {
	rows := `{"session_id":"s","timestamp":0,"input_length":64,"output_length":1,"hash_ids":[1]}` + "\n" +
		`{"session_id":"s","timestamp":18014398509.481987,"input_length":64,"output_length":1,"hash_ids":[1]}` + "\n"
	read := must.Have(trace.Read(strings.NewReader(rows), "t", trace.Options{TimeUnit: time.Millisecond}))(t)
	pool := workload.Pool{Lanes: 1, Snapshot: &workload.Snapshot{From: 1, To: 1}, Follow: workload.FollowPolicy{Think: true, Jobs: true, Speed: 1}, MostRequests: 10}
	plays := must.Have(pool.Of(read))(t)
	if plays.Primers != 1 || plays.Trace.Len() != 2 {
		t.Errorf("%d primers of %d requests; want 1 of 2", plays.Primers, plays.Trace.Len())
	}
	pool.Recycle, pool.Lanes = true, 1_000_000_000
	expect.Refused(pool.Of(read))(t, "", "more lanes than memory has room for are not refused")
}

// TestLanesThatPrepareNothingKeepTheirDistance: all lanes are at their snapshots together, also those that have nothing to
// prepare. One is 8 s, at 20 times the speed 400 ms, before its request, which is another agent's; the other at its only request.
func TestLanesThatPrepareNothingKeepTheirDistance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	must.Do(t, os.WriteFile(path, []byte(`{"id":"two","block_size":8,"hash_id_scope":"local","requests":[`+
		`{"t":0,"type":"n","in":16,"out":2,"hash_ids":[1,2],"api_time":1},`+
		`{"t":10,"type":"subagent","agent_id":"a","requests":[{"t":0,"type":"n","in":16,"out":2,"hash_ids":[3,4],"api_time":1}]}]}
{"id":"one","block_size":8,"hash_id_scope":"local","requests":[{"t":0,"type":"n","in":16,"out":2,"hash_ids":[5,6],"api_time":1}]}
`), 0o600))
	recorded := must.Have(trace.OpenAll([]string{path}, trace.Options{}))(t)
	p := pool(2, 1, 20)
	p.Snapshot = &workload.Snapshot{From: 0.2, To: 0.2}
	plays := must.Have(p.Of(recorded))(t)
	p.Follow = plays.Follow(p.Follow)
	follow := p.Follow.Dependencies(plays.Trace, plays.Trace.Len())
	if want := []int64{0, 4e8}; plays.Prepare != 0 || !slices.Equal(follow.NotBeforeNS, want) {
		t.Errorf("%d prepare; not before %v, want %v", plays.Prepare, follow.NotBeforeNS, want)
	}
}
