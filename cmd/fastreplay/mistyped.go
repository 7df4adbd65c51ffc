package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/cmd/fastreplay/compat"
)

// explainFlag returns why a flag is refused: the nearest known name of one that is not known, or what its value should
// be.
func explainFlag(c *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		hint := nearestFlag(c.Flags(), unknown.GetSpecifiedName(), "--")
		if hint == seeHelp && c.HasParent() {
			hint = "; see `" + c.CommandPath() + " --help`"
		}
		return fmt.Errorf("%w%s", err, hint)
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), compat.Plain(err))
	}
	return err
}

// nearestFlag names the flag that is nearest to a mistyped one, ours or another tool's; dashes go before it.
func nearestFlag(flags *pflag.FlagSet, typed, dashes string) string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	ours := ""
	for line := range strings.Lines(otherNames) {
		if name, flag, _ := strings.Cut(line, " "); name == typed {
			ours = strings.TrimSpace(flag)
		}
	}
	if near := nearest(typed, names); ours == "" && len(near) > 0 {
		return "; did you mean " + dashes + near[0] + "?"
	}
	switch flag, _, _ := strings.Cut(ours, " "); {
	case ours != "" && flags.Lookup(flag) != nil:
		return "; here it is " + dashes + ours
	case ours != "" && flags.Lookup("concurrency") != nil: // a replay's
		return "; " + ours
	}
	return seeHelp
}

// seeHelp is what is said of a flag that nobody knows.
const seeHelp = "; see `fastreplay --help` and `fastreplay help compat`"

// otherNames are what users of k6, oha, vegeta and wrk type, and words of the same meaning, with our flag or what to
// do.
const otherNames = `qps          rate (-r)
q            rate (-r)
rps          rate (-r)
vus          concurrency (-c)
vu           concurrency (-c)
users        concurrency (-c)
connections  concurrency (-c)
requests     limit (-n)
iterations   limit (-n)
i            limit (-n)
z            duration (-d)
late         late-start
assume       assume-latency
drain        grace
answers      force-answers
lenient      bad-rows drop
strict       bad-rows strict
threshold    require
thresholds   require
slo          goodput
require      slo
goodput      slo
name         output (-o)
label        output (-o)
speed        scale
speedup      scale
time         duration (-d)
host         url (-u)
server       url (-u)
html         a run writes report.html beside its other results
resume       no run is resumed; --from TIME begins a new one at that time of the trace
`
