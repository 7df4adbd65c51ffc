"""measure.py BUILT SCENARIO TIMES [BINARY...] prints a line for each binary: see run."""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

REQUESTS = 200_000
IN_FLIGHT = 64
# The barest clients, by what they do: steps of bare.c.
BARE = {
    "bare: epoll": "e",
    "bare: epoll, stamps": "es",
    "bare: epoll, stamps, pauses": "esp",
    "bare: epoll, stamps, pauses, ring": "espr",
    "bare: io_uring": "u",
    "bare: io_uring, pauses": "up",
}
PROMPT = ",".join(map(str, range(1, 65)))
LUA = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model":"m","prompt":[%s],"max_tokens":16,"stream":%s}'
"""


class Server:
    """A server of the given streams, until the block ends."""

    def __init__(self, built, tokens, gap_us, secure=False):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [f"{built}/server", *map(str, (self.port, tokens, gap_us, 20_000))]
        self.url = f"http://127.0.0.1:{self.port}"
        if secure:
            command.append(f"{built}/pem")
            self.url = self.url.replace("http", "https")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise SystemExit("the server ended at once")

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the server, once, and returns how many requests it has answered."""
        if self.process.poll() is None:
            self.process.terminate()
            said = self.process.communicate()[0].split()
            self.requests, self.events = int(said[0]), int(said[2])
        return self.requests


def client(command):
    """Runs a client and returns its processor time in s and the memory it had at most in MB, with all its processes."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def replay(built, binary, server, trace, *flags):
    out = tempfile.mkdtemp(dir=built)
    cpu_s, mb = client([binary, trace, "--url", server.url, "--no-probe", "--quiet", "--output", out, *flags])
    with open(f"{out}/summary.json") as file:
        summary = json.load(file)
    shutil.rmtree(out)
    counts = summary["requests"]
    if counts["ok"] != counts["planned"]:
        raise SystemExit(f"{binary}: {counts}")
    return cpu_s, mb, summary


def trace_of(built, rows, rate, tokens):
    path = f"{built}/{rows}-{rate}-{tokens}.jsonl"
    if not os.path.exists(path):
        shape = ["--arrival", "constant", "--input-tokens", "64", "--output-tokens", str(tokens)]
        made = ["gen", "--rows", str(rows), "--rate", str(rate), *shape, "--output", path]
        subprocess.run([f"{built}/fastreplay", *made], check=True, stderr=subprocess.DEVNULL)
    return path


def bare(built, server, steps, connections, requests=0):
    """Runs the barest client and returns its processor time in s and its memory in MB."""
    command = [f"{built}/bare", *map(str, (server.port, steps, connections, requests))]
    cpu_s, mb = client(command)
    if server.stop() != (requests or connections):
        raise SystemExit(f"{command}: {server.requests} answered")
    return cpu_s, mb


def closed(built, binary, stream):
    with Server(built, 16, 0) as server:
        if binary == "bare":
            cpu_s, mb = bare(built, server, "et" if stream else "ew", IN_FLIGHT, REQUESTS)
            answered = REQUESTS
        elif binary == "wrk":
            script = f"{built}/request.lua"
            with open(script, "w") as file:
                file.write(LUA % (PROMPT, str(stream).lower()))
            cpu_s, mb = client(["wrk", "-t1", f"-c{IN_FLIGHT}", "-d3s", "-s", script, f"{server.url}/v1/completions"])
            answered = server.stop()
        else:
            trace = trace_of(built, REQUESTS, 20_000, 16)
            flags = ["--concurrency", str(IN_FLIGHT), *([] if stream else ["--no-stream"])]
            cpu_s, mb, _ = replay(built, binary, server, trace, *flags)
            answered = REQUESTS
    return {"requests a CPU second": answered / cpu_s, "MB": mb}


def events(built, binary, streams=500, gap_us=20_000, seconds=8, cores=0):
    """With cores above 0 the client has the first so many alone in its mask; the server has all."""
    tokens = seconds * 1_000_000 // gap_us
    with Server(built, tokens, gap_us) as server:
        if binary in BARE:
            cpu_s, mb = bare(built, server, BARE[binary], streams)
            return {"CPU us an event": cpu_s / (streams * tokens) * 1e6, "MB": mb}
        allowed = os.sched_getaffinity(0)
        if cores > 0:
            os.sched_setaffinity(0, sorted(allowed)[:cores])
        try:
            cpu_s, mb, _ = replay(built, binary, server, trace_of(built, streams, streams, tokens))
        finally:
            os.sched_setaffinity(0, allowed)
    return {"CPU us an event": cpu_s / (streams * tokens) * 1e6, "MB": mb}


def tokens_counted(built, binary, streams, gap_us, seconds):
    """Whether the client has counted each token that the server has sent."""
    tokens = seconds * 1_000_000 // gap_us
    log = f"{built}/chunks.csv"
    with Server(built, tokens, gap_us) as server:
        trace = trace_of(built, streams, min(streams, 1000), tokens)
        cpu_s, mb, summary = replay(built, binary, server, trace, "--chunk-log", log)
        server.stop()
    with open(log) as file:
        counted = sum(1 for _ in file) - 1
    stamps = summary["client"]["kernel_timestamps"]
    return {
        "tokens sent": server.events,
        "tokens counted": counted,
        "CPU us an event": cpu_s / counted * 1e6,
        "MB": mb,
        "reads": stamps["reads"],
        "segments lost by ring": stamps.get("ring_lost", 0),
    }


def rank(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def stamps(built, binary, streams, gap_us, seconds, busy, *more, secure=False):
    """Errors of first tokens and gaps, by the server's own instants, in us."""
    tokens = seconds * 1_000_000 // gap_us
    log = f"{built}/chunks.csv"
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        with Server(built, tokens, gap_us, secure) as server:
            trace = trace_of(built, streams, streams, tokens)
            flags = ["--chunk-log", log, *(["--realtime", "off"] if busy else []), *more]
            flags += ["--insecure"] if secure else []
            _, _, summary = replay(built, binary, server, trace, *flags)
    finally:
        for loop in loops:
            loop.kill()
    start = summary["run"]["monotonic_start_ns"]
    rows = {}
    with open(log) as file:
        next(file)
        for line in file:
            row, _, at, _, sent = line.split(",")
            rows.setdefault(row, []).append((int(at), int(sent) - start))
    first = [abs(chunks[0][0] - chunks[0][1]) / 1e3 for chunks in rows.values()]
    gaps = [
        abs((b[0] - a[0]) - (b[1] - a[1])) / 1e3
        for chunks in rows.values()
        for a, b in zip(chunks, chunks[1:])
    ]
    found = {}
    for name, errors in (("first token", first), ("gap", gaps)):
        for share in (0.5, 0.99, 0.999):
            found[f"{name} p{100 * share:g}"] = rank(errors, share)
    return found


