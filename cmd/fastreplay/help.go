package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/manual"
	"github.com/fastreplay/fastreplay/engine/format"
)

//go:generate go test -run TestManualIsFresh|TestSchemas . -update

// newHelpCommand shows the help of a command, or a page of the manual. If both have the name, it shows both.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [TOPIC|COMMAND]",
		Short: "Show a page of the manual, or the flags of a command",
		Long: "Show a page of the manual, or the flags of a command. Without an argument it lists both. On " +
			"a\nterminal it goes through $PAGER (less) if there is one.",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return manual.Topics(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := io.WriteString(c.OutOrStdout(), helpList(root))
				return err
			}
			return showHelp(c.OutOrStdout(), root, args)
		},
	}
}

func showHelp(w io.Writer, root *cobra.Command, args []string) error {
	topic := strings.TrimSuffix(args[0], ".md")
	var flags strings.Builder
	if command, rest, err := root.Find(args); err == nil && command != root && len(rest) == 0 {
		command.SetOut(&flags)
		if err := command.Help(); err != nil {
			return err
		}
		flags.WriteString("\n")
	}
	page := manual.Page(topic)
	if flags.Len() == 0 && (page == "" || len(args) > 1) {
		err := fmt.Errorf("no topic or command %q (`fastreplay help` lists them)", strings.Join(args, " "))
		if near := nearest(topic, slices.Concat(manual.Topics(), commandNames(root))); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near[:min(3, len(near))], " or "))
		}
		return err
	}
	width := newTerminal(w).width
	if width > 0 {
		return showPage(w, flags.String()+manual.LayOut(page, min(width, 100), os.Getenv("NO_COLOR") == ""))
	}
	_, err := io.WriteString(w, flags.String()+manual.LayOut(page, usageWidth, false))
	return err
}

// showPage prints a page on a terminal, through $PAGER (less) if there is one, as git does.
func showPage(w io.Writer, page string) error {
	pager := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("PAGER")), "less"))
	if path, err := exec.LookPath(pager[0]); err == nil {
		c := exec.Command(path, pager[1:]...)
		c.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRX")) // it ends at once if the page fits
		c.Stdin = strings.NewReader(page)
		c.Stdout = w
		c.Stderr = os.Stderr
		if c.Start() == nil {
			_ = c.Wait() // it is left as the user likes
			return nil
		}
	}
	_, err := io.WriteString(w, page)
	return err
}

// helpList lists commands and topics, each with what it is about, on one screen of 80x24.
func helpList(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("fastreplay FILE replays a trace: fastreplay --help. Or fastreplay COMMAND --help\n")
	b.WriteString(commandList(root))
	// for which the screen has no line
	more := strings.Fields("agentx aiperf analysis benchmarks compat design flags fleet guidellm instances " +
		"k6 keys live llm-d scenario trace vllm")
	names := format.Fill("help "+strings.Join(more, ", ")+", or", usageWidth)
	b.WriteString(strings.Join(names, "\n") + "\n")
	for _, topic := range manual.Topics() {
		if slices.Contains(commandNames(root), topic) || slices.Contains(more, topic) {
			continue // a command's help ends with the page
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(manual.Page(topic), "# "), "\n")
		fmt.Fprintf(&b, "  %-11s %s\n", topic, title)
	}
	return b.String()
}

