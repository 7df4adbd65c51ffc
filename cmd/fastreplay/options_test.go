package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// given parses a command line of a replay.
func given(t *testing.T, line string) (*options, error) {
	t.Helper()
	var o options
	f := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	o.addFlags(f)
	if err := f.Parse(strings.Fields(line)); err != nil {
		return &o, explainFlag(nil, err)
	}
	return &o, o.complete(f.Args())
}

func TestProofFlags(t *testing.T) {
	for line, want := range map[string]struct {
		verify   int
		overhead workload.Overhead
		capacity int64
	}{
		"":                                   {defaultVerified, workload.Overhead{}, 0},
		"--tokenizer x --verify-prompts all": {-1, workload.Overhead{}, 0},
		"--tokenizer x --verify-prompts 0":   {0, workload.Overhead{}, 0},
		"--api chat --chat-overhead 20,5":    {defaultVerified, workload.Overhead{Head: 20, Tail: 5}, 0},
		"--cache-tokens 1.5M":                {defaultVerified, workload.Overhead{}, 1_500_000},
	} {
		o, err := given(t, "trace.jsonl "+line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		overhead := workload.Overhead{}
		if o.overhead != nil {
			overhead = *o.overhead
		}
		if o.verifyPrompts != want.verify || overhead != want.overhead || o.cacheCapacity != want.capacity {
			t.Errorf("%q: %d, %+v, %d; want %+v", line, o.verifyPrompts, overhead, o.cacheCapacity, want)
		}
	}
	for line, want := range map[string]string{
		"--verify-prompts 64":                   "--verify-prompts: give the model's own tokenizer with --tokenizer", // the default, but without what it is about
		"--tokenizer x --verify-prompts many":   `--verify-prompts "many": want a number of prompts, or all`,
		"--tokenizer x --verify-prompts -1":     `--verify-prompts "-1"`,
		"--api chat --chat-overhead 25":         `--chat-overhead "25": want HEAD,TAIL`,
		"--cache-tokens -1":                     `--cache-tokens "-1": want a number of tokens`,
		"--engine-block-tokens -1":              "--engine-block-tokens -1: want at least 1",
		"--route least-inflight --history live": "use another router",
		"--scrape off --scrape-interval 2s":     "--scrape-interval: --scrape is off",
		"--scrape off --scrape-url a:1":         "--scrape-url, --scrape-interval: --scrape is off",
	} {
		if _, err := given(t, "trace.jsonl "+line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", line, err, want)
		}
	}
}

// TestChooseAPI: a trace with messages is a chat where nobody says otherwise.
func TestChooseAPI(t *testing.T) {
	for line, want := range map[string]struct {
		chat        bool
		endpoint    string
		api, prompt string
		says        string
	}{
		"":                               {false, "", "completions", promptTokenIDs, ""},
		"--prompt text":                  {false, "", "completions", promptText, ""},
		"--api chat":                     {false, "", "chat", promptText, ""},
		"--model m":                      {true, "", "chat", promptText, ""},
		"--api completions":              {true, "", "completions", promptTokenIDs, ""},
		"--chat-overhead 20,5":           {false, "", "", "", "--api completions has no template"},
		"--api chat --prompt token-ids":  {false, "", "", "", "--api chat takes text"},
		"--prompt token-ids --model m":   {true, "", "", "", "--api chat takes text"},
		"--model m --chat-overhead 20,5": {true, "", "chat", promptText, ""},
		"--model n":                      {false, "/v1/chat/completions", "chat", promptText, ""},
		"--api completions -H a:b":       {false, "/v1/chat/completions", "", "", "which is --api chat"},
		"-H a:b":                         {true, "/v1/score", "", "", "which none of the APIs has: completions, chat"},
		"-H a:c":                         {false, "/v1/embeddings", "embeddings", promptTokenIDs, ""},
		"--api raw":                      {false, "/v1/embeddings", "", "", "posts whole bodies"},
		"-H a:d":                         {false, "/generate", "", "", "--api tgi or --api sglang"},
		"--api sglang":                   {false, "/generate", "sglang", promptTokenIDs, ""},
		"--api tgi -H a:b":               {false, "/generate", "tgi", promptText, ""},
		"--api messages":                 {false, "/generate", "", "", "which is --api tgi"},
		"--api tgi":                      {false, "", "tgi", promptText, ""},
		"--api tgi --prompt token-ids":   {false, "", "", "", "--api tgi takes text"},
		"--api sglang --cold salt":       {false, "", "", "", "--api sglang has no cache_salt"},
	} {
		o, err := given(t, "trace.jsonl "+line)
		if err != nil {
			t.Fatal(err)
		}
		err = o.chooseAPI(&verbatims{chat: want.chat, endpoint: want.endpoint})
		if said := fmt.Sprint(err); want.says != "" && !strings.Contains(said, want.says) || want.says == "" && (err != nil || o.api != want.api || o.prompt != want.prompt) {
			t.Errorf("%q: %s, %s, %v; want %+v", line, o.api, o.prompt, err, want)
		}
	}
}

func TestSizeCache(t *testing.T) {
	none, told := workload.PrefixCache{}, workload.PrefixCache{BlockTokens: 32, Tokens: 64_000}
	untold := workload.PrefixCache{BlockTokens: 32}
	for _, c := range []struct {
		o     proofOptions
		told  workload.PrefixCache
		want  workload.PrefixCache
		words string
	}{
		{proofOptions{}, none, workload.PrefixCache{BlockTokens: 16, Assumed: true}, "blocks of 16 tokens (assumed), capacity unknown (give --cache-tokens)"},
		{proofOptions{}, told, told, "blocks of 32 tokens (/metrics), 64,000 tokens per server (/metrics)"},
		{proofOptions{}, untold, untold, "blocks of 32 tokens (/metrics), capacity unknown (give --cache-tokens)"},
		{proofOptions{}, workload.PrefixCache{BlockTokens: 16, Off: true}, workload.PrefixCache{BlockTokens: 16, Off: true}, "the servers say that prefix caching is off"},
		{proofOptions{}, workload.PrefixCache{BlockTokens: 4, Tokens: 900, Assumed: true}, workload.PrefixCache{BlockTokens: 4, Tokens: 900, Assumed: true},
			"blocks of 4 tokens (/metrics, uncertain: its capacity is no number of such blocks), 900 tokens per server (/metrics)"},
		{proofOptions{cacheCapacity: 3_000_000}, told, workload.PrefixCache{BlockTokens: 32, Tokens: 3_000_000}, "blocks of 32 tokens (/metrics), 3,000,000 tokens per server (--cache-tokens)"},
		{proofOptions{engineBlock: 64}, told, workload.PrefixCache{BlockTokens: 64, Tokens: 64_000}, "blocks of 64 tokens (--engine-block-tokens), 64,000 tokens per server (/metrics)"},
		{proofOptions{engineBlock: 1, cacheCapacity: 100}, none, workload.PrefixCache{BlockTokens: 1, Tokens: 100}, "blocks of 1 token (--engine-block-tokens), 100 tokens per server (--cache-tokens)"},
	} {
		if got, words := c.o.sizeCache(c.told); got != c.want || words != c.words {
			t.Errorf("%+v, told %+v: %+v, %q; want %+v, %q", c.o, c.told, got, words, c.want, c.words)
		}
	}
}

func TestSpinFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{"auto": sched.AutoSpin, "0s": 0, "70µs": 70 * time.Microsecond} {
		o, err := given(t, "trace.jsonl --spin "+text)
		if err != nil || o.spin != want {
			t.Errorf("--spin %s: %v, %v; want %v", text, o.spin, err, want)
		}
	}
	if o, _ := given(t, "trace.jsonl"); o.spin != sched.AutoSpin {
		t.Errorf("without --spin: %v, want auto", o.spin)
	}
	for _, text := range []string{"-1us", "fast", "", "100"} {
		if _, err := parseSpin(text); err == nil {
			t.Errorf("--spin %q was accepted", text)
		}
	}
	for _, n := range []string{"0", "17", "-1"} {
		if _, err := given(t, "trace.jsonl --senders "+n); err == nil || !strings.Contains(err.Error(), "want 1 to 16") {
			t.Errorf("--senders %s: %v", n, err)
		}
	}
}

// TestInterruptedWhileReading: what blocks before the start (here a pipe that nobody writes to) does not outlive an interrupt.
func TestInterruptedWhileReading(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "t.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	if code := run(ctx, []string{"--trace", pipe, "--dry-run"}, stdio{strings.NewReader(""), io.Discard, &errs}); code != exitInterrupted {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	release, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release.Close()
}
