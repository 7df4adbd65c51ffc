package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// evil is what a terminal would obey: a title, a cleared screen, C1's CSI, a reversed line, DEL, and a line that looks like ours.
const evil = "\x1b]0;x\x07\x1b[2J\u009b31m\u202e\x7f\r\nVALID"

// harmless fails where a terminal would be given anything but text and ends of lines.
func harmless(t *testing.T, what, said string) {
	t.Helper()
	if !utf8.ValidString(said) {
		t.Errorf("%s: not UTF-8: %q", what, said)
	}
	for _, c := range said {
		if c != '\n' && !unicode.IsGraphic(c) {
			t.Fatalf("%s: %U in %q", what, c, said)
		}
	}
	if strings.Count("\n"+said, "\nVALID\n") > 1 {
		t.Errorf("%s: a line that is not ours:\n%s", what, said)
	}
}

// TestTerminalIsSafe: control characters of traces, servers and results are shown, not obeyed, and files keep them as JSON escapes.
func TestTerminalIsSafe(t *testing.T) {
	t.Parallel()
	quoted := string(must(json.Marshal(evil)))
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.URL.Path == "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":%s}]}`, quoted)
		case r.URL.Path != "/v1/completions":
			w.WriteHeader(404)
		case r.Header.Get("X-Refuse") != "":
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, quoted)
		default:
			fmt.Fprintf(w, `{"nvext":{"worker_id":%s},"choices":[{"text":"a","finish_reason":%s}],"usage":{"prompt_tokens":300,"completion_tokens":1}}`, quoted, quoted)
		}
	})
	plain := string(must(os.ReadFile(generate(t, "--format", "bailian", "--rows", "20", "--rate", "200", "--input-tokens", "300", "--output-tokens", "1"))))
	load := filepath.Join(t.TempDir(), "evil\x1b[2J\u202e\x9b.jsonl")
	rows := strings.ReplaceAll(plain, `"type":"text"`, `"type":`+quoted)
	if rows == plain {
		t.Fatalf("no row has a type: %.300s", plain)
	}
	writeFile(t, load, rows)
	said := func(what string, code int, args ...string) {
		t.Helper()
		p := start(t, nil, args...)
		if got := p.wait(t); got != code {
			t.Errorf("%s: exit %d, want %d:\n%q", what, got, code, p.stderr.String())
		}
		harmless(t, what+", standard output", p.stdout.String())
		harmless(t, what+", standard error", p.stderr.String())
	}
	dir := filepath.Join(t.TempDir(), "results")
	said("replay", 0, "--trace", load, "--url", url, "--output", dir, "--no-stream", "--no-probe", "--cold", "off", "--max-drift", "1h", "--max-receive-lag", "1h", "--json")
	res := readResults(t, dir)
	if res.lines[0].Type != evil || res.lines[0].Finish != evil || res.lines[0].Instance == "" || res.summary.Instances == nil {
		t.Errorf("the files say otherwise: %+v", res.lines[0])
	}
	said("probe", 2, "--trace", load, "--url", url, "--header", "X-Refuse: yes")
	said("dry run", 0, "--trace", load, "--dry-run")
	said("report", 0, "report", dir)
	said("report --json", 0, "report", dir, "--json")
	if err := os.Remove(filepath.Join(dir, "summary.json")); err != nil {
		t.Fatal(err)
	}
	said("report of records alone", 0, "report", dir)
	said("inspect", 0, "inspect", load)
	said("inspect --json", 0, "inspect", "--json", load)
	said("unknown flag", 2, "--"+evil)
	writeFile(t, load, strings.ReplaceAll(rows, `"timestamp":`, quoted+":"))
	said("a trace of another form", 2, "--trace", load, "--url", url)
	said("inspect of that", 1, "inspect", load)
	writeFile(t, filepath.Join(dir, "summary.json"), `{"schema":`+quoted+`}`)
	said("report of another form", 2, "report", dir)
}
