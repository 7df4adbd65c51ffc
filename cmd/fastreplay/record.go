package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/trace"
	"github.com/fastreplay/fastreplay/engine/exposure"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/engine/recorder"
)

// recordOptions is what the flags of `fastreplay record` say.
type recordOptions struct{ recorder.Options }

// newRecordCommand records traffic, and says what a recorded file tells.
func newRecordCommand() *cobra.Command {
	var o recordOptions
	c := &cobra.Command{
		Use:   "record --listen ADDR --upstream URL --output FILE",
		Short: "Record live traffic as a trace without its text",
		Long: `Record live traffic as a trace that can be handed out: ids of blocks in place of text, lengths,
times, sessions. A reverse proxy passes requests on to servers and their answers back, unchanged and at once. Rows are
made and written away from it: what finds no room is dropped and counted, and traffic never waits.

It speaks all APIs that a replay speaks; other requests only pass. It prints a line "listening on URL" when it is
ready. An interrupt ends it, once the answers that still come have ended, or after a minute.`,
		Example: `  fastreplay record --upstream http://vllm:8001 --output day.jsonl.zst \
    --tokenizer tokenizer.json
  fastreplay record --listen :8000 --mirror --output day.jsonl.zst \
    --metrics-addr 127.0.0.1:9465`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.record(c.Context(), c.OutOrStdout(), newTerminal(c.ErrOrStderr()))
		},
	}
	o.RotateBytes = 256e6
	o.MemoryBytes = 256e6
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.Listen, "listen", ":8000", "address to listen at; port 0 takes a free one")
	f.StringArrayVar(&o.Upstreams, "upstream", nil,
		"`URL` of a server, repeatable: of several, the one with the fewest requests in flight gets the next")
	f.BoolVar(&o.Mirror, "mirror", false,
		"take copies of requests, as Envoy and nginx send them, and answer 202; answers are unknown")
	f.StringVarP(&o.Output, "output", "o", "",
		"`FILE` to write, packed if it ends in .zst; never overwritten: the next one is FILE-2")
	f.StringVar(&o.KeyFile, "key-file", "",
		"`FILE` with the key by which text becomes ids of blocks, or new:FILE, which makes one (default: a key for "+
			"each file that is thrown away)")
	f.StringVar(&o.Tokenizer, "tokenizer", "",
		"`PATH` of the model's tokenizer.json, or a built-in one (default: each 4 bytes of text count as a token)")
	keepFlag(f, &o.Keep, "; FIELD=HEADER takes it from a header")
	addValue(f, &o.RotateBytes, parseBytes, "SIZE", "256MB", "rotate-size",
		"close a file and begin the next after so many bytes of rows, before they are packed")
	addSeconds(f, &o.RotateAfter, "rotate-every", "", 0, "close a file and begin the next after this time (0s = never)")
	addValue(f, &o.MemoryBytes, parseBytes, "SIZE", "256MB", "memory",
		"most memory for requests that pass or wait for their turn; beyond it they pass and are not recorded")
	f.StringVar(&o.TLSCert, "tls-cert", "", "`FILE` with the certificate (PEM) with which to serve https")
	f.StringVar(&o.TLSKey, "tls-key", "", "`FILE` with its key (PEM)")
	f.StringVar(&o.CACert, "ca-cert", "", "`FILE` with the certificates (PEM) to trust for servers with https")
	f.BoolVar(&o.Insecure, "insecure", false, "trust any certificate of a server with https")
	f.StringVar(&o.Metrics, "metrics-addr", "",
		"`HOST:PORT` at which to serve numbers to Prometheus and to `fastreplay record status`")
	c.AddCommand(o.statusCommand(), o.auditCommand())
	return c
}

// keepFlag adds --keep.
func keepFlag(f *pflag.FlagSet, fields *[]string, more string) {
	f.StringArrayVar(fields, "keep", nil,
		"keep this `FIELD` of requests, repeatable: tenant, model, class, priority or a parameter such as "+
			"temperature; names become pseudonyms unless :plain is behind it"+more)
}

