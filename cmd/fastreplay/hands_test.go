package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fastreplay/fastreplay/codec/trace"
)

// typed parses a command line of a replay with other tools' names, as the main command or as profile.
func typed(t *testing.T, profile bool, args ...string) (*options, *hands, error) {
	t.Helper()
	root := newRootCommand()
	var o options
	f := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	o.addFlags(f)
	h := newHands(f, profile)
	if profile {
		args = gathered(append([]string{"profile"}, args...), root)[1:]
	} else {
		args = gathered(args, root)
	}
	if err := f.Parse(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := h.settle(&o, f.Args()); err != nil {
		return &o, h, h.inTheirWords(err)
	}
	return &o, h, h.inTheirWords(o.complete(f.Args()))
}

// TestAliases: what each name of another tool makes of our flags.
func TestAliases(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"--input-file a.jsonl", "--trace a.jsonl"},
		{"--dataset-path a.jsonl", "--trace a.jsonl"},
		{"--no-server-metrics", "--scrape off"},
		{"--custom-dataset-type mooncake_trace", "--format mooncake"},
		{"--custom-dataset-type bailian_trace", "--format bailian"},
		{"--custom-dataset-type burst_gpt_trace", "--format burstgpt"},
		{"--custom-dataset-type sagemaker_data_capture", "--format sagemaker"},
		{"--custom-dataset-type inputs_json", "--format inputs_json"},
		{"--custom-dataset-type raw_payload", "--format raw_payload"},
		{"--custom-dataset-type single_turn", "--format single_turn"},
		{"--custom-dataset-type multi_turn", "--format multi_turn"},
		{"--fixed-schedule-start-offset 1500 --fixed-schedule-end-offset 2000", "--from 1.5s --to 2.000000001s"},
		{"--synthesis-speedup-ratio 2", "--scale 2"},
		{"--replay-speedup 2", "--scale 2"},
		{"--request-rate 5", "--rate 5 --arrival poisson"},
		{"--request-rate inf", "--rate max"},
		{"--request-rate 5 --request-rate-mode constant", "--rate 5 --arrival constant"},
		{"--request-rate 5 --arrival-pattern gamma --arrival-smoothness 0.5", "--rate 5 --arrival gamma --burstiness 0.5"},
		{"--request-rate 5 --vllm-burstiness 0.5", "--rate 5 --burstiness 0.5"},
		{"--request-rate 5 --burstiness 0.5", "--rate 5 --burstiness 0.5"},
		{"--rate 5", "--rate 5"},
		{"--request-count 7", "--limit 7"},
		{"--num-requests 7", "--limit 7"},
		{"--num-prompts 7", "--limit 7"},
		{"--benchmark-duration 1.5 --benchmark-grace-period 0", "--duration 1.5s --duration-grace 0s"},
		{"--benchmark-duration 60 --benchmark-grace-period inf", "--duration 1m0s"},
		{"--warmup-request-count 3", "--warmup 3"},
		{"--num-warmup-requests 3", "--warmup 3"},
		{"--num-warmups 3", "--warmup 3"},
		{"--random-seed 42", "--seed 42"},
		{"--model-names m", "--model m"},
		{"-m m", "--model m"},
		{"--model-name m", "--model m"},
		{"--endpoint-type chat", "--api chat"},
		{"--endpoint-type completions", "--api completions"},
		{"--backend vllm", "--api completions"},
		{"--backend openai-chat", "--api chat"},
		{"-a openai --endpoint http://h:1/v1/chat/completions", "--api chat --url http://h:1/v1/chat/completions"},
		{"--api openai --endpoint http://h:1/v1/completions", "--api completions --url http://h:1/v1/completions"},
		{"--api openai -u h:1", "--api chat --url h:1"},
		{"--api aibrix -u h:1 --aibrix-route prefix-cache", "--api chat --url h:1 --header routing-strategy: prefix-cache"},
		{"-u h:1 -H A:b --aibrix-route throughput", "--url h:1 --header A:b,routing-strategy: throughput"},
		{"--endpoint /v1/chat/completions", "--api chat --endpoint /v1/chat/completions"},
		{"--custom-endpoint /my/api", "--endpoint /my/api"},
		{"--streaming", "--no-stream false"},
		{"--stream", "--no-stream false"},
		{"--streaming=false", "--no-stream true"},
		{"--request-timeout-seconds 90", "--timeout 1m30s"},
		{"--reset-kv-cache", "--cold flush"},
		{"--reset-kv-cache=false", ""},
		{"--isl-block-size 16", "--block-tokens 16"},
		{"--prompt-input-tokens-block-size 16", "--block-tokens 16"},
		{"--synthetic-input-tokens-block-size 16", "--block-tokens 16"},
		{"--artifact-dir d", "--output d"},
		{"--output-artifact-dir d", "--output d"},
		{"--result-dir d", "--output d"},
		{"-o log/client.jsonl", "--output log/client"},
		{"--output-path log/client", "--output log/client"},
		{"-d bailian -t 1200 --scale-factor 1.5", "--format bailian --duration 20m0s --scale 1.5"},
		{"--dataset azure --time-in-secs 60", "--format azure --duration 1m0s"},
		{"--ttft-slo 5 --tpot-slo 0.06 --goodput e2e:9000", "--goodput e2e:9000,ttft:5000,tpot:60"},
		{"--goodput ttft:500 tpot:50", "--goodput ttft:500,tpot:50"},
		{"--dataset-name sharegpt --port 9", "--format sharegpt --url 127.0.0.1:9 --limit 1000 --rate max --no-force-output true"},
		{"--dataset-name burstgpt --num-prompts 3 --request-rate 2", "--format burstgpt --url 127.0.0.1:8000 --limit 3 --rate 2 --arrival poisson --no-force-output true"},
		{"--dataset-name timed_trace", "--format mooncake --url 127.0.0.1:8000 --limit 1000 --block-tokens 16 --time-unit s --fixed-schedule true"},
		{"--base-url http://h:1 --dataset-name timed_trace --timed-trace-chunk-hash-size 512 --timed-trace-sec-multiplier 0.001 --num-prompts 7 --max-concurrency 9 --request-rate inf --ignore-eos --header A=b",
			"--url http://h:1 --format mooncake --block-tokens 512 --time-unit ms --limit 7 --concurrency 9 --fixed-schedule true --header A: b"},
		{"--dataset-name timed_trace --no-self-timed --request-rate 3 --timed-trace-sec-multiplier 1e-6 --served-model-name s --model /models/m",
			"--url 127.0.0.1:8000 --format mooncake --limit 1000 --block-tokens 16 --time-unit us --no-fixed-schedule true --rate 3 --arrival poisson --model s"},
		{"--dataset-name timed_trace --timed-trace-label-timestamp ts --timed-trace-label-input-length in --timed-trace-label-output-length out --timed-trace-label-hash-ids ids",
			"--format mooncake --url 127.0.0.1:8000 --limit 1000 --block-tokens 16 --time-unit s --fixed-schedule true --fields [hash_ids=ids,input_length=in,output_length=out,timestamp=ts]"},
		{"--dataset-name custom --max-concurrency 4", "--format mooncake --url 127.0.0.1:8000 --limit 1000 --concurrency 4 --no-force-output true --fields [output_length=output_tokens,text_input=prompt] --extra-inputs max_tokens:256"},
		{"--dataset-name custom --custom-output-len 9 --ignore-eos", "--format mooncake --url 127.0.0.1:8000 --limit 1000 --rate max --fields [output_length=output_tokens,text_input=prompt] --extra-inputs max_tokens:9,ignore_eos:true"},
		{"--dataset-name custom --custom-output-len -1 --ignore-eos", "--format mooncake --url 127.0.0.1:8000 --limit 1000 --rate max --fields [output_length=output_tokens,text_input=prompt] --extra-inputs ignore_eos:true"},
		{"--base-url http://h:1", "--url http://h:1"},
		{"--host h", "--url h:8000"},
		{"--port 9", "--url 127.0.0.1:9"},
		{"--host h --port 9", "--url h:9"},
		{"--max-concurrency 4 --request-rate inf", "--concurrency 4 --rate max"},
		{"--self-timed", "--fixed-schedule true"},
		{"--no-self-timed --concurrency 2", "--no-fixed-schedule true --concurrency 2"},
		{"--temperature 0 --top-p 0.5 --top-k 3 --min-p 0.1 --logprobs 1", "--extra-inputs temperature:0,top_p:0.5,top_k:3,min_p:0.1,logprobs:1"},
		{"--frequency-penalty 1 --presence-penalty 2 --repetition-penalty 3", "--extra-inputs frequency_penalty:1,presence_penalty:2,repetition_penalty:3"},
		{`--extra-body {"a":1}`, `--extra-inputs {"a":1}`},
		{"--extra-inputs a:1 b:2 --header A:b C:d", "--extra-inputs a:1,b:2 --header A:b,C:d"},
		{"--tokenizer Qwen/Qwen3-0.6B", ""},
		{"--tokenizer builtin", "--tokenizer o200k_base"},
		{"--tokenizer /no/such/tokenizer.json --tokenizer-config /no/such.json", ""},
		{"--tokenizer /no/such/tokenizer.json", "--tokenizer /no/such/tokenizer.json"},
		{"--tokenizer no/such --verify-prompts 3", "--tokenizer no/such --verify-prompts 3"},
		{"--input-file a.jsonl --trace a.jsonl", "--trace a.jsonl"},
		{"--benchmark-duration 60 --duration 60s", "--duration 1m0s"},
		{"--limit 3 --request-count 3 --num-requests 3", "--limit 3"},
	} {
		o, h, err := typed(t, false, strings.Fields(c.line)...)
		if err != nil && !strings.HasPrefix(err.Error(), "no trace") && !strings.Contains(err.Error(), "token-ids") {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if got := settings(h.flags); got != canonical(c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.line, got, canonical(c.want))
		}
		if o.read.FileTime != strings.Contains(c.line, "-offset") {
			t.Errorf("%s: FileTime is %t", c.line, o.read.FileTime)
		}
	}
}

