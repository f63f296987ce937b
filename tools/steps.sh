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
  "$@" >"$log" 2>&1 </dev/null || status=$?
  finish_step "$name" "$log" "$start" "$status"
}

# watched_step FOLDER NAME COMMAND...   like step, for minutes of work whose log counts "[done/total]": shows the count and
# the minutes gone, in place on a terminal and in a line per minute elsewhere
watched_step() {
  local log=$1/$2.log name=$2 start status=0 worker
  shift 2
  mkdir -p "$(dirname "$log")"
  start=$(now)
  printf '%-10s (detail in %s)\n' "$name" "$log"
  "$@" >"$log" 2>&1 </dev/null &
  worker=$!
  trap 'kill "$worker" 2>/dev/null' EXIT
  show_progress "$log" "$start" "$worker"
  wait "$worker" || status=$?
  trap - EXIT
  printf '%-10s ' "$name"
  finish_step "$name" "$log" "$start" "$status"
}

# show_progress LOG START PROCESS   until the process ends
show_progress() {
  local log=$1 start=$2 worker=$3 count minutes last=0
  while kill -0 "$worker" 2>/dev/null; do
    sleep 1
    count=$(tail -c 4096 "$log" | grep -o '^\[[0-9]*/[0-9]*\]' | tail -n 1 | tr -d '[]') || continue
    minutes=$(awk -v from="$start" -v to="$(now)" 'BEGIN { printf "%d", (to - from) / 60 }')
    if [ -t 1 ]; then
      printf '\r           %s, %s min ' "$count" "$minutes"
    elif [ "$minutes" != "$last" ]; then
      printf '           %s, %s min\n' "$count" "$minutes"
      last=$minutes
    fi
  done
  [ ! -t 1 ] || printf '\r%40s\r' ''
}

# finish_step NAME LOG START STATUS   prints the seconds, or the end of the log
finish_step() {
  local name=$1 log=$2 start=$3 status=$4
  if [ "$status" = 0 ]; then
    printf '%s s\n' "$(seconds_since "$start")"
  else
    printf 'failed after %s s; the end of %s:\n' "$(seconds_since "$start")" "$log"
    tail -n 40 "$log"
  fi
  return "$status"
}

# num_jobs   processors, but no more than memory allows: a group of sources takes up to 1.8 GB to compile
num_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / 2e6) }' /proc/meminfo 2>/dev/null || true)
  awk -v cores="$(nproc)" -v memory="${by_memory:-1}" \
    'BEGIN { n = cores < memory ? cores : memory; print (n < 1 ? 1 : n) }'
}
