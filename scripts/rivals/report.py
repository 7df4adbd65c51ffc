"""The tables, in Markdown: a row a tool, the median of its runs."""

import statistics

TABLES = {
    "schedule": (
        "The third minute of Mooncake's conversation trace, at its instants (TTFT 30 ms, TPOT 10 ms)",
        ["late_p50_ms", "late_p99_ms", "late_max_ms", "exact_prompts", "prompts_ratio", "hits", "ttft_p50_error", "ttft_p99_error", "gap_p99_error", "first_request_s", "peak_pss_mb", "cpu_s"],
    ),
    "streams": (
        "600 requests, 200 streams at a time, 64 tokens each (TTFT 200 ms, TPOT 50 ms: 4,000 tokens/s if the client keeps up)",
        ["seconds", "ttft_p50_error", "ttft_p99_error", "gap_p50_error", "gap_p99_error", "first_request_s", "peak_pss_mb", "cpu_s"],
    ),
    "throughput": (
        "A closed loop of 32, one token each, at once",
        ["requests_per_s", "requests_per_cpu_s", "first_request_s", "peak_pss_mb"],
    ),
}
HEADS = {
    "late_p50_ms": "late p50 (ms)", "late_p99_ms": "p99", "late_max_ms": "max", "exact_prompts": "prompts of the recorded length", "prompts_ratio": "prompt tokens ÷ recorded",
    "hits": "prefix hits (recorded)", "ttft_p50_error": "TTFT p50 error (ms)", "ttft_p99_error": "TTFT p99 error", "gap_p50_error": "gap p50 error (ms)", "gap_p99_error": "gap p99 error (ms)",
    "first_request_s": "to the first request (s)", "peak_pss_mb": "memory (MB)", "cpu_s": "CPU (s)", "seconds": "duration (s)", "requests_per_s": "requests/s",
    "requests_per_cpu_s": "requests per CPU second",
}


# The README's table: each column's scenarios, of which the first that a tool can do counts.
README = {
    "late p50, p99": (["schedule"], ["late_p50_ms", "late_p99_ms"]), "TTFT p99 error, trace": (["schedule"], ["ttft_p99_error"]),
    "TTFT p99 error, 200 streams": (["streams"], ["ttft_p99_error"]), "gap p99 error": (["streams"], ["gap_p99_error"]),
    "until the first request": (["schedule", "streams"], ["first_request_s"]), "memory": (["schedule", "streams"], ["peak_pss_mb"]),
}


def readme(measured):
    out = ["## For the README", "", "| tool | " + " | ".join(README) + " |", "|---" * (len(README) + 1) + "|"]
    for name, version in dict.fromkeys((m["tool"], m["version"]) for m in measured if m["scenario"] != "throughput" and m["numbers"]):
        cells = []
        for scenarios, columns in README.values():
            runs = [[m["numbers"] for m in measured if (m["tool"], m["scenario"]) == (name, s)] for s in scenarios]
            able = next(([r for r in of if r and "failed" not in r] for of in runs if any(of)), None)
            cells.append("cannot" if able is None else ", ".join(cell(c, able) for c in columns))
        out.append(f"| {name} {version} | " + " | ".join(cells) + " |")
    return out + [""]


def page(machine, measured):
    out = ["# Load generators side by side", "", f"{machine['cpu']}, {machine['cores']} cores shared with the server, Linux {machine['system']}, {machine['date']}, "
           f"commit {machine['commit']}, load average {machine['load_before'][0]:.1f} before the start. `scripts/rivals/run` measured this; a cell is the median of the runs that ended.", ""]
    for kind, (title, columns) in TABLES.items():
        here = [m for m in measured if m["scenario"] == kind]
        if not here:
            continue
        out += [f"## {title}", "", "| tool | " + " | ".join(HEADS[c] for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for name in dict.fromkeys(m["tool"] for m in here):
            runs = [m["numbers"] for m in here if m["tool"] == name]
            version = next(m["version"] for m in here if m["tool"] == name)
            if any(runs):
                cells = [cell(c, [r for r in runs if r and "failed" not in r]) for c in columns]
                out.append(f"| {name} ({version}) | " + " | ".join(cells) + " |")
        out += ["", *(f"{m['tool']}, run {m['run'] + 1}: {m['numbers']['failed']}" for m in here if m["numbers"] and "failed" in m["numbers"]), ""]
        cannot = sorted({m["tool"] for m in here if m["numbers"] is None})
        if cannot:
            out += [f"Not able to: {', '.join(cannot)}.", ""]
    out += readme(measured) + [
        "Late: arrival at the server (the kernel's stamp of the first byte) against the trace, from the least late request of the run. Error: the tool's percentile less the server's of the same",
        "requests, from the kernel's stamp of the request's first byte to just before the write of the token. Hits: what an unlimited cache of 512-token blocks would have held of what arrived.",
        "GuideLLM keeps one mean gap a request, which is held against the server's means. Memory: the largest sum of PSS over the tool's processes. CPU: from the first request to the last answer.", "",
    ]
    return "\n".join(out)


def value(column, n):
    if column.endswith("_error"):
        own, true = n.get(column.replace("error", "ms")), n.get("server_" + column.replace("error", "ms"))
        return None if own is None or true is None else own - true
    if column == "prompts_ratio":
        return n["prompt_tokens"] / n["trace_prompt_tokens"]
    return n.get(column)


def cell(column, runs):
    values = [v for v in (value(column, n) for n in runs) if v is not None]
    if not values:
        return "–"
    middle = statistics.median(values)
    match column:
        case "hits":
            return f"{middle:.2%} ({runs[0]['trace_hits']:.2%})"
        case "exact_prompts":
            return f"{middle:.1%}"
        case "prompts_ratio":
            return f"{middle:.4f}"
        case "requests_per_s" | "requests_per_cpu_s" | "peak_pss_mb":
            return f"{middle:,.0f}"
    return f"{middle:+.3f}" if column.endswith("_error") else f"{middle:.2f}" if middle < 100 else f"{middle:.0f}"
