#!/usr/bin/env bash
# `make bench`: builds and runs the benchmarks. Arguments go to the benchmark program (--benchmark_filter=REGEX).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev sotto_bench
exec build/bin/sotto_bench "$@"
