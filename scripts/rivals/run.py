"""Measures load generators side by side against the mock, which shares no code with them and records all. scripts/rivals/run starts it."""

import argparse
import datetime
import json
import pathlib
import platform
import signal
import subprocess
import sys
import time

import environment
import measure
import report
import tools


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cache", type=pathlib.Path, required=True, help="where environments and runs are kept")
    p.add_argument("--real", type=pathlib.Path, required=True, help="the cache of scripts/real")
    p.add_argument("--python", required=True, help="interpreter of the rivals' environments, 3.12 or newer")
    p.add_argument("--fastreplay", type=pathlib.Path, required=True)
    p.add_argument("--trace", type=pathlib.Path, help="Mooncake's conversation trace, .jsonl.zst")
    p.add_argument("--scenario", action="append", choices=["schedule", "streams", "throughput"])
    p.add_argument("--tool", action="append", choices=[t.name for t in tools.ALL])
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--port", type=int, default=8900)
    p.add_argument("--results", type=pathlib.Path, help="folder for the tables")
    a = p.parse_args()
    place = environment.Place(a.cache, a.real, a.fastreplay)
    place.build(a.python)
    (a.cache / "home").mkdir(exist_ok=True)
    load_before = measure.os.getloadavg()
    machine = {"cpu": cpu_model(), "cores": measure.os.cpu_count(), "system": platform.release(), "load_before": load_before, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
               "commit": subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True).stdout.strip()}
    measured = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        for one in measurements(a, place):
            measured.append(one)
            print(json.dumps(one), flush=True)
    finally:  # who stops it keeps what was measured
        page = report.page(machine, measured)
        print(page)
        if a.results:
            stem = a.results / f"rivals-{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H%M%SZ}"
            stem.with_suffix(".json").write_text(json.dumps({"machine": machine, "measured": measured}, indent=1) + "\n")
            stem.with_suffix(".md").write_text(page)
            print(stem.with_suffix(".md"))


def measurements(a, place):
    for kind, fast, slow in scenarios(a.cache, a.trace):
        if a.scenario and kind not in a.scenario:
            continue
        for turn in range(a.runs):  # alternating, so that a slow minute of the machine meets all
            for make in tools.ALL:
                tool = make(place)
                if a.tool and tool.name not in a.tool:
                    continue
                began = time.monotonic()
                try:
                    numbers = measure.run(tool, slow if tool.slow else fast, place, a.port, limit_s=900)
                except Exception as e:  # one tool that breaks costs its own cells, not the table
                    numbers = {"failed": f"{type(e).__name__}: {e}"}
                yield {"scenario": kind, "tool": tool.name, "version": tool.version, "run": turn, "took_s": time.monotonic() - began, "numbers": numbers}


def scenarios(cache, trace):
    """(kind, for fast tools, for slow ones), each as a file of Mooncake's format, which not every tool reads for a closed loop."""
    if trace:
        text = subprocess.run(["zstd", "-dc", trace], check=True, capture_output=True, text=True).stdout
        # Of the trace's minutes this one shares most within itself: 217 requests, 11.65 % of their tokens.
        rows = [row | {"timestamp": row["timestamp"] - 120_000} for row in map(json.loads, text.splitlines()) if 120_000 <= row["timestamp"] < 180_000]
        whole = scenario(cache, "schedule", rows, "30ms", "10ms")
        yield "schedule", whole, whole
    streams = scenario(cache, "streams", made(600, 256, 64), "200ms", "50ms", 200, 256, 64)
    yield "streams", streams, streams
    # Some 5 s for a tool of 20,000 requests/s, and for one of 400.
    yield "throughput", *(scenario(cache, "throughput", made(count, 64, 1), "0", "0", 32, 64, 1, name) for count, name in ((100_000, "many"), (2000, "few")))


def made(count, prompt, output):
    return [{"timestamp": 0, "input_length": prompt, "output_length": output, "hash_ids": [i]} for i in range(count)]


def scenario(cache, kind, rows, ttft, tpot, concurrency=0, prompt=0, output=0, name=""):
    path = cache / f"{kind}{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return measure.Scenario(kind, rows, path, ttft, tpot, concurrency, prompt, output)


def cpu_model():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
