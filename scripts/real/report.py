"""Writes what was found: a table in Markdown and JSON, beside the other measured numbers."""

import json
import os
import pathlib
import platform
import subprocess
import time

import environment


def machine(cache, repository):
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    cores = len(os.sched_getaffinity(0))
    return {
        "cpu": cpu,
        "cores": cores,
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": " ".join(open("/proc/loadavg").read().split()[:3]),
        "fastreplay": commit(repository),
        "versions": versions(cache),
    }


def commit(repository):
    git = ["git", "-C", str(repository)]
    name = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True).stdout
    return name + ("+" if changed else "")


def versions(cache):
    """Of what has been installed by now."""
    found = {"python": platform.python_version()}
    for venv in ("venv", "llama"):
        if (python := cache / venv / "bin/python").exists():
            frozen = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True).stdout
            found |= dict(line.split("==") for line in frozen.splitlines() if "==" in line)
    return {name: found[name] for name in ("vllm", "transformers", "torch", "python", "xllamacpp") if name in found}


def write(folder, found, about, seconds):
    stem = pathlib.Path(folder) / f"real-{time.strftime('%Y-%m-%dT%H%M%SZ', time.gmtime())}"
    stem.with_suffix(".json").write_text(json.dumps({"machine": about, "seconds": round(seconds), "proofs": found}, indent=1) + "\n")
    stem.with_suffix(".md").write_text(table(found, about, seconds))
    return stem.with_suffix(".md")


def table(found, about, seconds):
    counts = {r: sum(f["result"] == r for f in found) for r in ("pass", "fail", "server cannot")}
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    lines = [
        f"`scripts/real/run` at fastreplay {about['fastreplay']}, {time.strftime('%Y-%m-%d', time.gmtime())}, on {about['cores']} cores of {about['cpu']},"
        f" {about['memory_gib']} GiB, {about['system']}, load before {about['load_before']}; {versions}; {seconds / 60:.1f} minutes.",
        "",
        f"{counts['pass']} passed, {counts['fail']} failed, {counts['server cannot']} that a server cannot do.",
        "",
        "| server | proof | what was measured | expected | measured | |",
        "|---|---|---|---|---|---|",
    ]
    mark = {"pass": "✓", "fail": "✗", "server cannot": "server cannot"}
    for f in found:
        cells = [f["server"], f["proof"], f["what"], value(f["expected"]), value(f["measured"]), mark[f["result"]]]
        lines.append("| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def value(v):
    if v is None:
        return ""
    if isinstance(v, bool):
        return "yes" if v else "no"
    if isinstance(v, float):
        return f"{v:,.6g}" if v != int(v) else f"{int(v):,}"
    if isinstance(v, int):
        return f"{v:,}"
    if isinstance(v, (list, tuple)):
        return ", ".join(map(value, v)) or "none"
    return str(v)
