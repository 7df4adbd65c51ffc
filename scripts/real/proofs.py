"""What is proven against each server. A proof compares fastreplay's files with the trace, with the server's own counters or
with arithmetic of its own; it shares no code with the client."""

import collections
import itertools
import json
import math
import re
import signal
import subprocess
import tempfile
import pathlib

import load
import servers
from replay import Replay

HEAD, TAIL = 3, 5  # tokens of model.py's template: "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
SEQUENTIAL = ["--concurrency", "1"]
ENDED_TOKENS = 40  # of the answers of a server that ends in mid-run
BROKEN = {"reset", "truncated", "connect_error", "stream_error", "http_error", "timeout", "bad_response"}  # of a server that is gone


class Proofs:
    """The findings about one server."""

    def __init__(self, server, program):
        self.server, self.program = server, program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fastreplay-real-"))
        self.found = []
        self.runs = 0

    def run(self, *args, key=True):
        return self.begin(*args, key=key).wait()

    def begin(self, *args, key=True):
        self.runs += 1
        common = ["--url", self.server.url]
        if key and self.server.key:
            common += ["--api-key", self.server.key]
        return Replay(self.program, self.folder / f"run{self.runs}", *args, *common)

    def trace(self, name, rows):
        return load.write(self.folder / f"{name}.jsonl", rows)

    def check(self, proof, what, expected, measured, ok=None):
        """ok: None = equal values."""
        passed = expected == measured if ok is None else ok
        self.add(proof, what, expected, measured, "pass" if passed else "fail")

    def add(self, proof, what, expected, measured, result):
        one = {"server": self.server.name, "proof": proof, "what": what, "expected": expected, "measured": measured, "result": result}
        self.found.append(one)
        print(f"  {result:13} {proof}: {what}: expected {expected}, measured {measured}", flush=True)

    def attempt(self, proof, *args):
        """A proof that cannot be carried out has failed."""
        try:
            proof(self, *args)
        except Exception as error:  # noqa: BLE001
            name = " ".join([proof.__name__.replace("_", " "), *args[:1]])
            self.add(name, "carried out", "yes", f"{type(error).__name__}: {error}"[:600], "fail")


def only_facts(run):
    """Codes of the verdict's reasons; what a busy machine adds is switched off by replay.LENIENT."""
    return [r["code"] for r in run.summary["verdict"]["reasons"]]


# -- every request exact --------------------------------------------------------------------------------------------------------


def exact(p, api, *flags, hits=True, forced=True, forgets=False):
    """Prompt tokens, output lengths and cached tokens of each request, sent one after another. forgets: some answers lack a usage."""
    rows = load.prefixes()
    # Prompts of their own for each API: not every server can be made cold.
    run = p.run(p.trace("prefixes", rows), "--api", api, *SEQUENTIAL, "--seed", str(len(api)), *flags)
    records = run.by_row()
    proof = f"exact, {api}"
    p.check(proof, "exit code, reasons", [0, []], [run.exit, only_facts(run)])
    p.check(proof, "requests ok", len(rows), sum(r["outcome"] == "ok" for r in records.values()))
    told = [i for i in range(len(rows)) if not forgets or records[i]["prompt_tokens"] is not None]
    p.check(proof, "prompts of the recorded tokens" + " (that were told)" * forgets, len(told), sum(records[i]["prompt_tokens"] == rows[i]["input_length"] for i in told))
    if forced:
        p.check(proof, "answers of the recorded tokens", len(rows), sum(records[i]["completion_tokens"] == r["output_length"] for i, r in enumerate(rows)))
        p.check(proof, "that ended by their length", len(rows), sum(r["finish_reason"] in ("length", "max_tokens", "max_output_tokens") for r in records.values()))
    else:
        p.check(proof, "answers no longer than recorded", len(rows), sum(records[i]["completion_tokens"] <= r["output_length"] for i, r in enumerate(rows)))
    if hits:
        head, tail = (0, 0) if api == "completions" else (HEAD, TAIL)
        ideal = load.ideal([load.symbols(r, head, tail) for r in rows], servers.BLOCK)
        p.check(proof, "cached tokens of each as an oracle has them", len(rows), sum(records[i]["cached_tokens"] == h for i, h in enumerate(ideal)))
        p.check(proof, "expected ones, too", len(rows), sum(records[i]["expected_cached_tokens"] == h for i, h in enumerate(ideal)))
        p.check(proof, "hits in the summary, tokens", [sum(ideal), 0], [run.summary["prefix_cache"]["reported_tokens"], run.summary["prefix_cache"]["shortfall"]["tokens"]])
    latencies(p, proof, run)


