package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// inspected is what `inspect --json` prints, as far as these tests look.
type inspected struct {
	Schema int `json:"schema"`
	Traces []struct {
		Trace      string    `json:"trace"`
		Rows       int       `json:"rows"`
		Replayable bool      `json:"replayable"`
		Findings   []finding `json:"findings"`
		Sessions   *struct {
			Sessions int `json:"sessions"`
		} `json:"sessions"`
		Cache *struct {
			Infinite struct {
				Tokens float64 `json:"token_ratio"`
			} `json:"infinite"`
			LRU []struct {
				Tokens int64   `json:"capacity_tokens"`
				Ratio  float64 `json:"token_ratio"`
			} `json:"lru"`
		} `json:"prefix_cache"`
		Replay struct {
			TokenIDs struct {
				PromptBytes int64 `json:"prompt_bytes"`
			} `json:"token_ids"`
		} `json:"replay"`
	} `json:"traces"`
}

type finding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

// inspect runs the command and returns the exit code and what it said.
func inspect(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	p := start(t, nil, append([]string{"inspect"}, args...)...)
	code = p.wait(t)
	return code, p.stdout.String(), p.stderr.String()
}

func inspectJSON(t *testing.T, want int, args ...string) inspected {
	t.Helper()
	code, out, said := inspect(t, append(args, "--json")...)
	var d inspected
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != want || d.Schema != 1 {
		t.Fatalf("%v: exit %d, want %d; %v, schema %d\n%s", args, code, want, err, d.Schema, said)
	}
	return d
}

// TestInspectSamples: the page and the JSON of each bundled trace, alone and side by side.
func TestInspectSamples(t *testing.T) {
	t.Parallel()
	all := []string{"samples/bailian.jsonl", "samples/mooncake.jsonl", "samples/mooncake-small.jsonl"}
	for _, path := range all {
		code, out, said := inspect(t, path)
		if code != 0 || said != "" || !strings.HasPrefix(out, path+"\n") || !strings.Contains(out, "unlimited cache") {
			t.Errorf("%s: exit %d\n%s%s", path, code, out, said)
		}
	}
	// Two are so dense that their milliseconds may be seconds, for all that the files say.
	doubt := "if the timestamps are seconds, give --time-unit s"
	if code, out, said := inspect(t, all...); code != 0 || said != "" || !strings.Contains(out, "input tok/s") || strings.Count(out, "--time-unit s") != 2 {
		t.Errorf("side by side: exit %d\n%s%s", code, out, said)
	}
	d := inspectJSON(t, 0, append(all, "--cache-tokens", "100k,1M")...)
	for i, rows := range []int{300, 1200, 240} {
		r := d.Traces[i]
		unexpected := slices.DeleteFunc(r.Findings, func(f finding) bool { return strings.HasSuffix(f.Text, doubt) })
		if r.Trace != all[i] || r.Rows != rows || !r.Replayable || len(unexpected) != 0 || r.Sessions == nil {
			t.Errorf("%s: %+v", all[i], r)
		}
		if len(r.Cache.LRU) != 2 || r.Cache.LRU[1].Tokens != 1_000_000 || r.Cache.LRU[0].Ratio > r.Cache.LRU[1].Ratio || r.Cache.LRU[1].Ratio > r.Cache.Infinite.Tokens {
			t.Errorf("%s: LRU %+v of %+v", all[i], r.Cache.LRU, r.Cache.Infinite)
		}
	}
}

// TestInspectAgreesWithReplay: the bytes that inspect promises are those that a run lays out, but for what surrounds the
// prompts.
func TestInspectAgreesWithReplay(t *testing.T) {
	t.Parallel()
	d := inspectJSON(t, 0, "samples/mooncake.jsonl")
	m := startMock(t)
	res := run(t, "samples/mooncake.jsonl", "--url", m.url, "--scale", "20", "--allow-warm")
	prompts := d.Traces[0].Replay.TokenIDs.PromptBytes
	if around := (res.summary.Client.WireBytes - prompts) / 1200; around < 100 || around > 1000 {
		t.Errorf("%d bytes of prompts and %d of images: %d around each", prompts, res.summary.Client.WireBytes, around)
	}
}

