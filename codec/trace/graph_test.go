package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
)

// graphFile has a sub-agent and a second job, whose ids are its own. Its rows are not in order.
const graphFile = `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"test","digest":"1"}}
{"request_id":"b","play_id":"p","session_id":"s","model":"m","input_tokens":140,"output_tokens":9,"hash_ids":[1,2],"not_before_ms":0,"dependencies":[{"request_id":"a","trigger":"completion","delay_ms":1.5,"relation":"sequence"},{"request_id":"c","trigger":"completion","delay_ms":0,"relation":"join"}]}
{"request_id":"a","play_id":"p","session_id":"s","model":"m","input_length":130,"output_length":9,"hash_ids":[1,2,9],"not_before_ms":80,"recorded_api_time_ms":10.25}
{"request_id":"c","play_id":"p","session_id":"sub","model":"m","input_length":130,"output_length":9,"hash_ids":[1,2,9],"not_before_ms":80,"recorded_api_time_ms":20,"ttft_ms":3,"cached_tokens":64,"dependencies":[{"request_id":"a","trigger":"dispatch","delay_ms":2.000001,"relation":"spawn"}]}
{"request_id":"d","play_id":"q","session_id":"s","model":"m","input_length":130,"output_length":9,"hash_ids":[1,2,9],"not_before_ms":81}
`

// checkGraph asserts what every graph promises: waits lead back, and stay within a job.
func checkGraph(t *testing.T, tr *Trace) {
	t.Helper()
	g := tr.Graph(tr.Len())
	job, n := tr.JobNumbers()
	for i := range job {
		if job[i] < 0 || int(job[i]) >= n {
			t.Fatalf("request %d is of job %d of %d", i, job[i], n)
		}
		for _, w := range g.Of(i) {
			if int(w.On) >= i || w.On < 0 || tr.HasDependencies() && job[w.On] != job[i] || w.DelayNS < NoDelay {
				t.Fatalf("request %d of job %d waits for %+v of job %d", i, job[i], w, job[w.On])
			}
		}
	}
}

// node is a request of a random graph, as the test knows it.
type node struct {
	job, session int
	at, took     int64
	on           []Dependency // On = number of the node
	name         string
}

// randomGraph is the text of a file with a graph, its rows in random order, and the graph in order of time. Instants,
// durations and delays are ms; each row's instant is the latest that its waits and its bound give.
func randomGraph(rng *rand.Rand) (string, []node) {
	var nodes []node
	jobs := 1 + rng.IntN(5)
	for i := range 1 + rng.IntN(40) {
		n := node{job: rng.IntN(jobs), took: rng.Int64N(5), name: fmt.Sprintf("r%d", i), at: rng.Int64N(4)}
		n.session = rng.IntN(3)
		for _, j := range rng.Perm(i)[:rng.IntN(min(i, 4)+1)] {
			if o := nodes[j]; o.job == n.job {
				w := Dependency{DelayNS: rng.Int64N(4), On: int32(j), Trigger: Trigger(rng.IntN(2)), Relation: Relation(rng.IntN(4))}
				from := o.at + w.DelayNS
				if w.Trigger == OnCompletion {
					from += o.took
				}
				n.at, n.on = max(n.at, from), append(n.on, w)
			}
		}
		nodes = append(nodes, n)
	}
	head, _, _ := strings.Cut(graphFile, "\n")
	lines := []string{}
	for i, n := range nodes {
		deps := []map[string]any{}
		for _, w := range n.on {
			deps = append(deps, map[string]any{"request_id": nodes[w.On].name, "trigger": w.Trigger.String(), "delay_ms": w.DelayNS, "relation": w.Relation.String()})
		}
		bound := n.at // of a row that waits, it shows in the instant only if it is later than what the row waits for
		line, _ := json.Marshal(map[string]any{"request_id": n.name, "play_id": fmt.Sprint("p", n.job), "session_id": fmt.Sprint("s", n.session), "input_length": 1 + i,
			"output_length": 1, "not_before_ms": bound, "recorded_api_time_ms": n.took, "dependencies": deps, "hash_ids": []int{i % 7}})
		lines = append(lines, string(line))
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return head + "\n" + strings.Join(lines, "\n") + "\n", nodes
}

// TestRandomGraphs reads graphs and compares them with how they were made, and looks at what becomes of them.
func TestRandomGraphs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 15))
	for range 40 {
		file, nodes := randomGraph(rng)
		tr := read(t, file, Options{})
		checkInvariants(t, tr)
		g := tr.Graph(tr.Len())
		first := slices.MinFunc(nodes, func(a, b node) int { return int(a.at - b.at) }).at
		for i := range nodes {
			n := nodes[tr.InputTokens[i]-1]
			var waits []Dependency
			for _, w := range g.Of(i) {
				waits = append(waits, on(tr.InputTokens[w.On]-1, w.DelayNS/1e6, w.Trigger, w.Relation))
			}
			if tr.ArrivalNS[i] != (n.at-first)*1e6 || !slices.Equal(waits, n.on) || tr.JobName(i) != fmt.Sprint("p", n.job) {
				t.Fatalf("%s\nrequest %d, %+v, at %d in %s waits for %v", file, i, n, tr.ArrivalNS[i], tr.JobName(i), waits)
			}
		}
		back := roundTrip(t, tr, "agentic_mooncake")
		sameTrace(t, back, tr)
		sameGraph(t, back, tr)
		checkParts(t, rng, tr)
		checkSelections(t, rng, file, tr)
	}
}