def latencies(p, proof, run):
    """TPOT of each record by its definition, and percentiles of the summary from the records."""
    records = [r for r in run.records() if r["outcome"] == "ok"]
    wrong = 0
    for r in records:
        if r["chunks"] > 1 and r["completion_tokens"] > 1:
            tpot = (r["last_token_ns"] - r["first_token_ns"]) / (r["completion_tokens"] - 1) / 1e6
            # Chunks that came in one segment have one instant: 0 says that, and so does null.
            wrong += tpot > 0 if r["tpot_ms"] is None else abs(r["tpot_ms"] - tpot) > 1e-6
        else:
            wrong += r["tpot_ms"] is not None
    p.check(proof, "TPOTs other than defined", 0, wrong)
    off = []
    for metric in ("ttft_ms", "tpot_ms", "e2e_ms"):
        values = sorted(r[metric] for r in records if r[metric] is not None)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            if values and abs(run.summary[metric][name] - nearest_rank(values, share)) > 1e-6:
                off.append(f"{metric} {name} {run.summary[metric][name]} for {nearest_rank(values, share)}")
    p.check(proof, "percentiles other than the records'", [], off)


def nearest_rank(values, share):
    return values[max(0, math.ceil(share * len(values)) - 1)]


def template(p):
    """What the chat template adds, as the server's own tokenizer tells it."""
    text = "one two three four"
    alone = p.server.tokenize(prompt=text, add_special_tokens=False)
    whole = p.server.tokenize(messages=[{"role": "user", "content": text}], add_generation_prompt=True)
    head = next(i for i in range(len(whole)) if whole[i : i + len(alone)] == alone)
    run = p.run(p.trace("few", load.steady(3, 2, 10)), "--api", "chat", *SEQUENTIAL)
    told = re.search(r"adds (\d+) before and (\d+) after", run.said())
    p.check("template", "tokens before and after", [head, len(whole) - len(alone) - head], told and [int(t) for t in told.groups()])


# -- cold and warm ---------------------------------------------------------------------------------------------------------------


def cold(p, how, api="completions"):
    """A second run begins as cold as the first."""
    rows = load.prefixes()
    ideal = sum(load.ideal([load.symbols(r, 0, 0) for r in rows], servers.BLOCK))
    flags = [p.trace("prefixes", rows), "--api", api, *SEQUENTIAL, "--cold", how, "--seed", "107"]
    hits = [p.run(*flags).summary["prefix_cache"]["reported_tokens"] for _ in range(2)]
    p.check(f"cold start, {how}", "cached tokens of two runs with one seed", [ideal, ideal], hits)


def warm(p, seed="108"):
    """With --cold off, a second run finds the first one's blocks, and is INVALID for it."""
    rows = load.prefixes()
    flags = [p.trace("prefixes", rows), *SEQUENTIAL, "--cold", "off", "--seed", seed]
    first = p.run(*flags)
    before = p.server.counters()
    second = p.run(*flags)
    delta = increase(before, p.server.counters())
    ideal = sum(load.ideal([load.symbols(r, 0, 0) for r in rows], servers.BLOCK))
    p.check("warm", "first run's exit code, reasons", [0, []], [first.exit, only_facts(first)])
    told = "warm" in only_facts(second)
    what = f"second run: exit code, warm among the reasons (the server counted {delta['vllm:prefix_cache_hits_total']:.0f} hits, ideal {ideal})"
    p.check("warm", what, [1, True], [second.exit, told])
    shown = second.summary["prefix_cache"]["reported_hit_ratio"]
    p.check("warm", "no notes that hits are unknown", [], [n for n in second.summary["notes"] if "below ideal" in n or "never report" in n])
    print(f"                (reported hit ratio {shown})")


