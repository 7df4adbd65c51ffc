"""The load generators: the command line of each for each scenario, and where it writes what it measured.

A tool that cannot do a scenario returns None. Every other one returns its command, and reads its results as lists of milliseconds:
"ttft", one number a request, and "gap", one number between two tokens (or its mean over a request, if the tool keeps no more).
"""

import json
import os
import pathlib


class Tool:
    name = version = ""
    gap_is_mean = False  # of a request
    slow = True  # hundreds of requests a second, not tens of thousands
    env = {}

    def __init__(self, place):
        self.place = place


def read_lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


class Fastreplay(Tool):
    name = "fastreplay"
    slow = False
    version = "this checkout"

    def command(self, s, url, out):
        # --max-drift and the like judge the run; here the mock's log does.
        common = ["--url", url, "--model", "model", "--cold", "off", "--scrape", "off", "--output", out / "results", "--trace", s.trace]
        pace = [] if s.kind == "schedule" else ["--concurrency", s.concurrency]
        return [self.place.fastreplay, *common, *pace]

    def results(self, out):
        rows = read_lines(out / "results" / "requests.jsonl")
        summary = json.loads((out / "results" / "summary.json").read_text())
        return {"ttft": [r["ttft_ms"] for r in rows if r["ttft_ms"] is not None], "gap_percentiles": summary["itl_ms"]}


class AIPerf(Tool):
    name = "AIPerf"
    version = "0.13.0"
    env = {"HF_HUB_OFFLINE": "1", "AIPERF_UI_TYPE": "none"}

    def command(self, s, url, out):
        # A local folder as --tokenizer fails with hash ids (HFValidationError in its decode workers): the model has a name in a hub cache.
        common = [self.place.venv("aiperf") / "aiperf", "profile", "--model", "model", "--tokenizer", self.place.hub_name, "--url", url,
                  "--endpoint-type", "completions", "--streaming", "--artifact-dir", out, "--ui", "none", "--use-server-token-count",
                  "--extra-inputs", "ignore_eos:true"]
        trace = ["--input-file", s.trace, "--custom-dataset-type", "mooncake_trace"]
        if s.kind == "schedule":
            return [*common, *trace, "--fixed-schedule"]
        return [*common, *trace, "--no-fixed-schedule", "--ignore-trace-delays", "--concurrency", s.concurrency, "--request-count", s.requests]

    def results(self, out):
        rows = [r["metrics"] for r in read_lines(next(out.rglob("profile_export.jsonl")))]
        gaps = [g for r in rows for g in r.get("inter_chunk_latency", {}).get("value", [])]
        return {"ttft": [r["time_to_first_token"]["value"] for r in rows if "time_to_first_token" in r], "gap": gaps}


class GuideLLM(Tool):
    name = "GuideLLM"
    version = "0.8.1"
    gap_is_mean = True
    env = {"HF_HUB_OFFLINE": "1"}

    def command(self, s, url, out):
        common = [self.place.venv("guidellm") / "guidellm", "run", "--backend", f"kind=openai_http,target={url},model=model,request_format=/v1/completions",
                  "--tokenizer", f"kind=huggingface_auto,model={self.place.model}", "--output", f"kind=json,path={out}/benchmarks.json", "--disable-console"]
        if s.kind == "schedule":
            # It takes Mooncake's milliseconds as seconds.
            data = ["--data", f"kind=mooncake,source.kind=json_file,source.path={s.trace},time_scale=0.001", "--profile", "kind=replay,schedule_turn=timestamp"]
        else:
            data = ["--data", f"kind=synthetic_text,prompt_tokens={s.prompt},output_tokens={s.output}", "--profile", f"kind=concurrent,streams={s.concurrency}",
                    "--constraint", f"kind=max_requests,count={s.requests}"]
        return [*common, *data]

    def results(self, out):
        rows = json.loads((out / "benchmarks.json").read_text())["benchmarks"][0]["requests"]["successful"]
        return {"ttft": [r["time_to_first_token_ms"] for r in rows], "gap": [r["inter_token_latency_ms"] for r in rows if r.get("inter_token_latency_ms")]}


