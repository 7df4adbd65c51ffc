package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/metrics"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/route"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// options is what the flags of a replay say, in the groups of its help.
type options struct {
	line  *compat.Line
	demo  bool // `fastreplay demo`, whose trace is made
	given func(flag string) bool

	traceOptions
	loadOptions
	serverOptions
	requestOptions
	resultOptions
	probe probeFlag
	proofOptions
	machineOptions
}

type traceOptions struct {
	config  string
	masked  []string // headers whose values config does not have
	like    string   // fingerprint of the run whose flags config has; "" = of none
	traces  []string
	read    trace.Options
	repeat  int
	amplify amplifyFlag
	tooLong string
}

type loadOptions struct {
	pacing   pacing
	sessions sessionFlags
	drain    time.Duration // after an interrupt and, if it is given, after --duration
	warmup   int
	shard    shard.Part // the zero value is the whole load
	start    startMoment
	barrier  string // where shards agree on a start; "" = they do not
	meeting  string // the barrier's name, once there is one
	late     string // what becomes of a run that is ready after its start
}

type serverOptions struct {
	urls        []string
	targetsFile string
	weights     []float64 // of urls
	route       string
	loadBound   float64
	model       string
	api         string
	traits      api.Traits // of the API; after chooseAPI
	endpoint    string
	headers     []string
	key         string
	apiKeyFile  string
	caCert      string
	insecure    bool

	timeout        time.Duration
	idleTimeout    time.Duration
	connectTimeout time.Duration
	resend         engine.Resend
}

type requestOptions struct {
	prompt        string
	tokenizer     string
	extraInputs   []string
	extra         json.RawMessage // of extraInputs
	noStream      bool
	noForceOutput bool
	seed          uint64
	cold          probe.Cold
}

type resultOptions struct {
	output       string
	json         bool
	goodput      goodput
	exports      []string
	compress     bool
	dryRun       bool
	full         bool
	verbose      bool
	limits       metrics.Limits
	maxDrift     time.Duration
	maxLag       time.Duration
	maxErrorRate float64
	requirements
	scrape   scrapeFlags
	progress progressFlags
}

type proofOptions struct {
	noProbe         bool
	verifyPrompts   int                  // how many are counted again; -1 = all
	overhead        *workload.Overhead   // nil = measured
	engineBlock     int                  // tokens; 0 = asked from the servers
	cacheCapacity   int64                // tokens; 0 = asked from the servers
	assumed         sched.AssumedLatency // times of requests to reckon with
	instanceHeaders []string
	instanceField   string
	instancePath    []string // of instanceField; nil if it is not given
}

type machineOptions struct {
	sender   string
	senders  int
	realtime sched.Realtime
	spin     time.Duration
	stamps   string
	maxBytes int64 // of --max-memory; 0 = not given
	chunkLog string
}

// addFlags adds all flags of a replay.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	o.given, o.pacing.given, o.scrape.given = f.Changed, f.Changed, f.Changed
	for _, g := range o.groups() {
		f.AddFlagSet(g.flags)
	}
}

// flagGroup is a part of a replay's flags in its help and in the manual.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// groups returns the flags of a replay by group, in the order of its help. A new flag is a line in its group.
func (o *options) groups() (all []flagGroup) {
	for _, g := range []struct {
		title string
		add   func(*pflag.FlagSet)
	}{
		{"Trace: what is replayed", o.addTrace},
		{"Load: when requests leave", o.addLoad},
		{"Server: where requests go", o.addServer},
		{"Requests: what is sent", o.addRequests},
		{"Results: what is kept and judged", o.addResults},
		{"Advanced: what is right as it is for most", o.addAdvanced},
	} {
		f := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		f.SortFlags = false
		g.add(f)
		for _, name := range hiddenFlags() {
			if flag := f.Lookup(name); flag != nil {
				flag.Hidden = true
			}
		}
		all = append(all, flagGroup{g.title, f})
	}
	return all
}

// firstFlags are those of the first help screen.
func firstFlags() []string {
	return []string{
		"trace", "limit", "from", "to", "config", "scale", "amplify", "rate", "concurrency", "duration", "warmup", "sessions",
		"url", "model", "api", "header", "api-key-file", "tokenizer", "no-stream", "output", "require", "goodput", "json", "dry-run",
	}
}