def agentx(p):
    """The scenario agentx, in small: primers, warm-up requests, measured ones, and jobs that lanes take again."""
    rows = list(load.rows_of(jobs := load.jobs()))
    lanes = 4
    scenario = ["--scenario", "agentx", "--unsafe-override", "--concurrency", lanes, "--benchmark-duration", "40"]
    run = p.run("profile", *scenario, "--warmup-requests-per-lane", "4", "--input-file", p.trace("jobs", jobs))
    records = sorted((r for r in run.records() if r["sent_ns"] is not None), key=lambda r: r["sent_ns"])
    prompts = [load.played(rows[r["row"]], r["row"], r["job"], HEAD, TAIL) for r in records]
    p.check("agentx", "exit code, reasons", [0, []], [run.exit, only_facts(run)])
    phases = collections.Counter(r.get("phase", "measured") for r in records if r["outcome"] == "ok")
    plays = len({r["job"] for r in records})
    p.check("agentx", f"primers, warm-up requests of {lanes} lanes, measured ones; plays", "more than 3, 9, 30; 6", [*phases.values(), plays], phases["primer"] > 3 and phases["warmup"] > 9 and phases["measured"] > 30 and plays > len(jobs))
    p.check("agentx", "prompts of the recorded tokens and a marker", len(records), sum(r["prompt_tokens"] == len(prompt) for r, prompt in zip(records, prompts)))
    ideal = load.ideal(prompts, servers.BLOCK)
    overtaken = sum(a["request_id"] > b["request_id"] for a, b in itertools.combinations(records, 2) if a["job"] == b["job"])
    for key in ("cached_tokens", "expected_cached_tokens"):
        p.check("agentx", f"{key} of each as an oracle has them in the order of sending ({overtaken} pairs were planned in another one)", [], others(records, ideal, key))
    primed = {k for r, prompt in zip(records, prompts) if "phase" in r for k in load.keys(prompt, servers.BLOCK)}
    by_primers = sum(load.found(prompt, servers.BLOCK, primed) for r, prompt in zip(records, prompts) if "phase" not in r)
    p.check("agentx", "cached tokens of measured requests that were there before", by_primers, run.summary["prefix_cache"]["primed_tokens"])


def others(records, values, key):
    """The records that have other values, in few words."""
    return [f"{r.get('phase', 'measured')} row {r['row']} of play {r['job']}: {r[key]} for {v}" for r, v in zip(records, values) if r["outcome"] == "ok" and r[key] != v]


def increase(before, after):
    return {k: v - before.get(k, 0) for k, v in after.items()}


# -- what the server says of itself ------------------------------------------------------------------------------------------------


def metrics(p):
    """The server's own counters over a run without probes, against records and summary."""
    rows = load.prefixes()
    before = p.server.counters()
    run = p.run(p.trace("prefixes", rows), "--no-probe", "--model", p.server.model, "--cold", "flush", "--scrape", "on", "--engine-block-tokens", servers.BLOCK)
    delta = increase(before, p.server.counters())
    records = run.records()
    names = {
        "prompt_tokens": ("vllm:prompt_tokens_total", sum(r["prompt_tokens"] for r in records)),
        "generation_tokens": ("vllm:generation_tokens_total", sum(r["completion_tokens"] for r in records)),
        "prefix_hits": ("vllm:prefix_cache_hits_total", sum(r["cached_tokens"] for r in records)),
        "prefix_queries": ("vllm:prefix_cache_queries_total", sum(r["prompt_tokens"] for r in records)),
        "requests": ("vllm:request_success_total", len(records)),
    }
    for key, (name, ours) in names.items():
        p.check("metrics", f"{name}: the server, the records, the summary", [delta[name]] * 3, [delta[name], ours, run.summary["server_metrics"]["all"][key]])
    for name, key in (("time_to_first_token", "ttft_ms"), ("e2e_request_latency", "e2e_ms")):
        server = delta[f"vllm:{name}_seconds_sum"] / delta[f"vllm:{name}_seconds_count"] * 1e3
        ours = sum(r[key] for r in records) / len(records)
        p.check("metrics", f"mean {key} not below the server's own", f"at least {server:.3f}", f"{ours:.3f}", ours >= server)
    short = run.summary["prefix_cache"]["shortfall"]
    p.check("metrics", "unexplained tokens below the ideal, in an open loop", 0, short["unexplained_tokens"])


def capacity(p):
    config = p.server.cache_config()
    tokens = (int(config["num_gpu_blocks"]) - 1) * int(config["block_size"])
    trace = p.trace("few", load.steady(3, 2, 10))
    run = p.run(trace, *SEQUENTIAL)
    told = re.search(r"blocks of (\d+) tokens \(/metrics\), ([\d,]+) tokens per server", run.said())
    p.check("capacity", "(num_gpu_blocks - 1) x block_size, as printed", [int(config["block_size"]), tokens], told and [int(t.replace(",", "")) for t in told.groups()])
    run = p.run(trace, *SEQUENTIAL, "--cache-tokens", "12345", "--engine-block-tokens", "48")
    said = run.said().replace(",", "")
    p.check("capacity", "contradictions of --cache-tokens, --engine-block-tokens and /metrics are said", [True, True], [contradiction(said, "--cache-tokens", tokens), contradiction(said, "--engine-block-tokens", config["block_size"])])


def contradiction(said, flag, value):
    return re.search(rf"{flag}\W[^.;]{{0,160}}\b{value}\b|\b{value}\b[^.;]{{0,160}}{flag}", said) is not None


