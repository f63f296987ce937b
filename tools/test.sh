#!/usr/bin/env bash
# `make test`: builds everything and runs every test but the slow ones.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev
exec tools/run_tests.sh build exclude-label slow
