package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/wire"
	"github.com/fastreplay/fastreplay/sched"
)

// allowance is how much memory may be taken, and where that limit comes from.
type allowance struct {
	bytes  int64
	origin string
}

// defaultMemoryShare of the free memory may be taken: the rest is for sockets, results and the machine.
const defaultMemoryShare = 0.8

// What a run takes besides its requests, in bytes. Both processes with their threads, tables and histograms took 55 MB: conversation
// trace at 60 times its speed, 1,500 in flight, 2 cores. Each request took 1.0 kB live, which garbage doubles.
const (
	keptForRun        = 64 << 20
	keptForRequest    = 2 << 10
	keptForConnection = 32 << 10
)

// freeAllowance returns what may be taken without --max-memory, after kept bytes are taken for all else.
func freeAllowance(kept int64) (allowance, error) {
	free, of, err := host.FreeMemory()
	return allowance{int64(defaultMemoryShare * float64(max(0, free-kept))), fmt.Sprintf("%d %% of %s", int(100*defaultMemoryShare), of)}, err
}

// refuse returns an error if the requests that a flag asks for would not fit.
func (a allowance) refuse(flag string, value any, requests, bytes float64) error {
	if bytes <= float64(a.bytes) {
		return nil
	}
	return fmt.Errorf("%s %v: %s requests would take about %s, more than the %s allowed (%s); use a smaller %s, or take fewer rows with --limit or --from/--to",
		flag, value, format.Count(int64(requests)), format.Bytes(int64(bytes)), format.Bytes(a.bytes), a.origin, flag)
}

// The values of --kernel-timestamps.
const (
	stampsAuto = "auto" // what comes, where the kernel stamps
	stampsOn   = "on"   // what comes, or an error
	stampsOff  = "off"
	stampsSent = "sent" // what comes and what leaves, or an error
)

// probeStamps finds out what the kernel stamps, before anything else takes time.
func (o *options) probeStamps(ui *terminal) (wire.Stamps, error) {
	want := wire.Stamps{Receive: true, Send: o.stamps == stampsSent}
	if o.stamps == stampsOff || o.dryRun {
		return wire.Stamps{}, nil
	}
	err := wire.ProbeStamps(want)
	if err != nil && o.stamps != stampsAuto {
		return wire.Stamps{}, fmt.Errorf("--kernel-timestamps %s: %w; use auto or off", o.stamps, err)
	}
	if err != nil {
		ui.note("no kernel timestamps (%v): instants are those of the reads, so that our lateness in reading is inside latencies", err)
		return wire.Stamps{}, nil
	}
	return want, nil
}

// openChunkLog makes the file of --chunk-log; nil if there is to be none. The function returned ends it.
func openChunkLog(path string, ui *terminal) (log *engine.ChunkLog, end func(), err error) {
	if path == "" {
		return nil, func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--chunk-log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	log = engine.NewChunkLog(w)
	return log, func() {
		if err := errors.Join(log.Err(), w.Flush(), f.Close()); err != nil {
			ui.note("--chunk-log is incomplete: %v", err)
		}
	}, nil
}

// spinAuto is the value of --spin that lets the waiter find out.
const spinAuto = "auto"

// parseSpin reads a time, or spinAuto.
func parseSpin(text string) (time.Duration, error) {
	if text == spinAuto {
		return sched.AutoSpin, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("want auto, or a time of 0 or more, such as 100us")
	}
	return d, nil
}

// senderCommand is the name by which a replay starts the process of its senders.
const senderCommand = "sender"

// newSenderCommand returns the command that a replay starts by itself; nobody else can.
func newSenderCommand() *cobra.Command {
	return &cobra.Command{
		Use: senderCommand, Short: "The process that sends a replay's requests; a replay starts it", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return engine.ServeSender() },
	}
}

// The values of --sender.
const (
	senderAuto    = "auto"
	senderProcess = "process"
	senderThread  = "thread"
)

// descriptorsBesides are for all but requests in flight.
const descriptorsBesides = 1 << 10

// longAnswer is a response time beyond which a run that lacks descriptors is no surprise.
const longAnswer = 2 * time.Second

// descriptorsNeeded is room for the requests in flight if each took longAnswer.
func (b *built) descriptorsNeeded() int {
	most := b.Plan.PeakWithin(longAnswer)
	if limit := b.Plan.Cap; limit > 0 {
		most = min(most, limit)
	}
	return descriptorsBesides + most
}

// config is how the engine sends and receives.
func (b *built) config(stamps wire.Stamps) (engine.Config, error) {
	wanted := min(1<<20, descriptorsBesides+2*b.Requests()) // one for every request, up to what one process can use
	descriptors, err := host.RaiseDescriptors(wanted)
	if need := b.descriptorsNeeded(); err == nil && descriptors < need {
		b.ui.note("the descriptor limit of %s may not hold the requests in flight; raise it with `ulimit -n %d`", format.Count(descriptors), need)
	}
	var sender []string // how its process is started; nil: senders are threads
	if self, err := os.Executable(); err == nil && b.o.sender != senderThread {
		sender = []string{self, senderCommand}
	}
	return engine.Config{
		Backend: b.builder.Backend, Stream: !b.o.noStream || b.verbatims.shaped(), Timeout: b.o.timeout, IdleTimeout: b.o.idleTimeout, ConnectTimeout: b.o.connectTimeout,
		Grace: b.o.drain, CancelAfter: b.o.cutAfter(), Resend: b.o.resend, Realtime: b.o.realtime, Spin: b.o.spin, Senders: b.o.senders, SenderCommand: sender,
		TLS: b.prober.TLS, Descriptors: descriptors, Secrets: b.prober.Secrets, Stamps: stamps, History: b.history,
		InstanceHeaders: b.o.instanceHeaders, InstanceField: b.o.instancePath,
		OnSenderDeath: func(why string) { b.ui.alert("%s: nothing more is sent; requests in flight may end (--drain)", why) },
	}, err
}
