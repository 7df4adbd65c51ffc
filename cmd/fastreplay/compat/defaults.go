package compat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/tokenizer"
)

// A preset is what another tool does unless told otherwise.
type preset struct {
	flag, text string // ours
	words      string // how the tool says it; "" = no note is needed
	wanted     bool   // nothing else was asked for
}

// preset sets the wanted of a tool's defaults, and notes them.
func (l *Line) preset(tool string, all []preset) error {
	var set []string
	for _, p := range all {
		if !p.wanted {
			continue
		}
		if err := l.Flags.Set(p.flag, p.text); err != nil {
			return err
		}
		if p.words != "" {
			set = append(set, p.words)
		}
	}
	if len(set) > 0 {
		l.note("as %s does unless told otherwise: %s", tool, strings.Join(set, "; "))
	}
	return nil
}

// aiperfDefaults sets the defaults of `aiperf profile` that differ from ours.
func (l *Line) aiperfDefaults() error {
	if !l.Profile {
		return nil
	}
	given := l.Flags.Changed
	whole := l.on("no-stream") || !given("no-stream")
	return l.preset("aiperf profile", []preset{
		{"url", "localhost:8000", "--url localhost:8000", !given("url") && !given("targets")},
		{"api", "chat", "--endpoint-type chat", !given("api")},
		{"no-stream", "true", "whole responses, so no TTFT or TPOT (--streaming asks for streams)",
			!given("no-stream")},
		{"idle-timeout", l.text("timeout"), "no limit on the time between two bytes of a whole response but --timeout",
			whole && !given("idle-timeout")},
		{"grace", "30s", "--benchmark-grace-period 30", given("duration") && !given("grace")},
		{"concurrency", "1", "--concurrency 1", l.on("no-fixed-schedule") && !l.rated() && !given("concurrency")},
	})
}

// vllmDefaults sets the defaults of `vllm bench serve` that differ from ours, if the command line has its
// --dataset-name.
func (l *Line) vllmDefaults() error {
	if l.dataset == "" {
		return nil
	}
	given := l.Flags.Changed
	timed := l.dataset == "timed_trace"
	own := l.dataset == "custom"
	atTimes := timed && !l.on("no-fixed-schedule")
	if atTimes && l.typed["rate"] == "--request-rate" { // it ignores the rate then, too
		l.note("--request-rate: %s is not used, since the trace's times are (--no-self-timed ignores those)",
			l.text("rate"))
		delete(l.typed, "rate")
		if err := l.Flags.Set("rate", ""); err != nil {
			return err
		}
	}
	headers := list(l.Flags.Lookup("header"))
	for i, text := range headers { // KEY=VALUE there
		if key, value, ok := strings.Cut(text, "="); ok && !strings.Contains(key, ":") {
			headers[i] = key + ": " + value
		}
	}
	if err := l.Flags.Lookup("header").Value.(pflag.SliceValue).Replace(headers); err != nil {
		return err
	}
	forced := timed || l.Given("ignore-eos")
	paced := l.rated() || l.text("concurrency") != ""
	return l.preset("vllm bench serve", []preset{
		{"url", "127.0.0.1:8000", "--port 8000", !given("url") && !given("targets")},
		{"limit", "1000", "--num-prompts 1000", !given("limit")},
		{"block-tokens", "16", "--timed-trace-chunk-hash-size 16", timed && !given("block-tokens")},
		{"time-unit", "s", "--timed-trace-sec-multiplier 1", timed && !given("time-unit")},
		{"fixed-schedule", "true", "--self-timed", atTimes && !l.on("fixed-schedule")},
		{"rate", "max", "--request-rate inf", !atTimes && !paced},
		{"no-force-output", "true", "an answer may end before its length (--ignore-eos forces it)", !forced &&
			!given("no-force-output")},
		{"fields", "text_input=prompt,output_length=output_tokens", "", own && !given("fields")},
		{"extra-inputs", "max_tokens:256", "--custom-output-len 256", own && !l.Given("custom-output-len")},
		{"extra-inputs", "ignore_eos:true", "", own && forced},
	})
}

