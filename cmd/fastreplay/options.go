package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine"
	"github.com/fastreplay/fastreplay/engine/probe"
	"github.com/fastreplay/fastreplay/engine/replay"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/shard"
	"github.com/fastreplay/fastreplay/engine/workload"
	"github.com/fastreplay/fastreplay/sched"
)

// options is what the flags of a replay say.
type options struct {
	replay.Config
	line  *compat.Line
	isSet func(flag string) bool
	demo  bool // `fastreplay demo`, whose trace is made

	// Texts of which the configuration has the meaning, once they are complete.
	config        string // of --config
	targetsFile   string
	actions       []string
	extraInputs   []string
	instanceField string
	pace          paceFlags
	start         startMoment
	goodput       goodput
	requirements
	maxErrorRate float64

	// What people see.
	json     bool
	full     bool
	verbose  bool
	progress progressFlags
}

// paceFlags are what says when requests leave, beside Config.Pacing.
type paceFlags struct {
	fixed    bool
	notFixed bool
	rate     string
	ramp     string
	arrival  string
}

// addFlags adds all flags of a replay.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	o.isSet = f.Changed
	for _, g := range o.groups() {
		f.AddFlagSet(g.flags)
	}
}

// flagGroup is a part of a replay's flags in its help and in the manual.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// groups returns the flags of a replay by group, in the order of its help, and sets their defaults. A new flag is a
// line in its group.
func (o *options) groups() (all []flagGroup) {
	o.Config = replay.Defaults()
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
		for _, name := range strings.Fields(hiddenFlags) {
			if flag := f.Lookup(name); flag != nil {
				flag.Hidden = true
			}
		}
		all = append(all, flagGroup{g.title, f})
	}
	return all
}

// firstFlags are those of the first help screen.
const firstFlags = "trace limit from to config scale amplify rate concurrency duration warmup sessions url model api " +
	"header api-key-file tokenizer no-stream output require goodput json dry-run"

func (o *options) addTrace(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Traces, "trace", nil,
		"trace `FILE`: JSONL, JSON or CSV, .gz or .zst; - is standard input; several of one format, or a directory "+
			"of them, are merged in time")
	addReadFlags(f, &o.Read)
	f.Var(countFlag(&o.Repeat, "1"), "repeat", "replay the selection `N` times in a row")
	addValue(f, &o.Owning.Shares, setup.ParseShares, "N:SHARES", "", "tenants",
		"make up `N` tenants, each of whole conversations, with equal shares or such as 3:0.7,0.2,0.1")
	addValue(f, &o.Owning.Classes, setup.ParseClasses, "FIELD=VALUE:CLASS", "", "map",
		"classes of service by tenant, model or priority, such as tenant=a:gold,b:free")
	f.StringVar(&o.Owning.Without, "without", "",
		"do not send the requests of one tenant, model, class or priority, as `FIELD=VALUE` such as class=free; "+
			"compare with a run that does tells what they cost the others")
	f.BoolVar(&o.Owning.Apart, "tenant-salt", false, "prompts of two tenants share nothing, whatever the trace says")
	addDefault(f, &o.TooLong, setup.TooLongRefuse, "too-long",
		"what becomes of requests longer than the servers' context: refuse to start, drop, clip prompts' ends, or "+
			"send, so that a refusal ends their agent (lanes)",
		setup.TooLongRefuse, setup.TooLongDrop, setup.TooLongClip, setup.TooLongSend)
	f.StringVarP(&o.config, "config", "f", "", "YAML `FILE` of flags, such as \"rate: 10\"; the command line wins")
}

