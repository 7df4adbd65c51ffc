package main

import (
	"strings"
	"testing"
	"time"
)

// TestShardFlags: what shards cannot do together is refused, and all but shard 0 leave warm-up and the servers' metrics
// to it. A barrier is for shards and takes the place of a moment, and only a run that may be late takes a moment that
// is over.
func TestShardFlags(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339Nano) }
	moments := strings.NewReplacer("SOON", in(time.Hour), "OVER", in(-10*time.Second))
	for line, want := range map[string]string{
		"":                                    "",
		"--url a --start-at SOON --shard 1/2": "",
		"--url a --shard 0/1":                 "",
		"--start-at SOON --shard 0/2":         "a server that all of them reach",
		"--url a --start-at SOON --shard 0/4 --concurrency 3":                       "want at least 4",
		"--url a --start-at SOON --shard 0/2 --sessions think --idle-cap system=1s": "what others have in flight",
		"--url a --start-barrier dir --shard 1/2":                                   "",
		"--url a --start-barrier dir --shard 1/2 --start-at SOON":                   "give one of them",
		"--start-at SOON":                      "",
		"--start-at OVER":                      "the run was ready 10",
		"--url a --start-at OVER --shard 3/16": "shard 3 was ready 10",
		"--start-at OVER --late-start join":    "",
	} {
		_, err := given(t, moments.Replace("trace.jsonl --warmup 5 "+line))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
