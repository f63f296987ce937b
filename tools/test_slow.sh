#!/usr/bin/env bash
# `make test-slow`: the tests under sanitizers, the slow tests, a manifest of millions of lines, ten minutes of libFuzzer
# over the readers, clang-tidy over everything. All run even where one fails; the table at the end is for docs/verification.md.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

readonly SANITIZED=(unit kernel memory equivalence)
# Kernels start no threads but OpenMP's.
readonly THREADED=(unit memory equivalence)
rows=()
failed=0

# row NAME COMMAND...   runs it and keeps name, seconds and result for the table; the result is its last line
row() {
  local name=$1 start status=0 last log
  shift
  start=$(now)
  log=$(mktemp)
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  last=$(tail -n 1 "$log")
  rm -f "$log"
  [ "$status" = 0 ] || { failed=1; last="FAILED: $last"; }
  rows+=("| $name | $(seconds_since "$start") | $last |")
  return "$status"
}

build() { tools/build.sh "$@" && echo built; }

# sanitized PRESET LABELS NAME=VALUE...   builds the tests of the labels and runs them with those variables
sanitized() {
  local -a labels
  read -ra labels <<<"$2"
  row "$1: build" build "$1" "${labels[@]/#/tests_}" &&
    row "$1: $2" env "${@:3}" tools/run_tests.sh "build-$1" label "^($(tr ' ' '|' <<<"$2"))\$"
}
sanitized asan "${SANITIZED[*]}"
# The thread sanitizer takes every parallel loop of OpenMP for a race (tools/tsan.supp says why). With one thread a
# loop it watches the threads we start ourselves. A long history lets it name both sides, so that the list applies.
sanitized tsan "${THREADED[*]}" OMP_NUM_THREADS=1 TSAN_OPTIONS="history_size=7 suppressions=$PWD/tools/tsan.supp"
if row "dev: build" build dev all tests_slow sotto_manifest_bench; then
  row "dev: slow" tools/run_tests.sh build label slow
  row "dev: a manifest of 5.2 million lines" build/bin/sotto_manifest_bench --lines 5200000
fi
if row "fuzz: build" build fuzz; then
  row "fuzz: all readers" tools/fuzz.sh 600
fi
row "clang-tidy: everything" bash -c 'tools/setup.sh check && python3 tools/tidy.py --all'

changes=
[ -z "$(git status --porcelain --untracked-files=no)" ] || changes=' and uncommitted changes'
printf '\nCommit %s%s, %s, %s processors.\n\n' "$(git rev-parse --short=12 HEAD)" "$changes" "$(uname -m)" "$(nproc)"
printf '| what | seconds | result |\n| --- | ---: | --- |\n'
printf '%s\n' "${rows[@]}"
exit "$failed"
