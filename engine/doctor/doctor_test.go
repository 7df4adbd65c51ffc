package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fastreplay/fastreplay/bench/expect"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/sched"
)

// goodReadings are those of a machine that lacks nothing.
func goodReadings() readings {
	return readings{
		system: "linux", realtime: true, measuredS: 2.5, othersCores: new(0.1), files: 20_000, sendBuffer: largeRequestBytes,
		offer:  host.Offer{Cores: 4, UsableCores: 4, Governor: "performance"},
		sleeps: &stats.Percentiles{P50: 10, P99: 60}, waits: &stats.Percentiles{P50: 0.1, P99: 20},
		machine: stats.Machine{StolenShare: new(0.001), ThrottledS: new(0.0)},
	}
}

// TestJudge changes one reading of a machine that lacks nothing: one check, or those named, stop being fine.
func TestJudge(t *testing.T) {
	const would, medians = "This machine would do", "Good for medians"
	for _, tt := range []struct {
		name   string
		change func(*readings)
		want   string // name and grade of each check that is not fine
		remedy string // part of the first one's
		says   string
	}{
		{"nothing lacks", func(*readings) {}, "", "", would},
		{"just within 1 ms", func(r *readings) { r.waits.P99 = 1000 }, "", "", would},
		{"late", func(r *readings) { r.waits.P99 = 1001 }, "punctuality warn", "lines below", medians},
		{"very late", func(r *readings) { r.waits.P99 = 5001 }, "punctuality bad", "lines below", "Just now p99"},
		{"late by the host", func(r *readings) { r.waits.P99, *r.machine.StolenShare = 6000, 0.02 }, "punctuality bad, stolen time warn", "lines below", "Just now p99"},
		{"stolen, and punctual", func(r *readings) { *r.machine.StolenShare = 0.2 }, "stolen time warn", "dedicated host", medians},
		{"1 % is stolen", func(r *readings) { *r.machine.StolenShare = 0.01 }, "", "", would},
		{"throttled", func(r *readings) { *r.machine.ThrottledS = 0.1 }, "throttling warn", "--cpus", medians},
		{"one core of four", func(r *readings) { r.offer.UsableCores = 1 }, "cores warn", "at least 2", medians},
		{"late on one core", func(r *readings) { r.waits.P99, r.offer.UsableCores = 2000, 1 }, "punctuality warn, cores warn", "lines below", medians},
		{"two of four", func(r *readings) { r.offer.UsableCores = 2 }, "", "", would},
		{"a quota", func(r *readings) { r.offer.QuotaCores = 1.5 }, "cores warn", "at least 2", medians},
		{"a wide quota", func(r *readings) { r.offer.QuotaCores = 2 }, "", "", would},
		{"half of the cores are busy", func(r *readings) { r.othersCores = new(2.0) }, "", "", would},
		{"more are", func(r *readings) { r.othersCores = new(2.1) }, "load of others warn", "taskset", medians},
		{"no priority", func(r *readings) { r.realtime, r.refused = false, "operation not permitted" }, "real-time priority warn", "setcap", would},
		{"late without priority", func(r *readings) { r.realtime, r.waits.P99 = false, 3000 }, "punctuality warn, real-time priority warn", "lines below", medians},
		{"macOS", func(r *readings) {
			*r = readings{system: "darwin", files: 20_000, sendBuffer: 1 << 20, withoutStamps: "this system has none", offer: host.Offer{Cores: 8, UsableCores: 8},
				sleeps: &stats.Percentiles{P50: 900, P99: 1500}, waits: &stats.Percentiles{P50: 800, P99: 1400}}
		}, "punctuality warn, real-time priority warn, sleeps warn, kernel timestamps warn", "lines below", medians},
		{"coarse sleeps", func(r *readings) { r.sleeps.P50 = 201 }, "sleeps warn", "timers", would},
		{"a saving governor", func(r *readings) { r.offer.Governor = "powersave" }, "frequency warn", "cpupower", would},
		{"no governor, as in a guest", func(r *readings) { r.offer.Governor = "" }, "", "", would},
		{"no ring", func(r *readings) { r.withoutRing = "refused" }, "packet ring warn", "cap_net_raw", would},
		{"a card that interrupts in time", func(r *readings) { r.cards = []host.Card{{Name: "eth0", DelayUS: new(100), Joins: true}} }, "", "", would},
		{"a card that says nothing", func(r *readings) { r.cards = []host.Card{{Name: "eth0"}} }, "", "", would},
		{"a card that delays", func(r *readings) { r.cards = []host.Card{{Name: "eth0", DelayUS: new(101)}} }, "card eth0 warn", "ethtool -C eth0", would},
		{"a card that adapts", func(r *readings) { r.cards = []host.Card{{Name: "eth1", DelayUS: new(3), Adapts: true}} }, "card eth1 warn", "ethtool -C eth1", would},
		{"no stamps", func(r *readings) { r.withoutStamps = "refused" }, "kernel timestamps warn", "Linux", would},
		{"few files", func(r *readings) { r.files = 1024 }, "open files warn", "ulimit -n 11024", would},
		{"a small buffer", func(r *readings) { r.sendBuffer = 212_992 }, "send buffer warn", "wmem_max", would},
		{"unknown", func(r *readings) { r.othersCores, r.machine, r.waits, r.sleeps = nil, stats.Machine{}, nil, nil }, "", "", would},
	} {
		r := goodReadings()
		tt.change(&r)
		d := judge(r)
		var got, remedies []string
		for _, c := range d.Checks {
			if c.Grade != Fine {
				got, remedies = append(got, c.Name+" "+string(c.Grade)), append(remedies, c.Remedy)
			}
			expect.Equal(t, c.Remedy == "", c.Grade == Fine, "%s: %s is %s, with the remedy %q", tt.name, c.Name, c.Grade, c.Remedy)
		}
		if strings.Join(got, ", ") != tt.want || len(remedies) > 0 && !strings.Contains(remedies[0], tt.remedy) {
			t.Errorf("%s: got %q with %q, want %q with %q", tt.name, got, remedies, tt.want, tt.remedy)
		}
		if !strings.HasPrefix(d.Conclusion, tt.says) {
			t.Errorf("%s: %q, want %q", tt.name, d.Conclusion, tt.says)
		}
	}
}

// TestLateness: waits end late, never early.
func TestLateness(t *testing.T) {
	if late := lateness(sched.NewMonotonic(), 0, 50*time.Millisecond); len(late) == 0 || slices.Min(late) < 0 {
		t.Errorf("late by %v ns", late)
	}
}

// TestTextsFit: a check is a line of at most 80 columns on a terminal, behind a mark and its name, and a remedy another.
func TestTextsFit(t *testing.T) {
	r := goodReadings()
	r.realtime, r.refused, r.withoutStamps, r.files, r.sendBuffer = false, "operation not permitted", "no", 1024, 1000
	r.waits.P99, r.sleeps.P50, r.othersCores, *r.machine.StolenShare, *r.machine.ThrottledS, r.offer.QuotaCores, r.offer.Governor = 123_456, 1234, new(4.0), 0.1234, 1, 1.5, "powersave"
	r.withoutRing = "packet sockets need CAP_NET_RAW: operation not permitted"
	r.cards = []host.Card{{Name: "enp65s0f0np0", DelayUS: new(1000), Adapts: true, Joins: true, Stamps: true}}
	for _, c := range judge(r).Checks {
		if c.Grade == Fine || len(c.Name) > 18 || 23+utf8.RuneCountInString(c.Found) > 80 || 8+utf8.RuneCountInString(c.Remedy) > 80 {
			t.Errorf("%+v", c)
		}
	}
}
