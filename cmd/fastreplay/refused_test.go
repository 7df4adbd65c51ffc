package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRefusedLines: what options, trace and server decide is refused before anything is sent and written, in a last
// line that says why. S/ are the bundled traces, BAD/ malformed ones. NOBODY does not listen; the other servers are
// mocks, each named after what it cannot do.
func TestRefusedLines(t *testing.T) {
	dir := t.TempDir()
	names := []string{"S/", "../../bench/samples/", "BAD/", "../../codec/trace/testdata/", "SMALL", "../../bench/samples/mooncake-small.jsonl --limit 5", "OUT", filepath.Join(dir, "out")}
	for name, text := range map[string]string{
		"TEXTS": `{"timestamp":0,"text_input":"x"}` + "\n" + `{"timestamp":5,"messages":[{"role":"user","content":"x"}]}`, "HEAVY": "127.0.0.1:1\n127.0.0.1:2 heavy", "EMPTY": "# nobody",
		"UNTIMED": `{"text_input":"x","output_length":4}`, "PAYLOAD": `{"payload":{"prompt":"y"}}`, "OWNPROMPT": `{"timestamp":0,"input_length":3,"output_length":2,"extra":{"prompt":"x"}}`,
		"FAILED": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,3,475,API log\n5.1,ChatGPT,80,0,80,API log", "MINE": "mine",
		"OWNKEYS": `{"ts":0,"prompt_tokens":600,"completion_tokens":4}`,
	} {
		path := filepath.Join(dir, strings.ToLower(name))
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name, path)
	}
	logs := map[string]string{}
	for name, args := range map[string][]string{
		"MOCK": nil, "NAMED": {"--model", "m"}, "SHORT": {"--max-model-len", "9000"}, "COLDLESS": {"--quirk", "no-flush", "--quirk", "ignore-salt"}, "ENCRYPTED": {"--tls-self-signed"}, "METRICLESS": {"--quirk", "no-metrics"},
		"REPLAYLESS": {"--quirk", "no-trace-replay"}, "JITTERY": {"--template-tokens", "21,5", "--template-jitter", "40"}, "TEMPLATED": {"--template-tokens", "21,5"},
		"SPLITTING": {"--split-words", "5"},
	} {
		logs[name] = filepath.Join(dir, name+".jsonl")
		url, _, _ := startMockCommand(t, strings.NewReader(""), append(args, "--log", logs[name], "--ttft", "0s", "--itl", "0s")...)
		names = append(names, name, url)
	}
	mock := names[slices.Index(names, "MOCK")+1]
	named := strings.NewReplacer(append(names, "NOBODY", "127.0.0.1:9")...)
	for line, want := range map[string]string{
		"nothing.jsonl":                                              "nothing.jsonl",
		"BAD/many-faults.jsonl --url MOCK":                           "many-faults.jsonl:2: input_length -1 is out of range",
		"BAD/damaged.jsonl.zst --url MOCK":                           "damaged or cut short",
		"SMALL --url NOBODY":                                         "127.0.0.1:9 does not accept connections",
		"SMALL --url MOCK --url NOBODY":                              "127.0.0.1:9 does not accept connections",
		"SMALL --url no-such-host.invalid":                           "cannot resolve no-such-host.invalid",
		"SMALL --url NAMED --model gpt":                              "The model `gpt` does not exist",
		"SMALL --url http://":                                        "not an address",
		"SMALL --url ENCRYPTED":                                      "certificate",
		"SMALL --urls MOCK":                                          "unknown flag",
		"SMALL --url MOCK --from 10h":                                "no row lies",
		"SMALL --url MOCK --max-memory 9kB":                          "8 of the largest request must fit; give --max-memory ",
		"SMALL --url NOBODY --max-memory 10kB --amplify 500":         "more than the 10.0 kB allowed (--max-memory); use a smaller --amplify",
		"SMALL --url NOBODY --max-memory much":                       `--max-memory "much": want bytes`,
		"SMALL --url MOCK --rate 1 --ramp 1:2:1s":                    "exclude each other",
		"SMALL --url MOCK --no-fixed-schedule":                       "say when requests leave, with --rate R, --rate max, --ramp or --concurrency N",
		"SMALL --url MOCK --extra-inputs prompt:x":                   "prompt",
		"SMALL --url MOCK --output MINEDIR":                          "not empty",
		"SMALL --url MOCK --start-at 2026-01-02T15:04:05Z":           "want a moment to come",
		"SMALL --url MOCK --start-at noon":                           "want a moment, such as",
		"SMALL --url MOCK --kernel-timestamps maybe":                 `--kernel-timestamps "maybe"`,
		"SMALL --url MOCK --goodput latency:5":                       `"latency" is no latency of a request; `,
		"SMALL --url MOCK --require e2e.max<1h":                      `"1h" is no limit for it; want a time`,
		"SMALL --url MOCK --until tftt.p99±5%":                       "did you mean ttft.p99?",
		"SMALL --url MOCK --until ttft.p99±0%":                       `"0%" is no width`,
		"SMALL --url MOCK --until itl.p99±5%":                        "itl.p99 has no interval",
		"SMALL --url MOCK --abort-if tftt.p95>5s":                    "did you mean ttft.p95?",
		"SMALL --url MOCK --abort-if ttft.p95<5s":                    "want a percentile of a latency above a limit",
		"SMALL --url MOCK --instance-header a;b":                     `--instance-header "a;b"`,
		"SMALL --url MOCK --force-answers":                           "use --api vllm-generate",
		"SMALL --url MOCK --api chat --force-answers":                "--history live",
		"SMALL --url MOCK --tokenizer nowhere.json":                  "nowhere.json",
		"SMALL --url MOCK --scrape-url MOCK/nothing":                 "/nothing: HTTP 404; correct it or leave it out",
		"SMALL --url METRICLESS --scrape on":                         "/metrics: HTTP 404; use --scrape auto to run without them",
		"SMALL --url REPLAYLESS --api vllm-generate --force-answers": "Start the engine with --enable-trace-replay",
		"S/mooncake-small.jsonl --url SHORT":                         "requests whose prompt and output exceed the servers' context of 9,000 tokens (/v1/models); the first is row 2 (from 0) of",
		"SMALL --url COLDLESS --cold flush":                          "cannot flush its prefix cache",
		"SMALL --url COLDLESS --cold salt":                           "ignore cache_salt",
		"SMALL --url JITTERY --api chat":                             "is not constant",
		"SMALL --url SPLITTING --api chat":                           "does not take each word of the built-in list as one token; give the model's own tokenizer with --tokenizer",
		"SMALL --url SPLITTING --api chat --tokenizer ../../codec/tokenizer/testdata/qwen2.json": "as one token, so that is not its tokenizer",
		"SMALL --url MOCK --prompt token-ids --tokenizer ../../codec/tokenizer/testdata/t5.json": "have the same number of digits, and 1000 are needed; use --prompt text",
		"SMALL --url TEMPLATED --api chat --chat-overhead 20,5":                                  "--chat-overhead 20,5: that makes 25 tokens, the servers add 26 to a prompt",
		"SMALL --url TEMPLATED --api chat --chat-overhead 1,25":                                  "--chat-overhead 1,25: the servers say 21,5 (/tokenize)",

		"S/azure.csv --url NOBODY --route session":                               "--route session: the trace has no conversations",
		"S/azure.csv --url NOBODY --scrape-url :::":                              `--scrape-url ":::": not an address`,
		"S/azure.csv --url NOBODY --resend sometimes":                            `--resend "sometimes": want never, unread or safe`,
		"S/azure.csv --url NOBODY --api responses --resend safe":                 "not safe to repeat; use unread",
		"S/azure.csv --url NOBODY --sender process --route least-inflight":       "--sender process: where a request goes is decided by responses",
		"S/azure.csv --url NOBODY --sender process --concurrency 2":              "--sender process: a closed loop has no deadlines to keep",
		"S/bailian.jsonl --url NOBODY --sender process --sessions gated":         "--sender process: turns that wait for answers",
		"S/sharegpt.json --url NOBODY --rate 50 --sender process --history live": "--sender process: live history is made of responses, which come in here",
		"SMALL --url NOBODY --sender process --rate max":                         "does not accept connections", // not refused, but for the server

		"S/bailian.jsonl --url NOBODY --api triton-vllm":             "--model",
		"S/bailian.jsonl --url NOBODY --api tgi --prompt token-ids":  "--api tgi takes text",
		"S/bailian.jsonl --url NOBODY --api chat --prompt token-ids": "--api chat takes text",
		"S/bailian.jsonl --url NOBODY --api raw --endpoint /x":       "whole bodies",
		"S/bailian.jsonl --url NOBODY --api messages --cold salt":    "no cache_salt",
		"S/bailian.jsonl --url NOBODY --api tgi --chat-overhead 1,1": "no template",
		"S/bailian.jsonl --url NOBODY --api grpc":                    `unknown API "grpc"`,
		"S/bailian.jsonl --url NOBODY --api chat --endpoint-type x":  "there are",
		"S/bailian.jsonl --api chat --url 127.0.0.1:9/generate":      "--api tgi",
		"S/bailian.jsonl --api tgi --url 127.0.0.1:9/v1/responses/":  "--api responses",
		"TEXTS --api completions":                                    "row 1: this API takes no messages: use --api chat",
		"TEXTS --no-stream --extra-inputs stream:true":               `"stream" beside --no-stream`,
		"UNTIMED": ": no row says when it arrived; say when requests leave, with --rate R",
		"UNTIMED --fixed-schedule --concurrency 2":       ": no row says when it arrived; say when requests leave, with --rate R",
		"UNTIMED --scale 2":                              ": no row says when it arrived; say when requests leave, with --rate R",
		"PAYLOAD --concurrency 1 --cold salt --no-probe": "--cold salt: bodies are sent as they are, without a cache_salt",
		"PAYLOAD --concurrency 1 --cold salt --dry-run":  "--cold salt: bodies are sent as they are, without a cache_salt",
		"OWNPROMPT":                `row 0: extra: key "prompt" is given by the row itself`,
		"FAILED --bad-rows strict": ":3: the request failed when it was recorded; ",
		"OWNKEYS --url MOCK":       "name its keys with --fields, as in --fields",
		"--trace S/azure.csv --trace S/mooncake-small.jsonl":         "mooncake-small.jsonl: this is mooncake, but ",
		"S/sharegpt.json --rate 50 --history life":                   `--history "life": want recorded or live`,
		"S/bailian.jsonl --history live":                             "--history live: the trace has token counts and no messages, so no turn carries an answer; leave it out, or use a trace with conversations (sharegpt, multi_turn, mooncake with messages)",
		"S/inputs.json --rate 50 --history live":                     "whole bodies are sent as they stand",
		"S/sharegpt.json --rate 50 --history live --api completions": "row 0: this API takes no messages: use --api chat",
		"S/azure.csv --sessions gated":                               "--sessions gated: no request of the selection depends on another",
		"S/bailian.jsonl --sessions loose":                           `--sessions "loose": want strict, gated, think or lanes=N`,
		"S/bailian.jsonl --assume-latency 1s,1ms":                    "--assume-latency is about --sessions think",
		"S/bailian.jsonl --sessions gated --scale 2 --concurrency 4": "a cap holds requests back in their order",
		"S/bailian.jsonl --route best":                               `--route "best": want round-robin, random, least-inflight, session or prefix`,
		"S/bailian.jsonl --load-bound 2":                             "--load-bound is about --route prefix",
		"S/bailian.jsonl --route prefix --load-bound 0.5":            "--load-bound 0.5: want at least 1, such as 1.25, or 0 for none",
		"S/bailian.jsonl --targets HEAVY":                            "heavy:2: want a URL and perhaps a weight above 0 on each line",
		"S/bailian.jsonl --targets EMPTY":                            ": no server in it",
		"S/bailian.jsonl --targets /no/such/file":                    "--targets: open /no/such/file: ",
		"S/bailian.jsonl --route least-inflight --url 127.0.0.1:1 --url 127.0.0.1:2/v2/x --no-probe --model m": "requests that may go to either are built before, so want one path",

		"convert":                              "no trace; give one",
		"convert S/azure.csv":                  "no format to write; give one with --format",
		"convert S/azure.csv --format parquet": `--format "parquet": want `,
		"convert S/azure.csv --format mooncake --output MINE":               ": there is such a file already",
		"convert S/azure.csv --format mooncake --output OUT --time-unit ms": "are dates",
		"convert S/azure.csv --format mooncake --fields ts=timestamp":       `unknown field "ts"`,
		"convert BAD/many-faults.jsonl --format bailian --output OUT":       "input_length -1 is out of range",
		"convert S/multi_turn.jsonl --format single_turn --output OUT":      "is a chat, which single_turn has no place for: write it as mooncake",
		"inspect":                 "no trace; give one or more",
		"inspect nothing.jsonl":   "nothing.jsonl",
		"inspect BAD/empty.jsonl": "the trace is empty",
		"inspect S/mooncake.jsonl --cache-tokens many":                           `--cache-tokens "many": want`,
		"inspect S/mooncake.jsonl --time-unit h":                                 "--time-unit",
		"inspect S/mooncake.jsonl --max-model-len -1":                            "a context of -1 tokens",
		"inspect S/mooncake.jsonl --from 10h":                                    "no row lies",
		"inspect S/mooncake.jsonl --html /nowhere/x.html":                        "cannot write /nowhere/x.html",
		"inspect S/bailian.jsonl --instances 1":                                  "1 instance; want 2 to 1,024",
		"inspect S/bailian.jsonl --instances 2000":                               "2,000 instances; want 2 to 1,024",
		"inspect S/bailian.jsonl --instances 2 --load-bound 0.9":                 "a load bound of 0.9; want at least 1",
		"mock --header nocolon":                                                  `header "nocolon": must be NAME: VALUE`,
		"compare OUT":                                                            "two runs or more",
		"compare OUT OUT":                                                        "there is no directory",
		"compare OUT OUT --fail-if ttfb:+5%":                                     "want METRIC:",
		"compare OUT OUT -- --scale 2":                                           "are for --interleave",
		"compare OUT --":                                                         "runs on both sides of --",
		"compare OUT OUT --undecided pass":                                       "give --fail-if",
		"compare OUT OUT --restart true":                                         "between the runs that --interleave makes",
		"compare --interleave abba --runs 0 MOCK MOCK -- SMALL":                  "--runs 0: want 1 to 100",
		"compare OUT OUT --output x":                                             "is where",
		"compare --interleave abba --output OUT MOCK MOCK -- SMALL --base-url x": "leave it out here",
		"compare --interleave abba --output OUT MOCK MOCK -- SMALL --scael 2":    "unknown flag",
		"compare --interleave abba --output OUT MOCK MOCK -- --trace -":          "standard input can",
		"compare --interleave abba --output OUT MOCK MOCK --":                    "what to replay after --",
		"compare --interleave baab --output OUT MOCK MOCK -- SMALL":              "want abba or together",
	} {
		line = strings.ReplaceAll(line, "MINEDIR", dir)
		args := strings.Fields(named.Replace(line))
		if command := strings.SplitN(line, " ", 2)[0]; len(args) > 0 && (strings.Contains(command, ".") || strings.ToUpper(command) == command) && !strings.Contains(line, "--output") {
			args = append(args, "--output", filepath.Join(dir, "out"))
			if !strings.Contains(line, "--url") && !strings.Contains(line, "--targets") {
				args = append(args, "--url", mock)
			}
		}
		code, said := runLine(t, strings.Join(args, " "))
		if _, why, is := strings.Cut("\n"+said, "\nfastreplay: "); code != exitUsage || !is || !strings.Contains(why, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", line, code, want, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
			t.Fatalf("%s: something was written", line)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(text) != "mine\n" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
	for name, log := range logs {
		if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != strings.Count(string(text), `"request_id":"mock-`) { // a probe has no id of ours
			t.Errorf("%s was asked more than probes: %v\n%s", name, err, text)
		}
	}
}