// settings are our own flags that say something, in order of their names.
func settings(flags *pflag.FlagSet) string {
	var all []string
	flags.Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		if f.Name == "fields" { // in no order
			all := strings.Split(strings.Trim(text, "[]"), ",")
			slices.Sort(all)
			text = "[" + strings.Join(all, ",") + "]"
		}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			text = strings.Join(s.GetSlice(), ",")
		}
		if _, alias := f.Value.(*aliasValue); !alias && text != "" {
			all = append(all, "--"+f.Name+" "+text)
		}
	})
	slices.Sort(all)
	return strings.Join(all, " ")
}

// canonical sorts what is wanted.
func canonical(line string) string {
	if line == "" {
		return ""
	}
	all := strings.Split(" "+line, " --")[1:]
	slices.Sort(all)
	return "--" + strings.Join(all, " --")
}

// TestAliasTable: each alias leads somewhere or says why not, and is tried above.
func TestAliasTable(t *testing.T) {
	var o options
	ours := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	o.addFlags(ours)
	source, err := os.ReadFile("hands_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []bool{false, true} {
		seen := map[string]bool{}
		for _, a := range aliasesOf(profile) {
			if seen[a.name] || ours.Lookup(a.name) != nil {
				t.Errorf("--%s is there twice", a.name)
			}
			seen[a.name] = true
			switch own := ours.Lookup(a.flag); {
			case a.refused != "" && (a.flag != "" || a.note != ""), a.refused == "" && a.flag == "" && a.note == "":
				t.Errorf("--%s must have a flag, a note or a refusal: %+v", a.name, a)
			case a.flag != "" && own == nil:
				t.Errorf("--%s: there is no --%s", a.name, a.flag)
			case a.flag != "" && (a.takes == noValue) != (own != nil && own.Value.Type() == "bool") && a.value == nil:
				t.Errorf("--%s and --%s do not take the same", a.name, a.flag)
			case a.flag != "" && !strings.Contains(string(source), a.name) && a.short == "":
				t.Errorf("--%s is not tried", a.name)
			}
		}
	}
}

