package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/stats"
)

// goodReadings are those of a machine that lacks nothing.
func goodReadings() readings {
	return readings{
		System: "linux", Realtime: true, MeasuredS: 2.5, OthersCores: new(0.1), Files: 20_000, SendBuffer: largeRequestBytes,
		Offer:  host.Offer{Cores: 4, UsableCores: 4, Ports: 28_232, Governor: "performance", FreeBytes: 8 << 30, FreeOf: "the free memory"},
		Sleeps: &stats.Percentiles{P50: 10, P99: 60}, Waits: &stats.Percentiles{P50: 0.1, P99: 20},
		Machine: stats.Machine{StolenShare: new(0.001), ThrottledS: new(0.0)},
	}
}

// TestJudge changes one reading of a machine that lacks nothing: one check, or those named, stop being fine.
func TestJudge(t *testing.T) {
	const would, medians, never = "This machine would do", "Good for medians", "Nothing can be sent"
	for _, tt := range []struct {
		name   string
		change func(*readings)
		want   string // name and grade of each check that is not fine
		remedy string // part of the first one's
		says   string
	}{
		{"nothing lacks", func(*readings) {}, "", "", would},
		{"just within 1 ms", func(r *readings) { r.Waits.P99 = 1000 }, "", "", would},
		{"late", func(r *readings) { r.Waits.P99 = 1001 }, "punctuality warn", "machine is busy", medians},
		{"very late", func(r *readings) { r.Waits.P99 = 5001 }, "punctuality bad", "machine is busy", "Just now p99"},
		{"late by the host", func(r *readings) { r.Waits.P99, *r.Machine.StolenShare = 6000, 0.02 }, "punctuality bad, stolen time warn", "host", "Just now p99"},
		{"stolen, and punctual", func(r *readings) { *r.Machine.StolenShare = 0.2 }, "stolen time warn", "dedicated host", medians},
		{"1 % is stolen", func(r *readings) { *r.Machine.StolenShare = 0.01 }, "", "", would},
		{"throttled", func(r *readings) { *r.Machine.ThrottledS = 0.1 }, "throttling warn", "--cpus", medians},
		{"one core of four", func(r *readings) { r.Offer.UsableCores = 1 }, "cores warn", "at least 2", medians},
		{"late on one core", func(r *readings) { r.Waits.P99, r.Offer.UsableCores = 2000, 1 }, "punctuality warn, cores warn", "single core", medians},
		{"two of four", func(r *readings) { r.Offer.UsableCores = 2 }, "", "", would},
		{"a quota", func(r *readings) { r.Offer.QuotaCores = 1.5 }, "cores warn", "at least 2", medians},
		{"a wide quota", func(r *readings) { r.Offer.QuotaCores = 2 }, "", "", would},
		{"half of the cores are busy", func(r *readings) { r.OthersCores = new(2.0) }, "", "", would},
		{"more are", func(r *readings) { r.OthersCores = new(2.1) }, "load of others warn", "taskset", medians},
		{"no priority", func(r *readings) { r.Realtime, r.Refused = false, "operation not permitted" }, "real-time priority warn", "setcap", would},
		{"late without priority", func(r *readings) { r.Realtime, r.Waits.P99 = false, 3000 }, "punctuality warn, real-time priority warn", "real-time", medians},
		{"macOS", func(r *readings) {
			*r = readings{System: "darwin", Files: 20_000, SendBuffer: 1 << 20, NoStamps: "this system has none", Offer: host.Offer{Cores: 8, UsableCores: 8},
				Sleeps: &stats.Percentiles{P50: 900, P99: 1500}, Waits: &stats.Percentiles{P50: 800, P99: 1400}}
		}, "punctuality warn, real-time priority warn, sleeps warn, kernel timestamps warn", "Linux", medians},
		{"coarse sleeps", func(r *readings) { r.Sleeps.P50 = 201 }, "sleeps warn", "timers", would},
		{"a saving governor", func(r *readings) { r.Offer.Governor = "powersave" }, "frequency warn", "cpupower", would},
		{"no governor, as in a guest", func(r *readings) { r.Offer.Governor = "" }, "", "", would},
		{"no stamps", func(r *readings) { r.NoStamps = "refused" }, "kernel timestamps warn", "Linux", would},
		{"few files", func(r *readings) { r.Files = 1024 }, "open files warn", "ulimit -n 11024", would},
		{"no files", func(r *readings) { r.Files = 10 }, "open files bad", "ulimit", never},
		{"no sockets", func(r *readings) { r.NoSocket = "socket: denied" }, "sockets bad", "TCP", never},
		{"a small buffer", func(r *readings) { r.SendBuffer = 212_992 }, "send buffer warn", "wmem_max", would},
		{"few ports", func(r *readings) { r.Offer.Ports = 1000 }, "local ports warn", "ip_local_port_range", would},
		{"little memory", func(r *readings) { r.Offer.FreeBytes = 100 << 20 }, "memory warn", "--max-memory", would},
		{"unknown", func(r *readings) { r.OthersCores, r.Machine, r.Waits, r.Sleeps = nil, stats.Machine{}, nil, nil }, "", "", would},
	} {
		r := goodReadings()
		tt.change(&r)
		checks := judge(r)
		var got, remedies []string
		for _, c := range checks {
			if c.Grade != fine {
				got, remedies = append(got, c.Name+" "+string(c.Grade)), append(remedies, c.Remedy)
			}
			if (c.Remedy == "") != (c.Grade == fine) {
				t.Errorf("%s: %s is %s, with the remedy %q", tt.name, c.Name, c.Grade, c.Remedy)
			}
		}
		if strings.Join(got, ", ") != tt.want || len(remedies) > 0 && !strings.Contains(remedies[0], tt.remedy) {
			t.Errorf("%s: got %q with %q, want %q with %q", tt.name, got, remedies, tt.want, tt.remedy)
		}
		if says := conclusion(checks); !strings.HasPrefix(says, tt.says) || unable(checks) != (tt.says == never) {
			t.Errorf("%s: %q, want %q; unable: %v", tt.name, says, tt.says, unable(checks))
		}
	}
}

