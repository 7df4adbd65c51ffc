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

// groupFlags makes help fit into 80 columns, and that of root and profile list the flags of a replay by group.
func groupFlags(root *cobra.Command) {
	const width, unwrapped = 80, "{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	var b strings.Builder
	b.WriteString(`{{if or (eq .Name "fastreplay") (eq .Name "profile")}}`)
	for _, g := range flagGroups() {
		b.WriteString("\n" + g.title + "\n" + g.pick(root.Flags()).FlagUsagesWrapped(width))
	}
	fmt.Fprintf(&b, "{{else}}{{.LocalFlags.FlagUsagesWrapped %d | trimTrailingWhitespaces}}{{end}}", width)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), unwrapped, b.String(), 1))
}