func (o *options) addTrace(f *pflag.FlagSet) {
	f.StringArrayVar(&o.traces, "trace", nil, "trace `FILE`: JSONL, JSON or CSV, .gz or .zst; - is standard input; several of one format, or a directory of them, are merged in time")
	addReadFlags(f, &o.read)
	o.repeat = 1
	f.Var(countFlag(&o.repeat, "1"), "repeat", "replay the selection `N` times in a row")
	addWords(f, &o.tooLong, "too-long", tooLongRefuse, "what becomes of requests longer than the servers' context: refuse to start, drop, or clip prompts' ends", tooLongRefuse, tooLongDrop, tooLongClip)
	f.StringVarP(&o.config, "config", "f", "", "YAML `FILE` of flags, such as \"rate: 10\"; the command line wins")
}

func (o *options) addLoad(f *pflag.FlagSet) {
	f.Float64Var(&o.pacing.scale, "scale", 1, "speed: 2 sends twice as fast as recorded")
	o.amplify.addFlag(f)
	f.StringVarP(&o.pacing.rate, "rate", "r", "", "send `R` requests per second (max: all at once); trace times are ignored")
	f.StringVar(&o.pacing.ramp, "ramp", "", "send at a rate that goes `FROM:TO:TIME`, such as 10:500:60s, and stays there")
	f.StringVar(&o.pacing.arrival, "arrival", "", "spacing at a rate: constant, poisson or gamma:B, which is burstier than poisson if B is below 1 (default: constant)")
	f.VarP(countFlag(&o.pacing.concurrency, ""), "concurrency", "c", "keep `N` requests in flight (closed loop); with --scale or a rate, at most N")
	addSeconds(f, &o.pacing.duration, "duration", "d", 0, "release nothing after this much wall time")
	addSeconds(f, &o.drain, "drain", "", defaultDrain, "how long requests in flight may last after an interrupt and, if it is given, after --duration, which else waits for all")
	f.BoolVar(&o.pacing.fixed, "fixed-schedule", false, "send at trace times, which is the default; beside it --concurrency is a cap")
	f.BoolVar(&o.pacing.notFixed, "no-fixed-schedule", false, "ignore trace times; needs --rate, --ramp or --concurrency")
	f.IntVar(&o.warmup, "warmup", 0, "send `N` other requests first; they have the first rows' sizes and other prompts, and are not measured")
	o.sessions.mode = sessionsStrict
	f.Var(&value[sessionMode]{to: &o.sessions.mode, parse: o.parseSessions, text: string(sessionsStrict), kind: "MODE"}, "sessions",
		"when turns leave: strict, gated, think or lanes=N; at their times, then but not before what they depend on has ended, the recorded delay after it, or likewise in N lanes, each of which takes the next whole job")
	f.Var(&value[idleCap]{to: &o.sessions.idle, parse: parseIdleCap, kind: "TIME"}, "idle-cap", "shorten idle times of jobs or conversations to `TIME`, such as 10s; or system=TIME, those in which nothing at all is in flight")
	addWords(f, &o.sessions.told, "answers", metrics.AnswersFree, "the tokens that servers answer: their own choice (free), or those of the next turn, which the servers are told (exact; --api vllm-generate)", metrics.AnswersFree, metrics.AnswersExact)
	f.Var(&value[shard.Part]{to: &o.shard, parse: shard.ParsePart, kind: "INDEX/COUNT"}, "shard", "send one of COUNT parts of the load, as 0/16 to 15/16 on 16 machines, or auto: as Kubernetes, Slurm or MPI number them; fastreplay merge makes one run of them")
	f.Var(&value[startMoment]{to: &o.start, parse: parseStart, kind: "MOMENT"}, "start-at", "when the trace's time 0 is, such as 2026-01-02T15:04:05Z; or - to say when the run is ready, and to read it then from standard input")
	f.StringVar(&o.barrier, "start-barrier", "", "where shards meet and agree on the start: a directory that all see, new for each run, or tcp://HOST:PORT of shard 0, with "+shard.SecretVariable+"; clocks are compared")
	addWords(f, &o.late, "late", shard.LateFail, "a run that is ready after its start sends nothing (fail) or what is still to come (join)", shard.LateFail, shard.LateJoin)
	addWords(f, &o.sessions.past, "history", historyRecorded, "answers in later turns: the trace's (recorded), or the servers' in this run (live)", historyRecorded, historyLive)
}