// TestTakenWithNote: no flag is taken in silence, and those that cannot be say what to do.
func TestTakenWithNote(t *testing.T) {
	for _, profile := range []bool{false, true} {
		for _, a := range aliasesOf(profile) {
			if a.flag != "" {
				continue
			}
			args := []string{"--" + a.name}
			if a.takes == aValue || a.takes == values {
				args = append(args, "3")
			}
			_, h, err := typed(t, profile, append(args, "--trace", "x.jsonl")...)
			if a.refused != "" {
				if err == nil || err.Error() != "--"+a.name+": "+a.refused {
					t.Errorf("--%s: %v", a.name, err)
				}
				continue
			}
			if err != nil || !slices.Contains(h.notes, "--"+a.name+": "+a.note) {
				t.Errorf("--%s: %v, notes %q", a.name, err, h.notes)
			}
		}
	}
}

// TestRefusedAliases: in one line, naming the flag as it was typed, and no value that may be secret.
func TestRefusedAliases(t *testing.T) {
	for line, want := range map[string]string{
		"--custom-dataset-type random_pool":                         `--custom-dataset-type "random_pool": there is no such thing here; there are bailian_trace, burst_gpt_trace,`,
		"--endpoint-type rankings":                                  `--endpoint-type "rankings": there is no such thing here; there are chat, completions, embeddings`,
		"--dataset uniform(1,2)":                                    `--dataset "uniform(1,2)": there is no such thing here; there are azure, bailian, mooncake`,
		"--dataset-name random":                                     `--dataset-name "random"`,
		"--dataset-name timed_trace --timed-trace-sec-multiplier 2": `--timed-trace-sec-multiplier "2": want 1, 0.001, 0.000001 or 0.000000001`,
		"--request-count many":                                      `--request-count "many": want a whole number`,
		"--random-seed -1":                                          `--random-seed "-1": want a whole number`,
		"--scale-factor fast":                                       `--scale-factor "fast": want a number`,
		"--request-rate 1,2":                                        `--request-rate "1,2": want requests per second, or max`,
		"--request-rate -1":                                         "--request-rate: ",
		"--benchmark-duration 60s":                                  `--benchmark-duration "60s": want a number of seconds, not below 0`,
		"--benchmark-duration -1":                                   `--benchmark-duration "-1": want a number of seconds`,
		"--benchmark-duration nan":                                  `--benchmark-duration "nan": want a number of seconds`,
		"--benchmark-duration inf":                                  `--benchmark-duration "inf": want a number of seconds`,
		"--fixed-schedule-start-offset 1e300":                       `--fixed-schedule-start-offset "1e300": want a number of milliseconds`,
		"--benchmark-grace-period 5":                                "--benchmark-grace-period is about what is in flight when --duration is over",
		"--output-path .jsonl":                                      `--output-path ".jsonl": want the path of a file or a directory`,
		"--streaming=maybe":                                         `--streaming "maybe"`,
		"--streaming --no-stream":                                   "--no-stream and --streaming are two names of one flag and differ; give one of them",
		"--input-file a --trace b":                                  "--trace and --input-file are two names of one flag and differ",
		"--input-file a --dataset-path b":                           "--input-file and --dataset-path are two names of one flag and differ",
		"--rate 5 --request-rate 6":                                 "--rate and --request-rate are two names of one flag and differ",
		"--url a:1 --host b":                                        "--url and --host are two names of one flag and differ",
		"--url a:1?key=s3cr3t --endpoint http://b/?k=s3cr3t":        "--url and --endpoint are two names of one flag and differ",
		"--from 1s --fixed-schedule-end-offset 9":                   "--from counts from the earliest row",
		"--fixed-schedule-start-offset 9 --to 1s":                   "--to counts from the earliest row",
		"--model a,b":                                               `--model "a,b": several models; want one`,
		"--model-names a,b":                                         `--model-names "a,b": several models; want one`,
		"--fixed-schedule --request-rate 5":                         "--fixed-schedule sends at trace times, which --request-rate and --ramp ignore",
		"--api-key a --api-key-file b":                              "--api-key and --api-key-file exclude each other",
		"--duration-grace 1s":                                       "--duration-grace is about what is in flight when --duration is over",
		"--duration 1s --duration-grace -1s":                        "--duration-grace cannot be negative",
	} {
		if !strings.Contains(line, "--trace") && !strings.Contains(line, "--dataset-path") {
			line += " x.jsonl"
		}
		_, _, err := typed(t, false, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// TestProfileDefaults: AIPerf's, each said.
func TestProfileDefaults(t *testing.T) {
	for _, c := range []struct{ line, want, note string }{
		{"", "--url localhost:8000 --api chat --no-stream true --idle-timeout 10m0s", "as aiperf profile does unless told otherwise: --url localhost:8000; --endpoint-type chat; whole responses, so no TTFT or TPOT (--streaming asks for streams); no limit on the time between two bytes of a whole response but --timeout"},
		{"-u h:1 --endpoint-type chat --no-stream --request-timeout-seconds 9", "--url h:1 --api chat --no-stream true --timeout 9s --idle-timeout 9s", "as aiperf profile does unless told otherwise: no limit on the time between two bytes of a whole response but --timeout"},
		{"--streaming --url h:1", "--url h:1 --api chat --no-stream false", "as aiperf profile does unless told otherwise: --endpoint-type chat"},
		{"-u a:1 -u b:2 c:3 --endpoint-type completions --streaming", "--url a:1,b:2,c:3 --api completions --no-stream false", ""},
		{"-u h:1 --endpoint-type chat --backend vllm --streaming", "--url h:1 --api chat --no-stream false", "--backend: the API is what --endpoint-type says"},
		{"-u h:1 --endpoint-type chat --streaming -v --stream metrics timing --num-prompts 3", "--url h:1 --api chat --no-stream false", "--stream: nothing is sent to OpenTelemetry"},
		{"-u h:1 --endpoint-type chat --streaming --benchmark-duration 9", "--url h:1 --api chat --no-stream false --duration 9s --duration-grace 30s", "as aiperf profile does unless told otherwise: --benchmark-grace-period 30"},
		{"-u h:1 --endpoint-type chat --streaming --benchmark-duration 9 --benchmark-grace-period 1", "--url h:1 --api chat --no-stream false --duration 9s --duration-grace 1s", ""},
		{"-u h:1 --endpoint-type chat --streaming --no-fixed-schedule", "--url h:1 --api chat --no-stream false --no-fixed-schedule true --concurrency 1", "as aiperf profile does unless told otherwise: --concurrency 1"},
		{"-u h:1 --endpoint-type chat --streaming --no-fixed-schedule --request-rate 3", "--url h:1 --api chat --no-stream false --no-fixed-schedule true --rate 3 --arrival poisson", ""},
		{"-u h:1 --endpoint-type chat --streaming --gpu-telemetry --server-metrics a:1 b:2 --ui none", "--url h:1 --api chat --no-stream false", "--gpu-telemetry: what the servers' GPUs do is not collected"},
		{"-u h:1 --backend vllm --dataset-name timed_trace --num-prompts 3", "--url h:1 --api completions --format mooncake --limit 3 --block-tokens 16 --time-unit s --fixed-schedule true",
			"as vllm bench serve does unless told otherwise: --timed-trace-chunk-hash-size 16; --timed-trace-sec-multiplier 1; --self-timed"},
		{"-u h:1 --endpoint-type chat --streaming --tokenizer /no/such", "--url h:1 --api chat --no-stream false", "--tokenizer /no/such: no file or folder of this machine; it is not needed: prompts are proven on the server"},
	} {
		_, h, err := typed(t, true, append([]string{"--trace", "x"}, strings.Fields(c.line)...)...)
		if got := settings(h.flags); err != nil || got != canonical(c.want+" --trace x") {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.line, err, got, canonical(c.want+" --trace x"))
		}
		if c.note != "" && !slices.Contains(h.notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.line, h.notes, c.note)
		}
	}
}

// TestPaceLikeAIPerf: a trace's times are kept in profile, as far as the user has not said otherwise.
func TestPaceLikeAIPerf(t *testing.T) {
	timed := &trace.Trace{Format: "mooncake", ArrivalNS: []int64{0, 5}}
	untimed := &trace.Trace{Format: "mooncake", ArrivalNS: []int64{0, 0}, Untimed: true}
	turns := &trace.Trace{Format: "single_turn", ArrivalNS: []int64{0, 5}}
	for _, c := range []struct {
		line        string
		trace       *trace.Trace
		fixed       bool
		concurrency int
		notes       int
	}{
		{"", timed, false, 0, 0},
		{"--concurrency 2", timed, true, 2, 1},
		{"--concurrency 2 --no-fixed-schedule", timed, false, 2, 0},
		{"--concurrency 2 --fixed-schedule", timed, true, 2, 0},
		{"--request-rate 2", timed, false, 0, 1},
		{"--request-rate 2", untimed, false, 0, 0},
		{"", untimed, false, 1, 1},
		{"--concurrency 2", untimed, false, 2, 0},
		{"--concurrency 2", turns, false, 2, 0},
		{"", turns, false, 1, 1},
	} {
		o, h, err := typed(t, true, append([]string{"--trace", "x"}, strings.Fields(c.line)...)...)
		if err != nil {
			t.Fatal(err)
		}
		notes := h.paceLikeAIPerf(&o.pacing, c.trace)
		if len(notes) != c.notes || o.pacing.fixed != c.fixed || o.pacing.concurrency != c.concurrency {
			t.Errorf("%q on %+v: fixed %t, concurrency %d, notes %q; want %+v", c.line, c.trace, o.pacing.fixed, o.pacing.concurrency, notes, c)
		}
		if c.trace == turns && slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "the trace has no times") }) {
			t.Errorf("%q: %q of a trace with times", c.line, notes)
		}
		if said := h.options(); said["fixed-schedule"] != nil != c.fixed || said["concurrency"] != nil != (c.concurrency > 0) {
			t.Errorf("%q on %+v: options %v", c.line, c.trace, said)
		}
	}
	o, h, err := typed(t, false, "x", "--concurrency", "2")
	if notes := h.paceLikeAIPerf(&o.pacing, timed); err != nil || notes != nil || o.pacing.fixed {
		t.Errorf("the main command: %v, notes %q, fixed %t", err, notes, o.pacing.fixed)
	}
}

