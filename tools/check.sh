#!/usr/bin/env bash
# `make check`: formatting, linting and the rules of the tree. All checks run even where one fails.
#   tools/check.sh --all-tidy    clang-tidy over every file, not only those changed of late
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

tidy=(python3 tools/tidy.py)
case "${1:-}" in
  '') tidy+=(--minutes 3) ;;
  --all-tidy) tidy+=(--all) ;;
  *) printf "check: unknown argument '%s': expected nothing or --all-tidy\n" "$1" >&2; exit 2 ;;
esac
tools/setup.sh check </dev/null || exit 1
readonly BIN=.deps/check/bin
failed=()

# check NAME COMMAND...   runs it; prints name, seconds, result, and then whatever it said
check() {
  local name=$1 start output result=ok
  shift
  start=$(now)
  output=$("$@" 2>&1 </dev/null) || { result=FAILED; failed+=("$name"); }
  printf '%-14s %7s s  %s\n' "$name" "$(seconds_since "$start")" "$result"
  [ -z "$output" ] || sed 's/^/    /' <<<"$output"
}

format() {
  local files=() name
  while IFS= read -r -d '' name; do
    [ ! -f "$name" ] || files+=("$name")
  done < <(git ls-files -z --cached --others --exclude-standard -- {src,tests,bench,examples}/'*.'{h,cpp,cu,cuh})
  "$BIN/clang-format" --dry-run -Werror "${files[@]}"
}

python_folders=(tools python)
[ ! -d bench ] || python_folders+=(bench)
[ ! -d tests/oracle ] || python_folders+=(tests/oracle)

check clang-format format
check ruff "$BIN/ruff" check --quiet "${python_folders[@]}"
check ruff-format "$BIN/ruff" format --quiet --diff "${python_folders[@]}"
check includes python3 tools/check_includes.py
check source python3 tools/check_source.py
check check-tests python3 tools/test_checks.py
check cuda python3 tools/check_cuda.py
check clang-tidy "${tidy[@]}"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'check: failed: %s\n' "${failed[*]}"
  exit 1
fi
echo "check: all passed"