// record passes traffic on until a signal.
func (o *recordOptions) record(ctx context.Context, out io.Writer, ui *terminal) error {
	switch {
	case o.Output == "":
		return errors.New("no file to write; give one with --output, such as --output day.jsonl.zst")
	case o.Mirror && len(o.Upstreams) > 0:
		return errors.New("--mirror takes copies, and passes nothing on: leave out --upstream")
	case !o.Mirror && len(o.Upstreams) == 0:
		return errors.New("no server; give one with --upstream, such as --upstream http://gpu1:8000")
	}
	// One more thread than there are processors, for the goroutine that makes rows: the others are for traffic. On 2
	// cores with 2.4M tokens/s, p99 from sending to the recorder fell from 27 and 110 ms to 12 (2026-11-27, busy).
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	if err := host.ForbidDumps(); err != nil {
		ui.line("note: a core file of this process would have prompts in it: %v", err)
	}
	o.Version = buildVersion()
	o.Note = func(text string) { ui.line("note: %s", visible(text)) }
	r, err := recorder.Start(o.Options)
	if err != nil {
		return err
	}
	ctx, interrupts := catchSignals(ctx, ui)
	defer interrupts.release()
	fmt.Fprintf(out, "listening on %s\n", r.URL())
	to := "copies of requests"
	if !o.Mirror {
		to = "requests to " + strings.Join(o.Upstreams, ", ")
	}
	ui.line("recording %s into %s", to, r.File())
	if o.Tokenizer == "" {
		ui.line("note: without --tokenizer lengths are not the server's: each 4 bytes of text count as a token")
	}
	err = r.Run(ctx)
	ui.line("recorded: %s", r.Recorded())
	switch missing := r.Missing(); {
	case err != nil:
		return exitWith(exitInvalid, "%v", err)
	case missing > 0:
		return exitWith(exitInvalid, "%s missing: no room on the disk or in --memory", format.Many(missing, "row"))
	}
	return nil
}

// auditCommand says what a stranger could learn of a trace, and writes it without some of that.
func (o *recordOptions) auditCommand() *cobra.Command {
	var m exposure.Remedies
	var read trace.Options
	var output string
	fewest := 5
	c := &cobra.Command{
		Use:   "audit TRACE",
		Short: "Say what a stranger could learn from a trace, and remove it",
		Long: `Say what a stranger could learn of a trace: ids of blocks that few sessions share, rare lengths,
the longest sessions, rare parameters. Each remedy is told with what it costs: the hits of an ideal cache before and
after. With --output the remedies that are given are applied.`,
		Example: `  fastreplay record audit day.jsonl.zst
  fastreplay record audit day.jsonl.zst --drop-rare 5 --round-lengths 16 \
    --output public.jsonl.zst`,
		Args: someTraces,
		RunE: func(c *cobra.Command, paths []string) error {
			if err := m.Check(); err != nil {
				return err
			}
			t, err := trace.OpenAll(paths, read)
			if err != nil {
				return err
			}
			if m.DropRare > 0 {
				fewest = m.DropRare
			}
			remedies := []exposure.Remedies{m}
			if m == (exposure.Remedies{}) {
				remedies = exposure.Usual(fewest)
			}
			r := exposure.Look(t, fewest)
			fmt.Fprintf(c.OutOrStdout(), "%s\n%s\n%s", visible(t.Name), r.Page(), r.Costs(t, remedies))
			if output == "" {
				return nil
			}
			return writeTrace(output, c.OutOrStdout(), m.Apply(t), trace.Own)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Var(countFlag(&m.DropRare, ""), "drop-rare",
		"ids of blocks that several sessions share, but fewer than `K`, become each session's own")
	f.Var(countFlag(&m.RoundLengths, ""), "round-lengths", "round lengths up to a multiple of `N` tokens")
	addSeconds(f, &m.Jitter, "jitter", "", 0, "move each instant by up to so much, to either side")
	f.StringVarP(&output, "output", "o", "", "`FILE` to write, in fastreplay's own format; never overwritten")
	return c
}

// statusCommand says how a recorder that runs is.
func (o *recordOptions) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status HOST:PORT",
		Short:   "Show how a running recorder is doing (needs its --metrics-addr)",
		Example: "  fastreplay record status 127.0.0.1:9465",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := recorder.Status(args[0])
			fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
}