def evicted(p):
    """A cache that is too small, sent one after another: all that is missing is called evicted."""
    rows = load.prefixes(rows=60, seed=3)
    run = p.run(p.trace("evicted", rows), *SEQUENTIAL, "--cold", "flush")
    records = run.by_row()
    prompts = [load.symbols(r, 0, 0) for r in rows]
    ideal = load.ideal(prompts, servers.BLOCK)
    pool = load.limited(prompts, [r["output_length"] for r in rows], servers.BLOCK, servers.SMALL_BLOCKS - 1)
    p.check("evicted", "cached tokens of each as an oracle of vLLM's block pool has them", len(rows), sum(records[i]["cached_tokens"] == h for i, h in enumerate(pool)))
    missing = sum(ideal) - sum(r["cached_tokens"] for r in records.values())
    short = run.summary["prefix_cache"]["shortfall"]
    p.check("evicted", f"some of {sum(ideal)} ideal tokens are missing", "more than 0", missing, missing > 0)
    p.check("evicted", "tokens below the ideal, evicted, unexplained", [missing, missing, 0], [short[k] for k in ("tokens", "evicted_tokens", "unexplained_tokens")])


def chunks(p, interval):
    """Several tokens a chunk: the first one alone, then one chunk for each interval."""
    rows = load.prefixes()
    run = p.run(p.trace("prefixes", rows), *SEQUENTIAL)
    records = run.by_row()
    most = [1 + math.ceil((r["output_length"] - 1) / interval) for r in rows]  # fewer where the server was busy
    p.check("chunks", f"answers of no more chunks than --stream-interval {interval} makes", len(rows), sum(0 < records[i]["chunks"] <= n for i, n in enumerate(most)))
    p.check("chunks", "answers of the recorded tokens", len(rows), sum(records[i]["completion_tokens"] == r["output_length"] for i, r in enumerate(rows)))
    per_chunk = sum(r["output_length"] for r in rows) / sum(r["chunks"] for r in records.values())
    p.check("chunks", "tokens a chunk in the summary, above 2", [round(per_chunk, 6), True], [round(run.summary["tokens"]["per_chunk"], 6), per_chunk > 2])
    latencies(p, "chunks", run)


# -- what is said before the start ----------------------------------------------------------------------------------------------


def too_long(p):
    """Rows beyond the server's context."""
    context = servers.SMALL_CONTEXT
    rows = load.steady(12, 40, 10)
    for i in (5, 7):
        rows[i] = load.row(i * 10, context + 200, 40, list(range(100 * i, 100 * i + 9)))
    trace = p.trace("long", rows)
    before = p.server.counters()["vllm:generation_tokens_total"]
    run = p.run(trace)
    made = p.server.counters()["vllm:generation_tokens_total"] - before
    named = all(w in run.said().replace(",", "") for w in ("2 requests", "row 5", "--too-long", str(context)))
    p.check("too long", "refuse: exit code; how many, the first, the context and --too-long are named", [2, True], [run.exit, named])
    p.check("too long", "refuse: no row was sent (tokens made, by probes alone)", "below 40", made, made < 40)
    run = p.run(trace, "--too-long", "drop")
    left_out = sorted(i for i, r in run.by_row().items() if r["outcome"] == "not_sent")
    p.check("too long", "drop: exit code, rows that were not sent", [0, [5, 7]], [run.exit, left_out])
    p.check("too long", "drop: requests ok", 10, sum(r["outcome"] == "ok" for r in run.records()))
    run = p.run(trace, "--too-long", "clip")
    records = run.by_row()
    p.check("too long", "clip: exit code, requests ok", [0, 12], [run.exit, sum(r["outcome"] == "ok" for r in records.values())])
    within = [records[i]["prompt_tokens"] + records[i]["completion_tokens"] for i in (5, 7)]
    p.check("too long", "clip: tokens of the long ones", "at most the context", within, max(within) <= context)


def unauthorized(p):
    run = p.run(p.trace("few", load.steady(3, 2, 10)), key=False)
    p.check("401", "exit code, --api-key named, --model not", [2, True, False], [run.exit, "--api-key" in run.said(), "--model" in run.said()])


def other_model(p):
    """Whole bodies that name a model which is not served."""
    lines = [{"model": "another", "prompt": "Hi", "max_tokens": 2} for _ in range(3)]
    run = p.run(load.write(p.folder / "bodies.jsonl", lines), "--format", "raw_payload", *SEQUENTIAL)
    before = run.said().split("built:")[0]
    p.check("other model", "it and what replaces it are named before the start", [True] * 2, [w in before for w in ('"another"', f"--extra-inputs model:{p.server.model}")])


def choices(p):
    run = p.run(p.trace("few", load.steady(5, 6, 10)), *SEQUENTIAL, "--extra-inputs", "n:2")
    p.check("n: 2", "a note or reason names the choices", True, any("choices" in n for n in run.summary["notes"] + only_facts(run)))


