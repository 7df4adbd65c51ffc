package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/record"
)

// pageOf writes the page of results in dir, and their summary as it is on disk, or as it is made of the records.
func pageOf(t *testing.T, dir string) string {
	t.Helper()
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := HTML(&page, dir, s); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestHTML: two targets, one of which fails in the second second, and samples of which one failed and the last was cut off.
func TestHTML(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(dir, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(40) {
		var r record.Record
		r.Clear()
		at := i * 50e6
		r.Outcome = record.OK
		r.Row, r.PlannedNS, r.SentNS, r.Target, r.Instance = i, at, at, "http://a", `<script>alert("pod")</script>`
		r.FirstTokenNS, r.LastTokenNS, r.DoneNS = at+20e6, at+30e6, at+30e6
		if i%2 == 1 {
			r.Target, r.Instance = "http://b", ""
			if i >= 20 {
				r.Outcome, r.Error, r.FirstTokenNS, r.LastTokenNS, r.DoneNS = record.Reset, "</style><b>", record.None, record.None, record.None
			}
		}
		w.Append(&r)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	plain := pageOf(t, dir)
	if strings.Contains(plain, "as they say") {
		t.Error("servers that nobody read")
	}
	samples := `{"at_ns":-5,"phase":"before","target":"http://a","url":"http://a/metrics","took_ms":1,"engine":"vllm","engines":1,"running":0,"waiting":0,"kv_usage":0.1,"kv_usage_max":0.2}
{"at_ns":500000000,"phase":"during","target":"http://a","url":"http://a/metrics","took_ms":1,"error":"HTTP 500"}
{"at_ns":1000000000,"phase":"during","target":"http://a","url":"http://a/metrics","took_ms":1,"engine":"vllm","engines":1,"running":8,"waiting":2,"kv_usage":0.5,"kv_usage_max":0.5}
{"at_ns":2000000000,"phase":"after","target":"http://a","ur`
	if err := os.WriteFile(filepath.Join(dir, ServerMetricsName), []byte(samples), 0o644); err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, dir)
	for _, want := range []string{
		"INVALID", "http://b failed from 1.05 s on (10 of 10 requests; most by reset",
		"Requests by the time of sending", "<title>from 1.00 s: 10 requests, 10 failed</title>", "<title>from 0: 10 requests</title>",
		"&lt;script&gt;alert", "Requests in the servers, by their own metrics", "KV cache in use", "http://a/metrics", ">100 %<",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, bad := range []string{"<script", "</style><b>", "NaN", "http://www"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
	s, err := Load(dir)
	if err != nil || s.Servers == nil || s.Servers.All.Samples != 2 || s.Servers.All.Missed != 1 || s.Servers.All.Running.Max != 8 || !s.Servers.All.Incomplete {
		t.Errorf("from the samples on disk: %+v, %v", s.Servers, err)
	}
	if figures := strings.Count(page, "<figure>"); figures != 3+3+1+1 {
		t.Errorf("%d figures, want requests and TTFT of two targets and an instance, and two of the server", figures)
	}
	if err := os.WriteFile(filepath.Join(dir, ServerMetricsName), []byte("{}\nx\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), ServerMetricsName+":2: ") {
		t.Errorf("a broken file: %v", err)
	}
	if err := HTML(&bytes.Buffer{}, dir, s); err == nil || !strings.Contains(err.Error(), ServerMetricsName+":2: ") {
		t.Errorf("a broken file: %v", err)
	}
}