// checkParts asserts that parts and copies of a graph are graphs.
func checkParts(t *testing.T, rng *rand.Rand, tr *Trace) {
	t.Helper()
	twice := must.Have(tr.Repeat(2))(t)
	checkGraph(t, twice)
	_, jobs := tr.JobNumbers()
	if _, n := twice.JobNumbers(); n != 2*jobs {
		t.Fatalf("%d jobs twice are %d", jobs, n)
	}
	var source, clone []int32
	var at []int64
	for i := range tr.Len() {
		for c := range int32(3) {
			source, clone, at = append(source, int32(i)), append(clone, c), append(at, tr.ArrivalNS[i])
		}
	}
	copies := must.Have(tr.Copies(source, clone, at, make([]int32, tr.Len())))(t)
	checkGraph(t, copies)
	names := map[string]bool{}
	for i := range copies.Len() {
		names[copies.JobName(i)] = true
		must.Equal(t, len(copies.Graph(copies.Len()).Of(i)), len(tr.Graph(tr.Len()).Of(i/3)), "clone %d of request %d waits for others", i%3, i/3)
	}
	if _, n := copies.JobNumbers(); n != 3*jobs || len(names) != n {
		t.Fatalf("%d jobs three times are %d with %d names", jobs, n, len(names))
	}
	sameGraph(t, roundTrip(t, copies, "agentic_mooncake"), copies)
	var order []int32
	for i := range int32(tr.Len()) {
		if rng.IntN(3) > 0 || i == 0 {
			order = append(order, i)
		}
	}
	checkGraph(t, tr.Fitted(order, tr.InputTokens, tr.OutputTokens))
}

// checkSelections asserts that selections of a file are graphs whose bounds and instants count from their first
// request.
func checkSelections(t *testing.T, rng *rand.Rand, file string, tr *Trace) {
	t.Helper()
	from := rng.IntN(tr.Len())
	for _, o := range []Options{{Limit: 1 + rng.IntN(tr.Len())}, {From: time.Duration(tr.ArrivalNS[from])}, {To: time.Duration(tr.ArrivalNS[from]) + 1}} {
		if tr.Untimed && o.Limit == 0 {
			continue
		}
		part := read(t, file, o)
		checkInvariants(t, part)
		skipped := slices.Index(tr.Row, part.Row[0])
		for i := range part.Len() {
			if all := skipped + i; part.Row[i] != tr.Row[all] || part.ArrivalNS[i] != tr.ArrivalNS[all]-tr.ArrivalNS[skipped] ||
				part.NotBeforeNS != nil && tr.NotBeforeNS[all] >= 0 && part.NotBeforeNS[i] != max(0, tr.NotBeforeNS[all]-tr.ArrivalNS[skipped]) {
				t.Fatalf("request %d of %+v is row %d at %d, bound %v", i, o, part.Row[i], part.ArrivalNS[i], part.NotBeforeNS)
			}
		}
	}
}

// sameGraph compares all that a graph says but for how its jobs, sessions and blocks are called.
func sameGraph(t *testing.T, got, want *Trace) {
	t.Helper()
	gotJob, _ := got.JobNumbers()
	wantJob, _ := want.JobNumbers()
	gotTalk, _ := inNumbers(got.Session)
	wantTalk := wantJob // a request without a conversation is one in its job
	if want.Session != nil {
		wantTalk, _ = inNumbers(want.Session)
	}
	gotIDs, wantIDs := inOrder(got), inOrder(want)
	gotGraph, wantGraph := got.Graph(got.Len()), want.Graph(want.Len())
	at := func(column []int64, i int, none int64) int64 {
		if column == nil || column[i] <= 0 {
			return none
		}
		return column[i]
	}
	short := func(column []int32, i int, none int32) int32 {
		if column == nil {
			return none
		}
		return column[i]
	}
	if got.Len() != want.Len() || got.Untimed != want.Untimed || got.BlockTokens != want.BlockTokens {
		t.Fatalf("%d requests, untimed %v, blocks of %d; want %d, %v, %d", got.Len(), got.Untimed, got.BlockTokens, want.Len(), want.Untimed, want.BlockTokens)
	}
	for i := range want.Len() {
		line := func(tr *Trace, job, talk []int32, g *Graph, ids []uint64) string {
			bound := at(tr.NotBeforeNS, i, 0)
			if len(g.Of(i)) == 0 {
				bound = 0 // the instant itself
			}
			content := tr.Verbatim(i).Content // its lines become one
			return fmt.Sprint("at ", tr.ArrivalNS[i], " bound ", bound, " took ", at(tr.TookNS, i, -1), " ttft ", at(tr.TTFTNS, i, -1), " cached ", short(tr.Cached, i, -1), " depth ", short(tr.Depth, i, 0),
				" job ", job[i], " talk ", talk[i], " ", tr.InputTokens[i], " → ", tr.OutputTokens[i], g.Of(i), strings.Join(strings.Fields(string(content)), " "), ids)
		}
		if g, w := line(got, gotJob, gotTalk, gotGraph, gotIDs(i)), line(want, wantJob, wantTalk, wantGraph, wantIDs(i)); g != w {
			t.Fatalf("%s: request %d: %.500s\nwant %.500s", want.Name, i, g, w)
		}
	}
}

