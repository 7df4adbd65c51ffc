"""Starts, asks and ends the real servers. Flags and variables that are not self-evident have their reason beside them."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

BLOCK = 32  # tokens; vLLM's attention on CPU takes multiples of 32
SMALL_BLOCKS = 300  # of the small cache; block 0 is vLLM's null block, which holds nothing
FLEET_SLOTS = 2  # so few that a queue forms
ADAPTERS = ["lora-a", "lora-b"]
SMALL_CONTEXT = 4096  # must fit into the small cache
KEY = "a-key-of-this-proof"
HERE = pathlib.Path(__file__).resolve().parent
START_S = 1800  # vLLM takes 35 s on two idle cores, and a quarter of an hour where twenty processes want them

VLLM_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # other programs use the same cores
    "OMP_NUM_THREADS": "1",
}
VLLM = ["--max-num-seqs", "64", "--dtype", "bfloat16", "--enforce-eager", "--block-size", str(BLOCK)]
DEV_MODE = {"VLLM_SERVER_DEV_MODE": "1"}  # has /reset_prefix_cache
DETAILS = "--enable-prompt-tokens-details"  # responses report cached tokens

# name: flags and variables of vLLM
VLLM_SERVERS = {
    "vllm": ([DETAILS, "--max-model-len", "32768"], DEV_MODE),
    "vllm-small": (
        [
            *(DETAILS, "--max-model-len", str(SMALL_CONTEXT), "--num-gpu-blocks-override", str(SMALL_BLOCKS)),
            *("--stream-interval", "5", "--api-key", KEY, "--shutdown-timeout", "60"),
        ],
        DEV_MODE,
    ),
    "vllm-default": (["--max-model-len", "32768"], {}),
    "vllm-uncached": ([DETAILS, "--max-model-len", "8192", "--no-enable-prefix-caching"], DEV_MODE),
    "vllm-fleet": (
        [
            *(DETAILS, "--max-model-len", "4096", "--scheduling-policy", "priority", "--max-num-seqs", str(FLEET_SLOTS)),
            *("--enable-lora", "--max-lora-rank", "8", "--lora-modules"),
        ],
        DEV_MODE,
    ),
    "vllm-embed": (["--max-model-len", "8192", "--runner", "pooling", "--convert", "embed"], {}),
}
SERVERS = [*VLLM_SERVERS, "transformers", "llama"]
# Only to be started: its vocabulary ends behind the ids that prompts are made of (31,999), so that it carries some load.
LIGHT, LIGHT_TOKENS = "vllm-light", 32768
VLLM_SERVERS[LIGHT] = ([DETAILS, "--max-model-len", "4096", "--dtype", "float32"], DEV_MODE)


class Server:
    """One running server. With `with`, it is ended whatever happens."""

    def __init__(self, name, cache, extra=()):
        self.name, self.cache = name, cache
        self.model_folder = cache / ("model-light" if name == LIGHT else "model")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = KEY if name == "vllm-small" else None
        self.log = cache / "logs" / f"{name}.log"
        self.log.parent.mkdir(exist_ok=True)
        self.argv, self.model, self.environment = self.command(list(extra))
        self.process = None

    def command(self, extra):
        """The command line, the model's name there, and the environment."""
        venv, folder, port = self.cache / "venv" / "bin", self.model_folder, str(self.port)
        host = ["--host", "127.0.0.1", "--port", port]
        if self.name in VLLM_SERVERS:
            flags, variables = VLLM_SERVERS[self.name]
            if self.name == "vllm-fleet":
                flags = [*flags, *(f"{name}={self.cache / name}" for name in ADAPTERS)]
            argv = [venv / "vllm", "serve", folder, "--served-model-name", "tiny", *host, *VLLM, *flags, *extra]
            return argv, "tiny", VLLM_ENVIRONMENT | variables
        if self.name == "transformers":
            argv = [venv / "transformers", "serve", folder, "--device", "cpu", "--dtype", "bfloat16", *host, *extra]
            return argv, str(folder), {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        if self.name == "llama":
            # One slot keeps one prompt, so what is cached of the next one can be told.
            argv = [self.cache / "llama/bin/python", HERE / "llama.py", self.cache / "model.gguf", "127.0.0.1", port, "1", *extra]
            return argv, "tiny", {}
        raise SystemExit(f"{self.name}: no such server; there are {', '.join(SERVERS)}")

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["nice", "-n", "10", *map(str, self.argv)],
                env=os.environ | self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # so that all its processes can be ended together
            )
        deadline = time.monotonic() + START_S
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                tail = self.log.read_text(errors="replace").splitlines()[-15:]
                raise RuntimeError(f"{self.name} did not start; {self.log} ends with:\n" + "\n".join(tail))
            time.sleep(0.5)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def ready(self):
        try:
            return self.ask("/health")[0] == 200
        except OSError:
            return False

    def terminate(self):
        """What an operator or Kubernetes does: SIGTERM to the server's first process."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        """What a crash of the machine does: SIGKILL to all its processes."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def ask(self, path, body=None):
        """Status and text of an answer."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def counters(self):
        """What /metrics counts, by name, summed over labels; read until it rests."""
        last = None
        for _ in range(20):
            now = samples(self.ask("/metrics")[1])
            counted = {k: v for k, v in now.items() if k.startswith("vllm:")}
            if counted == last:
                break
            last = counted
            time.sleep(0.5)
        return now

    def cache_config(self):
        """The labels of vLLM's cache_config_info."""
        line = next(line for line in self.ask("/metrics")[1].splitlines() if line.startswith("vllm:cache_config_info{"))
        return dict(re.findall(r'(\w+)="([^"]*)"', line))

    def tokenize(self, **what):
        """The server's own token ids of a prompt or of messages."""
        return json.loads(self.ask("/tokenize", {"model": self.model, **what})[1])["tokens"]


def samples(page):
    sums = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, value = re.split(r"\{.*\} | ", line, maxsplit=1)[0], line.rsplit(" ", 1)[1]
            sums[name] = sums.get(name, 0) + float(value)
    return sums


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(name, cache, extra):
    """Serves until Ctrl-C."""
    with Server(name, pathlib.Path(cache), extra) as server:
        print(f"{name} at {server.url}, model {server.model}, log {server.log}; Ctrl-C ends it", flush=True)
        try:
            server.process.wait()
        except KeyboardInterrupt:
            pass