class VLLMBench(Tool):
    name = "vLLM bench"
    version = "0.32.0"
    env = {"HF_HUB_OFFLINE": "1"}

    def command(self, s, url, out):
        common = [self.place.venv("real") / "vllm", "bench", "serve", "--base-url", url, "--model", "model", "--tokenizer", self.place.model, "--ignore-eos",
                  "--num-prompts", s.requests, "--save-result", "--save-detailed", "--result-filename", out / "vllm.json", "--disable-tqdm"]
        if s.kind == "schedule":
            return [*common, "--dataset-name", "timed_trace", "--dataset-path", s.trace, "--timed-trace-chunk-hash-size", "512", "--timed-trace-sec-multiplier", "0.001",
                    "--self-timed"]
        return [*common, "--dataset-name", "random", "--random-input-len", s.prompt, "--random-output-len", s.output, "--max-concurrency", s.concurrency]

    def results(self, out):
        r = json.loads((out / "vllm.json").read_text())
        return {"ttft": [1e3 * t for t in r["ttfts"]], "gap": [1e3 * g for one in r["itls"] for g in one]}


class InferencePerf(Tool):
    name = "inference-perf"
    version = "0.7.0"
    env = {"HF_HUB_OFFLINE": "1"}

    def command(self, s, url, out):
        if s.kind == "schedule":
            return None  # it reads neither Mooncake's nor Bailian's traces
        fixed = "{{type: fixed, min: {0}, max: {0}, mean: {0}, std_dev: 0, total_count: {1}}}"
        (out / "config.yaml").write_text(f"""
api: {{type: completion, streaming: true}}
data: {{type: random, input_distribution: {fixed.format(s.prompt, s.requests)}, output_distribution: {fixed.format(s.output, s.requests)}}}
load: {{type: concurrent, num_workers: 2, worker_max_concurrency: {s.concurrency}, stages: [{{num_requests: {s.requests}, concurrency_level: {s.concurrency}}}]}}
server: {{type: vllm, model_name: model, base_url: "{url}", ignore_eos: true}}
tokenizer: {{pretrained_model_name_or_path: {self.place.model}}}
report: {{request_lifecycle: {{summary: true, per_stage: false, per_request: true}}}}
storage: {{local_storage: {{path: {out}/reports}}}}
""")
        return [self.place.venv("inference-perf") / "inference-perf", "--config_file", out / "config.yaml"]

    def results(self, out):
        ttft, gap = [], []
        for r in json.loads(next(out.rglob("per_request_lifecycle_metrics.json")).read_text()):
            times = r["info"]["response_metrics"]["output_token_times"] if not r["error"] else []
            if times:
                ttft.append(1e3 * (times[0] - r["start_time"]))
                gap += [1e3 * (b - a) for a, b in zip(times, times[1:])]
        return {"ttft": ttft, "gap": gap}


class Wrk(Tool):
    """The ceiling of a closed loop: it keeps no record of a request."""

    name = "wrk"
    slow = False

    version = "Debian's"

    def command(self, s, url, out):
        if s.kind != "throughput" or not self.place.wrk:
            return None
        body = json.dumps({"model": "model", "prompt": list(range(1024, 1024 + s.prompt)), "max_tokens": s.output, "min_tokens": s.output, "ignore_eos": True,
                           "stream": True, "stream_options": {"include_usage": True}})
        (out / "post.lua").write_text(f"wrk.method, wrk.body = 'POST', '{body}'\nwrk.headers['Content-Type'] = 'application/json'\n")
        return ["wrk", "--threads", "1", "--connections", s.concurrency, "--duration", "5s", "--script", out / "post.lua", f"{url}/v1/completions"]

    def results(self, out):
        return {}


ALL = [Fastreplay, AIPerf, GuideLLM, VLLMBench, InferencePerf, Wrk]


def arguments(command):
    return [os.fspath(a) if isinstance(a, pathlib.Path) else str(a) for a in command]