func (o *options) addLoad(f *pflag.FlagSet) {
	f.Float64Var(&o.Pacing.Scale, "scale", o.Pacing.Scale, "speed: 2 sends twice as fast as recorded")
	addAmplify(f, &o.Amplify)
	f.StringVarP(&o.pace.rate, "rate", "r", "",
		"send `R` requests per second (max: all at once); trace times are ignored")
	f.StringVar(&o.pace.ramp, "ramp", "",
		"send at a rate that goes `FROM:TO:TIME`, such as 10:500:60s, and stays there")
	f.StringVar(&o.pace.arrival, "arrival", "",
		"spacing at a rate: constant, poisson or gamma:B, which is burstier than poisson if B is below 1 (default: "+
			"constant)")
	f.VarP(countFlag(&o.Pacing.Concurrency, ""), "concurrency", "c",
		"keep `N` requests in flight (closed loop); with --scale or a rate, at most N")
	addSeconds(f, &o.Pacing.Duration, "duration", "d", 0, "release nothing after this much wall time")
	f.StringVar(&o.Limits.Until, "until", "",
		"end the run once a percentile is known: `GOAL` such as \"ttft.p99±5%\" or \"ttft.p99+-5%\"; "+
			"with --duration a trace that ends sooner begins again, with other content")
	f.StringArrayVar(&o.actions, "at", nil,
		"run a shell command at a time of the run, as `TIME=COMMAND` such as 5m='kubectl delete pod llm-3', and tell "+
			"whether it landed and what it cost; or a file of actions; repeatable")
	addSeconds(f, &o.Grace, "grace", "", o.Grace,
		"how long requests in flight may last after an interrupt and, if it is given, after --duration, which else "+
			"waits for all")
	f.BoolVar(&o.pace.fixed, "fixed-schedule", false,
		"send at trace times, which is the default; beside it --concurrency is a cap")
	f.BoolVar(&o.pace.notFixed, "no-fixed-schedule", false, "ignore trace times; needs --rate, --ramp or --concurrency")
	f.IntVar(&o.Warmup, "warmup", 0,
		"send `N` other requests first; they have the first rows' sizes and other prompts, and are not measured; with "+
			"--snapshot the next N of each lane, of one token each")
	addValue(f, &o.Sessions.Mode, o.parseSessions, "MODE", string(setup.SessionsStrict), "sessions",
		"when turns leave: strict, gated, think or lanes=N; strict: at their times, gated: not before what they "+
			"depend on has ended, think: the recorded delay after that, lanes=N: so, in N lanes of whole jobs")
	addValue(f, &o.Sessions.Idle, parseIdleCap, "TIME", "", "idle-cap",
		"shorten idle times of jobs or conversations to `TIME`, such as 10s; system=TIME: times in which nothing at "+
			"all is in flight; tree=TIME: those of a job in its lane; both with a comma")
	addValue(f, &o.Sessions.Snapshot, parseSnapshot, "FROM:TO", "", "snapshot",
		"lanes begin amid their first jobs, at a moment that is drawn between these shares, such as 25%:75%; primers, "+
			"and --warmup requests of each lane, fill the caches first")
	f.BoolVar(&o.Sessions.Recycle, "recycle", false,
		"lanes take jobs again when all were taken, until --duration; each time a new marker before the prompts keeps "+
			"caches from knowing them")
	f.BoolVar(&o.Sessions.ForceAnswers, "force-answers", false,
		"tell servers which tokens to answer: those that the next turn's prompt has (--api vllm-generate)")
	addValue(f, &o.Shard, shard.ParsePart, "INDEX/COUNT", "", "shard",
		"send one of COUNT parts of the load, as 0/16 to 15/16 on 16 machines, or auto: as Kubernetes, Slurm or MPI "+
			"number them; fastreplay merge makes one run of them")
	addValue(f, &o.start, parseStart, "MOMENT", "", "start-at",
		"when the trace's time 0 is, such as 2026-01-02T15:04:05Z; now: when the run is ready; -: say when it is "+
			"ready, and read the moment from standard input")
	f.StringVar(&o.Barrier, "start-barrier", "",
		"where shards meet and agree on the start: a directory that all see, new for each run, or tcp://HOST:PORT of "+
			"shard 0, with "+shard.SecretVariable+"; clocks are compared")
	addWords(f, &o.LateStart, "late-start",
		"a run that is ready after its start sends nothing (fail) or what is still to come (join)",
		shard.LateFail, shard.LateJoin)
	addWords(f, &o.Sessions.History, "history",
		"answers in later turns: the trace's (recorded), or the servers' in this run (live)",
		setup.HistoryRecorded, setup.HistoryLive)
}

