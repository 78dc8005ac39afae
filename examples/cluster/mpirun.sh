#!/bin/sh
# Trains on the machines of HOSTFILE, one rank a core.
#
#   mpirun.sh HOSTFILE MODEL DATA OUT --epsilon 3 --delta 1e-5 --batch-size 1024 --epochs 10 --lr 0.5 [FLAG...]
#
# Program, model and data must have the same paths on all of them. A stopped run in OUT continues with its own flags.
set -eu
hosts=$1 model=$2 data=$3 out=$4
shift 4
if [ -e "$out/checkpoint/state-a" ] || [ -e "$out/checkpoint/state-b" ]; then
  exec mpirun --hostfile "$hosts" --map-by core --bind-to core damper train --resume "$out"
fi
exec mpirun --hostfile "$hosts" --map-by core --bind-to core damper train "$model" --data "$data" --out "$out" "$@"
