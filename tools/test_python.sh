#!/usr/bin/env bash
# `make test-python`: builds the wheel, checks the Python package, installs the wheel as docs/python.md says into a clean
# environment without a compiler, and runs the package's tests there.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

readonly LOGS=build/python
readonly ENVIRONMENT=$PWD/build/python/environment
readonly TOOLS=$PWD/.deps/python/bin

# install_lines   the commands of docs/python.md that install, but for `make wheel`
install_lines() {
  sed -n '/^<!-- run by tools\/test_python.sh -->$/,/^```$/p' docs/python.md | grep '^pip install'
}

make_environment() { rm -rf "$ENVIRONMENT" && python3 -m venv "$ENVIRONMENT"; }

# with_clean_path COMMAND...   only the environment's programs are found, so that nothing can be compiled
with_clean_path() { PATH=$ENVIRONMENT/bin "$@"; }

install() {
  local bash pytest
  bash=$(command -v bash)
  if with_clean_path "$bash" -c 'command -v cc gcc g++ c++ apt-get'; then
    echo "a compiler is on the path of the clean environment" >&2
    return 1
  fi
  with_clean_path "$bash" -ec "$(install_lines)" || return
  pytest=$("$TOOLS/python" -c 'import pytest; print(pytest.__version__)') || return
  "$ENVIRONMENT/bin/pip" install --quiet "pytest==$pytest"
}

tests() { with_clean_path "$ENVIRONMENT/bin/python" -m pytest -q -p no:cacheprovider --durations 5 python/tests; }

tools/make_wheel.sh
tools/setup.sh python </dev/null
start=$(now)
step "$LOGS" ruff "$TOOLS/ruff" check --quiet python
step "$LOGS" mypy "$TOOLS/mypy" --config-file python/pyproject.toml python/sotto
step "$LOGS" environment make_environment
step "$LOGS" install install
step "$LOGS" tests tests
tail -n 1 "$LOGS/tests.log"
printf 'test-python: all passed in %s s after the wheel\n' "$(seconds_since "$start")"