// TestTalkLikeAIPerf: turns wait for answers in profile where no times are kept, as far as the user has not said otherwise.
func TestTalkLikeAIPerf(t *testing.T) {
	work := func(format string, parent ...int64) *trace.Trace {
		return &trace.Trace{Format: format, ArrivalNS: make([]int64, len(parent)), Untimed: true, Parent: parent, Chat: []int64{0, 1, 2}[:len(parent)]}
	}
	turns, bailian, single := work("multi_turn", -1, 0, 1), work("bailian", -1, 0, 1), work("multi_turn", -1, -1, -1)
	for _, c := range []struct {
		line          string
		trace         *trace.Trace
		mode, history string
		notes         int
	}{
		{"--concurrency 4", turns, "think", "live", 2},
		{"--request-rate 4", turns, "think", "live", 2},
		{"--concurrency 4", bailian, "think", "recorded", 1},
		{"--concurrency 4", single, "strict", "recorded", 0},
		{"--concurrency 4 --request-rate 4", turns, "strict", "recorded", 0},
		{"--fixed-schedule", turns, "strict", "recorded", 0},
		{"--concurrency 4 --sessions gated", turns, "gated", "recorded", 0},
		{"--concurrency 4 --sessions strict", turns, "strict", "recorded", 0},
		{"--concurrency 4 --history recorded", turns, "think", "recorded", 1},
		{"--concurrency 4 --endpoint-type completions", turns, "think", "recorded", 1},
		{"--concurrency 4 --route least-inflight", turns, "think", "recorded", 1},
		{"--concurrency 4 --lane process", turns, "think", "recorded", 1},
	} {
		o, h, err := typed(t, true, append([]string{"--trace", "x"}, strings.Fields(c.line)...)...)
		if err != nil {
			t.Fatal(err)
		}
		notes := h.talkLikeAIPerf(o, c.trace)
		if s := o.sessions; len(notes) != c.notes || string(s.mode) != c.mode || s.past != c.history {
			t.Errorf("%q: %s, %s, notes %q; want %+v", c.line, s.mode, s.past, notes, c)
		}
	}
	o, h, err := typed(t, false, "x", "--concurrency", "4")
	if notes := h.talkLikeAIPerf(o, turns); err != nil || notes != nil || o.sessions.mode != sessionsStrict {
		t.Errorf("the main command: %v, notes %q, %s", err, notes, o.sessions.mode)
	}
}

