"""The order of things: environment, model, one server after another, report. `run` says how it is called."""

import argparse
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import environment
import proofs
import report
import servers

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the servers, too
    cache = pathlib.Path(os.environ["FASTREPLAY_REAL"]).resolve()
    options = argparse.ArgumentParser(prog="scripts/real/run")
    options.add_argument("servers", nargs="*", default=[], help=", ".join(servers.SERVERS))
    options.add_argument("--again", action="store_true", help="measure again what an interrupted run had finished")
    options.add_argument("--serve", metavar="SERVER", help="only start one")
    asked, extra = options.parse_known_args()
    if asked.serve:
        prepare(cache, [asked.serve])
        return servers.serve(asked.serve, cache, asked.servers + extra)
    if extra or set(asked.servers) - set(servers.SERVERS):
        options.error(f"the servers are {', '.join(servers.SERVERS)}")
    chosen = asked.servers or servers.SERVERS
    missing = prepare(cache, chosen)
    about, seconds, found = report.machine(cache, REPOSITORY), 0, []
    kept = cache / "proofs" / version(cache)
    kept.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        file = kept / f"{name}.json"
        if name in missing:
            found.append({"server": name, "proof": "", "what": f"it could not be built: {missing[name]}", "expected": None, "measured": None, "result": "server cannot"})
        elif asked.again or not file.exists():
            print(name, flush=True)
            begun = time.monotonic()
            proven = prove(name, cache)
            file.write_text(json.dumps({"seconds": time.monotonic() - begun, "proofs": proven}))
        if file.exists():
            one = json.loads(file.read_text())
            seconds, found = seconds + one["seconds"], found + one["proofs"]
    for name in chosen:
        (kept / f"{name}.json").unlink(missing_ok=True)
    page = report.write(REPOSITORY / "bench/results", found, about, seconds)
    failed = sum(f["result"] == "fail" for f in found)
    print(f"{len(found)} findings, {failed} failed: {page}")
    return 1 if failed else 0


def prepare(cache, chosen):
    """Builds what the servers need. Returns those that cannot be built, with the reason."""
    missing = {}
    if "llama" in chosen:
        try:
            environment.build_llama(cache)
        except (OSError, subprocess.CalledProcessError) as error:
            missing["llama"] = error
    if set(chosen) - {"llama"}:
        programs = environment.build(cache)
        subprocess.run([programs / "python", HERE / "model.py", cache / "model"], check=True)
        if "vllm-fleet" in chosen:
            folders = [cache / name for name in servers.ADAPTERS]
            subprocess.run([programs / "python", HERE / "lora.py", cache / "model", *folders], check=True)
        if servers.LIGHT in chosen:
            light = [cache / "model-light", str(servers.LIGHT_TOKENS)]
            subprocess.run([programs / "python", HERE / "model.py", *light], check=True)
    return missing


def prove(name, cache):
    begun = time.monotonic()
    try:
        with servers.Server(name, cache) as server:
            print(f"  {name} started in {time.monotonic() - begun:.0f} s", flush=True)
            p = proofs.Proofs(server, cache / "fastreplay")
            proofs.prove(p)
            return p.found
    except RuntimeError as error:
        return [{"server": name, "proof": "start", "what": "the server starts", "expected": "yes", "measured": str(error), "result": "fail"}]


def version(cache):
    """Names the program and the proofs: what others found does not count."""
    sums = hashlib.sha256()
    for file in [cache / "fastreplay", *sorted(HERE.glob("*.py"))]:
        sums.update(file.read_bytes())
    return sums.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
