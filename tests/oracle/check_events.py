"""Trains tiny networks with the built sotto and reads their event files back with TensorBoard's own reader.

    .deps/oracle/bin/python tests/oracle/check_events.py BINARY FOLDER

BINARY is build/bin/sotto, FOLDER an empty one to train in: a network of speech, which loses its last
checkpoint and is resumed from the one before, and one of text. Every number that TensorBoard shows must be
that of metrics.jsonl, under the step it belongs to, and each once. Exit status 1 where one is not.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

# A step's line of metrics.jsonl by the names that TensorBoard shows.
STEP = {
    "train/loss": lambda line: line["loss"],
    "train/learning_rate": lambda line: line["rate"],
    "train/gradient_norm": lambda line: line["gradient_norm"],
    "memory/peak_bytes": lambda line: line["peak_bytes"],
}
SPEED = {
    "speech": ("train/audio_seconds_per_second", lambda line: line["audio_seconds"] / line["seconds"]),
    "text": ("train/tokens_per_second", lambda line: line["frames"] / line["seconds"]),
}
EVALUATION = {
    "speech": {
        "evaluation/loss": lambda line: line["loss"],
        "evaluation/wer": lambda line: line["words"]["rate"],
        "evaluation/cer": lambda line: line["characters"]["rate"],
    },
    "text": {
        "evaluation/loss": lambda line: line["loss"],
        "evaluation/perplexity": lambda line: line["perplexity"],
    },
}
FEATURES = 8


def write_speech(folder: Path) -> Path:
    """48 utterances of stored features: a letter is a bump in dimensions of its own."""
    random = np.random.default_rng(1)
    values, lines, offset = [], [], 0
    for _ in range(48):
        letters = random.integers(0, 4, size=random.integers(1, 5))
        rows = 0.3 * random.standard_normal((20 * len(letters), FEATURES))
        for i, letter in enumerate(letters):
            rows[20 * i + 6 : 20 * i + 20, letter::4] += 2.0
        lines.append(
            {
                "feature_filepath": "speech.f16",
                "frame_offset": offset,
                "num_frames": len(rows),
                "feature_dim": FEATURES,
                "duration": len(rows) / 100,
                "text": "".join("abcd"[letter] for letter in letters),
            }
        )
        offset += len(rows)
        values.append(rows.astype(np.float16))
    np.concatenate(values).tofile(folder / "speech.f16")
    manifest = folder / "speech.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return manifest


def train(binary: Path, out: Path, data: Path, settings: list[str]) -> None:
    command = [binary, "train", "--train", data, "--dev", data, "--out", out, "--memory", "100MiB", *settings]
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


def train_speech(binary: Path, folder: Path) -> Path:
    out = folder / "speech"
    sizes = ["preset=tiny", "layers=2", "width=32", "heads=2", "hidden=64"]
    settings = [word for size in sizes for word in ("--set", f"model.{size}")]
    settings += ["--set", "effective_batch=8", "--set", "epochs=2", "--set", "checkpoint_every=4"]
    manifest = write_speech(folder)
    train(binary, out, manifest, [*settings, "--set", "evaluate_every=2", "--max-steps", "7"])
    # As if the process had been killed before it was saved: steps 5 to 7 come again.
    shutil.rmtree(out / "checkpoints" / "step-7")
    train(binary, out, manifest, [*settings, "--set", "evaluate_every=2", "--set", "max_steps=0", "--resume"])
    return out


def train_text(binary: Path, folder: Path) -> Path:
    out = folder / "text"
    text = folder / "text.txt"
    text.write_text("\n\n".join(f"the {n} of {n % 7} is a line of text" for n in range(400)))
    sizes = ["preset=decoder-lm", "layers=2", "width=32", "heads=2", "hidden=64"]
    settings = [word for size in sizes for word in ("--set", f"model.{size}")]
    train(
        binary,
        out,
        text,
        [*settings, "--set", "data.row_tokens=64", "--set", "reduction=tokens", "--max-steps", "6"],
    )
    return out


def number(value: float | str) -> float:
    return float(value)  # "nan" and "inf" are strings there


def expected_scalars(run: Path, kind: str) -> dict[str, dict[int, float]]:
    """By name and step; of a step that came twice the later one counts."""
    found: dict[str, dict[int, float]] = {}
    speed, speed_of = SPEED[kind]
    for text in (run / "metrics.jsonl").read_text().splitlines()[1:]:
        line = json.loads(text)
        names = {"step": {**STEP, speed: speed_of}, "evaluation": EVALUATION[kind]}.get(line["kind"], {})
        for name, value_of in names.items():
            found.setdefault(name, {})[line["step"]] = number(value_of(line))
    return found


def compare(run: Path, kind: str) -> tuple[int, list[str]]:
    """How many numbers TensorBoard shows, and what is wrong with them."""
    accumulator = EventAccumulator(str(run), size_guidance={"scalars": 0})
    accumulator.Reload()
    expected = expected_scalars(run, kind)
    shown = {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}
    wrong = [f"{kind}: TensorBoard shows no {tag}" for tag in expected.keys() - shown.keys()]
    wrong += [f"{kind}: {tag} is not of metrics.jsonl" for tag in shown.keys() - expected.keys()]
    for tag in expected.keys() & shown.keys():
        steps = [event.step for event in shown[tag]]
        if steps != sorted(expected[tag]):
            wrong.append(f"{kind}: {tag} has steps {steps}, expected {sorted(expected[tag])}")
            continue
        for event in shown[tag]:
            value = float(np.float32(expected[tag][event.step]))
            if event.value != value and not (math.isnan(event.value) and math.isnan(value)):
                wrong.append(f"{kind}: {tag} at step {event.step} is {event.value}, expected {value}")
    if accumulator.file_version != 2.0:
        wrong.append(f"{kind}: the version is {accumulator.file_version}, expected 2.0")
    return sum(map(len, shown.values())), wrong


def check(binary: Path, folder: Path) -> tuple[str, list[str]]:
    count, wrong = 0, []
    for kind, run in (("speech", train_speech(binary, folder)), ("text", train_text(binary, folder))):
        shown, differences = compare(run, kind)
        count += shown
        wrong += differences
    return f"{count} numbers of two runs, one of them resumed, read by TensorBoard", wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares event files with metrics.jsonl, by TensorBoard.")
    parser.add_argument("binary", type=Path, metavar="BINARY", help="the built program")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="to train in")
    arguments = parser.parse_args()
    text, wrong = check(arguments.binary, arguments.folder)
    print(text)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
