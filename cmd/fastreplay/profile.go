package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fastreplay/fastreplay/codec/trace"
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
		fmt.Fprintf(&b, "  %s--%-35s --%s\n", short, a.name, a.flag)
	}
	b.WriteString("\nTaken with a note, for they change nothing here:\n" + wrapped(noted))
	b.WriteString("\nRefused, with what to do instead:\n" + wrapped(refused))
	return b.String()
}

// wrapped breaks words into lines.
func wrapped(words []string) string {
	var b strings.Builder
	width := 0
	for _, w := range words {
		if width > 0 && width+1+len(w) > 110 {
			b.WriteByte('\n')
			width = 0
		}
		n, _ := fmt.Fprintf(&b, " %s", w)
		width += n
	}
	return b.String() + "\n"
}

// paceLikeAIPerf decides, for `fastreplay profile`, when requests leave where the flags leave it open: what a trace's times say,
// with --concurrency as a cap, and one request at a time where it has none. It returns what is worth a note.
func (h *hands) paceLikeAIPerf(p *pacing, t *trace.Trace) []string {
	if !h.profile || p.fixed || p.notFixed || p.given("scale") {
		return nil
	}
	timed := !t.Untimed && !slices.Contains([]string{"single_turn", "multi_turn", "raw_payload", "inputs_json"}, t.Format)
	rated := p.rate != "" || p.ramp != ""
	switch {
	case timed && rated:
		return []string{"requests leave at the rate given; aiperf profile would keep the trace's times unless told --no-fixed-schedule"}
	case timed && p.concurrency > 0:
		h.assume("fixed-schedule", "true")
		return []string{fmt.Sprintf("the trace's times are kept, as in aiperf profile, and --concurrency %d is a cap; --no-fixed-schedule makes it a closed loop", p.concurrency)}
	case !timed && !rated && p.concurrency == 0:
		h.assume("concurrency", "1")
		why := "the trace has no times"
		if !t.Untimed {
			why = "aiperf profile keeps the times of " + t.Format + " only with --fixed-schedule"
		}
		return []string{why + ": one request at a time is sent, as in aiperf profile; --concurrency or --request-rate say otherwise"}
	}
	return nil
}

// assume sets a flag that was not given, so that the results have it among those that were.
func (h *hands) assume(flag, text string) {
	if err := h.flags.Set(flag, text); err != nil {
		panic("BUG: a flag does not take " + text + ": " + err.Error())
	}
}

// noteHands says what has become of the flags of other tools, and what a file has set.
func (r *replay) noteHands() {
	if r.o.config != "" {
		r.say.line("config: %s sets %s", r.o.config, orNothing(r.hands.fromFile))
	}
	for _, note := range r.hands.notes {
		r.note("%s", note)
	}
}

func orNothing(flags []string) string {
	if len(flags) == 0 {
		return "nothing"
	}
	return "--" + strings.Join(flags, ", --")
}

// gathered gives each of several values after a flag the flag's name, as pflag wants it: --extra-inputs a:1 b:2 is --extra-inputs
// a:1 --extra-inputs b:2. In front of the main command's trace only what looks like KEY:VALUE or KEY=VALUE, and is no file, counts
// as another value.
func gathered(args []string, root *cobra.Command) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd != root && cmd.Name() != "profile" {
		return args
	}
	flags, several := cmd.Flags(), map[string]takes{}
	for _, name := range []string{"extra-inputs", "header", "goodput", "url"} {
		if f := flags.Lookup(name); f != nil {
			several["--"+name] = values
			if f.Shorthand != "" {
				several["-"+f.Shorthand] = values
			}
		}
	}
	for _, a := range aliasesOf(cmd != root) {
		if a.takes == values || a.takes == anyValue {
			several["--"+a.name] = a.takes
		}
	}
	another := func(text string) bool {
		_, err := os.Stat(text)
		return !strings.HasPrefix(text, "-") && (cmd != root || strings.ContainsAny(text, ":=") && err != nil)
	}
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		many := several[arg]
		out = append(out, arg)
		if many == aValue {
			continue
		}
		i++
		if many == anyValue && (i == len(args) || !another(args[i])) {
			out[len(out)-1] = arg + "="
			i--
			continue
		}
		if i < len(args) {
			out = append(out, args[i])
		}
		for i+1 < len(args) && another(args[i+1]) {
			i++
			out = append(out, arg, args[i])
		}
	}
	return out
}
