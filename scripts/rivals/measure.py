"""Runs one load generator against the mock and says what it did: by its own report, by the server's record and by the system."""

import bisect
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import tools

TICK = os.sysconf("SC_CLK_TCK")


class Scenario:
    """kind: schedule (at the trace's instants), streams (many at a time) or throughput (closed loop of tiny answers)."""

    def __init__(self, kind, rows, trace, ttft, tpot, concurrency=0, prompt=0, output=0):
        self.kind, self.rows, self.trace = kind, rows, trace
        self.ttft, self.tpot, self.concurrency, self.prompt, self.output = ttft, tpot, concurrency, prompt, output
        self.requests = len(rows)


class Sampler(threading.Thread):
    """Reads CPU time and PSS of a session's processes. PSS counts a page that n processes share as 1/n in each."""

    def __init__(self, session):
        super().__init__(daemon=True)
        self.session, self.ended = session, threading.Event()
        self.at, self.cpu_s, self.peak_pss = [], [], 0

    def run(self):
        count = 0
        while not self.ended.wait(0.1):
            cpu = pss = 0
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
                    if int(fields[3]) != self.session:
                        continue
                    cpu += sum(map(int, fields[11:15]))  # its own, and of children that it waited for
                    if count % 10 == 0:
                        pss += int(open(f"/proc/{pid}/smaps_rollup").read().split("\nPss:")[1].split()[0]) * 1024
                except (OSError, IndexError):
                    continue  # it has ended
            self.at.append(time.monotonic())
            self.cpu_s.append(cpu / TICK)
            self.peak_pss = max(self.peak_pss, pss)
            count += 1

    def cpu_between(self, begin, end):
        """CPU seconds between two instants (of the monotonic clock), interpolated between samples 0.1 s apart."""

        def at(instant):
            i = min(max(bisect.bisect(self.at, instant), 1), len(self.at) - 1)
            part = (instant - self.at[i - 1]) / (self.at[i] - self.at[i - 1])
            return self.cpu_s[i - 1] + min(max(part, 0), 1) * (self.cpu_s[i] - self.cpu_s[i - 1])

        return at(end) - at(begin) if len(self.at) > 1 else None


def run(tool, scenario, place, port, limit_s):
    """Returns a dict of numbers, or {"failed": why}, or None if the tool cannot do the scenario."""
    out = place.root / "runs" / f"{scenario.kind}-{tool.name.replace(' ', '-')}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    url = f"http://127.0.0.1:{port}"
    command = tool.command(scenario, url, out)
    if command is None:
        return None
    log = out / "server.jsonl"
    latencies = ["--ttft", scenario.ttft, "--itl", scenario.tpot, "--spread", "0", "--cache-tokens", "0", "--quirk", "late-head"]
    command_of_server = [place.fastreplay, "mock", "--listen", f"127.0.0.1:{port}", "--model", "model", *latencies, "--log", log, "--log-all"]
    server = subprocess.Popen(tools.arguments(command_of_server), stdout=subprocess.DEVNULL)
    try:
        wait_for(url)
        env = os.environ | tool.env | {"HF_HUB_CACHE": str(place.root / "hub"), "HOME": str(place.root / "home")}
        with open(out / "tool.log", "w") as said:
            began = time.monotonic()
            process = subprocess.Popen(tools.arguments(command), stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=env, cwd=out, start_new_session=True)
            sampler = Sampler(process.pid)
            sampler.start()
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = f"not done after {limit_s} s"
            finally:
                sampler.ended.set()
                sampler.join()
                kill(process)
    finally:
        server.terminate()
        server.wait()
    # A tool may judge by its exit status: fastreplay says 1 for a run that its own verdict calls INVALID.
    served = sorted((e for e in tools.read_lines(log) if e["end"] == "done"), key=lambda e: e["arrival_ns"])
    try:
        own = tool.results(out)
    except (OSError, StopIteration, KeyError, ValueError) as e:
        return {"failed": f"exit status {status}, no results ({type(e).__name__}: {e}); see {out}/tool.log"}
    # Most tools ask something before the run; the last requests are the run's.
    if scenario.kind != "throughput" or tool.name != "wrk":
        served = served[-scenario.requests :]
    if not served:
        return {"failed": f"exit status {status}, no request arrived; see {out}/tool.log"}
    return {"status": status} | numbers(scenario, served, own, sampler, began, place, tool)


