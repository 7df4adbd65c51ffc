// Package setup makes of what a user asks for a load that is ready to be sent.
//
// It reads the trace and decides when requests leave, which API they use, where they go and what their prompts are made
// of. It asks the servers what a run must know (package probe does), leaves out what they cannot take, and builds every
// request in memory. What it decides and finds on its way are notes: data, which its caller prints.
//
// It takes plain values and knows no flags, but names them in notes and errors, since they are what a user can change.
// It opens no sockets itself and sends no request of the run. One goroutine calls it, before the run; all of it may
// allocate.
package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/http1"
	"github.com/fastreplay/fastreplay/codec/prompt"
	"github.com/fastreplay/fastreplay/codec/record"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/history"
	"github.com/fastreplay/fastreplay/engine/merge"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// Options say what is replayed, when, where and how. Begin with Defaults: where the zero value means something else
// than the default, the field says so. Prepare fills in what depends on the trace.
type Options struct {
	// What is replayed.
	Traces  []string // files of one format, merged in time; directories of them; "-" is standard input
	Read    trace.Options
	Repeat  int // how many times in a row
	Amplify Amplify
	// what becomes of requests longer than the servers' context: TooLongRefuse (or ""), TooLongDrop, TooLongClip or
	// TooLongSend
	TooLong string

	// When requests leave.
	Pacing   Pacing
	Sessions Sessions
	// other requests that are sent first, and are not measured; with a snapshot those with which each lane goes on
	Warmup  int
	Shard   sched.Part // the zero value is the whole load
	StartAt time.Time  // of instant 0; zero = as soon as the run is ready
	Meeting string     // name of the barrier at which shards meet; "" = none

	Owning Owning // whose rows are

	// Where requests go.
	URLs           []string
	Weights        []float64 // of the first URLs; the others have 1
	WatchTargets   string    // file of URLs, or dns:HOST:PORT, that is read again during the run; "" = none
	Route          string
	LoadBound      float64 // of RoutePrefix; 0 = none
	Model          string  // "" = asked from the servers
	API            string  // "" = the one that the trace's requests are for
	Endpoint       string  // path to post to; "" = the API's own
	Headers        []string
	Key            string // bearer; "" = that in APIKeyFile, or in the environment
	APIKeyFile     string
	CACert         string // file of certificates to trust; "" = the system's
	Insecure       bool   // certificates are not verified
	Timeout        time.Duration
	ProbeTimeout   time.Duration // of a question before the run; 0 = Timeout, but at most 2 min
	ConnectTimeout time.Duration
	Resend         engine.Resend // "" = as is safe with the API

	// What is sent.
	Prompt        string          // PromptTokenIDs or PromptText; "" = token ids, if the API takes them
	Tokenizer     string          // file, folder or name; "" = the built-in words
	Extra         json.RawMessage // an object that is merged into every body; nil = none
	NoStream      bool
	NoForceOutput bool // output lengths are a maximum
	Seed          uint64
	Cold          probe.Cold

	// What is known of the servers, and what is proven.
	NoProbe           bool
	VerifyPrompts     int                  // how many prompts are counted again with Tokenizer; -1 = all
	Overhead          *workload.Overhead   // nil = measured
	EngineBlockTokens int                  // of the servers' prefix caches; 0 = asked from the servers
	CacheTokens       int64                // capacity of each server's prefix cache; 0 = asked from the servers
	Assumed           sched.AssumedLatency // times of requests, where nothing says when they end
	Scrape            Scrape

	// How it is judged, and how it runs.
	Limits    metrics.Limits
	SLOs      []metrics.SLO // that goodput counts by
	Sender    string        // SenderAuto, SenderProcess or SenderThread
	MaxMemory int64         // bytes for requests, and for what Amplify adds; 0 = DefaultMemoryShare of what is free
	DryRun    bool          // no server is asked
	Columns   int           // of who reads the notes; 0 = no terminal
	Version   string        // of the program, for servers and results
	Again     Again

	// What the caller decides, each called at most once; nil = nothing.
	Open func() (*trace.Trace, error) // opens the trace in place of Traces
	// sees the trace as it was read, and may refuse it or change these options
	Adapt func(*trace.Trace) (notes []string, err error)
	// starts a server if no URL is given, which makes the run a demo
	Fallback func(context.Context) (url string, err error)
	// what results name as the options of the run, without secrets (Hide)
	Flags func() map[string]any

	traits api.Traits // of API, once it is known
}

// Again is the run that is made again by a file of its results. The zero value is none.
type Again struct {
	File        string
	Headers     []string // names of headers whose values the file does not have
	Fingerprint string   // of its requests; "" = unknown
	Strangers   bool     // results alone name the servers: no key of the environment goes to them
}

