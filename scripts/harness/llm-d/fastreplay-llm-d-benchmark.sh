#!/usr/bin/env bash
# The harness fastreplay of llm-d-benchmark: workload/harnesses/fastreplay-llm-d-benchmark.sh there. Its profile is a file for
# --config. A line "# loads: FLAG…" in it makes one run for each flag. Each run leaves fastreplay's own files in a directory, and a
# Benchmark Report 0.2.1 beside it, where llm-d-benchmark looks for it.
set -eo pipefail

results=$LLMDBENCH_RUN_EXPERIMENT_RESULTS_DIR
profile=$LLMDBENCH_RUN_WORKSPACE_DIR/profiles/fastreplay/$LLMDBENCH_RUN_EXPERIMENT_HARNESS_WORKLOAD_NAME
mkdir -p "$results"
cp -f "$profile" "$results/"
LLMDBENCH_HARNESS_ARGS="--config $profile"
LLMDBENCH_HARNESS_VERSION=$(fastreplay version | head -n 1)
export LLMDBENCH_HARNESS_ARGS LLMDBENCH_HARNESS_VERSION

metrics() { [[ ${LLMDBENCH_COLLECT_METRICS:-1} != 1 ]] || ! command -v collect_metrics.sh >/dev/null || collect_metrics.sh "$1"; }

# replay makes a run named $1, with a further flag.
replay() {
  local code=0 run=$results/$1
  shift
  fastreplay --config "$profile" --output "$run" --export benchmark-report "$@" \
    > >(tee -a "$results/stdout.log") 2> >(tee -a "$results/stderr.log" >&2) || code=$?
  [[ ! -s $run/benchmark_report.json ]] || cp "$run/benchmark_report.json" "$results/benchmark_report_v0.2,_$(basename "$run").yaml"
  return "$code"
}

metrics start &
collector=$!
read -ra loads <<<"$(sed -n 's/^# loads: //p' "$profile")"
code=0
if ((${#loads[@]} == 0)); then
  replay fastreplay || code=$?
fi
for i in "${!loads[@]}"; do
  replay "stage_$i" "${loads[$i]}" || code=$? # the last one that failed; others still run
done
metrics stop || true
wait "$collector" || true
metrics process || true

export LLMDBENCH_RUN_EXPERIMENT_HARNESS_RC=$code
echo "fastreplay ended with $code"
exit "$code"