func (o *options) addServer(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.urls, "url", "u", nil, "`URL` of a server: host:port, base or full; repeatable (default: an embedded mock)")
	f.StringVar(&o.targetsFile, "targets", "", "`FILE` with a server on each line, as for --url, and perhaps its weight")
	addWords(f, &o.route, "route", routeRoundRobin, "which of several servers gets a request; "+strings.Join(routes(), ", "), routes()...)
	f.StringVarP(&o.model, "model", "m", "", "model name (default: asked from /v1/models)")
	f.StringVarP(&o.api, "api", "a", api.Names()[0], "API to speak; "+strings.Join(api.Names(), ", ")+" (default: the one that the trace's rows are for, else completions)")
	f.StringVar(&o.endpoint, "endpoint", "", "`PATH` to post to instead of the API's own, such as /my/v1/chat/completions")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "`NAME: VALUE` of every request; repeatable; never written to results")
	f.StringVar(&o.apiKeyFile, "api-key-file", "", "`FILE` with the bearer key (default: $OPENAI_API_KEY); with --api messages first $ANTHROPIC_API_KEY, as x-api-key")
	f.StringVar(&o.key, "api-key", "", "the bearer `KEY` itself, which the process list shows; never written to results")
	f.StringVar(&o.caCert, "ca-cert", "", "`FILE` with the certificates (PEM) to trust for https")
	f.BoolVar(&o.insecure, "insecure", false, "do not verify certificates")
	addSeconds(f, &o.timeout, "timeout", "", 10*time.Minute, "limit of a whole request")
}

func (o *options) addRequests(f *pflag.FlagSet) {
	addWords(f, &o.prompt, "prompt", "", "prompts as token-ids or text (default: token-ids if the API takes them)", promptTokenIDs, promptText)
	f.StringVar(&o.tokenizer, "tokenizer", "", "`PATH` of the model's tokenizer.json or its folder; or "+tokenizer.CL100K+" or "+tokenizer.O200K)
	f.StringArrayVar(&o.extraInputs, "extra-inputs", nil, "`KEY:VALUE` or a JSON object, merged into every body; repeatable")
	f.BoolVar(&o.noStream, "no-stream", false, "ask for whole responses instead of streams")
	f.BoolVar(&o.noForceOutput, "no-force-output", false, "send max_tokens only, for servers that refuse min_tokens and ignore_eos")
	f.Uint64Var(&o.seed, "seed", 0, "seed of prompts, random arrivals and --amplify: the same makes the same bytes at the same instants")
	addWords(f, &o.cold, "cold", probe.ColdAuto, "how the servers' prefix caches become cold before the start: auto, flush, salt or off", probe.ColdAuto, probe.ColdFlush, probe.ColdSalt, probe.ColdOff)
}

func (o *options) addResults(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "`DIR` for the results (default: results/<UTC time>)")
	addWords(f, &o.progress.mode, "progress", progressAuto, "while it runs: a screen on a terminal (full), a line now and then (line) or none; auto chooses", progressAuto, progressFull, progressLine, progressNone)
	f.BoolVarP(&o.progress.quiet, "quiet", "q", false, "print only the verdict, where the results are, and errors")
	f.StringVar(&o.progress.metricsAddr, "metrics-addr", "", "serve the run's metrics to Prometheus at `HOST:PORT`/metrics")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON on standard output")
	o.goodput.addFlag(f)
	addExportFlag(f, &o.exports)
	f.BoolVar(&o.full, "full", false, "print all that the summary has, and not one screen of it")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print each step before the start")
	f.BoolVar(&o.compress, "compress", false, "write requests.jsonl.zst")
	f.BoolVar(&o.dryRun, "dry-run", false, "read, check and build, but send nothing")
	o.limits = metrics.DefaultLimits()
	o.requirements.addFlag(f)
	f.Float64Var(&o.maxErrorRate, "max-error-rate", 0, "an objective: at most this share of requests (0..1) may fail (default: any)")
	f.DurationVar(&o.maxDrift, "max-drift", 0, "accept and demand drift p99 up to this, such as 10ms (default: judged by what it changes)")
	addWords(f, &o.scrape.mode, "scrape", scrapeAuto, "read the servers' own metrics: auto, on (refuse to start without) or off", scrapeAuto, scrapeOn, scrapeOff)
	f.StringArrayVar(&o.scrape.urls, "scrape-url", nil, "`URL` of a page of metrics to read in place of the targets' own /metrics; repeatable")
}

