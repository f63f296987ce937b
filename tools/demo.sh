#!/usr/bin/env bash
# `make demo`: builds the program and shows what it does, on speech that it makes itself.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh dev sotto_cli

readonly DEMO=build/demo
# Less than a step takes at once: it is split, and the result does not change.
readonly MEMORY=40MiB
# Updates at which the run is interrupted, and is out of memory.
readonly INTERRUPTED=40 FAILING=200
sotto() { build/bin/sotto "$@"; }
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# num_updates   how many updates the run has recorded
num_updates() {
  local count
  count=$(grep -c '"kind":"step"' "$DEMO/run/metrics.jsonl" 2>/dev/null || true)
  printf '%s' "${count:-0}"
}

# interrupt_after UPDATES COMMAND...   shows the command, and interrupts it after that many updates
interrupt_after() {
  local updates=$1 worker
  shift
  printf '\n$ %s\n' "$*"
  "$@" &
  worker=$!
  while kill -0 "$worker" 2>/dev/null && [ "$(num_updates)" -lt "$updates" ]; do sleep 0.2; done
  pkill -INT -P "$worker" 2>/dev/null || kill -INT "$worker" 2>/dev/null || true
  wait "$worker"
}

show sotto profile
if ! command -v espeak-ng >/dev/null || ! sotto --version | grep -q '^audio libsndfile'; then
  printf '\nThe rest of the demo speaks and hears: it needs espeak-ng, libsndfile1-dev and libsoxr-dev.\n'
  printf 'Here is the proof that memory is predicted to the byte:\n'
  show sotto prove memory --set 'stacks=[2x64x300, 4x128x600]'
  exit 0
fi

rm -rf "$DEMO"
mkdir -p "$DEMO"
show sotto data demo --out "$DEMO/data"

# Interrupted as by Ctrl-C: it finishes its step, saves, and the same command with --resume continues.
printf '\n# The run is interrupted after %s updates, and out of memory once in update %s.\n' "$INTERRUPTED" "$FAILING"
train=(sotto train --config configs/demo.yaml --memory "$MEMORY" --out "$DEMO/run" --log-every 1000)
interrupt_after "$INTERRUPTED" "${train[@]}"
show "${train[@]}" --resume --inject-oom "$FAILING"
show sotto eval --model "$DEMO/run" --data "$DEMO/data/test.jsonl" --show 3
sotto eval --model "$DEMO/run" --data "$DEMO/data/test.jsonl" --json >"$DEMO/test.json"
show sotto transcribe --model "$DEMO/run" "$DEMO"/data/audio/test-000{0,1,2}.flac

python3 - "$DEMO" "$MEMORY" <<'SUMMARY'
import json
import sys
from pathlib import Path

demo = Path(sys.argv[1])
test = json.loads((demo / "test.json").read_text())
memory = json.loads((demo / "run/memory.json").read_text())
records = [json.loads(line) for line in (demo / "run/metrics.jsonl").read_text().splitlines()]
steps = [line for line in records if line.get("kind") == "step"]
resumed = [line["step"] for line in records if line.get("kind") == "resume"]
failed = [line["step"] for line in records if line.get("kind") == "out_of_memory"]
peak = max(line["peak_bytes"] for line in steps)
rate = sum(line["audio_seconds"] for line in steps) / sum(line["seconds"] for line in steps)
equal = memory["planned"] == memory["measured"]
print("\nSummary")
split = sum(line["micro_batches"] > 1 for line in steps)
print(f"  budget      {sys.argv[2]}; most that was taken: {peak / 2**20:.1f} MiB")
print(f"  split       {split} of {len(steps)} updates took more than one micro-batch")
print(f"  prediction  predicted and measured bytes are {'equal' if equal else 'NOT equal'}")
print(f"  interrupt   after update {resumed[0]}; the run was resumed from there")
print(f"  recovery    out of memory in update {failed[0]}, which was repeated")
print(f"  speed       {rate:.0f} seconds of speech trained a second")
print(f"  test        WER {100 * test['wer']['rate']:.1f} % on voices that training never heard")
SUMMARY
sotto report "$DEMO/run" --out "$DEMO/report.html" >/dev/null
printf '\nThe report of the run, for your browser: %s\n' "$PWD/$DEMO/report.html"
