package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/bench/mockllm"
	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
	"github.com/fastreplay/fastreplay/engine/setup"
	"github.com/fastreplay/fastreplay/engine/workload"
)

// mockOptions is what the flags of `fastreplay mock` say.
type mockOptions struct {
	cfg           mockllm.Config
	listen        string
	instances     int
	targetsFile   string
	logFile       string
	template      *workload.Overhead
	faults        []string
	quirks        []string
	apiKeyFile    string
	tlsSelfSigned bool
	tlsCA         string
	dieWithParent bool
}

func newMockCommand() *cobra.Command {
	var o mockOptions
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Run the embedded LLM server, to replay against",
		Long: `Run an LLM server with the latencies, prefix cache, queue and faults of your choice, or many of
them. It speaks the protocols of OpenAI (completions, chat, responses, embeddings), Anthropic (messages), TGI,
SGLang, vLLM (token ids) and Triton, each at its own paths. It prints a line "listening on URL" for each server
to standard output when all are ready.

A request may carry X-Mock-Fault: NAME[:ARG][@SHARE] to ask for one fault. Faults: ` +
			strings.Join(fault.Names(), ", ") + `.

` + quirkTable(
			"Quirks of --quirk",
		),
		Example: `  fastreplay mock --listen 127.0.0.1:8000 --ttft 200ms --itl 20ms \
    --spread 0.2 --slots 256
  fastreplay mock --fault status:503@0.01 --fault reset-after:5@0.001 \
    --log requests.jsonl
  fastreplay mock --instances 32 --targets-file targets.txt \
    --header "x-instance: mock-{instance}"`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	return cmd
}

// quirkTable lists the quirks as the manual does.
func quirkTable(head string) string {
	table := "| " + head + " | |\n|---|---|\n"
	for quirk, does := range mockllm.Quirks {
		table += fmt.Sprintf("| `%s` | %s |\n", quirk, strings.ReplaceAll(does, "|", `\|`))
	}
	return table
}

