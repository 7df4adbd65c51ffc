package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/bench/must"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/engine/collect"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/scrape"
)

func TestCreateDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Date(2026, 1, 2, 16, 4, 5, 999, time.FixedZone("CET", 3600))
	for _, want := range []string{"results/2026-01-02T150405Z", "results/2026-01-02T150405Z-2", "results/2026-01-02T150405Z-3"} {
		got, err := Create("", now)
		if err != nil || got != filepath.FromSlash(want) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		expect.Lacks(t, got, ":", "has a colon")
		must.Do(t, os.WriteFile(filepath.Join(got, "f"), nil, 0o600))
	}
}

func TestCreateGiven(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // new, then empty
		if got, err := Create(dir, time.Time{}); got != dir || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	file := filepath.Join(dir, "summary.json")
	must.Do(t, os.WriteFile(file, []byte("old"), 0o600))
	_, err := Create(dir, time.Time{})
	if !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "summary.json") || !strings.Contains(err.Error(), "--output") {
		t.Errorf("got %v, want what is there and what to do", err)
	}
	if old, _ := os.ReadFile(file); string(old) != "old" {
		t.Error("the old file was touched")
	}
	if _, err := Create(file, time.Time{}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestSummaryFile(t *testing.T) {
	dir := t.TempDir()
	want := partialRun()
	want.Run.Options = map[string]any{"url": "<http://a&b>"}
	must.Do(t, WriteSummary(dir, want))
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil || !json.Valid(text) || !bytes.HasSuffix(text, []byte("}\n")) || !bytes.Contains(text, []byte("<http://a&b>")) {
		t.Errorf("%v in %s", err, text)
	}
	got := must.Have(Load(dir))(t)
	var g, w bytes.Buffer
	if err := errors.Join(Print(&g, got, PrintOptions{}), Print(&w, want, PrintOptions{})); err != nil || g.String() != w.String() {
		t.Errorf("printed from disk\n%s\nwant\n%s (%v)", g.String(), w.String(), err)
	}
	g.Reset()
	if err := EncodeJSON(&g, got); err != nil || g.String() != string(text) {
		t.Errorf("encoded again %s\nwant %s (%v)", g.String(), text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "summary.json")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWriteSummaryKeepsTheOldOne(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, WriteSummary(dir, normalRun()))
	before, _ := os.ReadFile(filepath.Join(dir, SummaryName))
	bad := normalRun()
	bad.Run.Options = map[string]any{"f": func() {}} // cannot be encoded
	if err := WriteSummary(dir, bad); err == nil {
		t.Error("want an error")
	}
	after, _ := os.ReadFile(filepath.Join(dir, SummaryName))
	entries, _ := os.ReadDir(dir)
	if !bytes.Equal(before, after) || len(entries) != 1 {
		t.Errorf("the old summary is gone or something was left: %v", entries)
	}
}

func TestLoadErrors(t *testing.T) {
	for content, want := range map[string]string{
		`{"schema":1}`: "schema 1, but this version reads 2",
		`{}`:           "schema 0",
		`nonsense`:     "summary.json: invalid character",
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, SummaryName), []byte(content), 0o600))
		expect.Refused(Load(dir))(t, want, content)
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, ErrNoResults) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoResults) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestRebuild: a summary made of the records alone has all that is in them.
func TestRebuild(t *testing.T) {
	dir, records := t.TempDir(), make([]record.Record, 50)
	live := collect.NewCollector([]string{"http://a:1", "http://b:2"})
	for i := range int64(50) {
		r := &records[i]
		r.Clear()
		r.Row, r.Outcome, r.PlannedNS, r.InputTokens, r.OutputTokens = i, record.OK, i*1e6, 100+i, 10
		r.Target = []string{"http://a:1", "http://b:2"}[i%2]
		r.SentNS, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = i*1e6+i*10, i*1e6+5e6, i*1e6+9e6+i, i*1e6+9.5e6
		r.PromptTokens, r.CompletionTokens, r.TokensFrom, r.Chunks = 100+i, 10, record.TokensFromUsage, 10
		r.ExpectedCachedTokens, r.MostCachedTokens, r.CachedTokens = i, i, i/2
		if i == 49 {
			r.Outcome, r.Target = record.NotSent, ""
			r.SentNS = record.None
		}
		live.Add(r, int(i%2)-2*int(i/49))
	}
	writeRecords(t, dir, WriterOptions{}, records)
	got := must.Have(Load(dir))(t)
	limits := metrics.DefaultLimits()
	limits.ForcedOutput = false
	want := live.Summary(metrics.Summary{
		Requests: metrics.Requests{Planned: 50}, Limits: limits, Run: metrics.Run{DurationS: 0.0585, Partial: true},
		Workload: metrics.Workload{Requests: 50, InputTokens: 50*100 + 49*50/2, OutputTokens: 500},
		Verdict: metrics.Verdict{Reasons: []metrics.Reason{{
			Code: "no_summary", Grade: metrics.Invalid, What: "the run has no summary.json, so it was killed, its disk was full, or it is still running",
			Why: "this is computed from its 50 records on disk, without ITL, connections and client",
			Do:  "run again, or wait for its end",
		}}},
	}, collect.Probed{})
	want.Verdict.Reasons = slices.DeleteFunc(want.Verdict.Reasons, func(r metrics.Reason) bool { return r.Code == "interrupted" })
	if want.Requests.Stopped != 1 || want.Requests.Failed != 0 {
		t.Errorf("%+v, want the request that was not sent among those that did not fail", want.Requests)
	}
	var g, x bytes.Buffer
	if err := errors.Join(EncodeJSON(&g, got), EncodeJSON(&x, want)); err != nil || g.String() != x.String() {
		t.Errorf("got %s\nwant %s (%v)", g.String(), x.String(), err)
	}
}

