# Sourced by the other scripts: steps that print their name and seconds and keep the detail in a log.
# shellcheck shell=bash

now() { printf '%s' "${EPOCHREALTIME/,/.}"; }

# seconds_since START   with one decimal
seconds_since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f", to - from }'; }

# step FOLDER NAME COMMAND...   runs it with its output in FOLDER/NAME.log; where it fails, shows the log's end
step() {
  local log=$1/$2.log name=$2 start status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  start=$(now)
  printf '%-10s ' "$name"
  [ "$name" != build ] || printf '(detail in %s) ' "$log"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" = 0 ]; then
    printf '%s s\n' "$(seconds_since "$start")"
  else
    printf 'failed after %s s; the end of %s:\n' "$(seconds_since "$start")" "$log"
    tail -n 40 "$log"
  fi
  return "$status"
}

# num_jobs   processors, but no more than memory allows: a file that includes ATen takes about 1.5 GB to compile
num_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / 1.5e6) }' /proc/meminfo 2>/dev/null || true)
  awk -v cores="$(nproc)" -v memory="${by_memory:-1}" \
    'BEGIN { n = cores < memory ? cores : memory; print (n < 1 ? 1 : n) }'
}
