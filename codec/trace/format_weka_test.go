package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/trace/formats"
)

// TestWekaTraces checks 48 published traces against numbers that were computed from the file by other means.
func TestWekaTraces(t *testing.T) {
	tr := must.Have(Open(publishedPath(t, "weka-48.jsonl.zst"), Options{}))(t)
	checkInvariants(t, tr)
	var input, output, hits, whole int64
	seen := make([]bool, 1<<20) // ids are counted from 0
	for i := range tr.Len() {
		input += int64(tr.InputTokens[i])
		output += int64(tr.OutputTokens[i])
		whole += int64(tr.InputTokens[i]) / 64
		hit := true
		for _, id := range tr.Blocks(i) {
			if hit = hit && seen[id]; hit {
				hits++
			}
			seen[id] = true
		}
	}
	// One row has output_length 0, replayed as 1.
	want(t, "rows, jobs, input, output, block references, whole blocks", []int64{int64(tr.Len()), int64(len(tr.Jobs)), input, output, int64(tr.BlockRefs()), whole},
		[]int64{6_192, 48, 707_904_799, 2_952_158, 11_057_938, 11_057_938})
	want(t, "hits of blocks and tokens, %", []float64{math.Round(1e4*float64(hits)/float64(whole)) / 100, math.Round(1e4*float64(64*hits)/float64(input)) / 100}, []float64{96.14, 96.12})
	expect.Equal(t, tr.SubAgents, formats.SubAgents{EndedThen: 44, BegunThen: 4, Background: 4, Basis: RelativeBasis, Shown: 48}, "sub-agents")
	if tr.ids.Held() > tr.BlockRefs()/10 {
		t.Errorf("%d ids are held for %d references: prompts share no place", tr.ids.Held(), tr.BlockRefs())
	}
	kinds, deep := map[Relation]int{}, 0
	types := map[string]int{}
	for i := range tr.Len() {
		types[tr.Types[tr.Type[i]]]++
		deep += int(tr.Depth[i])
		for _, w := range tr.Dependencies(i) {
			kinds[w.Relation]++
		}
	}
	want(t, "requests of sub-agents, spawns, joins", []int{deep, kinds[Spawn], kinds[Join]}, []int{525, 48, 44})
	want(t, "requests by kind of agent", []int{len(types), types["main"], types["Explore"], types["general-purpose"], types["Plan"]},
		[]int{4, 5_667, 440, 58, 27})
	// 6 requests seem to begin up to 0.61 s before the end of the one that they follow.
	if late, most := replayRecorded(t, tr); late != 6 || most != 610*time.Millisecond {
		t.Errorf("%d requests leave up to %v late, want 6 and 0.61 s", late, most)
	}
}

// replayRecorded has every request leave its delays after the recorded triggers of what it depends on, and counts those
// that leave after their recorded instant. None may leave before it.
func replayRecorded(t *testing.T, tr *Trace) (late int, most time.Duration) {
	t.Helper()
	g := tr.Graph(tr.Len())
	for i, at := range tr.ArrivalNS {
		must.Equal(t, len(g.Of(i)), len(tr.Dependencies(i)), "row %d: dependencies are on earlier rows", i)
		leave := int64(math.MinInt64)
		for _, w := range g.Of(i) {
			from := tr.ArrivalNS[w.On] + w.DelayNS
			if w.Trigger == OnCompletion && tr.TookNS != nil {
				from += max(0, tr.TookNS[w.On])
			}
			leave = max(leave, from)
		}
		if len(g.Of(i)) > 0 && leave < at {
			t.Errorf("row %d leaves at %v, before %v", i, time.Duration(leave), time.Duration(at))
		}
		if leave > at {
			late++
			most = max(most, time.Duration(leave-at))
		}
	}
	return late, most
}

// wekaRow is a request that took some seconds, -1 = not recorded, and whose prompt is whole blocks with these ids.
func wekaRow(at, took int, ids string) string {
	api := fmt.Sprintf(`"api_time":%d,`, took)
	if took < 0 {
		api = ""
	}
	return fmt.Sprintf(`{"t":%d,"type":"n",%s"in":%d,"out":5,"hash_ids":[%s]}`, at, api, 16*(1+strings.Count(ids, ",")), ids)
}

func wekaSub(name string, at int, duration string, rows ...string) string {
	return fmt.Sprintf(`{"t":%d,"type":"subagent","agent_id":%q,"duration_ms":%s,"requests":[%s]}`, at, name, duration, strings.Join(rows, ","))
}

func wekaTrace(id string, rows ...string) string {
	return fmt.Sprintf(`{"id":%q,"block_size":16,"hash_id_scope":"local","requests":[%s]}`+"\n", id, strings.Join(rows, ","))
}

