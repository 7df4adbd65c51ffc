package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a part of a replay's flags in its help and in the manual.
type flagGroup struct{ title, flags string }

// flagGroups has every flag of a replay once; a test says so.
func flagGroups() []flagGroup {
	return []flagGroup{
		{"Trace: what is replayed", "trace format fields time-unit block-tokens lenient strict limit from to repeat amplify too-long config"},
		{"Load: when requests leave", `scale rate ramp arrival burstiness concurrency duration duration-grace fixed-schedule
			no-fixed-schedule warmup sessions history`},
		{"Server: where requests go", `url targets route load-bound model api endpoint header api-key-file api-key ca-cert insecure
			timeout idle-timeout connect-timeout resend`},
		{"Requests: what is sent", "prompt tokenizer extra-inputs no-stream no-force-output seed cold"},
		{"Results: what is kept and judged", `output json goodput export compress dry-run max-error-rate max-drift max-receive-lag
			allow-warm scrape scrape-url scrape-interval`},
		{"Proof: what is checked and assumed", `no-probe verify-prompts chat-overhead engine-block-tokens cache-tokens assume-ttft
			assume-tpot instance-header instance-field`},
		{"Machine: how requests are sent", "lane lanes realtime spin kernel-timestamps max-memory grace"},
	}
}

// pick returns the flags of the group, in its order.
func (g flagGroup) pick(flags *pflag.FlagSet) *pflag.FlagSet {
	picked := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	picked.SortFlags = false
	for _, name := range strings.Fields(g.flags) {
		if f := flags.Lookup(name); f != nil {
			picked.AddFlag(f)
		}
	}
	return picked
}

// groupFlags makes help fit into 80 columns, and that of root and profile list the flags of a replay by group. It sets no template of
// cobra's: the linker keeps every exported method of a program that uses text/template, 2.7 MB here.
func groupFlags(root *cobra.Command) {
	usage := new(cobra.Command).UsageFunc() // cobra's own
	root.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var text strings.Builder
		c.SetOut(&text)
		err := usage(c)
		c.SetOut(out)
		unwrapped := strings.TrimRight(c.LocalFlags().FlagUsages(), " \n")
		fmt.Fprint(out, strings.Replace(text.String(), unwrapped, flagUsages(root, c), 1))
		return err
	})
}

// flagUsages is what help says of the command's flags.
func flagUsages(root, c *cobra.Command) string {
	const width = 80
	if c.Name() != "fastreplay" && c.Name() != "profile" {
		return strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(width), " \n")
	}
	var b strings.Builder
	for _, g := range flagGroups() {
		b.WriteString("\n" + g.title + "\n" + g.pick(root.Flags()).FlagUsagesWrapped(width))
	}
	return b.String()
}
