package merge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/report"
)

// edits are a JSON document with one value changed, by the path of that value.
func edits(doc any, path string, whole func(any) any, each func(path string, doc any)) {
	put := func(v any) { each(path, whole(v)) }
	switch v := doc.(type) {
	case map[string]any:
		for key, value := range v {
			edits(value, path+"."+key, func(changed any) any {
				all := map[string]any{}
				for k, old := range v {
					all[k] = old
				}
				all[key] = changed
				return whole(all)
			}, each)
		}
	case []any:
		for i, value := range v {
			edits(value, fmt.Sprintf("%s[%d]", path, i), func(changed any) any {
				all := slices.Clone(v)
				all[i] = changed
				return whole(all)
			}, each)
		}
	case string:
		put(v + "x")
	case bool:
		put(!v)
	case nil:
		put("x")
	case float64:
		put(v + 1)
	}
}

// TestEditedFacts: whatever value of a file is edited, the merge is refused, and names the file.
func TestEditedFacts(t *testing.T) {
	for _, name := range []string{FileName, report.PlanName, report.SummaryName} {
		for k := range 2 {
			d := newDamaged(t)
			was := d.read(k, name)
			var doc any
			must.Do(t, json.Unmarshal(was, &doc))
			edits(doc, "", func(v any) any { return v }, func(path string, changed any) {
				d.put(k, name, must.Have(json.Marshal(changed))(t))
				if got := mergedWords(t, d); !strings.HasPrefix(got, "refused:") || !strings.Contains(got, name) {
					t.Errorf("shard %d, %s of %s: %.100s", k, path, name, got)
				}
			})
		}
	}
	for _, name := range []string{report.HistogramsName, PlannedNextName, DigestsName, SealName} {
		d := newDamaged(t)
		text := d.read(1, name)
		text[len(text)/2] ^= 1
		d.put(1, name, text)
		checkWorld(t, d, "refused", nil)
		d.remove(1, name)
		checkWorld(t, d, "refused", []string{name})
	}
}

// TestKilledBeforeTheSeal: of a shard that was killed after it wrote a file, and before it sealed that, nobody says that
// the file is wrong, and the merge goes without the directory.
func TestKilledBeforeTheSeal(t *testing.T) {
	for name, kill := range map[string]func(d *damaged){
		"as it began": func(d *damaged) { d.remove(1, SealName) },
		"as it ended": func(d *damaged) {
			summary := d.read(1, report.SummaryName)
			d.remove(1, report.SummaryName)
			d.must(Seal(d.dirs[1]))
			d.put(1, report.SummaryName, summary)
		},
	} {
		d := newDamaged(t)
		kill(d)
		checkWorld(t, d, "refused", []string{SealName, "leave the directory out if the shard was killed"})
		s := must.Have(Open(d.dirs[:1]))(t)
		sum := must.Have(s.Write(t.TempDir(), new(atomic.Int64)))(t)
		expect.Equal(t, sum.Requests.Planned, 120, "%s", name)
		expect.Contains(t, fmt.Sprint(sum.Verdict.Reasons), "shard 1 left no results")
	}
}
