package main

import (
	_ "embed"
	"strings"
)

// alias is a flag as another tool has it, in one line of a table below.
type alias struct {
	name, short string
	takes       takes
	flag        string                       // ours that it sets; "" = it has no meaning here, as its note says
	value       func(string) (string, error) // what its value is to our flag, "" = nothing to set; nil = the same
	note        string                       // said whenever it is given
	doc         string                       // what the manual adds
	refused     string                       // why it cannot be taken, and what to do; "" = it can
	adds        bool                         // to what others have given the same flag
}

// takes is what follows a flag.
type takes uint8

const (
	aValue   takes = iota // one value
	noValue               // none: it is a switch
	values                // one or more, up to the next flag
	anyValue              // none, one or more
)

// aliasesOf lists what a command knows by other tools' names: profile has AIPerf's meaning where two tools differ.
func aliasesOf(profile bool) []alias {
	tables := [][]alias{aiperfAliases(), replayerAliases(), vllmAliases(), unused()}
	if profile {
		tables = append(tables, onlyAIPerf())
	} else {
		tables = append(tables, notAIPerf())
	}
	var all []alias
	for _, table := range tables {
		all = append(all, table...)
	}
	return all
}

// aiperfAliases are of AIPerf (docs/cli-options.md of ai-dynamo/aiperf, 0.13) and, where they have one, of GenAI-Perf.
func aiperfAliases() []alias {
	const fileTime = "times are the file's own; what lies at the offset is in, and the first request taken leaves at instant 0"
	return []alias{
		{name: "input-file", flag: "trace"},
		{name: "custom-dataset-type", flag: "format", value: oneOf(aiperfFormats()), doc: namesOf(aiperfFormats())},
		{name: "fixed-schedule-start-offset", flag: "from", value: milliseconds, note: fileTime, doc: "in ms and in the file's own time, not counted from its earliest row. The first request taken leaves at instant 0"},
		{name: "fixed-schedule-end-offset", flag: "to", value: through(milliseconds), note: fileTime, doc: "in ms and in the file's own time; a request at that time is still taken"},
		{name: "synthesis-speedup-ratio", flag: "scale"},
		{name: "replay-speedup", flag: "scale"},
		{name: "request-rate", flag: "rate", value: rateOrInf, doc: "`inf` is `max`. Gaps are random (Poisson), as these tools have them, unless `--arrival` or `--burstiness` says otherwise"},
		{name: "arrival-pattern", flag: "arrival"},
		{name: "request-rate-mode", flag: "arrival"},
		{name: "arrival-smoothness", flag: "burstiness"},
		{name: "vllm-burstiness", flag: "burstiness"},
		{name: "request-count", flag: "limit", doc: "a trace that has fewer is not begun again (`--repeat`)"},
		{name: "num-requests", flag: "limit", doc: "a trace that has fewer is not begun again (`--repeat`)"},
		{name: "benchmark-duration", flag: "duration", value: seconds, doc: "in seconds"},
		{name: "benchmark-grace-period", flag: "duration-grace", value: secondsOrInf, doc: "in seconds; `inf` waits for every answer"},
		{name: "warmup-request-count", flag: "warmup"},
		{name: "num-warmup-requests", flag: "warmup"},
		{name: "random-seed", flag: "seed"},
		{name: "model-names", flag: "model", doc: "one name"},
		{name: "endpoint-type", flag: "api", value: oneOf(endpointTypes()), doc: namesOf(endpointTypes())},
		{name: "custom-endpoint", flag: "endpoint"},
		{name: "streaming", takes: noValue, flag: "no-stream", value: unless},
		{name: "request-timeout-seconds", flag: "timeout", value: seconds, doc: "in seconds"},
		{name: "no-server-metrics", takes: noValue, flag: "scrape", value: when(scrapeOff)},
		{name: "reset-kv-cache", takes: noValue, flag: "cold", value: when("flush")},
		{name: "isl-block-size", flag: "block-tokens"},
		{name: "prompt-input-tokens-block-size", flag: "block-tokens"},
		{name: "synthetic-input-tokens-block-size", flag: "block-tokens"},
		{name: "artifact-dir", flag: "output", doc: "it must be empty or new"},
		{name: "output-artifact-dir", flag: "output", doc: "it must be empty or new"},
	}
}