func (o *options) addServer(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.URLs, "url", "u", nil,
		"`URL` of a server: host:port, base or full; repeatable (default: an embedded mock)")
	f.StringVar(&o.targetsFile, "targets", "",
		"`FILE` with a server on each line, as for --url, and perhaps its weight; watch:FILE, or the addresses of "+
			"dns:HOST:PORT, are read again during the run: servers join and leave")
	addWords(f, &o.Route, "route",
		"which of several servers gets a request; "+strings.Join(setup.Routes(), ", "), setup.Routes()...)
	f.StringVarP(&o.Model, "model", "m", "", "model name (default: asked from /v1/models)")
	f.StringVarP(&o.API, "api", "a", "",
		"API to speak; "+strings.Join(api.Names(), ", ")+
			" (default: the one that the trace's rows are for, else completions)")
	f.StringVar(&o.Endpoint, "endpoint", "",
		"`PATH` to post to instead of the API's own, such as /my/v1/chat/completions")
	f.StringArrayVarP(&o.Headers, "header", "H", nil,
		"`NAME: VALUE` of every request; repeatable; never written to results")
	f.StringVar(&o.APIKeyFile, "api-key-file", "",
		"`FILE` with the bearer key (default: $OPENAI_API_KEY); with --api messages first $ANTHROPIC_API_KEY, as "+
			"x-api-key")
	f.StringVar(&o.Key, "api-key", "",
		"the bearer `KEY` itself, which the process list shows; never written to results")
	f.StringVar(&o.CACert, "ca-cert", "", "`FILE` with the certificates (PEM) to trust for https")
	f.BoolVar(&o.Insecure, "insecure", false, "do not verify certificates")
	addSeconds(f, &o.Timeout, "timeout", "", o.Timeout, "limit of a whole request")
}

func (o *options) addRequests(f *pflag.FlagSet) {
	addWords(f, &o.Prompt, "prompt",
		"prompts as token-ids or text (default: token-ids if the API takes them)",
		setup.PromptTokenIDs, setup.PromptText)
	f.StringVar(&o.Tokenizer, "tokenizer", "",
		"`PATH` of the model's tokenizer.json or its folder; or "+tokenizer.CL100K+" or "+tokenizer.O200K)
	f.StringArrayVar(&o.extraInputs, "extra-inputs", nil,
		"`KEY:VALUE` or a JSON object, merged into every body; repeatable")
	f.BoolVar(&o.NoStream, "no-stream", false, "ask for whole responses instead of streams")
	f.BoolVar(&o.NoForceOutput, "no-force-output", false,
		"send max_tokens only, for servers that refuse min_tokens and ignore_eos")
	f.Uint64Var(&o.Seed, "seed", 0,
		"seed of prompts, random arrivals and --amplify: the same makes the same bytes at the same instants")
	addWords(f, &o.Cold, "cold",
		"how the servers' prefix caches become cold before the start: auto, flush, salt or off",
		probe.ColdAuto, probe.ColdFlush, probe.ColdSalt, probe.ColdOff)
}

func (o *options) addResults(f *pflag.FlagSet) {
	f.StringVarP(&o.Output, "output", "o", "", "`DIR` for the results (default: results/<UTC time>)")
	o.progress.mode = progressAuto
	addWords(f, &o.progress.mode, "progress",
		"while it runs: a screen on a terminal (full), a line now and then (line) or none; auto chooses",
		progressAuto, progressFull, progressLine, progressNone)
	f.BoolVarP(&o.progress.quiet, "quiet", "q", false, "print only the verdict, where the results are, and errors")
	f.StringVar(&o.progress.metricsAddr, "metrics-addr", "",
		"serve the run's metrics to Prometheus at `HOST:PORT`/metrics")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON on standard output")
	o.goodput.addFlag(f)
	addExportFlag(f, &o.Exports)
	f.BoolVar(&o.full, "full", false, "print all that the summary has, and not one screen of it")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print each step before the start")
	f.BoolVar(&o.Compress, "compress", false, "write requests.jsonl.zst")
	f.BoolVar(&o.DryRun, "dry-run", false, "read, check and build, but send nothing")
	o.requirements.addFlag(f)
	f.StringVar(&o.Limits.AbortIf, "abort-if", "",
		"end the run, with exit code 3, once it is lost: a `LIMIT` such as \"ttft.p95>5s\" or \"error_rate>20%\"")
	f.Float64Var(&o.maxErrorRate, "max-error-rate", 0,
		"an objective: at most this share of requests (0..1) may fail (default: any)")
	f.DurationVar((*time.Duration)(&o.Limits.MaxDriftNS), "max-drift", 0,
		"accept and demand drift p99 up to this, such as 10ms (default: judged by what it changes)")
	addWords(f, &o.Scrape.Mode, "scrape",
		"read the servers' own metrics: auto, on (refuse to start without) or off",
		setup.ScrapeAuto, setup.ScrapeOn, setup.ScrapeOff)
	f.StringArrayVar(&o.Scrape.URLs, "scrape-url", nil,
		"`URL` of a page of metrics to read in place of the targets' own /metrics; repeatable")
}