func (o *mockOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	c := &o.cfg
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen at; port 0 takes a free one")
	f.IntVar(&o.instances, "instances", 1,
		"run `N` servers of their own in this process, on consecutive ports or on free ones")
	f.StringVar(&o.targetsFile, "targets-file", "",
		"`FILE` that gets the servers' URLs, one a line, as the replay's --targets reads it")
	f.StringVar(&c.Model, "model", "",
		"name of the served model; others are refused (default: any is served, as \"mock\")")
	f.IntVar(&c.MaxModelTokens, "max-model-len", 0,
		"refuse prompts that leave no room for their output, in tokens (0 = no limit)")
	f.DurationVar(&c.TTFT, "ttft", 25*time.Millisecond, "time to the first token")
	f.DurationVar(&c.ITL, "itl", 5*time.Millisecond, "time between tokens")
	f.DurationVar(
		&c.PrefillPerToken,
		"prefill-per-token",
		0,
		"added to --ttft for each prompt token that is not cached",
	)
	// by default streams that began together do not beat in step for ever, as no real server's do
	f.Float64Var(&c.Spread, "spread", 0.1, "draw each latency from 1±`FRACTION` times its value")
	f.Uint64Var(&c.Seed, "seed", 0, "seed of latencies, lengths and texts")
	f.IntVar(&c.Slots, "slots", 0, "requests that run at once; more wait (0 = no limit)")
	f.IntVar(&c.MaxQueue, "max-queue", 0, "requests that may wait; more are refused with 503 (0 = no limit)")
	f.BoolVar(&c.Priorities, "priorities", false,
		"requests that wait begin in the order of the priority in their bodies, the least first")
	f.IntVar(&c.Adapters, "adapters", 0,
		"serve `N` LoRA adapters beside the model, lora-1, lora-2, …, and refuse other names")
	f.IntVar(&c.AdapterSlots, "adapter-slots", 0,
		"`N` adapters are loaded at a time; one that no request uses makes room for another (0 = all)")
	f.DurationVar(&c.AdapterLoad, "adapter-load", 0, "added to --ttft if an adapter is loaded first")
	f.IntVar(&c.PrefillInstances, "prefill-instances", 0,
		"`N` instances prefill by turns, and this one decodes; answers name both, as AIBrix and Dynamo do")
	f.DurationVar(&c.KVTransfer, "kv-transfer", 0,
		"time between the first token and the second, times the number of the instance that prefilled")
	c.CacheTokens = -1
	addValue(f, &c.CacheTokens, parseCache, "", "-1", "cache-tokens",
		"room for running requests and cached prefixes together in `TOKENS`, such as 3M; a request that finds too "+
			"little waits (-1 = no limit, 0 = no cache)")
	addValue(f, &c.HostTokens, parseTokens, "TOKENS", "", "host-cache-tokens",
		"room of a second tier of the cache, of which answers tell; it keeps what was computed (default none)")
	f.DurationVar(&c.HostLoadPerToken, "host-load-per-token", 0,
		"added to --ttft for each prompt token that comes from the second tier")
	f.IntVar(&c.BlockTokens, "block-tokens", mockllm.DefaultBlockTokens, "tokens in a block of the prefix cache")
	addValue(f, &o.template, parseOverhead, "", "0,0", "template-tokens",
		"tokens that the chat template adds, as `HEAD,TAIL`")
	f.IntVar(&c.TemplateJitter, "template-jitter", 0,
		"make the chat template add 0 to `N` tokens more, another number with each request")
	f.IntVar(&c.BOSTokens, "bos-tokens", 0, "tokens before text prompts that are no conversations")
	f.IntVar(
		&c.SplitWords,
		"split-words",
		0,
		"count words of more than `N` letters as two tokens, as another tokenizer would (0 = none)",
	)
	f.IntVar(&c.MeanOutput, "mean-output", 0, "mean output length where the request does not force it (0 = max_tokens)")
	f.IntVar(&c.TokensPerChunk, "tokens-per-chunk", 1, "tokens in each chunk")
	f.Float64Var(&c.EmptyChunks, "empty-chunks", 0, "`FRACTION` of token chunks whose text is empty")
	f.IntVar(&c.ReasoningTokens, "reasoning-tokens", 0,
		"tokens of each answer that come as reasoning (chat, responses, messages)")
	f.IntVar(&c.ToolTokens, "tool-tokens", 0,
		"last tokens of each answer that are the arguments of a tool call (chat, responses, messages)")
	f.StringVar(&o.apiKeyFile, "api-key-file", "",
		"`FILE` with a key that requests must carry as bearer token or x-api-key")
	f.StringArrayVar(&c.Headers, "header", nil,
		"`NAME: VALUE` of every response, repeatable, such as the \"target-pod: a\" of a gateway; {instance} is the "+
			"server's number")
	f.StringArrayVar(&c.BodyFields, "body-field", nil,
		"`PATH=VALUE` in every object of an answer, repeatable, such as nvext.worker_id={instance}")
	f.DurationVar(&c.KeepAlive, "keep-alive", 0,
		"close connections that are idle for so long after a response (0 = never; vLLM: 5s)")
	f.StringArrayVar(&o.faults, "fault", nil,
		"`NAME[:ARG][@SHARE]`, repeatable; of n requests in a row SHARE × n have it, and the first that is due happens")
	f.StringArrayVar(&o.quirks, "quirk", nil, "`NAME` of a way to differ from other servers, repeatable; see above")
	f.StringVar(
		&o.logFile,
		"log",
		"",
		"`FILE` that gets a JSON line for each request (- = standard error); with --instances its name must contain "+
			"{instance}",
	)
	f.BoolVar(&c.LogAll, "log-all", false,
		"add the instant of each token, the request's body and its X- headers to the lines of --log")
	f.BoolVar(&o.tlsSelfSigned, "tls-self-signed", false, "serve https with a certificate made for this run")
	f.StringVar(&o.tlsCA, "tls-ca", "", "`FILE` that gets the self-signed certificate (PEM), for clients to trust")
	f.IntVar(&c.Pacers, "pacers", 0, "goroutines that write events (0 = half the processors)")
	f.BoolVar(
		&o.dieWithParent,
		"die-with-parent",
		false,
		"end when standard input ends, as it does when the parent dies; it must be a pipe",
	)
	f.Lookup("die-with-parent").Hidden = true
}

// run serves until a signal, a cancelled context or the parent's end.
func (o *mockOptions) run(ctx context.Context, stdin io.Reader, stdout io.Writer) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	configs, closeLogs, err := o.configs()
	defer closeLogs()
	if err != nil {
		return err
	}
	servers, err := mockllm.NewGroup(configs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.dieWithParent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go watchParent(cancel, stdin)
		signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) // they are for the parent
	}
	defer func() {
		for _, srv := range servers { // started or not
			if failed := srv.Close(); failed != nil {
				err = errors.Join(err, fmt.Errorf("mock: --log %s: %w", o.logFile, failed))
			}
		}
	}()
	if err := o.startServers(servers, stdout); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// complete turns the flags that are not plain values into the configuration.
