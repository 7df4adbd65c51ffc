"""What a tool did with the jobs: by what arrived at the server, and by which call of which play the tool says that each request was."""

import bisect
import collections
import dataclasses
import hashlib
import json
import re
import statistics

import measure
import tools
from jobs import BLOCK

NS = 1e9


@dataclasses.dataclass
class Sent:
    phase: str  # primer, warmup or profile
    row: int  # of the call; None if the tool does not say
    play: str
    told_ttft_ms: float
    began_ns: int = 0  # by the tool


@dataclasses.dataclass
class Arrived:
    came_s: float
    first_s: float
    done_s: float
    limit: int  # of output tokens
    text: list  # of messages: role and content
    ok: bool
    sent: Sent


def arrived(log, sent):
    """The run's requests in the order in which they arrived. What the tool has no record of, such as probes, is left out."""
    out = []
    for line in tools.read_lines(log):
        if (s := sent.get(line["request_id"])) and line["body"]:
            body, tokens = line["body"], line["token_ns"]
            messages = [(m["role"], content(m.get("content"))) for m in body["messages"]]
            limit = body.get("max_completion_tokens") or body["max_tokens"]
            first = tokens[0] / NS if tokens else None
            ok = line["end"] == "done" and line["status"] == 200
            out.append(Arrived(line["arrival_ns"] / NS, first, line["done_ns"] / NS, limit, messages, ok, s))
    return sorted(out, key=lambda a: a.came_s)


def content(c):
    return c if isinstance(c, str) else "".join(part.get("text", "") for part in c or [])


def of_fastreplay(results):
    out = {}
    for r in tools.read_lines(results / "requests.jsonl"):
        out[r["request_id"]] = Sent(r.get("phase") or "profile", r["row"], str(r["job"]), r["ttft_ms"])
    return out


def of_harness(results, calls):
    """agentx-harness names the place of a request in the file."""
    row_at = {(c.job, c.place): row for row, c in enumerate(calls)}
    out = {}
    for name in results.glob("profile_export*.jsonl"):
        for r in tools.read_lines(name):
            m = r.get("metadata")
            if not m:
                continue
            row = row_at.get((m.get("source_trace_id"), (m.get("source_outer_idx"), m.get("source_inner_idx"))))
            ttft = r.get("metrics", {}).get("time_to_first_token", {}).get("value")
            phase = "profile" if m["benchmark_phase"] == "profiling" else "warmup"
            out[m["x_request_id"]] = Sent(phase, row, None, ttft, m["request_start_ns"])
    return out


def marker(a):
    """What marks a play's prompts: the harness's text, else the words of the first block."""
    text = "".join(c for _, c in a.text)
    found = re.search(r"\[rid:[0-9a-f]{12}\]", text)
    return found[0] if found else hashlib.sha256(" ".join(text.split(" ", BLOCK)[:BLOCK]).encode()).hexdigest()


def judge(all_arrived, calls, tokenizer, cap_s):
    """Returns a dict of numbers of a run."""
    profile = [a for a in all_arrived if a.sent.phase == "profile"]
    n = {"primers": sum(a.sent.phase == "primer" for a in all_arrived), "warmups": sum(a.sent.phase == "warmup" for a in all_arrived),
         "requests": len(profile), "failed": sum(not a.ok for a in profile)}
    n["other_outputs"] = sum(a.limit != calls[a.sent.row].output for a in profile)
    begun = max((a.done_s for a in all_arrived if a.sent.phase != "profile"), default=0)
    n["before_barrier"] = sum(a.came_s < begun for a in profile)
    return n | order(profile, calls, cap_s) | prompts(all_arrived, calls, tokenizer) | ttft(profile)


