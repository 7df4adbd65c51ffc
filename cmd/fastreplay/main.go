// Command fastreplay replays a trace of LLM requests against serving endpoints, each request at its recorded moment.
//
// The package owns what faces people: flags, progress, words on the terminal and exit codes. It holds no logic of
// measurement. A subcommand is a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/bench/mockllm/fault"
	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/codec/api"
	"github.com/fastreplay/fastreplay/codec/tokenizer"
	"github.com/fastreplay/fastreplay/engine/export"
	"github.com/fastreplay/fastreplay/engine/format"
	"github.com/fastreplay/fastreplay/engine/host"
	"github.com/fastreplay/fastreplay/sched"
)

func main() {
	host.BoundHeap()
	log.SetOutput(io.Discard) // net/http shows there what servers say behind an answer, and that may be text
	os.Exit(execute(context.Background(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio is what a command reads and writes.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// execute is the whole program but for the process.
func execute(ctx context.Context, args []string, std stdio) int {
	root := newRootCommand()
	if i := slices.Index(args, "serve"); i == 1 && args[0] == "bench" ||
		i == 2 && args[0] == "vllm" && args[1] == "bench" {
		if args = args[i+1:]; len(args) > 0 {
			args = append([]string{"--" + compat.BenchServe}, args...)
		}
	}
	if cmd, _, err := root.Find(args); err == nil && (cmd == root || cmd.Name() == "profile") {
		args = compat.Expand(args, cmd.Flags(), cmd != root)
	}
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	if help, _ := root.Flags().GetBool("help"); help && err == nil {
		err = checkWords(root, root.Flags().Args())
	}
	if err == nil {
		return exitOK
	}
	code := exitUsage
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		text = "fastreplay: " + visible(text)
		if width := newTerminal(std.err).width; width > 0 && !strings.Contains(text, "\n") {
			text = strings.Join(format.Fill(text, width), "\n")
		}
		fmt.Fprintln(std.err, text)
	}
	return code
}

// newRootCommand returns the replay command with the others below it.
func newRootCommand() *cobra.Command {
	root := newReplayCommand()
	root.Use = "fastreplay [--trace] FILE [flags]"
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.Version = aboutBuild()
	root.AddCommand(
		newProfileCommand(), newMockCommand(), newGenCommand(), newConvertCommand(), newRecordCommand(),
		newReportCommand(),
		newCompareCommand(), newMergeCommand(), newInspectCommand(), newCapacityCommand(), newSweepCommand(),
		newDoctorCommand(),
		newDemoCommand(), newVersionCommand(), newSenderCommand(),
	)
	root.SetHelpCommand(newHelpCommand(root))
	// --help of every command fits into 80 columns, and that of a replay is one screen of its first flags. No template
	// of cobra's is set: the linker keeps every exported method of a program that uses text/template, 2.7 MB here.
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		switch {
		case checkWords(c, c.Flags().Args()) != nil: // execute says so
		case c == root || c.Name() == "profile":
			fmt.Fprint(c.OutOrStdout(), firstHelp(c))
		default:
			fmt.Fprint(c.OutOrStdout(), commandHelp(c))
		}
	})
	completeValues(root)
	root.SetFlagErrorFunc(explainFlag)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.InitDefaultHelpFlag()
	return root
}

// completeValues lets the shell complete what stands behind flags and commands.
func completeValues(root *cobra.Command) {
	values := map[string][]string{ // beside those that flags list
		"api":       api.Names(),
		"export":    export.Names(),
		"time-unit": {"ns", "us", "ms", "s"},
		"rate":      {rateMax},
		"fault":     fault.Names(),
		"arrival":   {string(sched.Constant), string(sched.Poisson), string(sched.Gamma) + ":"},
		"sessions":  sessionWords(),
		"tokenizer": {tokenizer.CL100K, tokenizer.O200K}, // or a path
	}
	traces := []string{"jsonl", "json", "csv", "gz", "zst"}
	files := map[string][]string{
		"trace":   traces,
		"config":  {"yaml", "yml", "json"},
		"ca-cert": {"pem", "crt"},
		"html":    {"html"},
	}
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			words := values[f.Name]
			rest := cobra.ShellCompDirectiveNoFileComp
			if v, ok := f.Value.(interface{ choices() []string }); ok && v.choices() != nil {
				words = v.choices()
			}
			if f.Name == "tokenizer" {
				rest = cobra.ShellCompDirectiveDefault
			}
			if words != nil {
				noBug(c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, rest)))
			}
			if ends := files[f.Name]; ends != nil {
				noBug(c.MarkFlagFilename(f.Name, ends...))
			}
		})
		if c.Flags().Lookup("goodput") != nil && c.Flags().Lookup("output") != nil {
			noBug(c.MarkFlagDirname("output"))
		}
		switch c.Name() {
		case "fastreplay": // its commands, and files
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		case "inspect", "convert", "capacity", "sweep":
			c.ValidArgsFunction = cobra.FixedCompletions(traces, cobra.ShellCompDirectiveFilterFileExt)
		case "report", "compare":
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		}
	}
}