def matrix(built, times):
    """Prints medians of p99 in us beside two busy loops, by streams and gaps, with and without a ring."""
    shown = ("first token p99", "gap p99", "gap p99.9")
    print("| streams, gap | " + " | ".join(f"{name}, {what}" for what in ("ring", "none") for name in shown) + " |")
    print("|---" * (1 + 2 * len(shown)) + "|")
    for streams in (100, 500, 1000):
        for gap_us in (5_000, 20_000):
            runs = {"auto": [], "on": []}
            for _ in range(times):
                for mode, found in runs.items():
                    flags = ("--kernel-timestamps", mode)
                    found.append(stamps(built, f"{built}/fastreplay", streams, gap_us, 2, 2, *flags))
            cells = [statistics.median(run[name] for run in found) for found in runs.values() for name in shown]
            print(f"| {streams}, {gap_us // 1000} ms | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |", flush=True)


def main():
    built, scenario, times, *others = sys.argv[1:]
    name, *sizes = scenario.split(":")
    if name == "matrix":
        return matrix(built, int(times))
    binaries = [f"{built}/fastreplay", *others]
    if name in ("whole", "stream"):
        binaries += ["bare", "wrk"] if shutil.which("wrk") else ["bare"]
    if name == "floor":
        binaries += BARE
    measures = {
        "whole": lambda binary: closed(built, binary, False),
        "stream": lambda binary: closed(built, binary, True),
        "events": lambda binary: events(built, binary, *map(int, sizes)),
        "floor": lambda binary: events(built, binary, *map(int, sizes)),
        "tokens": lambda binary: tokens_counted(built, binary, *map(int, sizes)),
        "stamps": lambda binary: stamps(built, binary, *map(int, sizes)),
        "https": lambda binary: stamps(built, binary, *map(int, sizes), secure=True),
    }
    measured = {binary: [] for binary in binaries}
    for _ in range(int(times)):
        for binary in binaries:
            measured[binary].append(measures[name](binary))
    for binary, runs in measured.items():
        print(f"{scenario}  {binary}")
        for measure in runs[0]:
            values = [run[measure] for run in runs]
            each = " ".join(f"{value:.5g}" for value in values)
            print(f"  {measure:22} {statistics.median(values):10.5g}   ({each})")


main()