func TestSamplesReadBack(t *testing.T) {
	dir := t.TempDir()
	w := must.Have(NewSampleWriter(dir, nil))(t)
	running := 3.0
	want := []scrape.Sample{
		{AtNS: -5, Phase: scrape.Before, Target: "http://a", URL: "http://a/metrics", TookMS: 1.5, Reading: scrape.Reading{Engine: "vllm", Engines: 2, Values: scrape.Values{Running: &running}}},
		{AtNS: 7, Phase: scrape.After, Target: "http://a", URL: "http://a/metrics", Error: "HTTP 500"},
	}
	for i := range want {
		w.Append(&want[i])
		if got, err := ReadLines[scrape.Sample](filepath.Join(dir, ServerMetricsName)); err != nil || !reflect.DeepEqual(got, want[:i+1]) { // on disk at once
			t.Errorf("%+v, %v; want %+v", got, err, want[:i+1])
		}
	}
	if _, err := NewSampleWriter(dir, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	w.Append(&want[0])
	if err := w.Close(); err == nil {
		t.Error("a sample was lost, and nobody says so")
	}
}

// crashDir names the directory that a copy of this test, run as a process of
// its own, writes to until it is killed.
const crashDir = "FASTREPLAY_TEST_CRASH_DIR"

const flushed, appendedLater = 1500, 700

// TestCrashHelper is that process: it flushes some records, appends more, and
// waits for its end.
func TestCrashHelper(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("a part of TestKilledWriter")
	}
	w := must.Have(NewWriter(dir, WriterOptions{Compress: strings.HasSuffix(dir, "zst")}))(t)
	for i := range int64(flushed) {
		w.Append(numbered(i))
		if i%100 == 99 {
			must.Do(t, w.Flush())
		}
	}
	for i := range int64(appendedLater) {
		w.Append(numbered(flushed + i))
	}
	fmt.Println("ready to die")
	select {} // the parent kills us
}

// TestKilledWriter: SIGKILL loses what came after the last Flush, and nothing
// else; the file needs no repair, and a summary can be made of it.
func TestKilledWriter(t *testing.T) {
	for _, kind := range []string{"plain", "zst"} {
		dir := t.TempDir() + "/" + kind
		must.Do(t, os.Mkdir(dir, 0o755))
		child := exec.Command(os.Args[0], "-test.run=^TestCrashHelper$", "-test.v")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		out := must.Have(child.StdoutPipe())(t)
		must.Do(t, child.Start())
		lines := bufio.NewScanner(out)
		ready := false
		for !ready && lines.Scan() {
			ready = strings.Contains(lines.Text(), "ready to die")
		}
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := child.Wait(); !ready || err == nil {
			t.Fatalf("%s: ready %v, %v", kind, ready, err)
		}

		next := int64(0)
		err := EachRecord(dir, func(r *record.Record) {
			must.Equal(t, *r, *numbered(next), "%s: record %d is %+v", kind, next, r)
			next++
		})
		if err != nil || next < flushed { // blocks that were full may follow
			t.Errorf("%s: %d records survived, want %d; %v", kind, next, flushed, err)
		}
		s, err := Load(dir)
		if err != nil || s.Requests.Planned != next || s.Requests.ByOutcome["http_error"] != next || !s.Run.Partial || s.Verdict.Valid {
			t.Errorf("%s: rebuilt %+v, %v", kind, s, err)
		}
	}
}
