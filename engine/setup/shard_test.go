package setup

import (
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/sched"
)

// TestSaltOfShards: shards of one run send the same salt, and those of another run another one.
func TestSaltOfShards(t *testing.T) {
	t.Parallel()
	of := func(index int, at time.Time) string {
		return (&Options{Shard: sched.Part{Index: index, Count: 2}, StartAt: at}).newSalt()
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if of(0, at) != of(1, at.In(time.FixedZone("", 3600))) || of(0, at) == of(0, at.Add(time.Nanosecond)) || len(of(0, at)) != len(probe.NewSalt()) {
		t.Errorf("%s, %s, %s", of(0, at), of(1, at), of(0, at.Add(1)))
	}
	if a, b := new(Options).newSalt(), new(Options).newSalt(); a == b {
		t.Errorf("two runs have the salt %s", a)
	}
}

// TestLeaveToLeader: of the shards of a run the first alone warms the servers up and reads their metrics.
func TestLeaveToLeader(t *testing.T) {
	for _, part := range []sched.Part{{}, {Index: 0, Count: 2}, {Index: 1, Count: 2}} {
		o := Defaults()
		o.Shard, o.Warmup, o.Scrape.URLs = part, 5, []string{"a"}
		newPrepared(&o, nil)
		expect.Equal(t, o.Warmup == 0 && o.Scrape.Mode == ScrapeOff && o.Scrape.URLs == nil, o.Follows(), "%+v: warm-up %d, scrape %+v", part, o.Warmup, o.Scrape)
	}
}