// addAdvanced adds what few need, of any part of the options. It also adds what is hidden: switches of developers, and names that other tools
// have as well.
func (o *options) addAdvanced(f *pflag.FlagSet) {
	addAssumed(f, &o.assumed)
	f.Float64Var(&o.loadBound, "load-bound", route.DefaultBound, "of --route "+routePrefix+": pass over an instance with more than this many times its share in flight; 0 = none")
	addWords(f, &o.resend, "resend", engine.ResendSafe, "send again what got no answer: never, unread (if the server provably did not read it) or safe (also if it closed an idle connection)",
		engine.ResendNever, engine.ResendUnread, engine.ResendSafe)
	addSeconds(f, &o.idleTimeout, "idle-timeout", "", 2*time.Minute, "limit between two bytes of a response")
	addSeconds(f, &o.connectTimeout, "connect-timeout", "", 5*time.Second, "limit of connecting, TLS included")
	f.StringArrayVar(&o.instanceHeaders, "instance-header", engine.InstanceHeaders(), "response header `NAME` that names the instance; repeatable, the first present counts")
	f.StringVar(&o.instanceField, "instance-field", "", "`PATH` in the answers' JSON that names the instance, such as meta_info.worker; replaces the headers unless --instance-header is given")
	f.BoolVar(&o.noProbe, "no-probe", false, "do not probe the servers before the start")
	o.verifyPrompts = defaultVerified
	f.Var(&value[int]{to: &o.verifyPrompts, parse: parseVerified}, "verify-prompts", fmt.Sprintf("with --tokenizer: count the tokens of `N` built prompts again (or all; default %d), and stop at the first mismatch", defaultVerified))
	f.Var(&value[*workload.Overhead]{to: &o.overhead, parse: parseOverhead}, "chat-overhead", "tokens that the chat template adds before and after a prompt, as `HEAD,TAIL` (default: measured)")
	f.IntVar(&o.engineBlock, "engine-block-tokens", 0, fmt.Sprintf("block size of the servers' prefix caches (default: asked from /metrics, else %d)", workload.DefaultBlockTokens))
	f.Var(&value[int64]{to: &o.cacheCapacity, parse: parseTokens}, "cache-tokens", "capacity of each server's prefix cache in `TOKENS`, such as 3M (default: asked from /metrics)")
	f.DurationVar(&o.scrape.interval, "scrape-interval", time.Second, "from one reading of a server's metrics to the next")
	f.DurationVar(&o.maxLag, "max-receive-lag", 0, "likewise, for how long after the kernel answers are read, at p99")
	f.BoolVar(&o.limits.AllowWarm, "allow-warm", false, "accept cache hits above the ideal")
	f.IntVar(&o.senders, "senders", 1, "sending threads, which share the requests")
	addWords(f, &o.realtime, "realtime", sched.RealtimeAuto, "real-time priority for the threads that send and read: auto, on or off", sched.RealtimeAuto, sched.RealtimeOn, sched.RealtimeOff)
	addWords(f, &o.stamps, "kernel-timestamps", stampsAuto, "take instants from the kernel: auto, on or off; sent also stamps what leaves", stampsAuto, stampsOn, stampsOff, stampsSent)
	f.Var(&value[int64]{to: &o.maxBytes, parse: parseBytes}, "max-memory", fmt.Sprintf("most `BYTES` for requests, or for what --amplify adds, such as 8GiB (default: %d %% of free memory)", int(100*defaultMemoryShare)))
	addWords(f, &o.sender, "sender", senderAuto, "where the sending threads run: in a process of their own if that is possible (auto, process) or in this process (thread)", senderAuto, senderProcess, senderThread)
	o.spin = sched.AutoSpin
	f.Var(&value[time.Duration]{to: &o.spin, parse: parseSpin, text: spinAuto, kind: "TIME"}, "spin", "how long before a deadline a sending thread stops sleeping and spins: auto, or a time such as 100us")
	o.probe.addFlag(f)
	f.StringVar(&o.chunkLog, "chunk-log", "", "write every token chunk's instants to this `FILE`, to measure the meter")
}

