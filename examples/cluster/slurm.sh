#!/bin/sh
#SBATCH --job-name=damper
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --signal=TERM@120
#SBATCH --requeue
# Runs one rank a node, with a worker a processor and a shard of the data each.
#
#   sbatch --nodes 4 slurm.sh MODEL DATA OUT --epsilon 3 --delta 1e-5 --batch-size 1024 --epochs 10 --lr 0.5 [FLAG...]
#
# Before the time limit SLURM asks the run to stop after its step. A job that is queued again continues. SLURM must have
# its plugin for PMIx, and OUT must be in a folder that all nodes can read.
set -eu
model=$1 data=$2 out=$3
shift 3
if [ -e "$out/checkpoint/state-a" ] || [ -e "$out/checkpoint/state-b" ]; then
  exec srun --mpi=pmix damper train --resume "$out" --workers "$SLURM_CPUS_PER_TASK"
fi
exec srun --mpi=pmix damper train "$model" --data "$data" --shard-data --workers "$SLURM_CPUS_PER_TASK" --out "$out" "$@"
