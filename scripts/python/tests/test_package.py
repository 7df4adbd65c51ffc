"""The installed package: what it runs, returns and raises. Nothing is imported from the source beside these tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Iterator
from xml.etree import ElementTree

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import fastreplay

SAMPLE = Path(__file__).parents[3] / "bench" / "samples" / "bailian.jsonl"
QUICK: dict[str, Any] = dict(scale=20, max_drift="1h", max_receive_lag="1h")  # a busy machine makes no run invalid


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a mock server."""
    command = [fastreplay.program(), "mock", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mock:
        assert mock.stdout is not None
        yield mock.stdout.readline().split()[-1]
        mock.terminate()


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(server: str, tmp_path_factory: pytest.TempPathFactory) -> fastreplay.Result:
    """A run of 60 requests with one objective that is met and one that is missed."""
    return fastreplay.run(
        SAMPLE,
        url=server,
        output=tmp_path_factory.mktemp("finished") / "run",
        check=False,
        limit=60,
        **QUICK,
        require=["ttft.p50<10s", "ttft.p50<1us"],
        export=["junit", "openmetrics", "benchmark-report"],
        progress=lambda line: None,
    )


def test_results_are_those_of_the_files(finished: fastreplay.Result) -> None:
    lines = (finished.directory / "requests.jsonl").read_text().splitlines()
    rows = finished.requests("dicts")
    assert rows == [json.loads(line) for line in lines]
    assert len(rows) == finished.summary["requests"]["ok"] == 60
    assert finished.exit_code == 3
    assert finished.report_html.stat().st_size > 10_000
    assert "60 ok" in finished.report() and finished.verdict in ("valid", "limited")
    assert "<pre>" in finished._repr_html_()
    assert fastreplay.load(finished.directory).summary == finished.summary


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_the_rows(finished: fastreplay.Result, library: str) -> None:
    pytest.importorskip(library)
    frame, rows = finished.requests(library), finished.requests("dicts")
    for key in ("row", "e2e_ms", "prompt_tokens"):
        assert list(frame[key]) == [row[key] for row in rows]


def test_progress_is_what_the_program_says(server: str, capfd: pytest.CaptureFixture[str]) -> None:
    result = fastreplay.run([SAMPLE], url=server, limit=5, **QUICK)
    assert str(result.report_html) in capfd.readouterr().err


def test_errors_carry_exit_codes(server: str) -> None:
    with pytest.raises(fastreplay.UsageError, match="nofile") as usage:
        fastreplay.run("nofile", url=server, check=False)
    assert (usage.value.exit_code, usage.value.result) == (2, None)
    for require, error, code in [
        ("ttft.p50<1us", fastreplay.ObjectiveMissed, 3),
        ("ttft.p99<10s", fastreplay.ObjectiveUndecided, 4),
    ]:
        with pytest.raises(error, match=require) as raised:
            fastreplay.run(SAMPLE, url=server, limit=20, **QUICK, require=require)
        assert raised.value.exit_code == code == raised.value.result.exit_code
        assert raised.value.result.summary["requests"]["ok"] == 20


def test_interrupt_leaves_whole_files(server: str, directory: Path) -> None:
    def interrupt_the_run() -> None:
        while not (directory / "run" / "requests.jsonl").exists() or idle():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def idle() -> bool:
        metrics = urllib.request.urlopen(server + "/metrics").read().decode()
        return not re.search(r"^vllm:num_requests_running.* [1-9]", metrics, re.MULTILINE)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
    threading.Thread(target=interrupt_the_run, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        fastreplay.run(SAMPLE, url=server, output="run", scale=0.2)
    assert fastreplay.load("run").summary["run"]["partial"]


def test_exports_are_what_their_readers_take(finished: fastreplay.Result) -> None:
    suite = ElementTree.parse(finished.directory / "junit.xml").find("testsuite")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["ttft.p50<1us"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    page = (finished.directory / "metrics.txt").read_text()
    all_samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    samples = {(sample.name, *sample.labels.values()): sample.value for sample in all_samples}
    assert samples["fastreplay_ttft_seconds", "p50"] == pytest.approx(finished.summary["ttft_ms"]["p50"] / 1e3)
    assert samples["fastreplay_objective_met", "ttft.p50<1us"] == 0


def test_benchmark_report_is_what_llm_d_takes(finished: fastreplay.Result) -> None:
    library = pytest.importorskip("llmd_benchmark_report")
    report = library.import_benchmark_report(str(finished.directory / "benchmark_report.json"))
    latency = report.results.request_performance.aggregate.latency
    assert latency.time_to_first_token.p99 == finished.summary["ttft_ms"]["p99"]
    assert report.scenario.load.metadata.cfg_id == finished.summary["workload"]["fingerprint"]


def test_compare_names_sides(finished: fastreplay.Result, server: str) -> None:
    other = fastreplay.run(SAMPLE, url=server, limit=60, **QUICK, progress=lambda line: None)
    compared = fastreplay.compare(finished, other)
    assert [compared[side]["dirs"] for side in "ab"] == [[str(finished.directory)], [str(other.directory)]]
    with pytest.raises(fastreplay.UsageError, match="--fail-if"):
        fastreplay.compare(finished, other, fail_if="nothing:+5%")


@pytest.mark.parametrize("command", [["fastreplay"], ["python", "-m", "fastreplay"]])
def test_commands_become_the_program(command: list[str]) -> None:
    command[0] = str(Path(sys.executable).with_name(command[0]))
    version = subprocess.run([fastreplay.program(), "version"], stdout=subprocess.PIPE, check=True).stdout
    assert subprocess.run([*command, "version"], stdout=subprocess.PIPE).stdout == version
    assert subprocess.run([*command, "nofile"], stderr=subprocess.PIPE).returncode == 2


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "bash-completion/completions/fastreplay"),
        ("zsh", "zsh/site-functions/_fastreplay"),
        ("fish", "fish/vendor_completions.d/fastreplay.fish"),
    ],
)
def test_completions_lie_where_shells_look(shell: str, file: str) -> None:
    printed = subprocess.run([fastreplay.program(), "completion", shell], stdout=subprocess.PIPE, text=True).stdout
    assert (Path(sys.prefix) / "share" / file).read_text() == printed


def test_flags() -> None:
    flags = dict(max_error_rate=0.01, from_="10m", require=["a", "b"], quiet=True, probe=False, scale=None)
    assert fastreplay._arguments(flags) == [
        "--max-error-rate=0.01", "--from=10m", "--require=a", "--require=b", "--quiet", "--probe=false",
    ]


def test_notebook_shows_the_report(server: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    source = f"import fastreplay\nfastreplay.run({str(SAMPLE)!r}, url={server!r}, limit=5)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=60).execute()
    outputs = [output["data"] for output in notebook.cells[0].outputs if "data" in output]
    assert "results/" in outputs[0]["text/plain"]
    assert "5 ok" in outputs[-1]["text/html"]