// commandList lists the commands below one, each with what it does.
func commandList(of *cobra.Command) string {
	var b strings.Builder
	for _, c := range of.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" && c.Name() != "version" && c.Name() != "help" {
			fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	return b.String()
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// checkWords refuses a word that is neither a trace nor a command, with the command that it may mean.
func checkWords(c *cobra.Command, words []string) error {
	if len(words) == 0 || c.HasParent() {
		return nil
	}
	word := words[0]
	if _, err := os.Stat(word); !errors.Is(err, os.ErrNotExist) || word == "-" || strings.ContainsAny(word, "./:") {
		return nil
	}
	hint := "; `fastreplay help` lists the commands"
	switch near := nearest(word, commandNames(c)); {
	case word == "diff":
		hint = "; did you mean `fastreplay compare`?"
	case slices.Contains([]string{"run", "replay", "client", "aiperf", "genai-perf"}, word):
		hint = fmt.Sprintf("; drop '%s': fastreplay %s", word, cmp.Or(strings.Join(words[1:], " "), "FILE"))
	case len(near) > 0:
		hint = "; did you mean `fastreplay " + near[0] + "`?"
	}
	return fmt.Errorf("no such file or command: %s%s", word, hint)
}

// usageWidth is the columns of every --help.
const usageWidth = 80

// firstHelp is the help of a replay: the flags that most people need.
func firstHelp(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n  %s\n", c.Short, c.UseLine())
	b.WriteString(c.Example + "\n")
	for _, g := range new(options).groups() {
		first := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		first.SortFlags = false
		g.flags.VisitAll(func(f *pflag.Flag) {
			if slices.Contains(strings.Fields(firstFlags), f.Name) {
				short := *f
				short.Usage, _, _ = strings.Cut(f.Usage, ";")
				first.AddFlag(&short)
			}
		})
		if title, _, _ := strings.Cut(g.title, ":"); first.HasFlags() {
			b.WriteString(title + "\n" + flagUsages(first, false))
		}
	}
	b.WriteString(
		"\nAll flags: fastreplay help flags. Those of AIPerf, GenAI-Perf, vLLM's bench and\ntrace-replayer: " +
			"fastreplay help compat. Commands: fastreplay help\n")
	return b.String()
}

// commandHelp is how a command is written, examples, what it is about, and its flags.
func commandHelp(c *cobra.Command) string {
	help := "Usage\n  " + c.UseLine() + "\n\n"
	if c.Example != "" {
		help += "Examples\n" + c.Example + "\n\n"
	}
	help += manual.LayOut(strings.ReplaceAll(cmp.Or(c.Long, c.Short+"."), "\t", "    "), usageWidth, false) + "\n"
	if c.HasParent() && c.HasAvailableSubCommands() {
		help += "Commands\n" + commandList(c) + "\n"
	}
	return help + "Flags\n" + flagUsages(c.LocalFlags(), true)
}

// flagColumn is where descriptions of flags begin; longer names have a line of their own.
const flagColumn = 28

// flagUsages lists flags with their descriptions, wrapped, and with their defaults if those are wanted.
func flagUsages(flags *pflag.FlagSet, defaults bool) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, about := flagName(f)
		if defaults {
			about += flagDefault(f, about)
		}
		lead := "      " + name
		if f.Shorthand != "" {
			lead = "  -" + f.Shorthand + ", " + name
		}
		lines := format.Fill(about, usageWidth-flagColumn)
		if uniseg.StringWidth(lead) > flagColumn-2 {
			b.WriteString(lead + "\n")
			lead = ""
		}
		for _, line := range lines {
			b.WriteString(lead + strings.Repeat(" ", flagColumn-uniseg.StringWidth(lead)) + line + "\n")
			lead = ""
		}
	})
	return b.String()
}

// flagName returns a flag with its dashes and what stands behind it, and its description.
func flagName(f *pflag.Flag) (name, about string) {
	value, about := pflag.UnquoteUsage(f)
	usual := map[string]string{"string": "NAME", "int": "N", "uint": "N", "float": "X", "duration": "TIME",
		"value": f.Value.Type()}
	if kind, ok := usual[value]; ok {
		value = kind
	}
	return strings.TrimSpace("--" + f.Name + " " + value), about
}

// flagDefault is what is added to a description about the default; nothing if there is none, or if the description has
// it.
func flagDefault(f *pflag.Flag, about string) string {
	if slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) || strings.Contains(about, "(default") {
		return ""
	}
	return " (default " + strings.ReplaceAll(strings.Trim(f.DefValue, "[]"), ",", ", ") + ")"
}
