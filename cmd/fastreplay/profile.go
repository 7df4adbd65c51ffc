package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newProfileCommand is the main command for those who know `aiperf profile` or `genai-perf profile`.
func newProfileCommand() *cobra.Command {
	return addReplay(&cobra.Command{
		Use:   "profile --input-file FILE [flags]",
		Short: "Replay a trace, given AIPerf's or GenAI-Perf's command line",
		Long: `Replay a trace as the main command does, with AIPerf's defaults where they differ, each of which the run says: chat,
at localhost:8000, whole responses unless --streaming, random gaps (Poisson) at a --request-rate, and 30 s of grace after
a --benchmark-duration.

Flags of other tools. The main command takes them, too.
` + aliasUsage() + `
The first request leaves at instant 0. What is given under two names must be the same.`,
		Example: `  fastreplay profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 \
    --input-file trace.jsonl --custom-dataset-type mooncake_trace --fixed-schedule`,
	}, true)
}

// aliasUsage lists the aliases: what is ours by another name, and what is taken or refused with a word about it.
func aliasUsage() string {
	var b strings.Builder
	seen := map[string]bool{}
	ours, noted, refused := []alias{}, []string{}, []string{}
	for _, a := range slices.Concat(aliasesOf(false), aliasesOf(true)) {
		switch {
		case seen[a.name]:
			continue
		case a.refused != "":
			refused = append(refused, "--"+a.name)
		case a.flag == "":
			noted = append(noted, "--"+a.name)
		default:
			ours = append(ours, a)
		}
		seen[a.name] = true
	}
	for _, a := range ours {
		short := "    "
		if a.short != "" {
			short = "-" + a.short + ", "
		}
		fmt.Fprintf(&b, "  %s--%-35s --%s\n", short, a.name, a.ours())
	}
	b.WriteString("\nTaken with a note, for they change nothing here:\n " + strings.Join(fillLines(strings.Join(noted, " "), 110), "\n ") + "\n")
	b.WriteString("\nRefused, with what to do instead:\n " + strings.Join(fillLines(strings.Join(refused, " "), 110), "\n ") + "\n")
	return b.String()
}

// ours is our flag, of a switch with the value that it stands for.
func (a *alias) ours() string {
	if a.takes != noValue || a.value == nil {
		return a.flag
	}
	text, err := a.value("true")
	if err != nil {
		panic("BUG: --" + a.name + " is no switch: " + err.Error())
	}
	return a.flag + "=" + text
}