// TestAnswerLengths: a length for answers is nothing to take with a note where the trace leaves them open.
func TestAnswerLengths(t *testing.T) {
	said := &trace.Trace{OutputTokens: []int32{1, 2}, Row: []int32{0, 1}, ArrivalNS: []int64{0, 0}}
	open := &trace.Trace{OutputTokens: []int32{1, 0}, Row: []int32{0, 7}, ArrivalNS: []int64{0, 0}}
	for _, name := range []string{"--osl", "--output-tokens-mean"} {
		_, h, err := typed(t, true, "--trace", "x", name, "64")
		if err != nil || h.checkLengths(said) != nil {
			t.Errorf("%s where the trace says lengths: %v, %v", name, err, h.checkLengths(said))
		}
		if err := h.checkLengths(open); err == nil || !strings.HasPrefix(err.Error(), name+": row 7 says no length of its answer") {
			t.Errorf("%s where it does not: %v", name, err)
		}
	}
	if _, h, _ := typed(t, true, "--trace", "x"); h.checkLengths(open) != nil {
		t.Error("refused without such a flag")
	}
	if _, _, err := typed(t, false, "x", "--sharegpt-output-len", "64"); err == nil || !strings.HasPrefix(err.Error(), "--sharegpt-output-len: answers have their recorded lengths") {
		t.Errorf("--sharegpt-output-len: %v", err)
	}
}

