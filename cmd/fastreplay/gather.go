package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// gathered gives each of several values after a flag the flag's name, as pflag wants it: --extra-inputs a:1 b:2 is --extra-inputs
// a:1 --extra-inputs b:2. In front of the main command's trace only what looks like KEY:VALUE or KEY=VALUE, and is no file, counts
// as another value.
func gathered(args []string, root *cobra.Command) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd != root && cmd.Name() != "profile" {
		return args
	}
	several := takingSeveral(cmd.Flags(), cmd != root)
	another := func(text string) bool {
		_, err := os.Stat(text)
		return !strings.HasPrefix(text, "-") && (cmd != root || strings.ContainsAny(text, ":=") && err != nil)
	}
	var out []string
	for len(args) > 0 && args[0] != "--" {
		flag, n := args[0], 0
		args = args[1:]
		if several[flag] == values {
			n = min(1, len(args)) // the first, whatever it looks like
		}
		for several[flag] != aValue && n < len(args) && another(args[n]) {
			n++
		}
		switch {
		case n == 0 && several[flag] == anyValue:
			out = append(out, flag+"=")
		case n == 0:
			out = append(out, flag)
		}
		for _, value := range args[:n] {
			out = append(out, flag, value)
		}
		args = args[n:]
	}
	return append(out, args...)
}

// takingSeveral are the flags of a command that more than one value may follow, or none, with their dashes.
func takingSeveral(flags *pflag.FlagSet, profile bool) map[string]takes {
	several := map[string]takes{}
	for _, name := range []string{"extra-inputs", "header", "goodput", "url"} {
		several["--"+name] = values
		if short := flags.Lookup(name).Shorthand; short != "" {
			several["-"+short] = values
		}
	}
	for _, a := range aliasesOf(profile) {
		if a.takes == values || a.takes == anyValue {
			several["--"+a.name] = a.takes
		}
	}
	return several
}
