#!/usr/bin/env bash
# Measures fastreplay on this machine, beside its rivals and the machine's own floor; `scripts/bench.sh --help` says more.
#
#   scripts/bench.sh                     every scenario five times: tables on the terminal and, with JSON, in bench/results
#   scripts/bench.sh 3 floor punctuality   some of them, three times
#   scripts/bench.sh --bars              those that a bar is about
#   scripts/bench.sh --list | --quick    what there is; short versions, to see that everything works
#
# wrk and cyclictest (Debian packages wrk, rt-tests) are measured too where installed, Mooncake's conversation trace where
# FASTREPLAY_TRACES names a folder with mooncake-conversation.jsonl.zst.
set -euo pipefail
[[ -z ${FASTREPLAY_TRACES:-} ]] || FASTREPLAY_TRACES=$(realpath "$FASTREPLAY_TRACES")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -o "$built" ./cmd/fastreplay ./bench/suite
"$built/suite" --fastreplay "$built/fastreplay" "$@"