// hiddenFlags are shown by no help: those of developers, and those that are kept for people who know other tools.
func hiddenFlags() []string {
	return []string{"sender", "spin", "chunk-log", "connect-timeout", "compress", "fixed-schedule", "no-fixed-schedule", "api-key", "capacity-probe"}
}

// addAssumed adds what is assumed of requests whose times nobody knows.
func addAssumed(f *pflag.FlagSet, assumed *sched.AssumedLatency) {
	*assumed = sched.AssumedLatency{TTFT: assumedTTFT, TPOT: assumedTPOT}
	f.Var(&value[sched.AssumedLatency]{to: assumed, parse: parseAssumed, text: fmt.Sprintf("%v,%v", assumedTTFT, assumedTPOT), kind: "TTFT,TPOT"},
		"assume", "time to the first token and for each further one, to reckon when a request ends if nothing says it")
}

// parseAssumed reads TTFT,TPOT.
func parseAssumed(text string) (a sched.AssumedLatency, err error) {
	ttft, tpot, _ := strings.Cut(text, ",")
	var errTPOT error
	a.TTFT, err = time.ParseDuration(ttft)
	a.TPOT, errTPOT = time.ParseDuration(tpot)
	if err != nil || errTPOT != nil {
		return a, errors.New("want TTFT,TPOT, such as 200ms,10ms")
	}
	return a, nil
}

// addReadFlags adds what says how to read a trace.
func addReadFlags(f *pflag.FlagSet, read *trace.Options) {
	addWords(f, &read.Format, "format", "", "trace format (default: detected); "+strings.Join(trace.Formats(), ", "), trace.Formats()...)
	addRowFlags(f, read)
}

// addRowFlags adds what says how to read a trace besides its format.
func addRowFlags(f *pflag.FlagSet, read *trace.Options) {
	f.StringToStringVar(&read.Fields, "fields", nil, "what fields are called in the file, as `FIELD=NAME,…`, such as timestamp=ts,input_length=prompt_tokens")
	f.Lookup("fields").DefValue = "" // not []
	f.Var(&value[time.Duration]{to: &read.TimeUnit, parse: trace.ParseUnit, kind: "UNIT"}, "time-unit", "unit of the timestamps: ns, us, ms or s (default: the format's)")
	f.IntVar(&read.BlockTokens, "block-tokens", 0, "tokens that a hash id stands for (default: the format's)")
	words := []string{"refuse", "drop", "strict"}
	badRows := func(word string) (string, error) {
		read.Lenient, read.Strict = word == "drop", word == "strict"
		return word, among(words, word)
	}
	f.Var(&value[string]{to: new(string), parse: badRows, words: words, text: "refuse"}, "bad-rows", "bad rows: refuse the trace, drop them, or be strict and refuse rows that would be repaired, too")
	f.VarP(countFlag(&read.Limit, ""), "limit", "n", "take the first `N` requests of the selection")
	addSeconds(f, &read.From, "from", "", 0, "take rows from this trace time on; it counts from the earliest row")
	addSeconds(f, &read.To, "to", "", 0, "take rows up to this trace time")
}

// beginnings are what to type, for who gave no trace.
const beginnings = `no trace; give one with: fastreplay FILE --url HOST:PORT
Or type one of these:
  fastreplay demo           a run in 6 s that needs no file and no server
  fastreplay inspect FILE   what is in a trace, without traffic
  fastreplay doctor         what this machine lacks for punctual runs
  fastreplay --help         the first flags; --version is the version
  fastreplay help           every command, and the manual`

