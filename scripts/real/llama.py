"""Serves a GGUF file with llama.cpp's own HTTP server, from PyPI's package xllamacpp: llama.py MODEL HOST PORT SLOTS."""

import signal
import sys

import xllamacpp

CONTEXT = 32768  # tokens a slot


def main():
    path, host, port, slots = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = path, ["tiny"]
    params.hostnames, params.port = [host], int(port)
    params.n_parallel, params.n_ctx = int(slots), CONTEXT * int(slots)
    params.kv_unified = False  # else slots share a cache, and hits depend on who came before
    params.cache_ram_mib = 0  # else prompts that a slot has lost come back from memory
    params.cpuparams.n_threads = 1
    params.endpoint_metrics = params.use_jinja = True
    server = xllamacpp.Server(params)  # serves on threads of its own
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"serving at {server.listening_address}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
