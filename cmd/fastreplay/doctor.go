package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/stats"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// How long doctor measures, and how far its deadlines lie apart on average. Two seconds of them are 2,000: enough for p99.
const (
	sleepsFor    = 500 * time.Millisecond
	waitsFor     = 2 * time.Second
	deadlineMean = time.Millisecond
)

// What a large replay needs of a machine.
const (
	streamsInFlight   = 10_000
	largeRequestBytes = 1 << 20 // a prompt of 128,000 tokens takes about 0.8 MB as token ids
)

// readings are what doctor finds out; judge says what they mean. Absent values are unknown here.
type readings struct {
	System      string             `json:"system"` // GOOS
	Offer       host.Offer         `json:"offer"`
	Realtime    bool               `json:"realtime"` // SCHED_FIFO was granted
	Refused     string             `json:"realtime_refused,omitempty"`
	Sleeps      *stats.Percentiles `json:"sleep_late_us"` // how late sleeps ended
	Waits       *stats.Percentiles `json:"late_us"`       // how late the sender would have sent: it sleeps, then spins
	Machine     stats.Machine      `json:"machine"`       // what the machine took meanwhile
	MeasuredS   float64            `json:"measured_s"`
	OthersCores *float64           `json:"others_cores"` // cores that others kept busy meanwhile, on average
	Files       int                `json:"open_files"`
	SendBuffer  int                `json:"send_buffer_bytes"` // granted of largeRequestBytes
	NoSocket    string             `json:"no_socket,omitempty"`
	NoStamps    string             `json:"no_kernel_timestamps,omitempty"`
}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine lacks for exact latencies, and the remedy",
		Long: `Say what this machine lacks for punctual sending and exact latencies, and the remedy.

It measures for some 3 seconds, and needs no server. Lateness and lost CPU time are those of now:
if others use this machine, run it again. The exit status is 1 only if nothing could be sent at all.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := readMachine()
			if err != nil {
				return err
			}
			checks := judge(r)
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(map[string]any{"checks": checks, "conclusion": conclusion(checks), "readings": r})
			} else {
				width := newTerminal(c.OutOrStdout()).width
				err = printDiagnosis(c.OutOrStdout(), checks, width > 0 && os.Getenv("NO_COLOR") == "")
			}
			if err == nil && unable(checks) {
				err = &exitError{exitInvalid, ""}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print readings and checks as JSON")
	return c
}

// readMachine takes all readings; it takes waitsFor, sleepsFor and at most a second more.
func readMachine() (r readings, err error) {
	r = readings{System: runtime.GOOS, Offer: host.ReadOffer()}
	if r.Files, err = host.RaiseDescriptors(1 << 20); err != nil {
		return r, err
	}
	if r.SendBuffer, err = wire.ProbeSendBuffer(largeRequestBytes); err != nil {
		r.NoSocket = err.Error()
	}
	if err = wire.ProbeStamps(wire.Stamps{Receive: true}); err != nil {
		r.NoStamps = err.Error()
	}

	clock := sched.NewMonotonic()
	watch, halt, gone := host.NewWatch(clock, nil), make(chan struct{}), make(chan struct{})
	go func() { defer close(gone); watch.Run(halt) }()
	usage := host.UsageNow()
	busy, known := host.BusyTime()
	done := make(chan struct{})
	go func() { // a goroutine of its own, since Place keeps its thread for good
		defer close(done)
		p, _ := sched.Place(sched.RealtimeAuto) // auto refuses nothing
		r.Realtime, r.Refused = p.FIFO, p.Refused
		r.Sleeps = stats.Describe(lateness(clock, 0, sleepsFor), 1e3)
		r.Waits = stats.Describe(lateness(clock, sched.AutoSpin, waitsFor), 1e3)
	}()
	<-done
	r.MeasuredS = float64(clock.Now()) / 1e9
	if now, ok := host.BusyTime(); known && ok {
		r.OthersCores = new(max(0, (now-busy-host.UsageNow().Since(usage).CPU.Seconds())/r.MeasuredS))
	}
	close(halt)
	<-gone
	r.Machine = watch.Machine()
	return r, nil
}

// lateness waits for deadlines at random distances, as a sender does, and returns how late each wait ended, in ns. spin is that of
// sched.NewWaiter.
func lateness(clock *sched.Monotonic, spin, length time.Duration) (late []int64) {
	var never atomic.Bool
	w := sched.NewWaiter(clock, spin, &never)
	random := rand.New(rand.NewPCG(1, 2))
	late = make([]int64, 0, 4*length/deadlineMean)
	for end := clock.Now() + int64(length); clock.Now() < end; {
		deadline := clock.Now() + int64(random.ExpFloat64()*float64(deadlineMean))
		w.Wait(deadline)
		late = append(late, clock.Now()-deadline)
	}
	return late
}

// printDiagnosis prints a line for each check, its remedy below it, and at last what all of it means.
func printDiagnosis(w io.Writer, checks []check, colour bool) error {
	text := ""
	for _, c := range checks {
		mark, style := "✓", "32"
		switch c.Grade {
		case poor:
			mark, style = "!", "33"
		case bad:
			mark, style = "✗", "31"
		}
		if colour {
			mark = "\x1b[" + style + "m" + mark + "\x1b[0m"
		}
		text += fmt.Sprintf("  %s %-18s %s\n", mark, c.Name, format.Visible(c.Found))
		if c.Remedy != "" {
			text += "      → " + c.Remedy + "\n"
		}
	}
	_, err := fmt.Fprintf(w, "%s\n  %s\n", text, conclusion(checks))
	return err
}
