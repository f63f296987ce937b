#!/usr/bin/env bash
# Set-up, configuration and build.   tools/build.sh [PRESET [TARGET...]]   the preset is dev where none is given
# SOTTO_TORCH and SOTTO_CUDA go on to set-up and CMake; with CI set, warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/steps.sh

readonly PRESET=${1:-dev}
readonly TARGETS=("${@:2}")
folder=build-$PRESET
[ "$PRESET" != dev ] || folder=build

options=()
[ -z "${CI:-}" ] || options+=(-DSOTTO_WERROR=ON)
[ -z "${SOTTO_TORCH:-}" ] || options+=("-DSOTTO_TORCH=$SOTTO_TORCH")
# The sanitizers' presets are without CUDA whatever the environment says.
[ -z "${SOTTO_CUDA:-}" ] || [ "$PRESET" != dev ] || options+=("-DSOTTO_CUDA=$SOTTO_CUDA")

# Set-up says itself what it installs, which may take minutes.
start=$(now)
part=build
[ "$PRESET" != fuzz ] || part=fuzz
tools/setup.sh "$part" </dev/null
printf '%-10s %s s\n' setup "$(seconds_since "$start")"

step "$folder" configure cmake --preset "$PRESET" "${options[@]}"
build=(cmake --build "$folder" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(num_jobs)}")
[ ${#TARGETS[@]} = 0 ] || build+=(--target "${TARGETS[@]}")
# Ninja's own count goes to the log; the terminal sees how far it is.
export NINJA_STATUS='[%f/%t] '
watched_step "$folder" build "${build[@]}"
