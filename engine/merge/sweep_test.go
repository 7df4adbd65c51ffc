package merge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

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
