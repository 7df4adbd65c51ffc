#!/usr/bin/env bash
# Measures fastreplay on this machine, beside its rivals and the machine's own floor; `scripts/bench.sh --help` says more.
#
#   scripts/bench.sh                       every scenario five times: to the terminal and to bench/results
#   scripts/bench.sh 3 floor punctuality   some of them, three times
#   scripts/bench.sh --bars                those that a bar is about
#   scripts/bench.sh --list | --quick      what there is; short versions, to see that everything works
#   scripts/bench.sh --fastreplay OTHER    alternates with another binary, whose lines go to a second file
#
# What is measured are lines of Go benchmarks, so that benchstat summarizes a file and compares two:
#
#   go run golang.org/x/perf/cmd/benchstat@latest bench/results/OLD.txt bench/results/NEW.txt
#
# wrk (Debian package wrk) is measured too where it is installed, Mooncake's conversation trace where FASTREPLAY_TRACES names
# a folder with mooncake-conversation.jsonl.zst.
set -euo pipefail
[[ -z ${FASTREPLAY_TRACES:-} ]] || FASTREPLAY_TRACES=$(realpath "$FASTREPLAY_TRACES")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go build -o "$built" ./cmd/fastreplay ./bench/suite
"$built/suite" --fastreplay "$built/fastreplay" "$@"