// TestInspectRefused: what a replay refuses is shown with the reason first, and the exit code is 1.
func TestInspectRefused(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{
		"wrong-block-size.jsonl":        "pass --block-tokens 16",
		"seconds-as-milliseconds.jsonl": "pass --time-unit s if",
		"many-faults.jsonl":             "line 2: input_length -1 is out of range",
	} {
		path := "../codec/trace/testdata/" + name
		code, out, said := inspect(t, path)
		if words := strings.Join(strings.Fields(out), " "); code != 1 || said != "" || !strings.Contains(words, "REFUSED: ") || !strings.Contains(words, reason) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, said)
		}
		if lastLine(out) != "A replay would refuse "+path+"." {
			t.Errorf("%s: the last line is %q", name, lastLine(out))
		}
		d := inspectJSON(t, 1, path)
		if d.Traces[0].Replayable || d.Traces[0].Findings[0].Severity != "refusal" {
			t.Errorf("%s: %+v", name, d.Traces[0])
		}
	}
	if code, out, _ := inspect(t, "../codec/trace/testdata/many-faults.jsonl", "--bad-rows", "drop"); code != 0 || strings.Contains(out, "REFUSED") {
		t.Errorf("lenient: exit %d\n%s", code, out)
	}
}

// TestInspectConversation prints every published number, and says how long it took.
func TestInspectConversation(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("FASTREPLAY_TRACES")
	if dir == "" {
		t.Skip("FASTREPLAY_TRACES does not name a folder with mooncake-conversation.jsonl.zst")
	}
	began := time.Now()
	code, out, said := inspect(t, filepath.Join(dir, "mooncake-conversation.jsonl.zst"), "--cache-tokens", "3M,10M,30M,50M")
	t.Logf("inspected in %v", time.Since(began))
	if code != 0 || said != "" {
		t.Fatalf("exit %d\n%s", code, said)
	}
	words := strings.Fields(out)
	for _, number := range []string{"12,031", "12,035.06", "342.62", "126,195", "144,793,823", "288,500", "182,790", "1,180", "28", "3,536,999", "36.64", "37.36", "38.19", "40.94",
		"13.55", "28.52", "35.88", "36.35", "13.82", "29.08", "36.58", "37.07", "13.61"} {
		if !slices.Contains(words, number) {
			t.Errorf("%s is missing:\n%s", number, out)
		}
	}
}

// TestInspectInstances: the routers stand on the page, side by side and in HTML, for each size of caches.
func TestInspectInstances(t *testing.T) {
	t.Parallel()
	code, out, said := inspect(t, "--instances", "4", "--cache-tokens", "50k", "samples/bailian.jsonl")
	for _, text := range []string{"\n  on 4 instances, unlimited caches\n", "\n  on 4 instances, 50k tokens of cache each\n", "\n  session   ", "\n  prefix, load bound 1.25 "} {
		if !strings.Contains(out, text) {
			t.Errorf("exit %d, no %q in\n%s%s", code, text, out, said)
		}
	}
	html := filepath.Join(t.TempDir(), "page.html")
	code, out, said = inspect(t, "--instances", "2", "--load-bound", "2", "--html", html, "samples/bailian.jsonl", "samples/mooncake-small.jsonl")
	page, err := os.ReadFile(html)
	if code != 0 || err != nil || said != "" || !strings.HasPrefix(string(page), "<!DOCTYPE html>") || !strings.Contains(string(page), `"graphs":[`) {
		t.Fatalf("exit %d, %v: %s", code, err, said)
	}
	for _, text := range []string{"hits on 2 instances, unlimited caches", "prefix, load bound 2", "mooncake-small.jsonl"} {
		if !strings.Contains(out, text) || !strings.Contains(string(page), text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
	if code, out, said = inspect(t, "--instances", "2", "samples/azure.csv"); code != 0 || !strings.Contains(out, "  note: no block ids, so routers cannot be compared\n") {
		t.Errorf("exit %d:\n%s%s", code, out, said)
	}
}
