// Command fastreplay replays a trace of LLM requests against serving endpoints, each request at its recorded moment.
//
// The package owns what faces people: flags, progress, words on the terminal and exit codes. It holds no logic of
// measurement. A subcommand is a file.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/host"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitInvalid     = 1   // the run finished, but its numbers are not to be trusted
	exitUsage       = 2   // bad usage, trace or target; nothing was sent
	exitMissed      = 3   // the run is valid, and the server missed an objective (--require, --max-error-rate)
	exitInterrupted = 130 // stopped by a signal; the files are whole and marked partial
)

// What scripts/release sets by the linker; empty in other builds.
var version, commit, date string

func main() {
	host.BoundHeap()
	os.Exit(run(context.Background(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio is what a command reads and writes.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// exitError carries an exit code that is not that of bad usage. Its text is empty where everything has been said.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// run is the whole program but for the process.
func run(ctx context.Context, args []string, std stdio) int {
	root := newRootCommand()
	if i := slices.Index(args, "serve"); i == 1 && args[0] == "bench" || i == 2 && args[0] == "vllm" && args[1] == "bench" {
		args = args[i+1:]
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
			text = strings.Join(fillLines(text, width), "\n")
		}
		fmt.Fprintln(std.err, text)
	}
	return code
}

// newRootCommand returns the replay command with the others below it.
func newRootCommand() *cobra.Command {
	root := newReplayCommand()
	root.Use = "fastreplay [--trace] FILE [flags]"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = aboutBuild()
	root.AddCommand(newProfileCommand(), newMockCommand(), newGenCommand(), newConvertCommand(), newReportCommand(), newCompareCommand(), newMergeCommand(), newInspectCommand(), newCapacityCommand(), newDoctorCommand(), newDemoCommand(), newVersionCommand(), newSenderCommand())
	root.SetHelpCommand(newHelpCommand(root))
	// --help of every command fits into 80 columns, and that of a replay is one screen of its first flags. No template of cobra's is set:
	// the linker keeps every exported method of a program that uses text/template, 2.7 MB here.
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		switch {
		case checkWords(c, c.Flags().Args()) != nil: // run says so
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

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, its commit and its date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "fastreplay version", aboutBuild())
			return err
		},
	}
}

// source says from which source a program was made. Parts that are unknown are empty.
type source struct{ version, commit, date string }

// thisSource returns what the linker set, and for the rest what Go noted: of the checkout (go build), or of the module (go install).
func thisSource() source {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return source{version, commit, date}.completed(info)
}

// completed fills the parts of s that are empty from info.
func (s source) completed(info *debug.BuildInfo) source {
	noted := map[string]string{}
	for _, setting := range info.Settings {
		noted[setting.Key] = setting.Value
	}
	const shortHash = 12 // digits of a commit, as Go's pseudo-versions have them
	revision := noted["vcs.revision"][:min(shortHash, len(noted["vcs.revision"]))]
	if noted["vcs.modified"] == "true" {
		revision += "+dirty"
	}
	module := info.Main.Version
	if module == "(devel)" {
		module = ""
	}
	return source{cmp.Or(s.version, module, "dev"), cmp.Or(s.commit, revision), cmp.Or(s.date, noted["vcs.time"])}
}

// aboutBuild is the version with what it was made of.
func aboutBuild() string {
	b := thisSource()
	parts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if b.date != "" {
		parts = slices.Insert(parts, 0, b.date)
	}
	if b.commit != "" {
		parts = slices.Insert(parts, 0, "commit "+b.commit)
	}
	return fmt.Sprintf("%s (%s)", b.version, strings.Join(parts, ", "))
}

// buildVersion is the release, or what Go noted of the module; "dev" if neither is known.
func buildVersion() string { return thisSource().version }
