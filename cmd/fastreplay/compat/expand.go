package compat

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Expand repeats a flag's name before each of several values that follow it, as pflag needs it: --extra-inputs a:1 b:2 becomes
// --extra-inputs a:1 --extra-inputs b:2. Before the main command's trace only a text with : or = that is no file is another value.
func Expand(args []string, flags *pflag.FlagSet, profile bool) []string {
	several := map[string]takes{}
	for _, name := range []string{"extra-inputs", "header", "goodput", "url"} {
		several["--"+name], several["-"+flags.Lookup(name).Shorthand] = values, values
	}
	delete(several, "-")
	for name, n := range byName(profile) {
		if n.takes == values || n.takes == anyValue {
			several["--"+name] = n.takes
		}
	}
	another := func(text string) bool {
		_, err := os.Stat(text)
		return !strings.HasPrefix(text, "-") && (profile || strings.ContainsAny(text, ":=") && err != nil)
	}
	var out []string
	for len(args) > 0 && args[0] != "--" {
		flag, n := args[0], 0
		args = args[1:]
		if several[flag] == values {
			n = min(1, len(args)) // the first, whatever it looks like
		}
		for several[flag] != "" && n < len(args) && another(args[n]) {
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
