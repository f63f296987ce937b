#!/usr/bin/env bash
# Runs the fuzz programs of build-fuzz (tools/build.sh fuzz makes them), one after the other, and sums them up.
#   tools/fuzz.sh [SECONDS [NAME...]]   seconds of all of them together, 600 where nothing is said; NAME as in fuzz_NAME
# What they learn stays in build-fuzz/corpus for the next time; a finding stays in build-fuzz/findings, and the program
# with that file as its argument shows it again.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SECONDS_OF_ALL=${1:-600}
readonly FOLDER=build-fuzz
names=("${@:2}")
if [ ${#names[@]} = 0 ]; then
  mapfile -t names < <(find "$FOLDER/bin" -name 'fuzz_*' -type f -printf '%f\n' 2>/dev/null | sed 's/^fuzz_//' | sort)
fi
if [ ${#names[@]} = 0 ] || ! [ "$SECONDS_OF_ALL" -ge ${#names[@]} ] 2>/dev/null; then
  printf 'fuzz: %s programs in %s for %s seconds: expected some, and a second for each. Run tools/build.sh fuzz first\n' \
    "${#names[@]}" "$FOLDER/bin" "$SECONDS_OF_ALL" >&2
  exit 2
fi
readonly SECONDS_OF_ONE=$((SECONDS_OF_ALL / ${#names[@]}))

# Files that are written for every input go to memory where there is such a folder.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" sotto-fuzz-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
rm -rf "$FOLDER/findings"
mkdir -p "$FOLDER/findings" "$FOLDER/fuzz-logs"
export TMPDIR=$scratch

# run_one NAME   the inputs that it tried, or where it left what it found
num_inputs=0
num_findings=0
run_one() {
  local name=$1 log=$FOLDER/fuzz-logs/$1.log status=0 inputs
  mkdir -p "$FOLDER/corpus/$name"
  # Inputs are some thousand bytes: one that takes seconds, or makes a reader ask for 64 MiB, is a finding.
  "$FOLDER/bin/fuzz_$name" "$FOLDER/corpus/$name" -max_total_time="$SECONDS_OF_ONE" -timeout=5 -rss_limit_mb=1024 \
    -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="$FOLDER/findings/$name-" \
    >"$log" 2>&1 </dev/null || status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  num_inputs=$((num_inputs + ${inputs:-0}))
  if [ "$status" = 0 ]; then
    printf '%-15s %9s inputs, %5s in its corpus\n' "$name" "${inputs:-0}" "$(find "$FOLDER/corpus/$name" -type f | wc -l)"
    return
  fi
  num_findings=$((num_findings + 1))
  printf '%-15s %9s inputs, then status %s: %s\n' "$name" "${inputs:-0}" "$status" \
    "$(find "$FOLDER/findings" -name "$name-*" | paste -sd ' ')"
  # What was thrown or reported, and where it was among our own functions.
  grep -m 3 -E 'what\(\):|Assertion|ERROR: |runtime error' "$log" | sed 's/^ */    /' || true
  grep -E '^ +#[0-9]+ .* in .*/(src/sotto|tests)/' "$log" | head -n 6 | sed -E 's|^ +(#[0-9]+) 0x[0-9a-f]+|    \1|' || true
  printf '    (all of it in %s)\n' "$log"
}
for name in "${names[@]}"; do run_one "$name"; done

awk -v targets="${#names[@]}" -v seconds="$SECONDS_OF_ALL" -v inputs="$num_inputs" -v findings="$num_findings" 'BEGIN {
  printf "%d targets, %d s, %.1f million inputs, %d findings\n", targets, seconds, inputs / 1e6, findings }'
[ "$num_findings" = 0 ]