// addAdvanced adds what few need, of any part of the options. It also adds what is hidden: switches of developers, and
// names that other tools have as well.
func (o *options) addAdvanced(f *pflag.FlagSet) {
	addAssumed(f, &o.Assumed)
	f.Float64Var(&o.LoadBound, "load-bound", o.LoadBound,
		"of --route "+setup.RoutePrefix+
			": pass over an instance with more than this many times its share in flight; 0 = none")
	addDefault(f, &o.Resend, engine.ResendSafe, "resend",
		"send again what got no answer: never, unread (if the server provably did not read it) or safe (also if it "+
			"closed an idle connection)",
		engine.ResendNever, engine.ResendUnread, engine.ResendSafe)
	addSeconds(f, &o.IdleTimeout, "idle-timeout", "", o.IdleTimeout, "limit between two bytes of a response")
	addSeconds(f, &o.ConnectTimeout, "connect-timeout", "", o.ConnectTimeout, "limit of connecting, TLS included")
	f.StringArrayVar(&o.InstanceHeaders, "instance-header", engine.InstanceHeaders(),
		"response header `NAME` that names the instance; repeatable, the first present counts")
	f.StringVar(&o.instanceField, "instance-field", "",
		"`PATH` in the answers' JSON that names the instance, such as meta_info.worker; replaces the headers unless "+
			"--instance-header is given")
	f.BoolVar(&o.NoProbe, "no-probe", false, "do not probe the servers before the start")
	addValue(f, &o.VerifyPrompts, parseVerified, "", "", "verify-prompts",
		fmt.Sprintf(
			"with --tokenizer: count the tokens of `N` built prompts again (or all; default %d), and stop at the "+
				"first mismatch",
			setup.DefaultVerified,
		))
	addValue(f, &o.Overhead, parseOverhead, "", "", "chat-overhead",
		"tokens that the chat template adds before and after a prompt, as `HEAD,TAIL` (default: measured)")
	f.IntVar(&o.EngineBlockTokens, "engine-block-tokens", 0,
		fmt.Sprintf(
			"block size of the servers' prefix caches (default: asked from /metrics, else %d)",
			workload.DefaultBlockTokens,
		))
	addValue(f, &o.CacheTokens, parseTokens, "", "", "cache-tokens",
		"capacity of each server's prefix cache in `TOKENS`, such as 3M (default: asked from /metrics)")
	f.DurationVar(&o.Scrape.Interval, "scrape-interval", o.Scrape.Interval,
		"from one reading of a server's metrics to the next")
	f.DurationVar((*time.Duration)(&o.Limits.MaxReceiveLagNS), "max-receive-lag", 0,
		"likewise, for how long after the kernel answers are read, at p99")
	f.BoolVar(&o.Limits.AllowWarm, "allow-warm", false, "accept cache hits above the ideal")
	f.IntVar(&o.Senders, "senders", o.Senders, "sending threads, which share the requests")
	addWords(f, &o.Realtime, "realtime",
		"real-time priority for the threads that send and read: auto, on or off",
		sched.RealtimeAuto, sched.RealtimeOn, sched.RealtimeOff)
	addWords(f, &o.Stamps, "kernel-timestamps",
		"take instants from the kernel: auto, on or off; ring each segment's, sent also those of what leaves",
		replay.StampsAuto, replay.StampsOn, replay.StampsOff, replay.StampsSent, replay.StampsRing)
	addValue(f, &o.MaxMemory, parseBytes, "", "", "max-memory",
		fmt.Sprintf(
			"most `BYTES` for requests, or for what --amplify adds, such as 8GiB (default: %d %% of free memory)",
			int(100*setup.DefaultMemoryShare),
		))
	addWords(f, &o.Sender, "sender",
		"where the sending threads run: in a process of their own if that is possible (auto, process) or in this "+
			"process (thread)",
		setup.SenderAuto, setup.SenderProcess, setup.SenderThread)
	addValue(f, &o.Spin, parseSpin, "TIME", spinAuto, "spin",
		"how long before a deadline a sending thread stops sleeping and spins: auto, or a time such as 100us")
	f.StringVar(&o.ChunkLog, "chunk-log", "", "write every token chunk's instants to this `FILE`, to measure the meter")
}