// TestSecretsAreNotOptions: the results say that there was a key, a header, a query, and not which.
func TestSecretsAreNotOptions(t *testing.T) {
	_, h, err := typed(t, true, "--trace", "x", "--api-key", "s3cr3t", "-H", "X: s3cr3t", "-u", "http://h:1/?key=s3cr3t", "--endpoint", "/v1/x?key=s3cr3t", "--otel-url", "http://s3cr3t@h")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range h.options() {
		if strings.Contains(value.(string), "s3cr3t") {
			t.Errorf("%s: %v", name, value)
		}
		if h.aliases[name] != nil {
			t.Errorf("%s is no flag of ours", name)
		}
	}
	if notes := strings.Join(h.notes, "\n"); strings.Contains(notes, "s3cr3t") {
		t.Errorf("notes: %s", notes)
	}
	if got := h.options()["api-key"]; got != "given" {
		t.Errorf("api-key: %v", got)
	}
}

func TestGathered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a=b")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                           "",
		"t.jsonl":                    "t.jsonl",
		"--extra-inputs a:1 t.jsonl": "--extra-inputs a:1 t.jsonl",
		"--extra-inputs a:1 b:2 c=3 t.jsonl --rate 3":         "--extra-inputs a:1 --extra-inputs b:2 --extra-inputs c=3 t.jsonl --rate 3",
		"--extra-inputs a:1 " + file:                          "--extra-inputs a:1 " + file,
		"--extra-inputs=a:1 t.jsonl":                          "--extra-inputs=a:1 t.jsonl",
		"--extra-inputs":                                      "--extra-inputs",
		"--metadata a=1 b=2 --rate 3":                         "--metadata a=1 --metadata b=2 --rate 3",
		"--gpu-telemetry t.jsonl":                             "--gpu-telemetry= t.jsonl",
		"-H A:b C:d -- --extra-inputs a:1 b:2":                "-H A:b -H C:d -- --extra-inputs a:1 b:2",
		"profile --gpu-telemetry --rate 3":                    "profile --gpu-telemetry= --rate 3",
		"profile --gpu-telemetry pynvml x --rate 3":           "profile --gpu-telemetry pynvml --gpu-telemetry x --rate 3",
		"profile -u a b -m m":                                 "profile -u a -u b -m m",
		"mock --extra-inputs a:1 b:2":                         "mock --extra-inputs a:1 b:2",
		"inspect a b":                                         "inspect a b",
		"profile --input-file t --extra-inputs a:1 {\"b\":2}": "profile --input-file t --extra-inputs a:1 --extra-inputs {\"b\":2}",
	} {
		if got := strings.Join(gathered(strings.Fields(line), newRootCommand()), " "); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", line, got, want)
		}
	}
}

