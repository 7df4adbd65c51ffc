#!/usr/bin/env bash
# A load from 16 nodes of a Slurm cluster, and one run of their results:
#
#   sbatch scripts/deploy/slurm.sh --trace day.jsonl.zst --url http://llm:8000
#
# All arguments are flags of the replay. RESULTS (default: results, on a file system that all nodes share) gets a directory of the job. The
# shards meet there, and the secret by which they know each other is drawn there, for this user alone.
#SBATCH --job-name=fastreplay
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --time=02:00:00
set -euo pipefail

export FASTREPLAY=${FASTREPLAY:-fastreplay}
export RUN=${RESULTS:-results}/${SLURM_JOB_ID:?run by sbatch}
mkdir -p "$RUN"

# A shard that ends with an error is named by the merge; the others go on.
# shellcheck disable=SC2016  # each task expands its own number
srun --kill-on-bad-exit=0 bash -c '"$FASTREPLAY" --shard auto --start-barrier "$RUN/barrier" --output "$RUN/shard-$SLURM_PROCID" --progress line "$@"' replay "$@" || true

"$FASTREPLAY" merge "$RUN" --output "$RUN/all"
