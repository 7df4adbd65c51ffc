package main

import (
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/shard"
)

func TestCheckShard(t *testing.T) {
	t.Parallel()
	soon := startMoment{at: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		what string
		o    options
		want string
	}{
		{"no shard", options{}, ""},
		{"a shard", options{serverOptions: serverOptions{urls: []string{"a"}}, loadOptions: loadOptions{shard: shard.Part{Index: 1, Count: 2}, start: soon}}, ""},
		{"the only one", options{serverOptions: serverOptions{urls: []string{"a"}}, loadOptions: loadOptions{shard: shard.Part{Count: 1}}}, ""},
		{"no server", options{loadOptions: loadOptions{shard: shard.Part{Count: 2}, start: soon}}, "a server that all of them reach"},
		{"no start", options{serverOptions: serverOptions{urls: []string{"a"}}, loadOptions: loadOptions{shard: shard.Part{Count: 2}}}, "say when all shards begin"},
		{"too few in flight", options{serverOptions: serverOptions{urls: []string{"a"}}, loadOptions: loadOptions{shard: shard.Part{Count: 4}, start: soon, pacing: pacing{concurrency: 3}}}, "want at least 4"},
		{"idle times of all", options{serverOptions: serverOptions{urls: []string{"a"}}, loadOptions: loadOptions{shard: shard.Part{Count: 2}, start: soon, sessions: sessionFlags{mode: sessionsThink, idle: idleCap{time.Second, true}}}}, "what others have in flight"},
	} {
		c.o.warmup, c.o.scrape.mode = 5, scrapeAuto
		err := c.o.checkShard()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if err == nil && (c.o.warmup == 0) != c.o.follows() || err == nil && (c.o.scrape.mode == scrapeOff) != c.o.follows() {
			t.Errorf("%s: warm-up %d, scrape %s", c.what, c.o.warmup, c.o.scrape.mode)
		}
	}
}

// TestSaltOfShards: shards of one run send the same salt, and those of another run another one.
func TestSaltOfShards(t *testing.T) {
	t.Parallel()
	of := func(index int, at time.Time) string {
		return (&options{loadOptions: loadOptions{shard: shard.Part{Index: index, Count: 2}, start: startMoment{at: at}}}).newSalt()
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if of(0, at) != of(1, at.In(time.FixedZone("", 3600))) || of(0, at) == of(0, at.Add(time.Nanosecond)) || len(of(0, at)) != len(probe.NewSalt()) {
		t.Errorf("%s, %s, %s", of(0, at), of(1, at), of(0, at.Add(1)))
	}
	if a, b := new(options).newSalt(), new(options).newSalt(); a == b {
		t.Errorf("two runs have the salt %s", a)
	}
}

// TestCheckStart: a barrier is for shards and takes the place of a moment, and only a run that may be late takes a moment that is over.
func TestCheckStart(t *testing.T) {
	t.Parallel()
	over := startMoment{at: time.Now().Add(-10 * time.Second)}
	for _, c := range []struct {
		load  loadOptions
		given string
		want  string
	}{
		{loadOptions{}, "", ""},
		{loadOptions{barrier: "dir"}, "", "say which one this is, with --shard"},
		{loadOptions{barrier: "dir", shard: shard.Part{Index: 1, Count: 2}}, "", ""},
		{loadOptions{barrier: "dir", shard: shard.Part{Index: 1, Count: 2}}, "start-at", "give one of them"},
		{loadOptions{start: startMoment{at: time.Now().Add(time.Minute)}, late: shard.LateFail}, "start-at", ""},
		{loadOptions{start: over, late: shard.LateFail}, "start-at", "the run was ready 10"},
		{loadOptions{start: over, late: shard.LateFail, shard: shard.Part{Index: 3, Count: 16}}, "start-at", "shard 3 was ready 10"},
		{loadOptions{start: over, late: shard.LateJoin}, "start-at", ""},
	} {
		o := options{loadOptions: c.load}
		o.given = func(name string) bool { return name == c.given }
		if err := o.checkStart(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.load, err)
		}
	}
}