// complete checks the flags against each other and fills in what depends on others.
func (o *options) complete(args []string) error {
	if len(args) > 0 {
		if len(o.traces) > 0 || len(args) > 1 {
			return fmt.Errorf("unexpected argument %q: one trace as `fastreplay FILE`, several as --trace FILE --trace FILE", args[len(args)-1])
		}
		o.traces = args
	}
	if len(o.traces) == 0 {
		return errors.New(beginnings)
	}
	arrivals := func() error { return o.pacing.complete(o.seed) }
	extra := func() (err error) {
		if o.extra, err = api.ParseExtra(o.extraInputs); err != nil {
			err = fmt.Errorf("--extra-inputs: %w", err)
		}
		return err
	}
	for _, step := range []func() error{
		o.checkServer,
		o.splitTargets,
		arrivals,
		o.checkSessions,
		o.goodput.complete,
		o.checkGoodput,
		o.completeLimits,
		extra,
		o.scrape.check,
		o.checkShard,
		o.checkStart,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return o.check()
}

// checkServer refuses the name of a server that an unset variable of the shell has left empty, and objectives without a server: a run
// without one is a demo, and they would judge our own mock.
func (o *options) checkServer() error {
	for _, flag := range []string{"url", "targets", "endpoint"} { // the last may be the URL, as trace-replayer has it
		text := map[string]string{"url": strings.Join(o.urls, ","), "targets": o.targetsFile, "endpoint": o.endpoint}[flag]
		if !o.given(flag) || flag == "endpoint" && len(o.urls) > 0 {
			continue
		}
		if err := checkNotEmpty(flag, text); err != nil {
			return err
		}
	}
	if len(o.urls) > 0 || o.targetsFile != "" || o.dryRun {
		return nil
	}
	for _, gate := range []string{"require", "max-error-rate", "goodput"} {
		if o.given(gate) {
			return fmt.Errorf("--%s judges a server, and none is named: it would judge the embedded mock; name it, as in `fastreplay FILE --url HOST:PORT`", gate)
		}
	}
	return nil
}

// checkGoodput refuses an objective on goodput in a run that has no bounds to count it by: it would be missed after the whole run.
func (o *options) checkGoodput() error {
	if len(o.goodput.slos) > 0 {
		return nil
	}
	for _, text := range o.require {
		if name, _, _, err := metrics.ParseRequirement(text); err == nil && name == "goodput" {
			return fmt.Errorf("--require %q needs the bounds that goodput counts by; give them, as in --goodput \"ttft:500ms\"", text)
		}
	}
	return nil
}

// checkNotEmpty refuses a list of texts with commas between them if one is empty, or is a flag.
func checkNotEmpty(flag, list string) error {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			return fmt.Errorf("--%s is empty; is a variable of the shell not set?", flag)
		}
		if strings.HasPrefix(text, "--") {
			return fmt.Errorf("--%s takes %s as its value; is a variable of the shell not set?", flag, text)
		}
	}
	return nil
}

// splitTargets takes several servers with commas between them, as others do, but only one model.
func (o *options) splitTargets() error {
	if strings.Contains(o.model, ",") {
		return fmt.Errorf("--model %q: several models; want one", o.model)
	}
	var urls []string
	for _, text := range o.urls {
		for url := range strings.SplitSeq(text, ",") {
			urls = append(urls, strings.TrimSpace(url))
		}
	}
	o.urls = urls
	return o.readTargets()
}

// cutAfter is since instant 0 when what is in flight is cut; 0 = never.
func (o *options) cutAfter() time.Duration {
	if !o.given("drain") || o.pacing.duration == 0 {
		return 0
	}
	return o.pacing.duration + o.drain
}

// defaultDrain is how long an interrupted run waits for what is in flight.
const defaultDrain = 30 * time.Second

// The values of --prompt.
const (
	promptTokenIDs = "token-ids"
	promptText     = "text"
)

