package main

// alias is a flag as another tool has it, in one line of a table below.
type alias struct {
	name, short string
	takes       takes
	flag        string                       // ours that it sets; "" = it has no meaning here, as its note says
	value       func(string) (string, error) // what its value is to our flag, "" = nothing to set; nil = the same
	note        string                       // said whenever it is given
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
	tables := [][]alias{aiperfAliases(), replayerAliases(), vllmAliases(), refusals(), meaningless()}
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
		{name: "custom-dataset-type", flag: "format", value: oneOf(aiperfFormats())},
		{name: "fixed-schedule-start-offset", flag: "from", value: milliseconds, note: fileTime},
		{name: "fixed-schedule-end-offset", flag: "to", value: through(milliseconds), note: fileTime},
		{name: "synthesis-speedup-ratio", flag: "scale"},
		{name: "replay-speedup", flag: "scale"},
		{name: "request-rate", flag: "rate", value: rateOrInf},
		{name: "arrival-pattern", flag: "arrival"},
		{name: "request-rate-mode", flag: "arrival"},
		{name: "arrival-smoothness", flag: "burstiness"},
		{name: "vllm-burstiness", flag: "burstiness"},
		{name: "request-count", flag: "limit"},
		{name: "num-requests", flag: "limit"},
		{name: "benchmark-duration", flag: "duration", value: seconds},
		{name: "benchmark-grace-period", flag: "duration-grace", value: secondsOrInf},
		{name: "warmup-request-count", flag: "warmup"},
		{name: "num-warmup-requests", flag: "warmup"},
		{name: "random-seed", flag: "seed"},
		{name: "model-names", flag: "model"},
		{name: "endpoint-type", flag: "api", value: oneOf(endpointTypes())},
		{name: "custom-endpoint", flag: "endpoint"},
		{name: "streaming", takes: noValue, flag: "no-stream", value: unless},
		{name: "request-timeout-seconds", flag: "timeout", value: seconds},
		{name: "no-server-metrics", takes: noValue, flag: "scrape", value: when(scrapeOff)},
		{name: "reset-kv-cache", takes: noValue, flag: "cold", value: when("flush")},
		{name: "isl-block-size", flag: "block-tokens"},
		{name: "prompt-input-tokens-block-size", flag: "block-tokens"},
		{name: "synthetic-input-tokens-block-size", flag: "block-tokens"},
		{name: "artifact-dir", flag: "output"},
		{name: "output-artifact-dir", flag: "output"},
	}
}

// replayerAliases are of trace-replayer (docs/arguments.md of blitz-serving/trace-replayer). Its --scale-factor divides the
// timestamps, as --scale does.
func replayerAliases() []alias {
	return []alias{
		{name: "dataset", short: "d", flag: "format", value: oneOf(map[string]string{"bailian": "bailian", "mooncake": "mooncake", "azure": "azure"})},
		{name: "dataset-path", flag: "trace"},
		{name: "scale-factor", flag: "scale"},
		{name: "time-in-secs", short: "t", flag: "duration", value: seconds},
		{name: "model-name", flag: "model"},
		{name: "aibrix-route", flag: "header", value: prefixed("routing-strategy: "), adds: true},
		{name: "ttft-slo", flag: "goodput", value: objective("ttft"), adds: true},
		{name: "tpot-slo", flag: "goodput", value: objective("tpot"), adds: true},
		{name: "output-path", short: "o", flag: "output", value: folderOf, note: "results are a directory, so the path is taken without .jsonl; the requests are in requests.jsonl there"},
	}
}