func (o *mockOptions) complete() error {
	if o.template != nil {
		o.cfg.TemplateHead = o.template.Head
		o.cfg.TemplateTail = o.template.Tail
	}
	const maxInstances = 1000 // so that a typing mistake does not take every port
	switch {
	case o.cfg.BlockTokens < 1:
		return fmt.Errorf("mock: --block-tokens %d: a block has at least 1 token", o.cfg.BlockTokens)
	case o.instances < 1 || o.instances > maxInstances:
		return fmt.Errorf("mock: --instances %d: want 1 to %d", o.instances, maxInstances)
	case o.tlsCA != "" && !o.tlsSelfSigned:
		return errors.New("mock: --tls-ca needs --tls-self-signed")
	case o.instances > 1 && o.logFile != "" && !strings.Contains(o.logFile, mockInstance):
		return fmt.Errorf(
			"mock: --log %s: every server has a log of its own; write {instance} into the name, such as "+
				"log-{instance}.jsonl",
			o.logFile,
		)
	}
	for _, text := range o.faults {
		f, err := fault.Parse(text)
		if err != nil {
			return fmt.Errorf("mock: --fault: %w", err)
		}
		o.cfg.Faults = append(o.cfg.Faults, f)
	}
	for _, name := range o.quirks {
		if err := o.cfg.Quirk(name); err != nil {
			return fmt.Errorf("mock: --quirk: %w", err)
		}
	}
	var err error
	if o.cfg.APIKey, err = setup.ReadKey(o.apiKeyFile); err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	if !o.tlsSelfSigned {
		return nil
	}
	host, _, _ := net.SplitHostPort(o.listen)
	server, pem, err := mockllm.SelfSigned(host)
	if err == nil && o.tlsCA != "" {
		err = os.WriteFile(o.tlsCA, pem, 0o644)
	}
	if err != nil {
		return fmt.Errorf("mock: --tls-self-signed, --tls-ca: %w", err)
	}
	o.cfg.TLS = server
	return nil
}

// parseCache reads a number of tokens, -1 or 0.
func parseCache(text string) (int64, error) {
	if text == "-1" || text == "0" {
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := parseTokens(text)
	if err != nil {
		return 0, fmt.Errorf("%w; or -1 or 0", err)
	}
	return n, nil
}

// watchParent calls cancel when the parent has died or has closed the pipe that is our standard input. Without a pipe
// it does nothing.
func watchParent(cancel context.CancelFunc, stdin io.Reader) {
	f, ok := stdin.(*os.File)
	if !ok {
		return
	}
	if st, err := f.Stat(); err != nil || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return
	}
	_, _ = io.Copy(io.Discard, f) // returns at the end, whatever it is
	cancel()
}

// startMock starts `fastreplay mock` in a process of its own, so that client and server share nothing but the machine.
// It returns when the mock listens.
func startMock(ctx context.Context) (mock *child, url string, err error) {
	mock, err = startChild("the embedded mock", os.Stderr, "mock", "--listen", "127.0.0.1:0", "--die-with-parent")
	if err != nil {
		return nil, "", err
	}
	stopWatching := context.AfterFunc(ctx, func() { _ = mock.Process.Kill() })
	defer stopWatching()
	line, err := mock.out.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		mock.stop()
		return nil, "", fmt.Errorf("the embedded mock did not start: %q %w", line, err)
	}
	return mock, url, nil
}

// mockInstance stands for a server's number in --header, --body-field and --log.
const mockInstance = "{instance}"

// configs makes the configuration of each server, and opens its log. closeLogs is good even after an error.
func (o *mockOptions) configs() (configs []mockllm.Config, closeLogs func(), err error) {
	var files []*os.File
	closeLogs = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for i := range o.instances {
		cfg := o.cfg
		cfg.Instance = i
		switch o.logFile {
		case "":
		case "-":
			cfg.Log = os.Stderr
		default:
			f, err := os.OpenFile(
				strings.ReplaceAll(o.logFile, mockInstance, strconv.Itoa(i)),
				os.O_CREATE|os.O_WRONLY|os.O_APPEND,
				0o644,
			)
			if err != nil {
				return nil, closeLogs, fmt.Errorf("mock: --log: %w", err)
			}
			files = append(files, f)
			cfg.Log = f
		}
		configs = append(configs, cfg)
	}
	return configs, closeLogs, nil
}

// startServers makes all servers listen, writes --targets-file, and then says where they are.
func (o *mockOptions) startServers(servers []*mockllm.Server, stdout io.Writer) error {
	var targets, lines bytes.Buffer
	for i, srv := range servers {
		ln, err := o.listenAt(i)
		if err != nil {
			return err
		}
		if err := srv.Start(ln); err != nil {
			return errors.Join(err, ln.Close())
		}
		fmt.Fprintln(&targets, srv.URL())
		fmt.Fprintf(&lines, "listening on %s\n", srv.URL())
	}
	if o.targetsFile != "" {
		if err := os.WriteFile(o.targetsFile, targets.Bytes(), 0o644); err != nil {
			return fmt.Errorf("mock: --targets-file: %w", err)
		}
	}
	_, err := lines.WriteTo(stdout)
	return err
}

// listenAt opens the port of server i: the one of --listen and those after it, or free ones.
func (o *mockOptions) listenAt(i int) (net.Listener, error) {
	address := o.listen
	if host, port, err := net.SplitHostPort(address); err == nil && i > 0 {
		if n, err := net.LookupPort("tcp", port); err == nil && n > 0 {
			address = net.JoinHostPort(host, strconv.Itoa(n+i))
		}
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("mock: --listen %s: %w", address, err)
	}
	return ln, nil
}