// TestWekaObjects: traces share no blocks unless their ids are global, in one file or several, each on a line or not.
func TestWekaObjects(t *testing.T) {
	dir := t.TempDir()
	big := strings.ReplaceAll(wekaTrace("big", wekaRow(0, 1, "18446744073709551615,3"), wekaRow(3, 1, "18446744073709551615,4")), "[", "[\n ")
	for name, file := range map[string]string{"a.json": big, "b.jsonl": wekaTrace("b", wekaRow(0, 1, "3")) + wekaTrace("c", wekaRow(0, 1, "3,4"))} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(file), 0o644))
	}
	tr, err := OpenAll([]string{dir}, Options{Strict: true})
	if err != nil || tr.BlockTokens != 16 || strings.Join(tr.Lint.Notes(), "\n") != "2 files found in the directory: a.json, b.jsonl" {
		t.Fatalf("%v, %+v", err, tr)
	}
	want(t, "Jobs", tr.Jobs, []string{"big", "b", "c"})
	ids := map[uint64]string{}
	for i := range tr.Len() {
		for _, id := range tr.Blocks(i) {
			if was := ids[id]; was != "" && was != tr.Jobs[tr.Job[i]] {
				t.Errorf("id %d is of %s and of %s", id, was, tr.Jobs[tr.Job[i]])
			}
			ids[id] = tr.Jobs[tr.Job[i]]
		}
	}
	expect.Equal(t, len(ids), 6, "ids: 3 + 1 + 2")
	tr = read(t, strings.ReplaceAll(big, "local", "global"), Options{})
	want(t, "global ids", tr.Blocks(0), []uint64{math.MaxUint64, 3})
}

// The keys that the oracle of FuzzWeka reads, as they are written and in any case.
var (
	wekaKeys        = regexp.MustCompile(`"(type|in|requests)"`)
	wekaKeysAnyCase = regexp.MustCompile(`(?i)"(type|in|requests)"`)
)

// FuzzWeka compares what is read of an object with encoding/json, and checks that what waits came after.
func FuzzWeka(f *testing.F) {
	f.Add([]byte(wekaTrace("a", wekaRow(0, 10, "1"), wekaSub("x", 50, "39000", wekaRow(0, 5, "7"), wekaSub("y", 2, "null", wekaRow(0, 4, "8"))), wekaRow(60, -1, "1,2"))))
	f.Add([]byte(wekaTrace("a", wekaRow(5, 0, "1"), wekaSub("x", 5, "0", wekaRow(0, 0, "7")), wekaRow(5, 0, "1,2"), wekaRow(0, 7, ""))))
	f.Fuzz(func(t *testing.T, object []byte) {
		tr, err := Read(strings.NewReader(string(object)), "f", Options{Format: "weka", BlockTokens: 16})
		if err != nil {
			return
		}
		checkInvariants(t, tr)
		replayRecorded(t, tr)
		type request struct {
			Type     string
			In       float64
			Requests []request
		}
		if len(wekaKeys.FindAll(object, -1)) != len(wekaKeysAnyCase.FindAll(object, -1)) {
			return // encoding/json reads a key in any case
		}
		var all []float64
		var walk func(r request)
		walk = func(r request) {
			for _, r := range r.Requests {
				if r.Type == "subagent" {
					walk(r)
				} else {
					all = append(all, r.In)
				}
			}
		}
		for d := json.NewDecoder(strings.NewReader(string(object))); d.More(); {
			var r request
			if d.Decode(&r) != nil {
				return // another type of a key that is not read
			}
			walk(r)
		}
		got := make([]float64, tr.Len())
		for i, row := range tr.Row {
			got[row] = float64(tr.InputTokens[i])
		}
		expect.List(t, got, all, object)
	})
}

// wekaWorld makes traces whose sub-agents truly begin at began, with times of one basis. Marks are whole seconds, so
// each may be nearly a second early, if skewed.
func wekaWorld(chance *rand.Rand, name string, basis Basis, skewed bool) (file string, began map[string]float64) {
	began = map[string]float64{}
	round := func(s float64) float64 {
		if skewed {
			return math.Floor(s)
		}
		return math.Round(1000*s) / 1000
	}
	for job := range 1 + chance.IntN(3) {
		id := fmt.Sprintf("%s%d", name, job)
		rows := []string{`{"t":0,"type":"n","in":16,"out":5,"hash_ids":[1],"api_time":0.5}`}
		at := 0.5
		for sub := range chance.IntN(4) {
			begin := at + chance.Float64()
			length := 1 + 60*chance.Float64()
			base := begin
			if basis == AbsoluteBasis {
				base = 0
			}
			var inside []string
			for _, after := range []float64{0.1 * chance.Float64(), length / 2} {
				inside = append(inside, fmt.Sprintf(`{"t":%v,"type":"n","in":16,"out":5,"hash_ids":[7],"api_time":%v}`, round(begin-base+after), round(length/3)))
			}
			mark, took := begin, fmt.Sprint(1000*length)
			if chance.IntN(4) == 0 {
				took = "null"
			} else if basis == RelativeBasis {
				mark += length
			}
			rows = append(rows, fmt.Sprintf(`{"t":%v,"type":"subagent","agent_id":"s%d","duration_ms":%s,"requests":[%s]}`, round(mark), sub, took, strings.Join(inside, ",")))
			began[fmt.Sprintf("%s/s%d", id, sub)] = begin
			at = begin + length + 100*chance.Float64()
			rows = append(rows, fmt.Sprintf(`{"t":%v,"type":"n","in":32,"out":5,"hash_ids":[1,2],"api_time":0.5}`, round(at)))
			at += 0.5
		}
		file += wekaTrace(id, rows...)
	}
	return file, began
}