// Defaults returns options of which only Traces must be set.
func Defaults() Options {
	return Options{
		Repeat: 1, Amplify: 1, Pacing: Pacing{Scale: 1},
		Sessions: Sessions{History: HistoryRecorded},
		Route:    RouteRoundRobin, LoadBound: route.DefaultBound,
		Timeout: 10 * time.Minute, ConnectTimeout: 5 * time.Second,
		Cold: probe.ColdAuto, VerifyPrompts: DefaultVerified,
		// of a fast server: what overlaps there does so on most
		Assumed: sched.AssumedLatency{TTFT: 200 * time.Millisecond, TPOT: 10 * time.Millisecond},
		Scrape:  Scrape{Mode: ScrapeAuto, Interval: time.Second},
		Limits:  metrics.DefaultLimits(), Sender: SenderAuto,
	}
}

// The values of Options.Sender.
const (
	SenderAuto    = "auto"    // a process of its own, where that is possible
	SenderProcess = "process" // or an error
	SenderThread  = "thread"  // of this process
)

// Prepared is a load with its requests in memory.
type Prepared struct {
	*workload.Work
	Facts   Facts
	RunID   string
	Builder *workload.Builder
	Ideal   workload.IdealHits
	Prober  *probe.Prober
	History *history.History // nil if turns are sent as recorded
	Shard   *merge.File      // nil if the run sends the whole load
	Next    []record.Record  // what the next shard is to send
	LeftOut []record.Record  // of requests that are not sent, for they are too long

	o          *Options
	notes      *Notes
	verbatims  verbatims
	source     prompt.Source
	tokenizer  *tokenizer.Tokenizer // nil if none was given
	secrets    []http1.Header       // the user's, and credentials; rows fill the placeholders in them
	model      string               // as requests name it
	context    int                  // tokens of a prompt and its output together, at every target; 0 = unknown
	listed     string               // models that a server lists, if it does not list one that is asked for
	salt       string               // "" where none is sent
	fitted     metrics.Workload     // what fit has found
	adaptation []string             // notes of Options.Adapt
	plays      *workload.Plays      // nil if jobs are run whole and once each
	passes     int                  // of the trace for --until; 0 = it has its end
}

// Facts are what became known on the way.
type Facts struct {
	Selected           int               // rows of the file that are replayed, before Amplify and Repeat
	Amplify            *metrics.Amplify  // nil if the load is as recorded
	ReadS              float64           // that reading took
	BuildS             float64           // that building took
	Demo               bool              // the server is that of Options.Fallback
	Flushed            bool              // the servers can flush their caches; to be done again just before the start
	Salted             bool              // a salt keeps bodies from hitting what earlier runs have left in caches
	Unknown            []metrics.Unknown // what the servers do not report
	NoteUnlessReported string            // a note that the run contradicts if responses report cached tokens; "" = none
	Asked              []string          // the models that requests ask for; nil = unknown
}

// Prepare reads, plans, asks the servers and builds. If ctx ends, its error is ctx's cause, whatever else went wrong.
// The requests lie outside the Go heap: call Free when they have been sent, also after an error.
func Prepare(ctx context.Context, o *Options, notes *Notes) (*Prepared, error) {
	p := newPrepared(o, notes)
	for _, step := range []func(context.Context) error{
		p.read, p.plan, p.chooseAPI, p.checkObjectives, p.describeTrace,
		p.findTarget, p.probe, p.countVerbatim, p.fit, p.checkMetrics, p.layout, p.fill, p.verify,
	} {
		err := step(ctx)
		if ctx.Err() != nil { // what an interrupted step found may be wrong
			err = context.Cause(ctx)
		}
		if err != nil {
			return p, err
		}
	}
	p.announce()
	return p, nil
}

// Read reads the trace, and makes as much of it as was asked for.
func Read(ctx context.Context, o *Options) (*trace.Trace, error) {
	p := newPrepared(o, &Notes{Observer: Silent{}})
	err := p.read(ctx)
	return p.Trace, err
}

func newPrepared(o *Options, notes *Notes) *Prepared {
	o.leaveToLeader()
	return &Prepared{
		Work:  new(workload.Work),
		RunID: fmt.Sprintf("%08x", rand.Uint32()),
		o:     o,
		notes: notes,
	}
}

// Free gives the memory of the requests back, if they were built.
func (p *Prepared) Free() {
	if p.Prebuilt != nil {
		_ = p.Prebuilt.Free()
	}
}

// Await runs f, which cannot be stopped, in a goroutine of its own. If ctx ends before f, it returns ctx's error at
// once, and f goes on. So f must not change what the caller uses afterwards.
func Await[T any](ctx context.Context, f func() (T, error)) (value T, err error) {
	var found T
	var failed error
	done := make(chan struct{})
	go func() {
		found, failed = f()
		close(done)
	}()
	select {
	case <-done:
		return found, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}