// vllmAliases are of `vllm bench serve` (vllm/benchmarks/serve.py).
func vllmAliases() []alias {
	return []alias{
		{name: "dataset-name", flag: "format", value: oneOf(vllmDatasets()),
			note: "rows are sent in the file's order, of a conversation all that was asked; vLLM's bench shuffles all but a timed_trace, asks a conversation's first question, and begins again where there are fewer than --num-prompts. Prompts have their whole input_length, where it cuts them to their hash ids; custom ones are sent without a template but that of --backend openai-chat's server"},
		{name: "timed-trace-chunk-hash-size", flag: "block-tokens"},
		{name: "timed-trace-sec-multiplier", flag: "time-unit", value: perSecond},
		{name: "timed-trace-label-timestamp", flag: "fields", value: prefixed("timestamp="), adds: true},
		{name: "timed-trace-label-input-length", flag: "fields", value: prefixed("input_length="), adds: true},
		{name: "timed-trace-label-output-length", flag: "fields", value: prefixed("output_length="), adds: true},
		{name: "timed-trace-label-hash-ids", flag: "fields", value: prefixed("hash_ids="), adds: true},
		{name: "custom-output-len", flag: "extra-inputs", value: ownLength, adds: true},
		{name: "served-model-name", flag: "model"},
		{name: "base-url", flag: "url"},
		{name: "host", flag: "url"},
		{name: "port", flag: "url"},
		{name: "max-concurrency", flag: "concurrency"},
		{name: "num-warmups", flag: "warmup"},
		{name: "self-timed", takes: noValue, flag: "fixed-schedule"},
		{name: "no-self-timed", takes: noValue, flag: "no-fixed-schedule"},
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
		{name: "backend", flag: "api", value: oneOf(endpointTypes())},
		{name: "stream", takes: noValue, flag: "no-stream", value: unless},
		{name: "num-prompts", flag: "limit"},
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

// refusals would change what is sent or measured in a way that is not there.
func refusals() []alias {
	var all []alias
	for _, r := range []struct{ names, why string }{
		{"public-dataset hf-subset hf-weka-dataset hf-name hf-split", "nothing is downloaded here; give the file with --input-file"},
		{"user-centric-rate num-users", "there are no users here; give --request-rate or --concurrency"},
		{"prefill-concurrency warmup-prefill-concurrency", "there is no bound on what is in prefill; --concurrency bounds what is in flight"},
		{"request-cancellation-rate request-cancellation-delay", "no request is cancelled on purpose here"},
		{"warmup-duration num-warmup-sessions", "a warm-up is counted in requests; give --warmup-request-count"},
		{"request-rate-ramp-duration ramp-up-strategy ramp-up-start-rps ramp-up-end-rps request-rate-series", "a ramp is --ramp FROM:TO:TIME here, such as 10:500:60s"},
		{"num-conversations conversation-num num-sessions", "the trace has the conversations; --request-count bounds the requests"},
		{"synthesis-prefix-len-multiplier synthesis-prefix-root-multiplier synthesis-prompt-len-multiplier synthesis-output-len-multiplier synthesis-max-isl synthesis-max-osl",
			"a trace is replayed as it is; fastreplay gen makes others"},
		{"scenario search-recipe search-space sweep-type variant sweep-variant accuracy-benchmark", "a run is one measurement here; start one for each"},
		{"image-width-mean image-height-mean audio-length-mean video-width video-height rankings-passages-mean", "prompts are text here"},
		{"inter-turn-delay-cap-seconds max-idle-gap-cap-seconds trace-idle-gap-cap-seconds conversation-turn-delay-ratio session-delay-ratio", "delays are the trace's; --scale shortens all of its times"},
		{"sharegpt-output-len", "answers have their recorded lengths; --no-force-output --extra-inputs max_tokens:N gives all the same bound"},
		{"probe-request-rate", "no probes are sent beside the load; start a second fastreplay with its own rate"},
		{"lora-modules lora-assignment", "one model is asked; give it with --model"},
	} {
		all = append(all, each(r.names, alias{refused: r.why})...)
	}
	return append(all, each("ignore-trace-delays", alias{takes: noValue, refused: "give --no-fixed-schedule and --request-rate or --concurrency to ignore times"})...)
}

// meaningless flags change neither what is sent nor what is measured here, so they are taken, each with its note.
func meaningless() []alias {
	var all []alias
	for _, m := range []struct {
		note                        string
		one, switches, several, any string // the flags, by what follows them
	}{
		{note: "it is not needed: requests are built beforehand and sent by one thread (--lanes)",
			one: `
				workers-max max-workers record-processors record-processor-service-count num-producer channel-capacity threads
				max-threads`},
		{note: "there are no services that talk to each other",
			one:      "zmq-host zmq-ipc-path api-port api-host",
			switches: "zmq-dual-bind"},
		{note: "progress is a line on the terminal, or plain lines where there is none",
			one:      "ui ui-type stats-interval",
			switches: "disable-tqdm no-sweep-table"},
		{note: "there is one level of messages", one: "log-level", switches: "extra-verbose"},
		{note: "the first request leaves at instant 0 in any case", switches: "fixed-schedule-auto-offset"},
		{note: "token counts are always the server's", switches: "use-server-token-count"},
		{note: "max_tokens is what is sent", switches: "use-legacy-max-tokens"},
		{note: "output lengths are forced already (--no-force-output does not)", switches: "ignore-eos"},
		{note: "connections are kept and reused", one: "connection-reuse-strategy"},
		{note: "http or https, as the URL says", one: "transport transport-type"},
		{note: "requests go to the URLs in turn, and name one model", one: "url-strategy model-selection-strategy"},
		{note: "the API is what --endpoint-type says", one: "service-kind"},
		{note: "one run is made; start it again for another",
			one: `
				num-profile-runs profile-run-cooldown-seconds confidence-level convergence-metric convergence-stat
				convergence-threshold convergence-mode`},
		{note: "there are no windows: all requests are measured", one: "measurement-interval stability-percentage"},
		{note: "the servers are probed before the start (--no-probe does not)",
			one: "wait-for-model-timeout wait-for-model-mode wait-for-model-interval ready-check-timeout-sec"},
		{note: "it is not needed: prompts are proven on the server, or with the tokenizer.json of --tokenizer",
			one:      "tokenizer-config tokenizer-revision tokenizer-mode",
			switches: "tokenizer-trust-remote-code trust-remote-code skip-tokenizer-init apply-chat-template skip-chat-template"},
		{note: "requests.jsonl, histograms.hlog and summary.json are always written, under those names; --export adds the files of another tool",
			one: `
				export-level profile-export-level profile-export-prefix profile-export-file result-filename summary-path
				tracing-path label slice-duration timeline-itl-thresholds`,
			switches: `
				save-result save-detailed append-result export-outputs-json export-http-trace generate-plots plot-timeline
				plot-dataset-stats auto-plot no-auto-plot plot-required show-trace-timing`},
		{note: "p50, p90, p95, p99 and p99.9 of every metric are reported",
			one: "metric-percentile metric-percentiles percentile-metrics"},
		{note: "it is not kept", several: "metadata"},
		{note: "each request has an X-Request-Id of its own", one: "request-id-prefix session-header"},
		{note: "what the servers' GPUs do is not collected",
			switches: "no-gpu-telemetry server-profiler profile",
			any:      "gpu-telemetry"},
		{note: "the targets' own metrics are read, into server_metrics.jsonl; --scrape-url names other pages, in their place",
			any: "server-metrics server-metrics-url server-metrics-formats"},
		{note: "results are files; nothing is sent elsewhere",
			one: `
				otel-url gen-ai-provider mlflow-tracking-uri mlflow-experiment mlflow-run-name mlflow-parent-run-id
				wandb-project wandb-entity wandb-run-name`,
			any: "otel-resource-attributes mlflow-tag mlflow-artifact-glob wandb-tag"},
		{note: "latencies are measured at the socket, network included",
			one:      "network-latency-mean network-latency-ping-interval",
			switches: "network-latency-automatic"},
		{note: "a run goes on to its end; --max-error-rate makes it INVALID", one: "failed-request-threshold"},
		{note: "--cold says how the servers' caches begin", one: "cache-bust"},
		{note: "the trace says what is asked, in its order; fastreplay gen makes one from a description",
			one: `
				dataset-sampling-strategy num-dataset-entries prompt-corpus isl isl-stddev osl osl-stddev
				synthetic-input-tokens-mean synthetic-input-tokens-stddev output-tokens-mean output-tokens-stddev
				prompt-input-tokens-mean prompt-input-tokens-stddev prompt-output-tokens-mean prompt-output-tokens-stddev
				input-len output-len batch-size batch-size-text seq-dist sequence-distribution
				num-prefix-prompts prefix-prompt-pool-size prefix-prompt-length prompt-prefix-pool-size prompt-prefix-length
				shared-system-prompt-length user-context-prompt-length conversation-turn-mean conversation-turn-stddev
				conversation-turn-delay-mean conversation-turn-delay-stddev session-turns-mean session-turns-stddev
				session-turn-delay-mean session-turn-delay-stddev num-system-prompts system-prompt-length image-batch-size
				audio-batch-size video-batch-size batch-size-image batch-size-audio`,
			switches: "disable-shuffle no-oversample output-tokens-mean-deterministic"},
	} {
		all = append(all, each(m.one, alias{takes: aValue, note: m.note})...)
		all = append(all, each(m.switches, alias{takes: noValue, note: m.note})...)
		all = append(all, each(m.several, alias{takes: values, note: m.note})...)
		all = append(all, each(m.any, alias{takes: anyValue, note: m.note})...)
	}
	return all
}