// hiddenFlags are shown by no help of a replay. They are for developers, or for people who know other tools. Few traces
// need --weka-times: inspect shows it, and the messages that need it name it.
const hiddenFlags = "sender spin chunk-log load-bound senders connect-timeout compress fixed-schedule " +
	"no-fixed-schedule api-key weka-times"

// Flags of a replay that somebody else sets, so that they may not be given there, or are no part of what results name.
const (
	takenBySearch = "abort-if at dry-run duration json late-start output seed shard start-at start-barrier targets " +
		"trace until url"
	takenByComparison = "abort-if dry-run late-start output shard start-at start-barrier targets until url"
	takenByEachRun    = "api-key at config dry-run header late-start output start-at start-barrier"
)

// addAssumed adds what is assumed of requests whose times nobody knows.
func addAssumed(f *pflag.FlagSet, assumed *sched.AssumedLatency) {
	*assumed = setup.Defaults().Assumed
	usual := fmt.Sprintf("%v,%v", assumed.TTFT, assumed.TPOT)
	addValue(f, assumed, parseAssumed, "TTFT,TPOT", usual, "assume-latency",
		"time to the first token and for each further one, to reckon when a request ends if nothing says it")
}

// addReadFlags adds what says how to read a trace.
func addReadFlags(f *pflag.FlagSet, read *trace.Options) {
	addWords(f, &read.Format, "format",
		"trace format (default: detected); "+strings.Join(trace.Formats(), ", "), trace.Formats()...)
	addRowFlags(f, read)
}

// addRowFlags adds what says how to read a trace besides its format.
func addRowFlags(f *pflag.FlagSet, read *trace.Options) {
	f.StringToStringVar(&read.Fields, "fields", nil,
		"what fields are called in the file, as `FIELD=NAME,…`, such as timestamp=ts,input_length=prompt_tokens")
	f.Lookup("fields").DefValue = "" // not []
	addValue(f, &read.TimeUnit, trace.ParseUnit, "UNIT", "", "time-unit",
		"unit of the timestamps: ns, us, ms or s (default: the format's)")
	f.IntVar(&read.BlockTokens, "block-tokens", 0, "tokens that a hash id stands for (default: the format's)")
	if read.Basis == "" {
		read.Basis = trace.AutoBasis
	}
	addWords(f, &read.Basis, "weka-times",
		"what times of sub-agents' requests count from in Weka's traces: absolute, the begin of the job, relative, "+
			"that of the sub-agent, or auto, what most of them show",
		trace.AutoBasis, trace.AbsoluteBasis, trace.RelativeBasis)
	words := []string{"refuse", "drop", "strict"}
	badRows := func(word string) (string, error) {
		read.Lenient = word == "drop"
		read.Strict = word == "strict"
		return word, among(words, word)
	}
	f.Var(&value[string]{
		to:    new(string),
		parse: badRows,
		words: words,
		text:  "refuse",
	}, "bad-rows",
		"bad rows: refuse the trace, drop them, or be strict and refuse rows that would be repaired, too")
	f.VarP(countFlag(&read.Limit, ""), "limit", "n", "take the first `N` requests of the selection")
	addSeconds(f, &read.From, "from", "", 0, "take rows from this trace time on; it counts from the earliest row")
	addSeconds(f, &read.To, "to", "", 0, "take rows up to this trace time")
}

// addAmplify adds by how much a load is multiplied.
func addAmplify(f *pflag.FlagSet, to *setup.Amplify) {
	f.Float64Var((*float64)(to), "amplify", 1,
		"multiply the load `K` times, at the recorded speed; copies have other content; below 1 leave conversations, "+
			"or jobs of agents, out")
}

// parseSessions reads strict, gated, think or lanes=N.
func (o *options) parseSessions(text string) (setup.SessionMode, error) {
	word, number, counted := strings.Cut(text, "=")
	mode := setup.SessionMode(word)
	lanes := 0
	switch {
	case mode == setup.SessionsLanes:
		n, err := strconv.Atoi(number)
		if lanes = n; err != nil || n < 1 {
			return "", errors.New("want lanes=N with a whole number of at least 1, such as lanes=8")
		}
	case counted ||
		!slices.Contains([]setup.SessionMode{setup.SessionsStrict, setup.SessionsGated, setup.SessionsThink}, mode):
		return "", suggest(errors.New("want strict, gated, think or lanes=N"), word, sessionWords())
	}
	o.Pacing.Lanes = lanes
	return mode, nil
}
