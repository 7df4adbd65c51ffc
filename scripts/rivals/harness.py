"""fastreplay and agentx-harness in turns, on the same jobs and the same mock. scripts/rivals/agentx starts it."""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from tokenizers import Tokenizer

import environment
import jobs
import measure
import plays
import run
import snapshots
import table
import tools

CAP_S = {"system": 10, "tree": 300}  # by the scenario, at the record's clock


class Fastreplay:
    name = "fastreplay"

    def __init__(self, place, a):
        self.place, self.a = place, a

    def command(self, lanes, url, work, out):
        caps = ",".join(f"{name}={s / self.a.clock}s" for name, s in CAP_S.items())
        return [self.place.fastreplay, "profile", "--scenario", "agentx", "--concurrency", lanes, "--input-file", work / "jobs.jsonl", "--url", url,
                "--model", "model", "--weka-times", "absolute", "--duration", f"{self.a.duration}s", "--idle-cap", caps, "--unsafe-override",
                "--benchmark-grace-period", GRACE_S, "--output", out / "results"]

    def sent(self, out, calls):
        return plays.of_fastreplay(out / "results")

    def told(self, out):
        return json.loads((out / "results" / "summary.json").read_text())["requests"]["sent"]


class Harness:
    name = "agentx-harness"

    def __init__(self, place, a):
        self.place, self.a = place, a

    def command(self, lanes, url, work, out):
        return [self.place.venv("agentx") / "agentx", "profile", "--concurrency", lanes, "--input-file", work / "jobs", "--custom-dataset-type", "weka_trace",
                "--url", url, "--model", "model", "--tokenizer", self.place.hub_name, "--benchmark-duration", self.a.duration,
                "--system-idle-gap-cap-seconds", CAP_S["system"] / self.a.clock, "--trace-idle-gap-cap-seconds", CAP_S["tree"] / self.a.clock,
                "--unsafe-override", "--benchmark-grace-period", GRACE_S, "--output-artifact-dir", out / "results", "--ui", "none"]

    def sent(self, out, calls):
        sent = plays.of_harness(out / "results", calls)
        primers = int(re.search(r"after (\d+) mandatory snapshot primers", (out / "tool.log").read_text())[1])
        prepared = [s for s in sent.values() if s.phase == "warmup"]
        for s in sorted(prepared, key=lambda s: s.began_ns)[:primers]:
            s.phase = "primer"
        return sent

    def told(self, out):
        return int(json.loads((out / "results" / "profile_export_aiperf.json").read_text())["request_count"]["avg"])


GRACE_S = 30


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cache", type=pathlib.Path, required=True)
    p.add_argument("--trace", type=pathlib.Path, required=True, help="a Weka trace, .jsonl.zst")
    p.add_argument("--release", required=True, help="of agentx-harness")
    p.add_argument("--lanes", type=int, action="append")
    p.add_argument("--runs", type=int, default=2)
    p.add_argument("--duration", type=int, default=60, help="of what is measured, s")
    p.add_argument("--clock", type=float, default=10, help="so many times as fast as recorded")
    p.add_argument("--tokens", type=int, default=8, help="keep one block of so many")
    p.add_argument("--seeds", type=int, default=200, help="of snapshots")
    p.add_argument("--limit", type=int, default=1500, help="of a run, s")
    p.add_argument("--port", type=int, default=8920)
    p.add_argument("--note", default="", help="a sentence for the table, such as what else the machine did")
    p.add_argument("--results", type=pathlib.Path, help="folder for the table")
    a = p.parse_args()
    place = environment.Place(a.cache, a.cache, a.cache / "fastreplay")
    place.model = a.cache / "tokenizer"
    if not place.model.exists():
        code = "import model, sys; model.tokenizer().save_pretrained(sys.argv[1])"
        subprocess.run([sys.executable, "-Bc", code, place.model], cwd=environment.REAL, check=True)
    place.fill_hub()
    work = a.cache / f"jobs-{a.clock:g}-{a.tokens}"
    calls = jobs.write(a.trace, work, a.clock, a.tokens)
    names = list(dict.fromkeys(c.job for c in calls))
    tokenizer = Tokenizer.from_file(str(place.model / "tokenizer.json"))
    measured = []
    for lanes in a.lanes or [4, 16]:
        shutil.rmtree(a.cache / "home", ignore_errors=True)  # where the harness keeps the prompts of its first run
        (a.cache / "home").mkdir()
        for turn in range(a.runs):  # in turns, so that a slow minute of the machine meets both
            for tool in Fastreplay(place, a), Harness(place, a):
                out = place.root / "runs" / f"agentx-{lanes}-{turn}-{tool.name}"
                n = one(tool, lanes, out, work, calls, tokenizer, a)
                measured.append({"tool": tool.name, "lanes": lanes, "run": turn, "numbers": n})
                print(json.dumps(measured[-1]), flush=True)
    drawn = snapshots.compare(names, 16, a.seeds)
    machine = {"cpu": run.cpu_model(), "cores": os.cpu_count(), "system": os.uname().release, "release": a.release,
               "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "command": " ".join(map(str, sys.argv[1:])),
               "commit": subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True).stdout.strip(),
               "installed_mb": {"agentx-harness": size_mb(place.venv("agentx").parent), "fastreplay": size_mb(place.fastreplay)}}
    page = table.page(machine, vars(a), measured, drawn)
    print(page)
    if a.results:
        stem = a.results / f"agentx-{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H%M%SZ}"
        stem.with_suffix(".json").write_text(json.dumps({"machine": machine, "measured": measured, "snapshots": drawn}, indent=1) + "\n")
        stem.with_suffix(".md").write_text(page)


