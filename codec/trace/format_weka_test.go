package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	if want := (formats.SubAgents{EndedThen: 44, BegunThen: 4, Background: 4}); tr.SubAgents != want {
		t.Errorf("sub-agents %+v, want %+v", tr.SubAgents, want)
	}
	if tr.ids.Held() > tr.BlockRefs()/10 {
		t.Errorf("%d ids are held for %d references: prompts share no place", tr.ids.Held(), tr.BlockRefs())
	}
	kinds, deep := map[Relation]int{}, 0
	for i := range tr.Len() {
		deep += int(tr.Depth[i])
		for _, w := range tr.Dependencies(i) {
			kinds[w.Relation]++
		}
	}
	want(t, "requests of sub-agents, spawns, joins", []int{deep, kinds[Spawn], kinds[Join]}, []int{525, 48, 44})
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
		if len(g.Of(i)) != len(tr.Dependencies(i)) {
			t.Fatalf("row %d: %d of %d dependencies are on earlier rows", i, len(g.Of(i)), len(tr.Dependencies(i)))
		}
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
	if len(ids) != 6 {
		t.Errorf("%d ids, want 3 + 1 + 2", len(ids))
	}
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
		if !slices.Equal(got, all) {
			t.Errorf("%q: %v, want %v", object, got, all)
		}
	})
}
