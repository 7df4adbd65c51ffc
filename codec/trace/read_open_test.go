package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// openAll writes files into a folder and reads them as one trace.
func openAll(t *testing.T, o Options, files ...string) (*Trace, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	var names []string
	for i, text := range files {
		names = append(names, string(rune('a'+i)))
		must.Do(t, os.WriteFile(names[i], []byte(text), 0o600))
	}
	tr, err := OpenAll(names, o)
	if err == nil {
		checkInvariants(t, tr)
	}
	return tr, err
}

// TestSeveralFilesAreOne: the parts of a file, wherever it is cut, read like the whole.
func TestSeveralFilesAreOne(t *testing.T) {
	lines := strings.SplitAfter(bailianFile, "\n")
	lines = lines[:len(lines)-1]
	whole := read(t, bailianFile, Options{})
	for cut := 1; cut < len(lines); cut++ {
		tr, err := openAll(t, Options{}, strings.Join(lines[:cut], ""), strings.Join(lines[cut:], ""))
		must.Do(t, err, "cut at %d", cut)
		sameTrace(t, tr, whole)
		want(t, "Row", tr.Row, whole.Row)
		want(t, "Parent", tr.Parent, whole.Parent)
		if tr.Name != "a, b" || tr.FileRows != whole.FileRows || len(tr.Lint.Notes()) != 0 {
			t.Errorf("%s, %d rows, notes %q", tr.Name, tr.FileRows, tr.Lint.Notes())
		}
	}
}

// TestSeveralFilesMerge: in order of time, by the clock that the files share; the selection is of all.
func TestSeveralFilesMerge(t *testing.T) {
	a := `{"timestamp":10,"input_length":1,"output_length":1,"hash_ids":[5]}` + "\n" + `{"timestamp":30,"input_length":2,"output_length":1}` + "\n"
	b := `{"timestamp":5,"input_length":3,"output_length":1,"hash_ids":[5]}` + "\n" + `{"timestamp":20,"input_length":4,"output_length":1}` + "\n"
	tr := must.Have(openAll(t, Options{Limit: 3}, a, b))(t)
	want(t, "InputTokens", tr.InputTokens, []int32{3, 1, 4})
	want(t, "Row", tr.Row, []int32{2, 0, 3})
	want(t, "ArrivalNS", tr.ArrivalNS, []int64{0, 5e6, 15e6})
	want(t, "Blocks", tr.Blocks(0), tr.Blocks(1))

	burst := "Timestamp,Session ID,Request tokens,Response tokens\n"
	tr = must.Have(openAll(t, Options{}, burst+"9,1,3,1\n6,,9,0\n", "Session ID,Request tokens,Response tokens,Timestamp\n1,1,1,5\n"))(t)
	want(t, "Row", tr.Row, []int32{2, 0})
	want(t, "Turn", tr.Turn, []int32{1, 2})
	want(t, "Parent", tr.Parent, []int64{-1, 2})
}

// TestSeveralFilesRefused: faults name their own file, and files that do not go together are refused.
func TestSeveralFilesRefused(t *testing.T) {
	good := `{"timestamp":1,"input_length":1,"output_length":1}` + "\n"
	bad := `{"timestamp":1,"input_length":0,"output_length":1}` + "\n"
	loop := `{"chat_id":1,"parent_chat_id":2,"timestamp":1,"input_length":1,"output_length":1}` + "\n" + `{"chat_id":2,"parent_chat_id":1,"timestamp":1,"input_length":1,"output_length":1}` + "\n"
	blocks := `{"timestamp":1,"input_length":100,"output_length":1,"hash_ids":[1,2,3,4,5,6,7]}` + "\n"
	for _, c := range []struct {
		files []string
		says  string
	}{
		{[]string{good + bad, bad}, "a:2: input_length 0 is out of range; it must be from 1 to 16777216\nb:1: input_length 0 is out of range; "},
		{[]string{good, ""}, "b: the trace is empty; "},
		{[]string{good, bailianFile}, "b: this is bailian, but a is mooncake; "},
		{[]string{azureFile, good}, "b: this is mooncake, but a is azure; "},
		{[]string{burstFile, oldBurstFile}, "b: not the columns that a has; "},
		{[]string{bailianFile, loop}, "b:1: chat_id 1 is its own ancestor; "},
		{[]string{good, blocks}, "a, b: 1 of 1 rows have a number of hash ids that is not input_length / 512 rounded up, first line 1 of b (7 ids for 100 tokens); "},
	} {
		if _, err := openAll(t, Options{}, c.files...); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%q:\n%v\nmust begin with\n%s", c.files, err, c.says)
		}
	}
	expect.Refused(OpenAll(nil, Options{}))(t, "", "no file: no error")
	expect.Refused(OpenAll([]string{filepath.Join(t.TempDir(), "none")}, Options{}))(t, "", "no such file: no error")
}
