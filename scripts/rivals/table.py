"""The table of fastreplay beside agentx-harness, in Markdown: a column a tool and number of lanes, the median of its runs."""

import statistics

ROWS = [
    ("took_s", "start to end (s)"), ("first_s", "to the first primer (s)"), ("cpu_before_s", "CPU until then (s)"), ("profiled_s", "to the first profiled request (s)"),
    ("cpu_a_request_ms", "CPU a request (ms)"), ("peak_pss_mb", "memory (MB)"), ("pss_a_request_mb", "memory a request (MB)"), ("primers", "primers"),
    ("warmups", "warm-up requests"), ("requests", "profiled requests"), ("told_requests", "by the tool's own summary"), ("failed", "of them failed"), ("jobs_done", "jobs whose last request was answered"), ("other_outputs", "output length not as recorded"),
    ("before_barrier", "profiled before the barrier"), ("early", "left before one that had ended in the record"), ("delays", "recorded delays that can be checked"),
    ("late_p50_ms", "left later than that, p50 (ms)"), ("late_p99_ms", "p99"), ("prompt_ratio", "prompt tokens ÷ recorded"),
    ("hits", "hits of what arrived"), ("trace_hits", "hits by the record's blocks"), ("ttft_off_p50_ms", "TTFT told − true, of a request, p50 (ms)"), ("ttft_off_p99_ms", "p99"),
    ("ttft_p90_ms", "TTFT p90 told (ms)"), ("server_ttft_p90_ms", "TTFT p90 by the server's clock"), ("load_before", "load average before"), ("load_after", "load average after"),
]

EACH = ["first_s", "cpu_before_s", "profiled_s", "load_before", "load_after"]  # of each run: the harness keeps its prompts for the next


def page(machine, how, measured, drawn):
    out = ["# AgentX: fastreplay beside agentx-harness", "",
           f"agentx-harness {machine['release']}, fastreplay {machine['commit']}. {machine['cpu']}, {machine['cores']} cores shared with the server and with others, "
           f"Linux {machine['system']}, {machine['date']}. {how['note']}", "",
           f"`scripts/rivals/agentx`: the 48 jobs of weka-48 with a clock {how['clock']:g} times as fast and one of {how['tokens']} blocks, {how['duration']} s measured, idle caps "
           f"{10 / how['clock']:g} s (system) and {300 / how['clock']:g} s (tree), seed 42. The mock takes 50 ms to the first token and 5 ms for each further one. "
           "A cell is the median of the runs; where it has several values, they are of one run each.", ""]
    columns = list(dict.fromkeys((m["lanes"], m["tool"]) for m in measured))
    out += ["| | " + " | ".join(f"{tool}, {lanes} lanes" for lanes, tool in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    runs = {c: [m["numbers"] for m in measured if (m["lanes"], m["tool"]) == c and "error" not in m["numbers"]] for c in columns}
    for key, name in ROWS:
        out.append(f"| {name} | " + " | ".join(cell(key, runs[c]) for c in columns) + " |")
    out += ["", *(f"{m['tool']}, {m['lanes']} lanes: {m['numbers']['error']}" for m in measured if "error" in m["numbers"]), "",
            "## Where lanes begin", "", f"t* of 16 lanes, {how['seeds']} seeds, by the definition of one and the function of the other, against uniform in 25–75 %, and against each other "
            "(Kolmogorov–Smirnov).", "", "| | draws | least | most | D | p |", "|---|---|---|---|---|---|"]
    for name in "fastreplay", "agentx-harness":
        d = drawn[name]
        out.append(f"| {name} | {d['n']} | {d['least']:.4f} | {d['most']:.4f} | {d['ks_d']:.4f} | {d['ks_p']:.2f} |")
    out += [f"| both | | | | {drawn['both']['ks_d']:.4f} | {drawn['both']['ks_p']:.2f} |", "",
            f"Installed: agentx-harness {machine['installed_mb']['agentx-harness']:.0f} MB, fastreplay {machine['installed_mb']['fastreplay']:.0f} MB.", ""]
    return "\n".join(out)


def cell(key, runs):
    values = [v for n in runs if (v := value(key, n)) is not None]
    if not values:
        return "–"
    if key in EACH:
        return " · ".join(shown(key, v) for v in values)
    return shown(key, statistics.median(values))


def shown(key, middle):
    if key in ("hits", "trace_hits"):
        return f"{middle:.2%}"
    if key == "prompt_ratio":
        return f"{middle:.4f}"
    return f"{middle:,.0f}" if isinstance(middle, int) or middle >= 100 else f"{middle:.3g}"


def value(key, n):
    if key == "pss_a_request_mb":
        return n["peak_pss_mb"] / n["sent"]
    return n.get(key)
