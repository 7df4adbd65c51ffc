"""The jobs of a Weka trace: written for both tools with a faster clock and fewer tokens, and what the record says of each request.

Public projects read a sub-agent's instants differently. Here its "t" becomes its begin, and its requests count from the job's
begin, as in the dated data sets of AgentX: both tools read that alike.
"""

import dataclasses
import json
import subprocess

BLOCK = 64  # tokens, Weka's


@dataclasses.dataclass
class Call:
    job: str
    agent: int  # 0 = the main one
    place: tuple  # in the list of the job's requests, and in that of its sub-agent or None
    begin_s: float
    end_s: float  # the begin, if timed is False
    timed: bool
    prompt: int
    output: int
    blocks: list


def write(trace, folder, clock, tokens):
    """Writes jobs.jsonl and a folder with a file for each job. Returns all calls by the number of their row."""
    each = folder / "jobs"
    each.mkdir(parents=True, exist_ok=True)
    text = subprocess.run(["zstd", "-dc", trace], check=True, capture_output=True, text=True).stdout
    jobs = [shrink(json.loads(line), clock, tokens) for line in text.splitlines()]
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    for job in jobs:
        (each / f"{job['id']}.json").write_text(json.dumps(job))
    return [call for job in jobs for call in calls(job)]


def shrink(job, clock, tokens):
    prefix(job, tokens)
    for r in job["requests"]:
        if r["type"] != "subagent":
            call(r, 0, clock, tokens)
            continue
        prefix(r, tokens)
        if r["duration_ms"] is not None:
            r["t"] -= r["duration_ms"] / 1000
            r["duration_ms"] = round(r["duration_ms"] / clock)
        for inner in r["requests"]:
            call(inner, r["t"], clock, tokens)
        r["t"] /= clock
    job["requests"].sort(key=lambda r: r["t"])
    return job


def prefix(of, tokens):
    """agentx-harness wants the blocks of a prefix of tools and system prompt in the first request."""
    for key in "tool_tokens", "system_tokens":
        of[key] = of[key] // tokens // BLOCK * BLOCK


def call(r, base_s, clock, tokens):
    r["t"] = (r["t"] + base_s) / clock
    for key in "api_time", "think_time":
        if r.get(key) is not None:
            r[key] /= clock
    if tokens > 1:
        r["in"], r["out"] = max(BLOCK, r["in"] // tokens), max(1, r["out"] // tokens)
        r["hash_ids"] = r["hash_ids"][::tokens][: r["in"] // BLOCK]


def calls(job):
    """In the order of the file, which is that of fastreplay's rows."""
    agents = 0
    for outer, r in enumerate(job["requests"]):
        sub = r["type"] == "subagent"
        agents += sub
        for inner, c in enumerate(r["requests"] if sub else [r]):
            took, agent = c.get("api_time"), agents if sub else 0
            place = outer, inner if sub else None
            yield Call(job["id"], agent, place, c["t"], c["t"] + (took or 0), took is not None, c["in"], c["out"], c["hash_ids"])
