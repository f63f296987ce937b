#!/usr/bin/env bash
# `make demo`: builds the program and shows what it does.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev sotto_cli
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}
show build/bin/sotto profile
show build/bin/sotto prove memory