// readMultiplier takes vLLM's seconds to a unit of timestamps: the largest of ours that is not larger, and the rest as
// a speed.
func (l *Line) readMultiplier(text string) error {
	const name = "timed-trace-sec-multiplier"
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil || !(factor > 0) || math.IsInf(factor, 0) {
		return fmt.Errorf("--%s %q: want a number of seconds above 0", name, text)
	}
	unit := "ns"
	seconds := 1e-9
	for _, larger := range []string{"us", "ms", "s"} {
		next := seconds * 1000
		if factor >= next*(1-1e-9) {
			unit = larger
			seconds = next
		}
	}
	scale := seconds / factor
	if math.Abs(scale-1) > 1e-9 {
		rest := strconv.FormatFloat(scale, 'g', 12, 64)
		if err := l.set(name, "scale", rest); err != nil {
			return err
		}
		l.note("--timed-trace-sec-multiplier %s: timestamps are read in %s and sent at --scale %.6g", text, unit, scale)
	}
	return l.set(name, "time-unit", unit)
}

// noteReplayer notes where a trace-replayer's defaults are not ours; each of its command lines has a
// --tokenizer-config.
func (l *Line) noteReplayer() error {
	if !l.Flags.Changed("tokenizer-config") {
		return nil
	}
	if !l.Flags.Changed("no-stream") {
		l.note("responses are streamed, which trace-replayer does with --stream only; --no-stream asks for whole ones")
	}
	if !l.Flags.Changed("duration") {
		l.note("the whole trace is replayed; trace-replayer ends after 60 s unless --time-in-secs says otherwise")
	}
	return nil
}

// join makes a URL of a host and a port, and of an endpoint that is one.
func (l *Line) join() error {
	for _, name := range []string{"host", "port"} {
		if l.Given(name) && l.last(name) == "" {
			return fmt.Errorf("--%s is empty; is a variable of the shell not set?", name)
		}
	}
	if l.Given("host") || l.Given("port") {
		url := cmp.Or(l.last("host"), "127.0.0.1") + ":" + cmp.Or(l.last("port"), "8000")
		if err := l.set("host", "url", url); err != nil {
			return err
		}
	}
	endpoint := l.text("endpoint")
	if !strings.Contains(endpoint, "://") {
		return nil
	}
	if err := l.set("endpoint", "url", endpoint); err != nil {
		return err
	}
	return l.Flags.Set("endpoint", "")
}

// spaceRandomly gives a rate the gaps that it has in the tools that call it --request-rate.
func (l *Line) spaceRandomly() error {
	given := l.Flags.Changed
	if l.typed["rate"] != "--request-rate" || l.text("rate") == "max" || given("arrival") {
		return nil
	}
	l.note(
		"--request-rate: the gaps are random (Poisson), as in AIPerf and vLLM's bench; --arrival constant makes " +
			"them equal")
	return l.Flags.Set("arrival", "poisson")
}

// readOffsets separates offsets that are times of the file from those that count from its earliest row.
func (l *Line) readOffsets() error {
	l.FileTime = l.typed["from"] != "" || l.typed["to"] != ""
	for _, flag := range []string{"from", "to"} {
		if l.FileTime && l.Flags.Changed(flag) && l.typed[flag] == "" {
			return fmt.Errorf(
				"--%s counts from the earliest row, --fixed-schedule-start-offset and --fixed-schedule-end-offset "+
					"are times of the file; give both ends of one kind", flag)
		}
	}
	return nil
}

// findAPI finds ours for trace-replayer's names, and for a URL that has its path.
func (l *Line) findAPI() error {
	theirs := l.text("api") == "openai" || l.text("api") == "aibrix"
	if !theirs && (l.Flags.Changed("api") || l.Profile) {
		return nil
	}
	var chat, completions bool
	for _, url := range append(list(l.Flags.Lookup("url")), l.text("endpoint")) {
		isChat := strings.HasSuffix(strings.TrimSuffix(url, "/"), "/chat/completions")
		chat = chat || isChat
		completions = completions || !isChat && strings.HasSuffix(url, "/completions")
	}
	switch {
	case theirs && completions:
		return l.Flags.Set("api", "completions")
	case theirs, chat && !completions:
		return l.Flags.Set("api", "chat")
	}
	return nil
}

// hubName is what the Hugging Face hub calls a model.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// dropTokenizer leaves out a tokenizer that other tools need and that is not on this machine.
func (l *Line) dropTokenizer() error {
	name := l.text("tokenizer")
	if name == "" || l.text("verify-prompts") != "" || name == tokenizer.CL100K || name == tokenizer.O200K {
		return nil
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if name == "builtin" {
		return l.Flags.Set("tokenizer", tokenizer.O200K) // as AIPerf has it
	}
	if !l.Profile && !l.Flags.Changed("tokenizer-config") &&
		(!hubName.MatchString(name) || strings.HasSuffix(name, ".json")) {
		return nil
	}
	l.note("--tokenizer %s: no file or folder of this machine; it is not needed: prompts are proven on the server",
		name)
	return l.Flags.Set("tokenizer", "")
}
