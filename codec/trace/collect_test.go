package trace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCollect looks at every malformed trace: what a replay refuses is noted instead, unless nothing can be read.
func TestCollect(t *testing.T) {
	unreadable := []string{"azure-column-twice.csv", "azure-head-only.csv", "blank-lines.jsonl", "burstgpt-only-failures.csv", "cut-short.jsonl.gz", "damaged.jsonl.zst", "empty.jsonl", "git-lfs-pointer.jsonl", "inputs-json-cut-short.json", "inputs-json-data-not-a-list.json", "json-array.jsonl", "sharegpt-cut-short.json", "sharegpt-only-questions.json", "unknown-columns.csv", "unknown-keys.jsonl"}
	whole := map[string]bool{"milliseconds-as-seconds.jsonl": true, "seconds-as-milliseconds.jsonl": true, "wrong-block-size.jsonl": true}
	for name, begins := range refusals() {
		path := filepath.Join("testdata", name)
		tr, err := Open(path, Options{Collect: true})
		if err != nil {
			if !slices.Contains(unreadable, name) && !strings.Contains(err.Error(), "none of the ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		said := append(append([]Fault(nil), tr.Lint.Refusals...), tr.Lint.Faults...)
		if len(said) == 0 || !strings.HasPrefix(said[0].String()+"\n", path+begins) {
			t.Errorf("%s: noted %q, want %q", name, said, begins)
			continue
		}
		if !tr.Lint.Refused(Options{}) || tr.Lint.Refused(Options{Lenient: true}) != whole[name] {
			t.Errorf("%s: refused %v, with lenient %v", name, tr.Lint.Refused(Options{}), tr.Lint.Refused(Options{Lenient: true}))
		}
		if tr.Len() != tr.FileRows-tr.Lint.Dropped {
			t.Errorf("%s: %d of %d rows, %d dropped", name, tr.Len(), tr.FileRows, tr.Lint.Dropped)
		}
	}
}

// TestCollectTwoRefusals has the unit and the block size wrong at once.
func TestCollectTwoRefusals(t *testing.T) {
	text, err := os.ReadFile("testdata/wrong-block-size.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	far := strings.ReplaceAll(string(text), `"timestamp":`, `"timestamp":999999999`)
	tr, err := Read(strings.NewReader(far+`{"timestamp":0,"input_length":1,"output_length":1}`), "t", Options{Collect: true})
	if err != nil || len(tr.Lint.Refusals) != 2 {
		t.Fatalf("%v, %v; want two refusals", tr.Lint.Refusals, err)
	}
	if tr.Lint.Notes() == nil {
		t.Error("the repairs are not noted")
	}
}

// TestCollectKeepsOtherErrors: what has nothing to do with the file's contents is an error still.
func TestCollectKeepsOtherErrors(t *testing.T) {
	if _, err := Open("testdata/nothing.jsonl", Options{Collect: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	row := `{"timestamp":0,"input_length":1,"output_length":1}`
	if _, err := Read(strings.NewReader(row), "t", Options{Collect: true, From: 1}); err == nil || !strings.Contains(err.Error(), "no row lies") {
		t.Errorf("an empty selection: %v", err)
	}
}
