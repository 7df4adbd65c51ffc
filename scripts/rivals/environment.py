"""Installs the rivals, each in a Python environment of its own: their requirements exclude each other.

vLLM's bench client comes with scripts/real, which also makes the model's folder (here only its tokenizer is used).
"""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
REAL = HERE.parent / "real"
RELEASES = {"aiperf": "0.13.0", "guidellm": "0.8.1", "inference-perf": "0.7.0"}


class Place:
    """Where everything is. root is outside the repository and outlives a run."""

    hub_name = "fastreplay/tokenizer"

    def __init__(self, root, real, fastreplay):
        self.root, self.real, self.fastreplay = root, real, fastreplay
        self.model = real / "model"
        self.wrk = shutil.which("wrk")

    def venv(self, name):
        return (self.real / "venv" if name == "real" else self.root / name) / "bin"

    def build(self, python):
        """python is the interpreter of the new environments: inference-perf needs 3.12."""
        for name, release in RELEASES.items():
            done = self.root / name / release
            if done.exists():
                continue
            try:
                subprocess.run([python, "-m", "venv", self.root / name], check=True)
                subprocess.run([self.venv(name) / "pip", "install", "--quiet", f"{name}=={release}"], check=True)
                done.touch()
            except subprocess.CalledProcessError as e:
                print(f"{name} is not installed, and will fail: {e}", flush=True)
        self.fill_hub()

    def fill_hub(self):
        """Gives the tokenizer a name that Hugging Face's libraries find in their cache without a network."""
        repository = self.root / "hub" / f"models--{self.hub_name.replace('/', '--')}"
        snapshot = repository / "snapshots" / "local"
        if not snapshot.exists():
            snapshot.mkdir(parents=True)
            for file in [*self.model.glob("*.json"), *self.model.glob("*.jinja")]:
                shutil.copy(file, snapshot)
            (repository / "refs").mkdir()
            (repository / "refs" / "main").write_text("local")