def wait_for(url):
    for _ in range(200):
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=1).read()
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the mock does not answer at {url}")


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def percentile(values, share):
    """The smallest value that is at least as large as share of all; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def numbers(scenario, served, own, sampler, began, place, tool):
    first, last = served[0]["arrival_ns"] / 1e9, max(e["done_ns"] for e in served) / 1e9
    cpu = sampler.cpu_between(first, last)
    n = {"requests": len(served), "first_request_s": first - began, "seconds": last - first, "peak_pss_mb": sampler.peak_pss / 1e6, "cpu_s": cpu,
         "requests_per_s": len(served) / (last - first), "requests_per_cpu_s": len(served) / cpu if cpu else None}
    at_server = {"ttft": [(e["token_ns"][0] - e["arrival_ns"]) / 1e6 for e in served],
                 "gap": [(b - a) / 1e6 for e in served for a, b in zip(e["token_ns"], e["token_ns"][1:])]}
    if tool.gap_is_mean:
        at_server["gap"] = [(e["token_ns"][-1] - e["token_ns"][0]) / 1e6 / (len(e["token_ns"]) - 1) for e in served if len(e["token_ns"]) > 1]
    for metric, true in at_server.items():
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            told = (own.get(f"{metric}_percentiles") or {}).get(name) or percentile(own.get(metric), share)
            n[f"{metric}_{name}_ms"], n[f"server_{metric}_{name}_ms"] = told, percentile(true, share)
    if scenario.kind == "schedule":
        n |= schedule(scenario, served)
        n |= prompts(scenario, served, place)
    return n


def schedule(scenario, served):
    """How late requests arrived, against the trace and the least late of them. The k-th arrival is held against the k-th instant:
    the kindest assignment. A tool that lost requests has no such assignment."""
    planned = sorted(row["timestamp"] for row in scenario.rows)
    if len(served) != len(planned):
        return {"late_p50_ms": None, "late_p99_ms": None, "late_max_ms": None}
    late = [e["arrival_ns"] / 1e6 - p for e, p in zip(served, planned)]
    least = min(late)
    late = [x - least for x in late]
    return {"late_p50_ms": percentile(late, 0.5), "late_p99_ms": percentile(late, 0.99), "late_max_ms": max(late)}


BLOCK = 512  # tokens, Mooncake's


def prompts(scenario, served, place):
    """What arrived, in tokens: how many prompts have a recorded length, and what an unlimited prefix cache would have held."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(place.model / "tokenizer.json"))
    arrived, ideal = Cache(), Cache()
    lengths = []
    for e in served:
        prompt = e["body"]["prompt"]
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            prompt = prompt[0]  # a batch of one
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids if isinstance(prompt, str) else prompt
        lengths.append(len(ids))
        arrived.add([tuple(ids[i : i + BLOCK]) for i in range(0, len(ids) - BLOCK + 1, BLOCK)], len(ids))
    for row in sorted(scenario.rows, key=lambda row: row["timestamp"]):
        ideal.add(row["hash_ids"][: row["input_length"] // BLOCK], row["input_length"])
    wanted = sorted(row["input_length"] for row in scenario.rows)
    exact = 0
    for length in lengths:
        i = bisect.bisect_left(wanted, length)
        if i < len(wanted) and wanted[i] == length:
            exact += 1
            del wanted[i]
    return {"exact_prompts": exact / len(scenario.rows), "prompt_tokens": sum(lengths), "trace_prompt_tokens": ideal.tokens,
            "hits": arrived.hits / max(1, arrived.tokens), "trace_hits": ideal.hits / ideal.tokens}


class Cache:
    """An unlimited prefix cache of whole blocks. A block is known by itself and all before it."""

    def __init__(self):
        self.known, self.hits, self.tokens = set(), 0, 0

    def add(self, blocks, tokens):
        before, missed = None, False
        for block in blocks:
            before = hash((before, block))
            missed = missed or before not in self.known
            self.hits += 0 if missed else BLOCK
            self.known.add(before)
        self.tokens += tokens