// TestDiagnosisFits: a check is a line, its remedy another, none wider than 80 columns; colour changes no words.
func TestDiagnosisFits(t *testing.T) {
	r := goodReadings()
	r.Realtime, r.Refused, r.NoStamps, r.Files, r.SendBuffer, r.Offer.Ports, r.Offer.FreeBytes = false, "operation not permitted", "no", 1024, 1000, 10, 1000
	r.Waits.P99, r.Sleeps.P50, r.OthersCores, *r.Machine.StolenShare, *r.Machine.ThrottledS, r.Offer.QuotaCores, r.Offer.Governor = 123_456, 1234, new(4.0), 0.1234, 1, 1.5, "powersave"
	checks := judge(r)
	var plain, colours strings.Builder
	if printDiagnosis(&plain, checks, false) != nil || printDiagnosis(&colours, checks, true) != nil {
		t.Fatal("cannot print")
	}
	for line := range strings.Lines(plain.String()) {
		if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if n := strings.Count(plain.String(), "\n"); n != 2*len(checks)+2 { // all have remedies
		t.Errorf("%d lines for %d checks", n, len(checks))
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(colours.String(), ""); got != plain.String() || got == colours.String() {
		t.Errorf("colour changes words: %q", got)
	}
}

// TestDoctor measures this machine: the JSON has a check of each kind, and the lateness of enough waits for p99.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 s")
	}
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"doctor", "--json"}, stdio{nil, &out, &errs}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var got struct {
		Checks   []check
		Readings readings
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"punctuality", "cores", "real-time priority", "sleeps", "open files", "send buffer"} {
		if !slices.ContainsFunc(got.Checks, func(c check) bool { return c.Name == name }) {
			t.Errorf("no check %q in %s", name, out.String())
		}
	}
	if w := got.Readings.Waits; w == nil || w.P50 < 0 || w.P99 < w.P50 || w.Max < w.P99 || w.Max == 0 {
		t.Errorf("late_us is %+v", w)
	}
}