func TestUnknownFlag(t *testing.T) {
	for line, want := range map[string]string{
		"--input-fle x":       "unknown flag: --input-fle; did you mean --input-file?",
		"--reqest-rate 3":     "unknown flag: --reqest-rate; did you mean --request-rate?",
		"--request_rate 3":    "unknown flag: --request_rate; did you mean --request-rate?",
		"profile --modle x":   "unknown flag: --modle; did you mean --model?",
		"inspect --frmat x":   "unknown flag: --frmat; did you mean --format?",
		"--something-else 12": "unknown flag: --something-else; see `fastreplay --help`",
		"-z":                  "unknown shorthand flag: 'z' in -z",
	} {
		root := newRootCommand()
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// TestObjectives: trace-replayer's are in seconds, those of --goodput in milliseconds.
func TestObjectives(t *testing.T) {
	for _, c := range []struct{ flag, text, want string }{
		{"ttft-slo", "5.0", "ttft:5000"}, {"ttft-slo", "0.0005", "ttft:0.5"}, {"tpot-slo", "0.06", "tpot:60"}, {"tpot-slo", "1e-3", "tpot:1"},
		{"ttft-slo", "0", ""}, {"ttft-slo", "-1", ""}, {"ttft-slo", "inf", ""}, {"tpot-slo", "nan", ""}, {"tpot-slo", "5s", ""},
	} {
		all := replayerAliases()
		a := all[slices.IndexFunc(all, func(a alias) bool { return a.name == c.flag })]
		if got, err := a.value(c.text); got != c.want || (err != nil) != (c.want == "") || a.flag != "goodput" {
			t.Errorf("--%s %s: %q, %v; want --goodput %q", c.flag, c.text, got, err, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"rate", "rate", 0}, {"rat", "rate", 1}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestHiddenAliases: the main command's help is about its own flags; profile's lists the others.
func TestHiddenAliases(t *testing.T) {
	help := func(args ...string) string {
		var b strings.Builder
		root := newRootCommand()
		root.SetOut(&b)
		root.SetArgs(append(args, "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	main, profile := help(), help("profile")
	for _, a := range slices.Concat(aliasesOf(false), aliasesOf(true)) {
		if strings.Contains(main, " --"+a.name+" ") {
			t.Errorf("the main help shows --%s", a.name)
		}
		if !strings.Contains(strings.ReplaceAll(profile, "\n", " \n"), " --"+a.name+" ") {
			t.Errorf("the help of profile does not show --%s", a.name)
		}
	}
}
