#!/usr/bin/env bash
# Measures punctuality on this machine: the mock in a process of its own, the replay in another, both on the same cores.
# Usage: scripts/bench.sh [RUNS]     (default 3; each prints the replay's own table)
# With FASTREPLAY_TRACES set, the Mooncake conversation trace is replayed at scale 60 too.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-3}
work=$(mktemp -d)
mock=
trap '[ -z "$mock" ] || kill "$mock" 2>/dev/null || true; rm -rf "$work"' EXIT

go build -o "$work/fastreplay" ./cmd/fastreplay
fastreplay="$work/fastreplay"

# start_mock FLAGS…: starts the mock and sets $url.
start_mock() {
  [ -z "$mock" ] || { kill "$mock"; wait "$mock" || true; }
  "$fastreplay" mock "$@" >"$work/listening" &
  mock=$!
  until grep -q listening "$work/listening"; do sleep 0.05; done
  url=$(sed 's/listening on //' "$work/listening")
}

# scenario NAME FLAGS…: replays it $runs times and prints the lines that matter.
scenario() {
  local name=$1
  shift
  echo
  echo "## $name"
  for i in $(seq "$runs"); do
    "$fastreplay" --url "$url" --output "$work/out" "$@" 2>"$work/log" || true
    grep -E '^(VALID|INVALID|  - |  requests |  connections |  client | +p50 |  drift |  TTFT  |  ITL )' "$work/log" || cat "$work/log"
    rm -rf "$work/out"
  done
}

echo "# $(nproc) cores, $(uname -sr), $(go version | cut -d' ' -f3), $(date -u +%F), load $(cut -d' ' -f1-3 /proc/loadavg)"

# 20 kB a request; 20 ms and 19 gaps of 9.5 ms make 200 ms, so about 400 streams live.
"$fastreplay" gen --rows 20000 --rate 2000 --arrival constant --input-tokens 3300 --output-tokens 20 --output "$work/load.jsonl"
start_mock --ttft 20ms --itl 9500us
scenario "2,000 requests/s of 20 kB for 10 s, about 400 live streams, SCHED_FIFO where allowed" --trace "$work/load.jsonl"
scenario "the same without SCHED_FIFO" --trace "$work/load.jsonl" --realtime off

conversation=${FASTREPLAY_TRACES:-}/mooncake-conversation.jsonl.zst
if [ -f "$conversation" ]; then
  start_mock
  scenario "Mooncake conversation trace at scale 60" --trace "$conversation" --scale 60
else
  echo
  echo "(skipped: the conversation trace; set FASTREPLAY_TRACES to the folder that has mooncake-conversation.jsonl.zst)"
fi