def order(profile, calls, cap_s):
    """Two questions that the record alone answers. Did a request leave before one of its play that had ended when it began (by a second
    of the record's clock or more)? And if a request goes on with the last one's prompt, and had been the only one of its play: how much
    later than after the recorded delay? No idle time is cut within a delay below the system's cap."""
    plays = collections.defaultdict(dict)
    for a in profile:
        plays[marker(a)].setdefault(a.sent.row, a)
    last_of = {c.job: row for row, c in sorted(enumerate(calls), key=lambda rc: rc[1].begin_s)}
    done = sum(last_of[calls[min(of)].job] in of for of in plays.values())
    early, late = 0, []
    for of in plays.values():
        rows = sorted(of, key=lambda row: calls[row].begin_s)
        for i, row in enumerate(rows):
            begin = calls[row].begin_s
            before = [b for b in rows[:i] if calls[b].end_s <= begin]
            early += any(of[row].came_s < of[b].done_s for b in before if calls[b].end_s <= begin - cap_s / 10)
            if not before or len(before) < i:
                continue
            last = max(before, key=lambda b: calls[b].end_s)
            delay = begin - calls[last].end_s
            goes_on = calls[row].blocks[: len(calls[last].blocks)] == calls[last].blocks
            if last == row - 1 and calls[last].agent == calls[row].agent and calls[last].timed and goes_on and delay < cap_s:
                late.append(1e3 * (of[row].came_s - of[last].done_s - delay))
    return {"plays": len(plays), "jobs_done": done, "early": early, "delays": len(late), "late_p50_ms": measure.percentile(late, 0.5),
            "late_p99_ms": measure.percentile(late, 0.99), "least_late_ms": min(late, default=None)}


def prompts(all_arrived, calls, tokenizer):
    """Lengths of prompts, and hits of an unlimited cache of blocks over what arrived beside those that the record's ids would have had."""
    cache, ideal = set(), set()
    tokens = hits = ideal_tokens = ideal_hits = 0
    ratios = []
    for a in all_arrived:
        text = "".join(f"<|im_start|>{role}\n{c}<|im_end|>\n" for role, c in a.text) + "<|im_start|>assistant\n"
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        profile = a.sent.phase == "profile"
        found = hold(cache, [hash(tuple(ids[i : i + BLOCK])) for i in range(0, len(ids) - BLOCK + 1, BLOCK)])
        if profile:
            tokens, hits = tokens + len(ids), hits + found * BLOCK
        if a.sent.row is None:
            continue
        c = calls[a.sent.row]
        found = hold(ideal, [(marker(a), c.job, b) for b in c.blocks])
        if profile:
            ideal_tokens, ideal_hits = ideal_tokens + c.prompt, ideal_hits + found * BLOCK
            ratios.append((len(ids) - 5 * len(a.text) - 3) / c.prompt)
    return {"prompt_tokens": tokens, "prompt_ratio": sum_ratio(tokens, ideal_tokens), "prompt_ratio_least": min(ratios, default=None),
            "prompt_ratio_most": max(ratios, default=None), "hits": sum_ratio(hits, tokens), "trace_hits": sum_ratio(ideal_hits, ideal_tokens)}


def hold(cache, blocks):
    """Puts a prompt's blocks into a cache without limit, and returns how many leading ones it had."""
    before, found, missed = 0, 0, False
    for block in blocks:
        before = hash((before, block))
        missed = missed or before not in cache
        found += not missed
        cache.add(before)
    return found


def sum_ratio(a, b):
    return a / b if b else None


def ttft(profile):
    told = [a.sent.told_ttft_ms for a in profile if a.sent.told_ttft_ms is not None and a.first_s]
    true = [1e3 * (a.first_s - a.came_s) for a in profile if a.sent.told_ttft_ms is not None and a.first_s]
    off = [t - s for t, s in zip(told, true)]
    n = {"ttft_off_p50_ms": statistics.median(off) if off else None, "ttft_off_p99_ms": measure.percentile(off, 0.99)}
    for name, share in ("p50", 0.5), ("p90", 0.9), ("p99", 0.99):
        n[f"ttft_{name}_ms"], n[f"server_ttft_{name}_ms"] = measure.percentile(told, share), measure.percentile(true, share)
    return n
