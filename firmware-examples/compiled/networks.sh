#!/usr/bin/env bash
# networks.sh DAMPER: writes the networks of this folder with the command DAMPER, and trains each on the host by the
# portable backend, as the boards do. Prints the digest of the parameters of each network.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
rm -rf networks
mkdir networks
network() { # model, data, batch, epochs, flags of the model...
  local model=$1 data=$2 batch=$3 epochs=$4 name
  name=$(basename "$model" .onnx)
  shift 4
  "$damper" compile "$model" "$@" --damper ../../../.. --out "networks/$name" >&2
  "$damper" train "$model" "$@" --data "idx:data/$data" --backend portable --seed 7 --noise-multiplier 1 \
    --clip 0.5 --grid-bits 16 --batch-size "$batch" --epochs "$epochs" --lr 0.5 --quiet --json --record "$runs/$name.pack" \
    --out "$runs/$name" >"$runs/$name.json"
  sed -n "s/.*\"params\": \"\([0-9a-f]\{16\}\)\".*/$name \1/p" "$runs/$name.json"
}
damper=$1
models=../../onnx-models
network $models/digits-cnn.onnx digits 20 0.4
"$damper" compile $models/digits-cnn.onnx --target c --out networks/digits-cnn-c >&2
network $models/mnist-cnn.onnx images 6 0.5 --only 'fc*'
"$damper" fix $models/mnist-cnn.onnx --int8 'conv*' --out networks/mnist-cnn-int8.onnx >&2
network networks/mnist-cnn-int8.onnx images 6 0.5 --only 'fc*'
