package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageWidth is the columns of every --help.
const usageWidth = 80

// showUsage makes --help of every command fit into 80 columns, and that of a replay one screen of its first flags. It sets no template
// of cobra's: the linker keeps every exported method of a program that uses text/template, 2.7 MB here.
func showUsage(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		help := commandHelp
		if c == root || c.Name() == "profile" {
			help = firstHelp
		}
		fmt.Fprint(c.OutOrStdout(), help(c))
	})
}

// firstHelp is the help of a replay: the flags that most people need.
func firstHelp(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n  %s\n", c.Short, c.UseLine())
	for line := range strings.Lines(c.Example) {
		b.WriteString("  " + strings.TrimSpace(line) + "\n")
	}
	for _, g := range new(options).groups() {
		first := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		first.SortFlags = false
		g.flags.VisitAll(func(f *pflag.Flag) {
			if slices.Contains(firstFlags(), f.Name) {
				short := *f
				short.Usage, _, _ = strings.Cut(f.Usage, ";")
				first.AddFlag(&short)
			}
		})
		if title, _, _ := strings.Cut(g.title, ":"); first.HasFlags() {
			b.WriteString(title + "\n" + flagUsages(first, false))
		}
	}
	b.WriteString("\nAll flags: fastreplay help flags. Commands: fastreplay help\n")
	return b.String()
}

// commandHelp is what a command is about, how it is written, and its flags.
func commandHelp(c *cobra.Command) string {
	help := layOut(strings.ReplaceAll(cmp.Or(c.Long, c.Short+"."), "\t", "    "), usageWidth, false) + "\nUsage\n  " + c.UseLine() + "\n\n"
	if c.Example != "" {
		help += "Examples\n" + c.Example + "\n\n"
	}
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
		lines := fillLines(about, usageWidth-flagColumn)
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
	usual := map[string]string{"string": "NAME", "int": "N", "uint": "N", "float": "X", "duration": "TIME", "value": f.Value.Type()}
	if kind, ok := usual[value]; ok {
		value = kind
	}
	return strings.TrimSpace("--" + f.Name + " " + value), about
}

// flagDefault is what is added to a description about the default; nothing if there is none, or if the description has it.
func flagDefault(f *pflag.Flag, about string) string {
	if slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) || strings.Contains(about, "(default") {
		return ""
	}
	return " (default " + strings.ReplaceAll(strings.Trim(f.DefValue, "[]"), ",", ", ") + ")"
}