// check refuses what no replay can mean; the options of reading are the trace's own business.
func (o *options) check() error {
	switch {
	case o.warmup < 0:
		return fmt.Errorf("--warmup is %d; want a number of requests", o.warmup)
	case o.timeout <= 0:
		return errors.New("--timeout must be above 0")
	case o.idleTimeout <= 0 || o.connectTimeout <= 0:
		return errors.New("--idle-timeout and --connect-timeout must be above 0")
	case slices.ContainsFunc(o.headers, func(h string) bool { return !strings.Contains(h, ":") }):
		return errors.New("--header: one has no colon; want NAME: VALUE")
	case o.key != "" && o.apiKeyFile != "":
		return errors.New("--api-key and --api-key-file exclude each other")
	case o.senders < 1 || o.senders > engine.MaxSenders:
		return fmt.Errorf("--senders is %d; want 1 to %d", o.senders, engine.MaxSenders)
	case o.senders > 1 && o.pacing.concurrency > 0:
		return errors.New("--senders: with --concurrency there is one")
	case o.given("verify-prompts") && o.tokenizer == "":
		return errors.New("--verify-prompts: give the model's own tokenizer with --tokenizer")
	case o.engineBlock < 0:
		return fmt.Errorf("--engine-block-tokens %d: want at least 1", o.engineBlock)
	}
	return errors.Join(o.checkInstance(), o.checkRoute(), checkExports(o.exports))
}

// goodput is what --goodput says, of a run or of a report on one.
type goodput struct {
	lists []string
	slos  []metrics.SLO // parsed
}

func (g *goodput) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&g.lists, "goodput", nil, "count requests within `BOUNDS`, as \"ttft:500ms tpot:50ms\" (ms without a unit); repeatable")
}

func (g *goodput) complete() (err error) {
	if g.slos, err = metrics.ParseSLOs(g.lists...); err != nil {
		return fmt.Errorf("--goodput: %w", err)
	}
	return nil
}

// requirements are what --require says, of a run or of a report on one.
type requirements struct{ require []string }

func (r *requirements) addFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&r.require, "require", nil, "an `OBJECTIVE`, such as \"ttft.p99<500ms\" or \"goodput>=99%\"; exit code 3 if it is missed; repeatable")
}

// check refuses what no run has.
func (r *requirements) check() error {
	for _, text := range r.require {
		_, _, _, err := metrics.ParseRequirement(text)
		if err == nil {
			continue
		}
		err = fmt.Errorf("--require %w", err)
		if unknown := (*metrics.UnknownQuantity)(nil); errors.As(err, &unknown) {
			err = suggest(err, unknown.Name, metrics.Quantities())
		}
		return err
	}
	return nil
}

// judgeAgain puts these objectives in place of the run's own, if there are any. A demo is not judged.
func (r *requirements) judgeAgain(dir string, s *metrics.Summary) error {
	if len(r.require) == 0 {
		return nil
	}
	if s.Run.Demo {
		return fmt.Errorf("--require: "+wasDemo, dir)
	}
	s.Limits.Require = r.require
	s.Verdict.Objectives = metrics.Objectives(s, s.Verdict.Unsafe)
	return nil
}

// wasDemo is why a run is not judged.
const wasDemo = "%s was a demo against the embedded mock, and says nothing of a server; give a run that was made with --url"

// ending is the exit code of a report, as that of a run: a report without objectives judges nothing.
func (r *requirements) ending(s *metrics.Summary) error {
	if len(r.require) == 0 {
		return nil
	}
	return ending(false, s, nil)
}

// completeLimits checks what the user accepts and demands of a run.
func (o *options) completeLimits() error {
	for _, limit := range []struct {
		flag string
		most time.Duration
	}{{"max-drift", o.maxDrift}, {"max-receive-lag", o.maxLag}} {
		if o.given(limit.flag) && limit.most <= 0 {
			return fmt.Errorf("--%s %v: want a time above 0; leave it out to have lateness judged by what it changes", limit.flag, limit.most)
		}
	}
	if o.given("duration") && o.pacing.duration <= 0 {
		return fmt.Errorf("--duration %v: want a time above 0; leave it out to send all", o.pacing.duration)
	}
	if o.given("max-error-rate") {
		if !(o.maxErrorRate >= 0 && o.maxErrorRate <= 1) {
			return fmt.Errorf("--max-error-rate %v: want a share of 0..1", o.maxErrorRate)
		}
		o.limits.MaxErrorRate = &o.maxErrorRate
	}
	o.limits.MaxDriftMS, o.limits.MaxReceiveLagMS = float64(o.maxDrift)/1e6, float64(o.maxLag)/1e6
	o.limits.ForcedOutput, o.limits.Require = !o.noForceOutput, o.require
	return o.requirements.check()
}
