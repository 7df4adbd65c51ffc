package bench

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// TestFailuresAreLeftOut: requests that failed when they were recorded are counted, not sent and not refused.
func TestFailuresAreLeftOut(t *testing.T) {
	t.Parallel()
	file := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n" +
		"5,ChatGPT,472,3,475,Conversation log\r\n5.1,ChatGPT,80,0,80,API log\r\n5.2,GPT-4,0,0,0,API log\r\n5.25,GPT-4,90,5,95,API log\r\n"
	path := filepath.Join(t.TempDir(), "failures.csv")
	writeFile(t, path, file)
	m := startMock(t)
	r := run(t, path, "--url", m.url)
	r.prove(t)
	r.join(t, m.stop(t))
	r.only(t, "ok")
	rows := []int64{}
	for _, l := range r.lines {
		rows = append(rows, l.Row)
	}
	slices.Sort(rows)
	if !slices.Equal(rows, []int64{0, 3}) {
		t.Errorf("rows %v, want 0 and 3", rows)
	}
	const note = "2 rows left out: requests that failed when they were recorded"
	if notes := strings.Join(r.summary.Notes, "\n"); !strings.Contains(notes, note) || !strings.Contains(r.stderr, note) {
		t.Errorf("notes %q\n%s", notes, r.stderr)
	}
}

// fingerprint is what a dry run says about the bytes that it would send, and when.
func fingerprint(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, nil, append(args, "--dry-run")...)
	if code := p.wait(t); code != 0 {
		t.Fatalf("%v: exit %d\n%s", args, code, p.stderr.String())
	}
	found := regexp.MustCompile(`sha256:\S+`).FindString(p.stderr.String())
	if found == "" {
		t.Fatalf("%v: no fingerprint\n%s", args, p.stderr.String())
	}
	return found
}

// TestConvert: what is converted to Mooncake's format replays the same bytes at the same instants.
func TestConvert(t *testing.T) {
	t.Parallel()
	for path, read := range map[string][]string{"samples/azure.csv": nil, "samples/bailian.jsonl": {"--block-tokens", "16"}, "samples/sharegpt.json": {"--rate", "50"}} {
		got, want := fingerprint(t, with(read, convert(t, path, "--format", "mooncake"))...), fingerprint(t, with(read, path)...)
		if got != want {
			t.Errorf("%s: the converted trace has %s, want %s", path, got, want)
		}
	}
}

// TestConvertSelects writes a part of a trace to standard output.
func TestConvertSelects(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "convert", "samples/burstgpt.csv", "--format", "bailian", "--from", "1s", "--to", "3s", "--limit", "20")
	if code := p.wait(t); code != 0 {
		t.Fatalf("exit %d\n%s", code, p.stderr.String())
	}
	got, err := trace.Read(strings.NewReader(p.stdout.String()), "converted", trace.Options{Strict: true})
	if err != nil || got.Format != "bailian" || got.Len() != 20 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := trace.Open("samples/burstgpt.csv", trace.Options{From: 1e9, To: 3e9, Limit: 20})
	if err != nil || !slices.Equal(got.ArrivalNS, want.ArrivalNS) || !slices.Equal(got.InputTokens, want.InputTokens) || !slices.Equal(got.Chat, want.Chat) {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
}
