package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// vllmDatasets are the --dataset-name of vLLM's bench and what the formats are called here: its own two are rows of Mooncake's form
// with other names.
func vllmDatasets() map[string]string {
	return map[string]string{"timed_trace": "mooncake", "custom": "mooncake", "sharegpt": "sharegpt", "burstgpt": "burstgpt"}
}

// perSecond reads how many seconds vLLM's bench takes a timestamp's unit for.
func perSecond(text string) (string, error) {
	factor, err := strconv.ParseFloat(text, 64)
	units := map[float64]string{1: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"}
	if unit, ok := units[factor]; ok && err == nil {
		return unit, nil
	}
	return "", fmt.Errorf("want 1, 0.001, 0.000001 or 0.000000001, the unit of the timestamps in seconds; --scale changes the speed")
}

// ownLength is the length of all answers, unless each row has its own.
func ownLength(text string) (string, error) {
	if text == "-1" {
		return "", nil
	}
	return "max_tokens:" + text, nil
}

// likeVLLM gives a command line with vLLM's --dataset-name the defaults of `vllm bench serve`, where ours differ, and says so. From
// then on the command is no AIPerf's.
func (h *hands) likeVLLM(o *options) error {
	if h.dataset == "" {
		return nil
	}
	given, p := h.flags.Changed, &o.pacing
	timed, own := h.dataset == "timed_trace", h.dataset == "custom"
	atTimes := timed && !p.notFixed
	if atTimes && h.typed["rate"] == "--request-rate" { // it ignores the rate then, too
		h.note("--request-rate: %s is not used, since the trace's times are (--no-self-timed ignores those)", p.rate)
		delete(h.typed, "rate")
		if err := h.flags.Set("rate", ""); err != nil {
			return err
		}
	}
	for i, text := range o.headers { // KEY=VALUE there
		if key, value, ok := strings.Cut(text, "="); ok && !strings.Contains(key, ":") {
			o.headers[i] = key + ": " + value
		}
	}
	was := func(name string) bool {
		return slices.ContainsFunc(h.taken, func(t taken) bool { return t.name == name })
	}
	forced := timed || was("ignore-eos")
	return h.defaults("vllm bench serve", []usual{
		{"url", "127.0.0.1:8000", "--port 8000", !given("url") && !given("targets")},
		{"limit", "1000", "--num-prompts 1000", !given("limit")},
		{"block-tokens", "16", "--timed-trace-chunk-hash-size 16", timed && !given("block-tokens")},
		{"time-unit", "s", "--timed-trace-sec-multiplier 1", timed && !given("time-unit")},
		{"fixed-schedule", "true", "--self-timed", atTimes && !p.fixed},
		{"rate", rateMax, "--request-rate inf", !atTimes && p.rate == "" && p.ramp == "" && p.concurrency == 0},
		{"no-force-output", "true", "an answer may end before its length (--ignore-eos forces it)", !forced && !given("no-force-output")},
		{"fields", "text_input=prompt,output_length=output_tokens", "", own && !given("fields")},
		{"extra-inputs", "max_tokens:256", "--custom-output-len 256", own && !was("custom-output-len")},
		{"extra-inputs", "ignore_eos:true", "", own && forced},
	})
}
