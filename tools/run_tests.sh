#!/usr/bin/env bash
# Runs the tests of a build folder and sums them up.   tools/run_tests.sh FOLDER label|exclude-label REGEX
# With CI set, a test skipped for another reason than a missing GPU or browser is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

readonly FOLDER=$1 HOW=$2 REGEX=$3
select=-L
[ "$HOW" = label ] || select=-LE
summary=(python3 tools/test_summary.py "$FOLDER" "--$HOW" "$REGEX")
[ -z "${CI:-}" ] || summary+=(--fail-on-skip-except gpu --fail-on-skip-except browser)

# Old results must not count.
rm -rf "$FOLDER/test-results"
mkdir -p "$FOLDER/test-results"
# Two binaries at a time: much of what a test does keeps one processor busy. OpenMP's threads must not spin while they
# wait, or those of two binaries keep each other from working.
export OMP_WAIT_POLICY=passive
status=0
step "$FOLDER" test ctest --test-dir "$FOLDER" "$select" "$REGEX" --parallel 2 --output-on-failure --no-tests=error \
  --output-junit "$PWD/$FOLDER/test-results/ctest.xml" || status=$?
"${summary[@]}" || status=$?
exit "$status"
