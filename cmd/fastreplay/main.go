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
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
	"github.com/fastreplay/fastreplay/engine/host"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitInvalid     = 1   // the run finished, but its numbers are not to be trusted
	exitUsage       = 2   // bad usage, trace or target; nothing was sent
	exitInterrupted = 130 // stopped by a signal; the files are whole and marked partial
)

// version is set by the linker in releases.
var version = "dev"

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
	if cmd, _, err := root.Find(args); err == nil && (cmd == root || cmd.Name() == "profile") {
		args = compat.Expand(args, cmd.Flags(), cmd != root)
	}
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitUsage
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(std.err, "fastreplay: %s\n", visible(text))
	}
	return code
}

// newRootCommand returns the replay command with the others below it.
func newRootCommand() *cobra.Command {
	root := newReplayCommand()
	root.Use = "fastreplay [--trace] FILE [flags]"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version
	root.AddCommand(newProfileCommand(), newMockCommand(), newGenCommand(), newConvertCommand(), newReportCommand(), newInspectCommand(), newVersionCommand(), newSenderCommand())
	root.SetHelpCommand(newHelpCommand(root))
	showUsage(root)
	completeValues(root)
	root.SetFlagErrorFunc(explainFlag)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.InitDefaultHelpFlag()
	showVersion(root)
	return root
}

// showVersion makes --version print the version without cobra's words around it, and without a template of cobra's (see showUsage).
func showVersion(root *cobra.Command) {
	root.InitDefaultVersionFlag()
	root.Version = ""
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if show, err := cmd.Flags().GetBool("version"); err == nil && show {
			fmt.Fprintf(cmd.OutOrStdout(), "fastreplay %s\n", version)
			return nil
		}
		return run(cmd, args)
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "fastreplay %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildVersion is the release, or what `go install` knows of the module.
func buildVersion() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
