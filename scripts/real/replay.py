"""Runs fastreplay and reads what it leaves, as any user would: exit code, what it says, summary.json, requests.jsonl."""

import json
import pathlib
import subprocess
import time

# Two busy cores make a client late; what the proofs measure does not depend on that.
LENIENT = ["--max-drift", "1m", "--max-receive-lag", "1m"]
WHOLE = ["--verbose", "--full"]  # all that it can say
LIMIT_S = 300


class Replay:
    def __init__(self, program, folder, *args):
        self.folder = pathlib.Path(folder)
        self.args = [str(a) for a in args]
        self.said_in = open(f"{self.folder}.txt", "w+b")
        self.process = subprocess.Popen(
            [program, *self.args, *LENIENT, *WHOLE, "--output", self.folder],
            stdout=self.said_in,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def wait(self):
        try:
            self.exit = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"fastreplay {' '.join(self.args)} did not end in {LIMIT_S} s: {self.said()[-600:]}") from None
        return self

    def said(self):
        """All that it printed; lines that it broke for the terminal are joined."""
        self.said_in.seek(0)
        return " ".join(self.said_in.read().decode(errors="replace").split())

    def wait_for(self, ok):
        """Waits until that many requests ended well."""
        deadline = time.monotonic() + LIMIT_S
        while sum(r["outcome"] == "ok" for r in self.records(whole=False)) < ok:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"fastreplay ended before {ok} requests had: {self.said()[-600:]}")
            time.sleep(0.1)

    def records(self, whole=True):
        path = self.folder / "requests.jsonl"
        if not whole and not path.exists():
            return []
        lines = path.read_text().split("\n")
        return [json.loads(line) for line in lines[:-1]]

    @property
    def summary(self):
        path = self.folder / "summary.json"
        if not path.exists():
            raise RuntimeError(f"exit {self.exit}, no summary: {self.said()[-600:]}")
        return json.loads(path.read_text())

    def by_row(self):
        return {r["row"]: r for r in self.records()}