def verbatim(p, api="chat"):
    """Verbatim messages: their ideal hits, by the server's own token ids."""
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()
    system = " ".join(words[i * 7 % 12] for i in range(150))
    said = [" ".join(words[(i * j) % 12] for j in range(60 + 10 * i)) for i in range(8)]
    talks = [[{"role": "system", "content": system}, {"role": "user", "content": said[i % 6]}] for i in range(8)]
    lines = [{"timestamp": i * 100, "messages": t, "output_length": 3} for i, t in enumerate(talks)]
    trace = load.write(p.folder / "talks.jsonl", lines)
    tokens = [p.server.tokenize(messages=t, add_generation_prompt=True) for t in talks]
    ideal = load.ideal(tokens, servers.BLOCK)
    for how, flags in (("/tokenize", []), ("--tokenizer", ["--tokenizer", p.server.model_folder])):
        records = p.run(trace, "--api", api, *SEQUENTIAL, *flags).by_row()
        for key in ("cached_tokens", "expected_cached_tokens"):
            p.check("verbatim", f"{key} by {how}, as the server's own token ids have them", ideal, [records[i][key] for i in range(8)])


def cache_off(p):
    """A server that caches nothing: it is blamed for all that is missing, and nothing is advised that it has."""
    rows = load.prefixes(rows=20)
    ideal = sum(load.ideal([load.symbols(r, 0, 0) for r in rows], servers.BLOCK))
    trace = p.trace("prefixes", rows)
    short = p.run(trace, *SEQUENTIAL).summary["prefix_cache"]["shortfall"]
    p.check("cache off", "tokens below the ideal, with caching off", [ideal, ideal], [short["tokens"], short["cache_off_tokens"]])
    run = p.run(trace, *SEQUENTIAL, "--cold", "salt")
    p.check("cache off", f"--cold salt advises no {servers.DETAILS}, which the server has", False, servers.DETAILS in run.said())


def vllm_bench(p):
    """A command line of vLLM's bench, with the program's name changed."""
    rows = load.prefixes(rows=20)
    trace = p.trace("timed", rows)
    flags = ["--dataset-name", "timed_trace", "--dataset-path", trace, "--timed-trace-chunk-hash-size", "512"]
    flags += ["--timed-trace-sec-multiplier", "0.001", "--ignore-eos", "--num-prompts", "15", "--model", str(p.server.model_folder)]
    flags += ["--served-model-name", p.server.model, "--timed-trace-label-hash-ids", "hash_ids"]
    run = p.run(*flags)
    records = run.by_row()
    p.check("vLLM's command line", "exit code, rows", [0, list(range(15))], [run.exit, sorted(records)])
    p.check("vLLM's command line", "answers of the recorded tokens", 15, sum(r["completion_tokens"] == rows[i]["output_length"] for i, r in records.items()))


# -- recorded ------------------------------------------------------------------------------------------------------------------------