// TestWekaBasis: the basis that is said of a file is the true one, and then sub-agents begin when they truly did. If it
// is unknown, a note says so, and the flag decides. Files that mix both are refused, with the sub-agents, or are noted.
func TestWekaBasis(t *testing.T) {
	unknown, known, refused := 0, map[Basis]int{}, 0
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 31))
		truth := []Basis{AbsoluteBasis, RelativeBasis}[seed%2]
		skewed := seed%4 > 1
		file, began := wekaWorld(chance, "a", truth, skewed)
		tr := read(t, file, Options{})
		got := tr.SubAgents
		switch {
		case len(began) == 0:
			if got != (formats.SubAgents{}) || tr.Lint.Basis != "" {
				t.Fatalf("seed %d: %+v, %q of no sub-agents", seed, got, tr.Lint.Basis)
			}
		case got.Shown == 0:
			unknown++
			if !strings.Contains(tr.Lint.Basis, "it is unknown") || got.Basis != RelativeBasis {
				t.Errorf("seed %d: %+v, %q, want unknown and relative", seed, got, tr.Lint.Basis)
			}
		case got.Basis != truth || tr.Lint.Basis != "":
			t.Errorf("seed %d: %+v, %q, want %s\n%s", seed, got, tr.Lint.Basis, truth, file)
		default:
			known[truth]++
		}
		told := read(t, file, Options{Basis: truth})
		off := 0.2
		if skewed {
			off = 2
		}
		for i := range told.Len() {
			begin, isSub := began[told.SessionName(i)]
			if isSub && told.Turn[i] == 1 && math.Abs(float64(told.ArrivalNS[i])/1e9-begin) > off {
				t.Errorf("seed %d: %s begins at %v, want %v", seed, told.SessionName(i), told.ArrivalNS[i], begin)
			}
		}
		expect.Lacks(t, told.Lint.Basis, "unknown", "seed %d:, though the flag decides", seed)
		other, _ := wekaWorld(chance, "b", []Basis{RelativeBasis, AbsoluteBasis}[seed%2], false)
		otherShown := read(t, other, Options{}).SubAgents.Shown
		_, err := Read(strings.NewReader(file+other), "f", Options{})
		// Fewer than 20 sub-agents: one that shows the other basis is more than 5 %.
		if mixes := otherShown > 0 && got.Shown > 0; mixes != (err != nil) {
			t.Errorf("seed %d: %d and %d sub-agents show two bases: %v", seed, got.Shown, otherShown, err)
		} else if mixes {
			refused++
			if !strings.Contains(err.Error(), "times of sub-agent ") || !strings.Contains(err.Error(), "--weka-times") {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if unknown == 0 || known[AbsoluteBasis] == 0 || known[RelativeBasis] == 0 || refused == 0 {
		t.Errorf("%d unknown, %v, %d refused: not all was tried", unknown, known, refused)
	}
	t.Logf("%d unknown, %v known, %d mixed files refused", unknown, known, refused)
}

// TestWekaBasisOfMost: one of many sub-agents that shows the other basis is noted, and placed as the many are.
func TestWekaBasisOfMost(t *testing.T) {
	row := wekaRow(0, 20, "1")
	var file strings.Builder
	for i := range 20 {
		file.WriteString(wekaTrace(fmt.Sprint("many", i), row, wekaSub("x", 30, "9000", wekaRow(30, 8, "7"))))
	}
	file.WriteString(wekaTrace("odd", row, wekaSub("x", 30, "9000", wekaRow(0, 8, "7"))))
	tr := read(t, file.String(), Options{})
	expect.Equal(t, tr.Lint.Basis, "times of 1 of 21 sub-agents look relative, first at line 21, but are taken as absolute", "note")
	expect.Equal(t, tr.SubAgents, formats.SubAgents{OwnClock: 21, Basis: AbsoluteBasis, Shown: 20}, "sub-agents")
	_, err := Read(strings.NewReader(file.String()), "f", Options{Basis: "other"})
	expect.Error(t, err, "", "a basis that is none is taken")
}
