"""Replays recorded traces of LLM requests. The module runs the fastreplay program and reads its results."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Union

__all__ = ["Error", "Interrupted", "InvalidRun", "ObjectiveMissed", "ObjectiveUndecided", "Result", "UsageError"]
__all__ += ["compare", "load", "program", "run"]

StrPath = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """The program ended with an exit code other than 0, or no results can be read. `result` is what the run left."""

    def __init__(self, exit_code: int, message: str, result: Optional[Result] = None):
        super().__init__(message.strip() or f"fastreplay ended with exit code {exit_code}")
        self.exit_code = exit_code
        self.result = result


class InvalidRun(Error):
    """Exit code 1: the numbers are not to be used."""


class UsageError(Error):
    """Exit code 2: a flag, the trace or a server was wrong; nothing was sent."""


class ObjectiveMissed(Error):
    """Exit code 3: the numbers can be used, and an objective is missed."""


class ObjectiveUndecided(Error):
    """Exit code 4: too few values tell whether an objective holds."""


class Interrupted(Error):
    """Exit code 130: a signal stopped the run; its files are whole."""


ERRORS: Mapping[int, type[Error]] = {1: InvalidRun, 2: UsageError, 3: ObjectiveMissed, 4: ObjectiveUndecided}
ERRORS = {**ERRORS, 130: Interrupted}


class Result:
    """The results of one run: a directory of files."""

    def __init__(self, directory: StrPath, exit_code: int = 0):
        self.directory = Path(directory)
        self.exit_code = exit_code
        self.summary: dict[str, Any] = json.loads((self.directory / "summary.json").read_text("utf-8"))

    @property
    def verdict(self) -> str:
        """valid, limited or invalid: whether the measurement is sound."""
        return str(self.summary["verdict"]["measurement"])

    @property
    def report_html(self) -> Path:
        """The page of the run, one file without a network."""
        return self.directory / "report.html"

    def report(self, *arguments: str) -> str:
        """What `fastreplay report` prints of the run; with "--full", everything."""
        return _output(["report", str(self.directory), *arguments])

    def requests(self, library: Optional[str] = None) -> Any:
        """A row for each request, with the keys of requests.jsonl.

        `library` is "pandas", "polars" or "dicts"; by default the first of them that is installed.
        """
        library = library or next((name for name in ("pandas", "polars") if importlib.util.find_spec(name)), "dicts")
        if library == "dicts":
            return list(self._rows())
        if library == "pandas":
            import pandas

            return pandas.DataFrame(self._rows()).convert_dtypes()  # integers stay so where some are absent
        if library == "polars":
            import polars

            return polars.DataFrame(list(self._rows()), infer_schema_length=None)
        raise ValueError(f"library {library!r}: want pandas, polars or dicts")

    def _rows(self) -> Iterator[dict[str, Any]]:
        path = self.directory / "requests.jsonl"
        if not path.exists():
            raise Error(2, f"{path} is not there; where there is {path.name}.zst, read that with DuckDB")
        with open(path, encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    def __repr__(self) -> str:
        return f"<fastreplay.Result {self.verdict} {self.directory}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"


def program() -> str:
    """The path of the program: that of the wheel, or FASTREPLAY_PROGRAM if it is set."""
    return os.environ.get("FASTREPLAY_PROGRAM") or str(Path(__file__).parent / "bin" / "fastreplay")


def run(
    trace: Union[StrPath, list[StrPath], None] = None,
    *,
    url: Union[str, list[str], None] = None,
    check: bool = True,
    progress: Optional[Callable[[str], None]] = None,
    **flags: Any,
) -> Result:
    """Replays a trace, or several files of one, and returns its results; without a `url`, against the embedded mock.

    Every other flag of the program is a keyword (`max_error_rate=0.01`, `from_="10m"`): a list repeats the flag, True
    gives it alone, None leaves it out. `progress` is called with each line that the program prints; by default they go
    to standard error, or in a notebook to a line that changes in place. With `check`, an exit code other than 0 is an
    exception; without it, so is one of a run that left no results. KeyboardInterrupt stops the run, which still writes
    its files, and is raised again.
    """
    began = datetime.now(timezone.utc)
    directory = Path(flags.pop("output", None) or f"results/{began:%Y-%m-%dT%H%M%S.%f}Z")
    traces = trace if isinstance(trace, list) else [] if trace is None else [trace]
    arguments = _arguments({"url": "" if url == [] else url, "output": str(directory), **flags})
    command = [*map(str, traces), *arguments] if traces else ["demo", *arguments]
    exit_code, said = _follow(command, progress or _printer())
    result = Result(directory, exit_code) if exit_code != 2 and (directory / "summary.json").exists() else None
    if exit_code != 0 and (check or result is None):
        raise ERRORS.get(exit_code, Error)(exit_code, said, result)
    if result is None:
        raise Error(exit_code, f"the run left no results in {directory}")
    return result


def load(directory: StrPath) -> Result:
    """The results of an earlier run."""
    return Result(directory)


def compare(a: Union[Result, list[Result]], b: Union[Result, list[Result]], **flags: Any) -> dict[str, Any]:
    """What changed from the runs `a` to the runs `b`, as `fastreplay compare --json` has it; give three or more."""
    sides = [[str(r.directory) for r in (s if isinstance(s, list) else [s])] for s in (a, b)]
    printed = _output(["compare", "--json", *_arguments(flags), *sides[0], "--", *sides[1]])
    return dict(json.loads(printed))


def _arguments(flags: Mapping[str, Any]) -> list[str]:
    out = []
    for name, value in flags.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                out.append(flag)
            elif one is not None:
                out.append(f"{flag}={'false' if one is False else one}")
    return out


def _output(arguments: list[str]) -> str:
    done = subprocess.run([program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ERRORS.get(done.returncode, Error)(done.returncode, done.stderr)
    return done.stdout


def _follow(arguments: list[str], progress: Callable[[str], None]) -> tuple[int, str]:
    """Runs the program and passes on what it says, by line. Returns its exit code and the last 40 lines."""
    # In a session of its own, so that an interrupt reaches it once, from here.
    with subprocess.Popen(
        [program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        said: list[str] = []
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said = [*said[-39:], line]
                progress(line.rstrip("\n"))
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.stderr.read()
            raise
        return process.wait(), "".join(said)


def _printer() -> Callable[[str], None]:
    if "ipykernel" not in sys.modules:
        return lambda line: print(line, file=sys.stderr, flush=True)
    from IPython.display import display

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda line: handle.update({"text/plain": line}, raw=True) if line else None