// replayerAliases are of trace-replayer (docs/arguments.md of blitz-serving/trace-replayer). Its --scale-factor divides the
// timestamps, as --scale does.
func replayerAliases() []alias {
	return []alias{
		{name: "dataset", short: "d", flag: "format", value: oneOf(map[string]string{"bailian": "bailian", "mooncake": "mooncake", "azure": "azure"}), doc: "`bailian`, `mooncake` or `azure`"},
		{name: "dataset-path", flag: "trace"},
		{name: "scale-factor", flag: "scale"},
		{name: "time-in-secs", short: "t", flag: "duration", value: seconds, doc: "in seconds. trace-replayer ends after 60 s by default; here the whole trace is replayed"},
		{name: "model-name", flag: "model"},
		{name: "aibrix-route", flag: "header", value: prefixed("routing-strategy: "), adds: true, doc: "R becomes the header `routing-strategy: R`"},
		{name: "ttft-slo", flag: "goodput", value: objective("ttft"), adds: true, doc: "in seconds, where `--goodput` has ms"},
		{name: "tpot-slo", flag: "goodput", value: objective("tpot"), adds: true, doc: "in seconds, where `--goodput` has ms"},
		{name: "output-path", short: "o", flag: "output", value: folderOf, note: "results are a directory, so the path is taken without .jsonl; the requests are in requests.jsonl there", doc: "a directory: `client.jsonl` becomes `client/`"},
	}
}

// vllmAliases are of `vllm bench serve` (vllm/benchmarks/serve.py).
func vllmAliases() []alias {
	return []alias{
		{name: "dataset-name", flag: "format", value: oneOf(vllmDatasets()), doc: namesOf(vllmDatasets()) + ". With it come vLLM's defaults, each of which the run names: 1,000 prompts, port 8000, all at once unless it is a `timed_trace`, and answers that may end early without `--ignore-eos`",
			note: "rows are sent in the file's order, of a conversation all that was asked; vLLM's bench shuffles all but a timed_trace, asks a conversation's first question, and begins again where there are fewer than --num-prompts. Prompts have their whole input_length, where it cuts them to their hash ids; custom ones are sent without a template but that of --backend openai-chat's server"},
		{name: "timed-trace-chunk-hash-size", flag: "block-tokens", doc: "default 16"},
		{name: "timed-trace-sec-multiplier", flag: "time-unit", value: perSecond, doc: "`0.001` is `ms`; default `s`"},
		{name: "timed-trace-label-timestamp", flag: "fields", value: prefixed("timestamp="), adds: true},
		{name: "timed-trace-label-input-length", flag: "fields", value: prefixed("input_length="), adds: true},
		{name: "timed-trace-label-output-length", flag: "fields", value: prefixed("output_length="), adds: true},
		{name: "timed-trace-label-hash-ids", flag: "fields", value: prefixed("hash_ids="), adds: true},
		{name: "custom-output-len", flag: "extra-inputs", value: ownLength, adds: true, doc: "`max_tokens` of all bodies (default 256), or with `-1` each row's `output_tokens`"},
		{name: "served-model-name", flag: "model", doc: "it takes the place of `--model`"},
		{name: "base-url", flag: "url"},
		{name: "host", flag: "url", doc: "with `--port`; default 127.0.0.1"},
		{name: "port", flag: "url", doc: "with `--host`; default 8000"},
		{name: "max-concurrency", flag: "concurrency", doc: "beside a rate or trace times it is a cap"},
		{name: "num-warmups", flag: "warmup"},
		{name: "self-timed", takes: noValue, flag: "fixed-schedule", doc: "a `timed_trace` is sent at its times, whatever the rate"},
		{name: "no-self-timed", takes: noValue, flag: "no-fixed-schedule", doc: "then `--request-rate` counts for a `timed_trace`, too"},
		{name: "result-dir", flag: "output"},
		{name: "extra-body", flag: "extra-inputs", adds: true},
		{name: "temperature", flag: "extra-inputs", value: prefixed("temperature:"), adds: true},
		{name: "top-p", flag: "extra-inputs", value: prefixed("top_p:"), adds: true},
		{name: "top-k", flag: "extra-inputs", value: prefixed("top_k:"), adds: true},
		{name: "min-p", flag: "extra-inputs", value: prefixed("min_p:"), adds: true},
		{name: "logprobs", flag: "extra-inputs", value: prefixed("logprobs:"), adds: true},
		{name: "frequency-penalty", flag: "extra-inputs", value: prefixed("frequency_penalty:"), adds: true},
		{name: "presence-penalty", flag: "extra-inputs", value: prefixed("presence_penalty:"), adds: true},
		{name: "repetition-penalty", flag: "extra-inputs", value: prefixed("repetition_penalty:"), adds: true},
	}
}

