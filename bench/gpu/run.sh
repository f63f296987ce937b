#!/usr/bin/env bash
# The figures of docs/results.md, "On a GPU": sotto's updates, its budgets and the same updates in PyTorch, in one run.
#   bench/gpu/run.sh LENGTHS [BUILD]    LENGTHS: a TSV of utterances (name, samples, seconds, words, characters)
# BUILD (build-cuda) holds gpu_stack, gpu_kernel_bench and gpu_cross_entropy; python3 has torch and transformers.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly LENGTHS=$1 BUILD=${2:-build-cuda}
stack() { "$BUILD/bin/gpu_stack" --lengths "$LENGTHS" "$@"; }
peer() { python3 bench/gpu/stack_peer.py --lengths "$LENGTHS" "$@" 2>/dev/null | tail -n 1; }

git rev-parse --short=12 HEAD
"$BUILD/bin/gpu_kernel_bench"
"$BUILD/bin/gpu_cross_entropy"
for shape in 24x1024 48x1280; do stack --stack "$shape"; done
stack --stack 12x768 --tier norms block --budget 4GiB
stack --stack 24x1024 --tier norms block --budget 8GiB
stack --stack 48x1280 --tier norms block --budget 16GiB 40GiB
stack --stack 12x768 --creep 400
for shape in 24x1024 48x1280; do
  peer --stack "$shape"
  peer --stack "$shape" --checkpointing
done