def recorded(p, api):
    """A load through `fastreplay record`: the file has its lengths and what its prompts share, and so has a replay of the file."""
    rows = load.prefixes()
    head, tail = (0, 0) if api == "completions" else (HEAD, TAIL)
    prompts = [load.symbols(r, head, tail) for r in rows]
    ideal = load.ideal(prompts, servers.BLOCK)
    day = p.folder / f"day-{api}.jsonl"
    with Recorder(p.program, p.server, day) as recorder:
        trace = p.trace("prefixes", rows)
        run = Replay(p.program, p.folder / f"through-{api}", trace, "--api", api, *SEQUENTIAL, "--seed", str(200 + len(api)), "--cold", "flush", "--url", recorder.url).wait()
    proof = f"recorded, {api}"
    p.check(proof, "exit code, requests ok", [0, len(rows)], [run.exit, run.summary["requests"]["ok"]])
    everything = [json.loads(line) for line in day.read_text().splitlines()[1:]]
    kept = everything[-len(rows) :]  # probes come before them
    told = run.by_row()
    p.check(proof, "prompts of the server's tokens", [told[i]["prompt_tokens"] for i in range(len(rows))], [r["input_length"] for r in kept])
    p.check(proof, "answers", [r["output_length"] for r in rows], [r["output_length"] for r in kept])
    p.check(proof, "cached tokens as the server told them, and as an oracle has them", [ideal, ideal], [[r["cached_tokens"] for r in kept], [told[i]["cached_tokens"] for i in range(len(rows))]])
    every = servers.BLOCK // 16
    held, hits = set(), []
    for r in kept:
        ids = r["hash_ids"][: r["input_length"] // 16][every - 1 :: every]
        known = next((k for k, one in enumerate(ids) if one not in held), len(ids))
        hits.append(min(known, (r["input_length"] - 1) // servers.BLOCK) * servers.BLOCK)
        held.update(ids)
    p.check(proof, "hits by the recorded ids", ideal, hits)
    off = max(abs((b["timestamp"] - a["timestamp"]) - (told[i + 1]["sent_ns"] - told[i]["sent_ns"]) / 1e6) for i, (a, b) in enumerate(zip(kept, kept[1:])))
    p.check(proof, "ms that arrivals are off from one request to the next", "at most 1", round(off, 3), off <= 1)
    first = f"{kept[0]['timestamp'] - everything[0]['timestamp']:.3f}ms"
    again = p.run(day, "--api", "completions", *SEQUENTIAL, "--cold", "flush", "--from", first).by_row()
    p.check(proof, "cached tokens of a replay of the file", ideal, [again[i]["cached_tokens"] for i in sorted(again)])


class Recorder:
    """A running `fastreplay record`."""

    def __init__(self, program, server, day):
        self.process = subprocess.Popen(
            [program, "record", "--listen", "127.0.0.1:0", "--upstream", server.url, "--output", day, "--tokenizer", server.model_folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self.process.stdout.readline().strip().removeprefix("listening on ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


# -- servers that end -------------------------------------------------------------------------------------------------------------


def ended(p, proof, api, how, *flags, rows=60, every_ms=150):
    """A server that ends in mid-run: every row has its line, and those that were answered are exact."""
    rows = load.steady(rows, ENDED_TOKENS, every_ms)
    # vLLM's API server keeps connections open whose engine has ended, without another byte.
    run = p.begin(p.trace("steady", rows), "--api", api, "--idle-timeout", "30s", *flags)
    run.wait_for(12)
    how()
    run.wait()
    records = run.records()
    requests = run.summary["requests"]
    outcomes = requests["by_outcome"]
    p.check(proof, "exit code: what a server fails is a result", 0, run.exit)
    p.check(proof, "lines, rows with one", [len(rows)] * 2, [len(records), len({r["row"] for r in records})])
    p.check(proof, "planned = ok + failed", len(rows), requests["ok"] + requests["failed"])
    failed = {r["outcome"] for r in records} - {"ok"}
    p.check(proof, f"how they ended ({', '.join(f'{k} {v}' for k, v in outcomes.items() if v)})", "failures of a server that is gone", sorted(failed), bool(failed) and failed <= BROKEN)
    return run


def kill(p, api="completions", *flags, every_ms=150):
    run = ended(p, "kill", api, p.server.kill, *flags, every_ms=every_ms)
    p.check("kill", "a note names when the server failed", True, any("failed from" in n for n in run.summary["notes"]))
    p.check("kill", "no note of a graceful end", [], graceful(run))
    if "server_metrics" in run.summary:
        p.check("kill", "the missing last reading is said, and no sum made of it", [True, []], [run.summary["server_metrics"]["all"]["incomplete"], [n for n in run.summary["notes"] if "count the failed ones" in n]])


def drain(p, api="completions", whole=False):
    """SIGTERM in mid-run. whole: the server finishes what it has begun."""
    # vLLM takes connections for 10 s after its engine has finished; the trace must last longer.
    run = ended(p, "drain", api, p.server.terminate, rows=160)
    records = run.records()
    p.check("drain", "a note or reason tells it from a crash", True, bool(graceful(run)))
    if whole:
        cut = [r["outcome"] for r in records if r["outcome"] != "ok" and r["chunks"] > 0]
        p.check("drain", "begun answers that were broken off by a server that finishes them", [], cut)
    good = [r for r in records if r["outcome"] == "ok"]
    p.check("drain", "whole answers of the recorded tokens", len(good), sum(r["completion_tokens"] == ENDED_TOKENS for r in good))


def graceful(run):
    return [n for n in run.summary["notes"] + only_facts(run) if re.search(r"shut down", n)]


# -- a server of another kind -----------------------------------------------------------------------------------------------------


def embeddings(p):
    rows = load.prefixes(rows=30)
    before = p.server.counters()
    run = p.run(p.trace("embed", rows), "--api", "embeddings", *SEQUENTIAL)
    records = run.by_row()
    delta = increase(before, p.server.counters())
    p.check("embeddings", "exit code, requests ok", [0, 31], [run.exit, sum(r["outcome"] == "ok" for r in records.values())])
    p.check("embeddings", "prompts of the recorded tokens", 31, sum(records[i]["prompt_tokens"] == r["input_length"] for i, r in enumerate(rows)))
    p.check("embeddings", "the server's own count is not less", f"at least {sum(r['input_length'] for r in rows)}", delta["vllm:prompt_tokens_total"], delta["vllm:prompt_tokens_total"] >= sum(r["input_length"] for r in rows))
    p.check("embeddings", "no TTFT, no tokens made", [None, 0], [run.summary["ttft_ms"], run.summary["tokens"]["completion"]])


def lacks(p, what, path, body=None):
    """What a server does not have: it says so itself."""
    status, text = p.server.ask(path, body)
    if status == 200:
        p.add("server cannot", what, "an error", f"{path} answers 200: there is something to prove", "fail")
    else:
        p.add("server cannot", what, None, f"{path} answers HTTP {status}: {' '.join(text.split())[:100]}", "server cannot")


def quiet(p, *flags):
    """A server that tells little is described in few words."""
    run = p.run(p.trace("few", load.steady(5, 6, 10)), "--api", "chat", *SEQUENTIAL, *flags)
    said = f"notes of the summary ({'; '.join(run.summary['notes'])})"
    p.check("few words", said, "at most 4", len(run.summary["notes"]), len(run.summary["notes"]) <= 4)


def llama_counts(p, api):
    """Records against llama.cpp's own counters and an oracle of its slot, over a run without probes."""
    rows = load.prefixes()
    before = p.server.counters()
    given = [] if api == "completions" else ["--chat-overhead", f"{HEAD},{TAIL}"]
    run = p.run(p.trace("prefixes", rows), "--api", api, *SEQUENTIAL, "--no-probe", "--model", p.server.model, *given)
    delta = increase(before, p.server.counters())
    records = run.by_row()
    sums = {k: sum(r[k] or 0 for r in records.values()) for k in ("prompt_tokens", "cached_tokens", "completion_tokens")}
    counted = [delta[f"llamacpp:{k}_total"] for k in ("prompt_tokens", "prompt_tokens_cached", "tokens_predicted")]
    proof = f"metrics, {api}"
    p.check(proof, "prompt tokens: the server with cached ones, the records", [counted[0] + counted[1]] * 2, [counted[0] + counted[1], sums["prompt_tokens"]])
    p.check(proof, "cached and made tokens, as the server counted", counted[1:], [sums["cached_tokens"], sums["completion_tokens"]])
    head, tail = (0, 0) if api == "completions" else (HEAD, TAIL)
    oracle = load.slot([load.symbols(r, head, tail) for r in rows], head)
    # The first prompt follows another run's last one, which may begin alike.
    p.check(proof, "cached tokens of each but the first as an oracle of the slot has them", oracle[1:], [records[i]["cached_tokens"] for i in range(1, len(rows))])


def closing(p, *flags):
    """llama.cpp closes its connection behind each stream, and announces to keep it: nothing is lost by default, and it is said."""
    rows = load.steady(40, 4, 30)
    run = p.run(p.trace("steady", rows), *flags)
    requests, connections = run.summary["requests"], run.summary["connections"]
    proof = " ".join(["closing", *flags])
    p.check(proof, f"exit code, requests ok ({requests['resent']} sent again, {connections['dialled']} connections)", [0, 40], [run.exit, requests["ok"]])
    p.check(proof, "closed early: counted, and in a note", [True, True], [connections["closed_early"] > 0, any("had not announced" in n for n in run.summary["notes"])])
    p.check(proof, "what was sent again is in a note", requests["resent"] > 0, any("sent again" in n for n in run.summary["notes"]))


def adapters(p):
    """Two LoRA adapters and their model are sent the same prompts: each hits its own blocks alone, as its ideal says."""
    names = [None, *servers.ADAPTERS]
    rows = load.prefixes(24)
    models = [names[i * i // 2 % 3] for i in range(len(rows))]
    owned = [{**row, "model": model} if model else row for row, model in zip(rows, models)]
    run = p.run(p.trace("adapters", owned), *SEQUENTIAL)
    records = run.by_row()
    p.check("adapters", "exit code, reasons, requests ok", [0, [], len(rows)], [run.exit, only_facts(run), sum(r["outcome"] == "ok" for r in records.values())])
    hits = {}
    for name in names:
        of = [i for i, model in enumerate(models) if model == name]
        hits |= dict(zip(of, load.ideal([load.symbols(rows[i], 0, 0) for i in of], servers.BLOCK)))
    together = load.ideal([load.symbols(r, 0, 0) for r in rows], servers.BLOCK)
    p.check("adapters", "blocks in common would hit more", True, sum(together) > sum(hits.values()))
    p.check("adapters", "cached tokens of each as an oracle by adapter has them", len(rows), sum(records[i]["cached_tokens"] == h for i, h in hits.items()))
    p.check("adapters", "expected ones, too", len(rows), sum(records[i]["expected_cached_tokens"] == h for i, h in hits.items()))
    parts = {part["name"]: part["requests"] for part in run.summary["owners"]["models"]["parts"]}
    p.check("adapters", "requests by adapter", {n: models.count(n) for n in servers.ADAPTERS}, parts)
    seen = run.summary["server_metrics"]["targets"][0].get("adapters", [])  # vLLM 0.32's page tells them now and then alone
    p.check("adapters", "others that the server's page says to run", [], sorted(set(seen) - set(servers.ADAPTERS)))


def priorities(p):
    """While long answers hold all slots, requests of three priorities come. The server takes them by priority."""
    slots = servers.FLEET_SLOTS
    rows = [{**row, "priority": 0} for row in load.steady(slots, 200, 0)]
    rows += [{**row, "priority": i % 3, "timestamp": 250, "hash_ids": [100 + i]} for i, row in enumerate(load.steady(30, 2, 0))]
    run = p.run(p.trace("priorities", rows))
    records = run.records()
    p.check("priorities", "exit code, requests ok", [0, len(rows)], [run.exit, sum(r["outcome"] == "ok" for r in records)])
    waited = sorted((r for r in records if r["row"] >= slots), key=lambda r: r["first_token_ns"])
    held = min(r["done_ns"] for r in records if r["row"] < slots)
    p.check("priorities", "all had been sent before a slot was free", True, max(r["sent_ns"] for r in waited) < held)
    order = [int(r["priority"]) for r in waited]
    # Those of one step come together, in any order: as many as there are slots.
    late = [i for i, k in enumerate(order) if k < max(order[: max(0, i - slots + 1)], default=k)]
    p.check("priorities", f"first tokens after those of a later priority, of the order {order}", [], late)
    p50 = [nearest_rank(sorted(r["ttft_ms"] for r in waited if int(r["priority"]) == k), 0.5) for k in range(3)]
    p.check("priorities", "median TTFT rises with the priority's number, ms", "rising", [round(v) for v in p50], p50[0] < p50[1] < p50[2])


# -- which proofs a server gets ----------------------------------------------------------------------------------------------------


def prove(p):
    name = p.server.name
    if name == "vllm":
        for api in ("completions", "chat", "responses", "messages"):
            p.attempt(exact, api)
            p.attempt(recorded, api)
        for proof in (template, metrics, capacity, other_model, choices, verbatim, vllm_bench, warm):
            p.attempt(proof)
        p.attempt(cold, "flush")
        p.attempt(cold, "salt")
        p.attempt(agentx)
        p.attempt(drain)
    elif name == "vllm-small":
        for proof in (unauthorized, evicted, too_long):
            p.attempt(proof)
        p.attempt(lambda p: chunks(p, 5))
        p.attempt(lambda p: drain(p, whole=True))
    elif name == "vllm-default":
        p.attempt(warm)
        p.attempt(kill)
    elif name == "vllm-uncached":
        p.attempt(cache_off)
    elif name == "vllm-fleet":
        p.attempt(adapters)
        p.attempt(priorities)
    elif name == "vllm-embed":
        p.attempt(embeddings)
        lacks(p, "answers", "/v1/completions", {"model": "tiny", "prompt": "a"})
    elif name == "transformers":
        plain = ["--no-force-output", "--model", p.server.model]
        p.attempt(lambda p: exact(p, "completions", "--prompt", "text", *plain, hits=False, forced=False))
        for api in ("chat", "responses"):
            p.attempt(lambda p, api: exact(p, api, *plain, hits=False, forced=False), api)
        p.attempt(quiet, *plain)
        lacks(p, "forced lengths, cold start", "/v1/completions", {"prompt": "a", "min_tokens": 2, "ignore_eos": True, "cache_salt": "a"})
        lacks(p, "messages", "/v1/messages", {"model": p.server.model, "max_tokens": 2, "messages": []})
        lacks(p, "embeddings", "/v1/embeddings", {"input": "a"})
        lacks(p, "template by the server's tokenizer", "/tokenize", {"prompt": "a"})
        lacks(p, "hits, eviction, warm detection, metrics", "/metrics")
        p.attempt(lambda p: kill(p, "chat", *plain, every_ms=600))  # it answers one request after another
    elif name == "llama":
        for api in ("completions", "chat"):
            p.attempt(lambda p, api: exact(p, api, hits=False), api)
            p.attempt(llama_counts, api)
        for flags in ([], SEQUENTIAL, ["--concurrency", "4"]):
            p.attempt(closing, *flags)
        # Where an answer's first token is half a character, llama.cpp leaves out message_start, which tells the prompt's tokens.
        p.attempt(lambda p: exact(p, "messages", hits=False, forgets=True))
        lacks(p, "embeddings of a model that answers", "/v1/embeddings", {"input": "a"})
        lacks(p, "cold start by a flush", "/reset_prefix_cache", {})
        p.attempt(kill)
