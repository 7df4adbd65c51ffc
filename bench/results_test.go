package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// absent is what a null leaves in a number of a line; in a float it is NaN.
const absent = math.MinInt64

// line is one line of requests.jsonl, read by encoding/json and by no code of the client.
type line struct {
	Row               int64   `json:"row"`
	ID                string  `json:"request_id"`
	Target            string  `json:"target"`
	Endpoint          string  `json:"endpoint"`
	Planned           int64   `json:"planned_ns"`
	Sent              int64   `json:"sent_ns"`
	Drift             int64   `json:"drift_ns"`
	ConnWait          int64   `json:"conn_wait_ns"`
	Written           int64   `json:"written_ns"`
	WrittenFirstBytes int64   `json:"written_first_bytes"`
	Headers           int64   `json:"headers_ns"`
	FirstToken        int64   `json:"first_token_ns"`
	FirstText         int64   `json:"first_text_ns"`
	FirstOutput       int64   `json:"first_output_ns"`
	LastToken         int64   `json:"last_token_ns"`
	Done              int64   `json:"done_ns"`
	TTFT              float64 `json:"ttft_ms"`
	TPOT              float64 `json:"tpot_ms"`
	E2E               float64 `json:"e2e_ms"`
	Input             int64   `json:"recorded_input_tokens"`
	Prompt            int64   `json:"prompt_tokens"`
	Output            int64   `json:"recorded_output_tokens"`
	Completion        int64   `json:"completion_tokens"`
	TokensFrom        string  `json:"tokens_from"`
	Chunks            int64   `json:"chunks"`
	Finish            string  `json:"finish_reason"`
	Instance          string  `json:"instance"`
	Upstream          int64   `json:"upstream_ns"`
	Session           int64   `json:"session"`
	History           string  `json:"history"`
	Turn              int64   `json:"turn"`
	Type              string  `json:"type"`
	Expected          int64   `json:"expected_cached_tokens"`
	Cached            int64   `json:"cached_tokens"`
	Status            int64   `json:"status"`
	Outcome           string  `json:"outcome"`
	Error             string  `json:"error"`
	Resent            int64   `json:"resent"`
	BytesSent         int64   `json:"bytes_sent"`
	BytesReceived     int64   `json:"bytes_received"`
}

// UnmarshalJSON leaves what is null absent.
func (l *line) UnmarshalJSON(b []byte) error {
	type plain line
	p := plain{
		Planned: absent, Sent: absent, Drift: absent, ConnWait: absent, Written: absent, WrittenFirstBytes: absent, Headers: absent,
		FirstToken: absent, FirstText: absent, FirstOutput: absent, LastToken: absent, Done: absent, TTFT: math.NaN(), TPOT: math.NaN(), E2E: math.NaN(),
		Prompt: absent, Completion: absent, Expected: absent, Cached: absent, Status: absent,
	}
	err := json.Unmarshal(b, &p)
	*l = line(p)
	return err
}

func (l *line) ok() bool { return l.Outcome == "ok" }

// served is one line of the mock's log. Instants are CLOCK_MONOTONIC, ns; 0 = it did not come to that.
type served struct {
	ID         string `json:"request_id"`
	Arrival    int64  `json:"arrival_ns"`
	Arrived    int64  `json:"arrived_ns"`
	First      int64  `json:"first_token_ns"`
	Last       int64  `json:"last_token_ns"`
	Done       int64  `json:"done_ns"`
	Status     int64  `json:"status"`
	Prompt     int64  `json:"prompt_tokens"`
	Cached     int64  `json:"cached_tokens"`
	Host       int64  `json:"host_tokens"` // of them, those of the second tier
	Completion int64  `json:"completion_tokens"`
	Fault      string `json:"fault"`
	End        string `json:"end"`
}

// results are what one run left behind.
type results struct {
	code           int
	stdout, stderr string
	dir            string
	lines          []line // in file order
	summary        metrics.Summary
}

func readResults(t testing.TB, dir string) *results {
	t.Helper()
	r := &results{dir: dir, lines: readLines[line](t, requestsFile(dir))}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil {
		must.Do(t, json.Unmarshal(text, &r.summary), "summary.json")
	}
	return r
}

