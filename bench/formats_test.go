package bench

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/codec/trace"
)

// fingerprint is what a dry run says about the bytes that it would send, and when.
func fingerprint(t *testing.T, args ...string) string {
	t.Helper()
	p := start(t, nil, append(args, "--dry-run")...)
	p.ends(t, 0)
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
		expect.Equal(t, got, want, "%s: the converted trace", path)
	}
}

// TestConvertSelects writes a part of a trace to standard output.
func TestConvertSelects(t *testing.T) {
	t.Parallel()
	part := succeeds(t, "convert", "samples/burstgpt.csv", "--format", "bailian", "--from", "1s", "--to", "3s", "--limit", "20")
	got, err := trace.Read(strings.NewReader(part), "converted", trace.Options{Strict: true})
	if err != nil || got.Format != "bailian" || got.Len() != 20 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := trace.Open("samples/burstgpt.csv", trace.Options{From: 1e9, To: 3e9, Limit: 20})
	if err != nil || !slices.Equal(got.ArrivalNS, want.ArrivalNS) || !slices.Equal(got.InputTokens, want.InputTokens) || !slices.Equal(got.Chat, want.Chat) {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
}