def one(tool, lanes, out, work, calls, tokenizer, a):
    """Returns a dict of numbers, or {"error": why}."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    url, log = f"http://127.0.0.1:{a.port}", out / "server.jsonl"
    server = [tool.place.fastreplay, "mock", "--listen", f"127.0.0.1:{a.port}", "--model", "model", "--ttft", "50ms", "--itl", "5ms", "--spread", "0",
              "--log", log, "--log-all"]
    mock = subprocess.Popen(tools.arguments(server), stdout=subprocess.DEVNULL)
    load = os.getloadavg()[0]
    try:
        measure.wait_for(url)
        if mock.poll() is not None:
            raise RuntimeError(f"something else answers at {url}: --port names another")
        env = os.environ | {"HF_HUB_CACHE": str(tool.place.root / "hub"), "HF_HUB_OFFLINE": "1", "HOME": str(tool.place.root / "home")}
        with open(out / "tool.log", "w") as said:
            began = time.monotonic()
            command = tools.arguments(tool.command(lanes, url, work, out))
            process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=env, cwd=out, start_new_session=True)
            sampler = measure.Sampler(process.pid)
            sampler.start()
            try:
                status = process.wait(a.limit)
            except subprocess.TimeoutExpired:
                status = f"not done after {a.limit} s"
            took = time.monotonic() - began
            sampler.ended.set()
            sampler.join()
            measure.kill(process)
    finally:
        mock.terminate()
        mock.wait()
    try:
        came = plays.arrived(log, tool.sent(out, calls))
    except (OSError, KeyError, TypeError, ValueError) as e:
        return {"error": f"exit status {status} after {took:.0f} s, no results ({type(e).__name__}: {e}); see {out}/tool.log"}
    if not any(s.sent.phase == "profile" for s in came):
        return {"error": f"exit status {status} after {took:.0f} s, nothing profiled; see {out}/tool.log"}
    first, last = came[0].came_s, max(s.done_s for s in came)
    profiled = min(s.came_s for s in came if s.sent.phase == "profile")
    n = {"status": status, "load_before": load, "load_after": os.getloadavg()[0], "took_s": took, "first_s": first - began, "profiled_s": profiled - began,
         "cpu_before_s": sampler.cpu_between(began, first), "cpu_s": sampler.cpu_between(first, last), "cpu_all_s": sampler.cpu_s[-1], "sent": len(came),
         "peak_pss_mb": sampler.peak_pss / 1e6, "told_requests": tool.told(out)}
    n["cpu_a_request_ms"] = 1e3 * n["cpu_s"] / len(came)
    n["first_ttft_wait_s"] = profiled - max((s.done_s for s in came if s.sent.phase != "profile"), default=first)
    return n | plays.judge(came, calls, tokenizer, CAP_S["system"] / a.clock)


def size_mb(path):
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file() and not f.is_symlink()]
    return sum(f.stat().st_size for f in files) / 1e6


if __name__ == "__main__":
    main()