// requestsFile is requests.jsonl or, where the run compressed it, requests.jsonl.zst.
func requestsFile(dir string) string {
	plain := filepath.Join(dir, "requests.jsonl")
	if _, err := os.Stat(plain + ".zst"); err == nil {
		return plain + ".zst"
	}
	return plain
}

// readLines reads JSON lines; a file that is not there has none. A last line that is not whole is an error.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".zst") {
		z, _ := zstd.NewReader(nil)
		if text, err = z.DecodeAll(text, nil); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var list []T
	for row := range bytes.Lines(text) {
		var v T
		if err := json.Unmarshal(row, &v); err != nil || row[len(row)-1] != '\n' {
			t.Fatalf("%s: line %d, %q: %v", path, len(list)+1, row, err)
		}
		list = append(list, v)
	}
	return list
}

// readLog reads the mock's log by request id. More than one line for an id: the request came more than once.
func readLog(t *testing.T, path string) map[string][]served {
	t.Helper()
	log := map[string][]served{}
	for _, s := range readLines[served](t, path) {
		log[s.ID] = append(log[s.ID], s)
	}
	return log
}

// recorded is what has reached requests.jsonl while the run goes on.
func (r *replay) recorded(t *testing.T, outcome string) int {
	t.Helper()
	text, err := os.ReadFile(requestsFile(r.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte(`"outcome":"`+outcome+`"`))
}

// untilRecorded waits until so many requests have an outcome on disk, or the run is over.
func (r *replay) untilRecorded(t *testing.T, least int, outcome string) {
	t.Helper()
	until(t, fmt.Sprintf("%d requests are %s", least, outcome), func() bool {
		return r.recorded(t, outcome) >= least || r.ended()
	})
}

// told is all that a run has said and written.
func (r *replay) told(t *testing.T) string {
	t.Helper()
	said := r.stdout.String() + r.stderr.String()
	_ = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			said += "\n" + path + ":\n" + string(readFile(t, path))
		}
		return err
	})
	return said
}

// outcomes counts the lines by outcome.
func (r *results) outcomes() map[string]int {
	count := map[string]int{}
	for _, l := range r.lines {
		count[l.Outcome]++
	}
	return count
}

// only fails if a line has another outcome than these.
func (r *results) only(t *testing.T, outcomes ...string) {
	t.Helper()
	for _, l := range r.lines {
		if !slices.Contains(outcomes, l.Outcome) {
			t.Errorf("row %d is %s (%s), want one of %v", l.Row, l.Outcome, l.Error, outcomes)
		}
	}
}

// reasons are the verdict's, but for those that a busy machine brings about.
func (r *results) reasons() []string {
	var kept []string
	for _, found := range r.summary.Verdict.Reasons {
		if found.Code != "starved" {
			kept = append(kept, found.String())
		}
	}
	return kept
}

// verdict fails unless the run's reasons are exactly these, each named by some of its words, and the exit code says the
// same.
func (r *results) verdict(t *testing.T, words ...string) {
	t.Helper()
	reasons := r.reasons()
	if len(reasons) != len(words) {
		t.Errorf("reasons %q, want %d: %q", reasons, len(words), words)
		return
	}
	for i, w := range words {
		expect.Contains(t, reasons[i], w, "reason")
	}
	want := 1
	if r.summary.Verdict.Valid {
		want = 0
		if r.summary.Verdict.Missed() > 0 {
			want = 3
		}
	}
	limits := func(found metrics.Reason) bool { return found.Code == "starved" && found.Grade == metrics.Limited } // too short to tell
	sound := len(slices.DeleteFunc(slices.Clone(r.summary.Verdict.Reasons), limits)) == 0
	if r.code != want || r.summary.Verdict.Valid != sound {
		t.Errorf("exit %d with verdict %+v", r.code, r.summary.Verdict)
	}
}

// sound checks a run in which all requests ended ok: every invariant, the verdict, and each line against the logs of
// the mocks. It stops the mocks.
func (r *results) sound(t *testing.T, mocks ...*mockServer) {
	t.Helper()
	r.prove(t)
	for _, m := range mocks {
		r.join(t, m.stop(t))
	}
	r.only(t, "ok")
	r.verdict(t)
}
