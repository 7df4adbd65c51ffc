package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/metrics"
)

// TestUnnamed: what was asked for by name and came nowhere is said, once somebody has answered.
func TestUnnamed(t *testing.T) {
	nobody, silent, named := metrics.Summary{}, metrics.Summary{Requests: metrics.Requests{OK: 1}}, metrics.Summary{Requests: metrics.Requests{OK: 2}, Instances: &metrics.Breakdown{}}
	for _, c := range []struct {
		cfg  Config
		s    metrics.Summary
		want string
	}{
		{Config{}, silent, ""},
		{Config{InstanceHeaders: []string{"x-a"}}, nobody, ""},
		{Config{InstanceHeaders: []string{"x-a"}}, named, ""},
		{Config{InstanceHeaders: []string{"x-a"}}, silent, "no answer had the header x-a: which instance answered is unknown"},
		{Config{InstanceHeaders: []string{"x-a", "x-b"}}, silent, "no answer had the header x-a or x-b: which instance answered is unknown"},
		{Config{InstanceField: []string{"a", "b"}}, silent, "no answer had the field a.b: which instance answered is unknown"},
		{Config{InstanceHeaders: []string{"x-a"}, InstanceField: []string{"a"}}, silent, "no answer had the header x-a or the field a: which instance answered is unknown"},
	} {
		named := &metrics.Summary{}
		named.AddNotes(0, (&runner{cfg: &c.cfg}).unnamed(&c.s))
		expect.Equal(t, strings.Join(named.Notes, "|"), c.want, "%q, %q", c.cfg.InstanceHeaders, c.cfg.InstanceField)
	}
}

// TestAheadOf: how clocks differ, in words.
func TestAheadOf(t *testing.T) {
	for ahead, want := range map[time.Duration]string{-22198: "22.2 µs behind", 0: "0 ns ahead of", 3 * time.Millisecond: "3.00 ms ahead of"} {
		expect.Equal(t, aheadOf(ahead), want, ahead)
	}
}