// onlyAIPerf has AIPerf's and GenAI-Perf's meaning of names that other tools have too.
func onlyAIPerf() []alias {
	return []alias{
		{name: "backend", note: "the API is what --endpoint-type says"},
		{name: "stream", takes: anyValue, note: "nothing is sent to OpenTelemetry"},
		{name: "num-prompts", note: "the input file has the prompts; --request-count bounds the requests"},
		{name: "verbose", short: "v", takes: noValue, note: "there is one level of messages"},
	}
}

// notAIPerf has the meaning of the same names elsewhere.
func notAIPerf() []alias {
	return []alias{
		{name: "backend", flag: "api", value: oneOf(endpointTypes()), doc: namesOf(endpointTypes())},
		{name: "stream", takes: noValue, flag: "no-stream", value: unless, doc: "responses are streamed without it, too"},
		{name: "num-prompts", flag: "limit", doc: "in requests: of a ShareGPT conversation each question is one, in the file's order; theirs takes the first question of each, shuffled"},
		{name: "verbose", takes: noValue, note: "there is one level of messages"},
	}
}

// aiperfFormats are AIPerf's --custom-dataset-type and what the formats are called here.
func aiperfFormats() map[string]string {
	return map[string]string{
		"mooncake_trace": "mooncake", "bailian_trace": "bailian", "burst_gpt_trace": "burstgpt", "sagemaker_data_capture": "sagemaker",
		"inputs_json": "inputs_json", "raw_payload": "raw_payload", "single_turn": "single_turn", "multi_turn": "multi_turn",
	}
}

// unscheduledByAIPerf are the formats of which `aiperf profile` keeps the times with --fixed-schedule only.
func unscheduledByAIPerf() []string { return []string{"inputs_json", "single_turn", "multi_turn"} }

// endpointTypes are AIPerf's --endpoint-type and vLLM's --backend.
func endpointTypes() map[string]string {
	return map[string]string{
		"chat": "chat", "completions": "completions", "responses": "responses", "embeddings": "embeddings", "huggingface_generate": "tgi", "raw": "raw",
		"openai-chat": "chat", "openai": "completions", "vllm": "completions", "openai-embeddings": "embeddings", "tgi": "tgi", "sglang": "completions", "tensorrt-llm": "triton-trtllm",
	}
}

// unusedFlags lists flags that have no meaning here.
//
//go:embed unused.txt
var unusedFlags string

// unused reads the flags that have no meaning here: with what is said of them, or why they are refused.
func unused() (all []alias) {
	kinds := map[string]takes{"value": aValue, "switch": noValue, "values": values, "any": anyValue}
	var like alias
	for line := range strings.Lines(unusedFlags) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "note:":
			like = alias{note: rest}
		case "refused:":
			like = alias{refused: rest}
		case "", "#":
		default:
			var known bool
			if like.takes, known = kinds[word]; !known {
				panic("BUG: unused.txt: " + line)
			}
			for _, like.name = range strings.Fields(rest) {
				all = append(all, like)
			}
		}
	}
	return all
}
