package trace

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
)

// refusals is what each malformed trace in testdata must be refused with: how the message begins after the file's name.
func refusals(t *testing.T) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(string(must.Have(os.ReadFile("testdata/golden/refused.txt"))(t))) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), `\n`, "\n")
		name := line[:strings.IndexAny(line, ": ")]
		all[name] = line[len(name):]
	}
	return all
}

func TestMalformed(t *testing.T) {
	files := must.Have(os.ReadDir("testdata"))(t)
	refusals := refusals(t)
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		path := filepath.Join("testdata", f.Name())
		want, known := refusals[f.Name()]
		if !known {
			t.Errorf("%s: no refusal is listed", path)
			continue
		}
		delete(refusals, f.Name())
		if _, err := Open(path, Options{}); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s:\n%v\nmust begin with\n%s", path, err, path+want)
		}
	}
	for name := range refusals {
		t.Errorf("testdata/%s is missing", name)
	}
}

func TestTenFaultsAndTheRest(t *testing.T) {
	_, err := Open("testdata/many-faults.jsonl", Options{})
	var lint *LintError
	if !errors.As(err, &lint) || len(lint.Faults) != 10 || lint.More != 14 || lint.Good != 12 {
		t.Fatalf("got %+v, want 10 faults, 14 more and 12 good rows", lint)
	}
	if f := lint.Faults[9]; f.Line != 15 || f.File != "testdata/many-faults.jsonl" || f.What != "input_length -14 is out of range" {
		t.Errorf("the tenth fault is %+v", f)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 12 || lines[10] != "… and 14 more" || lines[11] != "24 of 36 rows cannot be replayed; fix them, or leave them out with --bad-rows drop" {
		t.Errorf("the message ends with %q", lines[10:])
	}
}

// TestLoneFaultIsDropped makes sure that lenient reading saves the rows beside a bad one.
func TestLoneFaultIsDropped(t *testing.T) {
	for _, name := range []string{"bad-escape", "trailing-comma", "huge-hash-id", "repeated-key", "timestamp-as-text", "missing-chat-id", "type-not-text", "truncated-row"} {
		tr, err := Open("testdata/"+name+".jsonl", Options{Lenient: true})
		if err != nil || tr.Len() != 2 || tr.FileRows != 3 || tr.Lint.Dropped != 1 {
			t.Errorf("%s: %+v, %v; want 2 of 3 rows", name, tr, err)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	l := newLoader(Options{Format: "mooncake", Lenient: true})
	l.begin("t", "")
	row := `{"timestamp":1,"input_length":1,"output_length":1}`
	lines := newLineReader(bufio.NewReader(strings.NewReader(row + "\n" + row + strings.Repeat(" ", 600_000) + "\n" + row)))
	lines.longest = 500_000
	must.Do(t, l.readAll(lines))
	tr, err := l.finish()
	if err != nil || tr.Len() != 2 || tr.Lint.Dropped != 1 || tr.Lint.Faults[0].Line != 2 {
		t.Errorf("%+v, %v; want the second of three rows dropped", tr, err)
	}
	want(t, "Row", tr.Row, []int32{0, 2})
}

// TestOnlyLineTooLong has no line from which a format could be told.
func TestOnlyLineTooLong(t *testing.T) {
	for _, lenient := range []bool{false, true} {
		l := newLoader(Options{Lenient: lenient})
		l.begin("t", "")
		lines := newLineReader(bufio.NewReader(strings.NewReader(strings.Repeat(" ", 600_000))))
		lines.longest = 500_000
		must.Do(t, l.readAll(lines))
		expect.Refused(l.finish())(t, "t:1: the line is longer than 64 MiB; ", "lenient %v", lenient)
	}
}