// TestConvertKeepsGraphs writes every sample as a graph and reads it back.
func TestConvertKeepsGraphs(t *testing.T) {
	files, err := filepath.Glob("../../bench/samples/*.*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	for _, path := range files {
		if ext := filepath.Ext(path); ext == ".go" || ext == ".txt" {
			continue
		}
		tr := must.Have(Open(path, Options{}))(t)
		var b bytes.Buffer
		must.Do(t, Write(&b, tr, "agentic_mooncake"))
		back, err := Read(&b, path, Options{Strict: true})
		must.Do(t, err, "%s as a graph", path)
		sameGraph(t, back, tr)
	}
	if _, err := os.Stat(filepath.Join("../../bench/samples", "agentic_mooncake.jsonl")); err != nil {
		t.Error(err)
	}
}

// TestPartialBlocks: a format's ids are of whole blocks, of all, or of either. Nothing else is taken without repair.
func TestPartialBlocks(t *testing.T) {
	for _, c := range []struct {
		last    formats.LastBlock
		fit     []int // of 130 tokens in blocks of 64
		rounded string
	}{{formats.HasID, []int{0, 3}, "up"}, {formats.HasNoID, []int{0, 2}, "down"}, {formats.MayHaveID, []int{0, 2, 3}, "up or down"}} {
		f := formats.Format{LastBlock: c.last}
		for ids := range 6 {
			if f.IDsFit(ids, 130, 64) != slices.Contains(c.fit, ids) || f.Rounding() != c.rounded {
				t.Errorf("%+v: %d ids fit: %v, rounded %s", c, ids, f.IDsFit(ids, 130, 64), f.Rounding())
			}
		}
	}
	many := strings.Replace(graphFile, "[1,2,9]", "[1,2,9,10]", 1)
	expect.Refused(Read(strings.NewReader(many), "f", Options{Strict: true}))(t, "f:3: 4 hash ids, but input_length 130 is 3 blocks of 64 tokens", "an id too many")
	row := "\n" + strings.Split(graphFile, "\n")[4]
	more := "" // so that the row is within the 5 % that are repaired
	for i := range 20 {
		more += strings.Replace(row, `"d"`, fmt.Sprintf(`"d%d"`, i), 1)
	}
	if tr := read(t, many+more[1:], Options{}); tr.Lint.SurplusIDs != 1 || tr.Lint.MissingIDs != 0 || len(tr.Blocks(0)) != 3 {
		t.Errorf("an id too many: %v, %+v", tr.Blocks(0), tr.Lint)
	}
}

// TestGraphNotes says what other formats lose of a graph, and what a graph loses.
func TestGraphNotes(t *testing.T) {
	for format, wanted := range map[string][]string{
		"agentic_mooncake": nil,
		"azure": {"azure has no place for block ids: they are left out", "azure has no place for conversations: they are left out", "azure has no place for dependencies between requests: they are left out",
			"azure has no place for jobs: they are left out", "azure has no place for recorded durations and cache hits: they are left out"},
	} {
		notes := must.Have(WriteNotes(read(t, graphFile, Options{}), format))(t)
		want(t, format+"'s notes", notes, wanted)
	}
	notes, err := WriteNotes(read(t, strings.Replace(graphFile, "local", "global", 1), Options{}), "agentic_mooncake")
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "jobs have blocks in common: hash_id_scope is global") {
		t.Errorf("blocks in common: %q, %v", notes, err)
	}
}

// on is a dependency on a request.
func on(request int32, delayNS int64, trigger Trigger, relation Relation) Dependency {
	return Dependency{On: request, DelayNS: delayNS, Trigger: trigger, Relation: relation}
}
