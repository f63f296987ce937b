"""Writes the frozen runs: one tiny run of each family, what it was trained on, and what came of it.

    python3 tests/frozen/make.py build/bin/sotto [FAMILY...]

They were written once, and e2e_frozen goes on with them ever after: a build that draws other weights, another
order or other masks, or that reads a checkpoint otherwise, fails there. To write them anew gives that up.
Only a new family is added.
"""

import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import wave

HERE = pathlib.Path(__file__).parent
# Where each run was stopped: something was learned by then, and not everything.
STOPPED = {"transformer_ctc": 48, "wav2vec2": 240, "decoder_lm": 48, "conformer": 144, "parakeet": 60}
# Steps at the beginning and behind the stop that are run again.
BEGINNING = 3
RESUMED = 8
COMMON = """memory: 100MiB
device: cpu
numerics: fp32
tier: norms
effective_batch: 4
epochs: 100
keep_checkpoints: 2
seed: 11
optimizer: {schedule: {kind: linear, rate: 0.01, warmup_steps: 10}}
"""
CONFIGS = {
    "transformer_ctc": """model:
  {preset: tiny, layers: 2, width: 16, heads: 2, hidden: 32, dropout: 0.1,
   spec_augment: {frequency_masks: 1, frequency_width: 2, time_masks: 1, time_width: 4}}
data: {train: train.jsonl, dev: dev.jsonl}
curriculum: bucketed
""",
    "wav2vec2": """model:
  {preset: wav2vec2-base, sample_rate: 8000, conv_widths: [8, 8, 8], conv_kernels: [10, 8, 4],
   conv_strides: [5, 4, 4], position_taps: 8, position_groups: 2, layers: 2, width: 16, heads: 2, hidden: 32,
   dropout: 0.1, activation_dropout: 0.1, feature_dropout: 0.1, final_dropout: 0.1, layer_drop: 0.3,
   mask_time_probability: 0.2, mask_time_length: 2, mask_time_min: 1,
   mask_feature_probability: 0.1, mask_feature_length: 2, mask_feature_min: 1}
data: {train: train.jsonl, dev: dev.jsonl, augment: {speeds: [0.9, 1.0, 1.1]}}
""",
    "conformer": """model:
  {preset: conformer-128, layers: 2, width: 12, heads: 2, hidden: 16, kernel: 5, subsampling: separable,
   subsampling_factor: 2, subsampling_channels: 4, decoder_layers: 1, dropout: 0.1,
   spec_augment: {frequency_masks: 1, frequency_width: 2, time_masks: 1, time_width: 4}}
data: {train: train.jsonl, dev: dev.jsonl}
decode: {beam: 3}
""",
    "parakeet": """model:
  {preset: parakeet-tiny, layers: 2, width: 12, heads: 2, hidden: 16, kernel: 5, subsampling_factor: 4,
   subsampling_channels: 4, input_dropout: 0.1, dropout: 0.1, activation_dropout: 0.1, layer_drop: 0.2,
   convolution_norm: batch,
   transducer: {layers: 2, width: 12, joint_width: 12, dropout: 0.1, joint_dropout: 0.1, durations: [0, 1, 2],
   sigma: 0.02, omega: 0.1},
   spec_augment: {frequency_masks: 1, frequency_width: 2, time_masks: 1, time_width: 4}}
data: {train: train.jsonl, dev: dev.jsonl}
decode: {beam: 3}
""",
    "decoder_lm": """model:
  {preset: decoder-lm, layers: 2, width: 16, heads: 2, hidden: 32, dropout: 0.1, label_smoothing: 0.1}
data: {train: train.txt, dev: dev.txt, row_tokens: 32, documents: line}
reduction: tokens
""",
}


def text_of(number: int) -> str:
    return "".join("abcd"[(number * 7 + place * (number + 3)) % 4] for place in range(2 + number % 4))


def write_features(folder: pathlib.Path, name: str, first: int, count: int) -> None:
    """Stored features of 8 values a frame, each letter with a wave of its own."""
    lines, offset = [], 0
    with (folder / f"{name}.f16").open("wb") as file:
        for number in range(first, first + count):
            text = text_of(number)
            frames = 12 * len(text) + number % 5
            for frame in range(frames):
                letter = "abcd".index(text[min(frame // 12, len(text) - 1)])
                values = [math.sin(0.37 * frame * (letter + 1) + value) for value in range(8)]
                file.write(struct.pack("<8e", *values))
            lines.append(
                {
                    "feature_filepath": f"{name}.f16",
                    "frame_offset": offset,
                    "num_frames": frames,
                    "feature_dim": 8,
                    "duration": frames / 100,
                    "text": text,
                }
            )
            offset += frames
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_audio(folder: pathlib.Path, name: str, first: int, count: int) -> None:
    """Waveforms at 8 kHz, each letter a tone of a twentieth of a second."""
    lines = []
    for number in range(first, first + count):
        text = text_of(number)
        samples = [
            int(9000 * math.sin(2 * math.pi * (300 + 170 * "abcd".index(letter)) * place / 8000))
            for letter in text
            for place in range(400)
        ]
        with wave.open(str(folder / f"{name}{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
        lines.append({"audio_filepath": f"{name}{number}.wav", "duration": len(samples) / 8000, "text": text})
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_text(folder: pathlib.Path, name: str, first: int, count: int) -> None:
    words = [text_of(number) for number in range(first, first + 8 * count)]
    lines = [" ".join(words[i : i + 8]) + "\n" for i in range(0, len(words), 8)]
    (folder / f"{name}.txt").write_text("".join(lines))


def write_data(family: str, folder: pathlib.Path) -> None:
    write = {"wav2vec2": write_audio, "decoder_lm": write_text}.get(family, write_features)
    count = 40 if family == "decoder_lm" else 12
    write(folder, "train", 0, count)
    write(folder, "dev", 100, count // 3)


def write_records(path: pathlib.Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def make(sotto: str, family: str) -> None:
    kept = HERE / family
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    write_data(family, kept)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        step = STOPPED[family]
        settings = f"max_steps: {step + RESUMED}\ncheckpoint_every: {step}\nevaluate_every: {step}\n"
        (folder / "config.yaml").write_text(COMMON + settings + CONFIGS[family])
        subprocess.run([sotto, "train", "--config", "config.yaml", "--out", "run"], cwd=folder, check=True)
        stopped = folder / f"run/checkpoints/step-{step}"
        dev = "dev.txt" if family == "decoder_lm" else "dev.jsonl"
        evaluate = [sotto, "eval", "--model", stopped, "--data", dev, "--memory", "100MiB", "--json"]
        evaluated = subprocess.run(evaluate, cwd=folder, check=True, stdout=subprocess.PIPE)
        shutil.copytree(stopped, kept / "run/checkpoints" / stopped.name)
        ended = folder / f"run/checkpoints/step-{step + RESUMED}"
        shutil.copy(ended / "model.safetensors", kept / "expected.safetensors")
        records = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        write_records(
            kept / "beginning.jsonl", [record for record in records[1:] if record["step"] <= BEGINNING]
        )
        write_records(kept / "expected.jsonl", [record for record in records[1:] if record["step"] > step])
        numbers = json.loads(evaluated.stdout)
        del numbers["checkpoint"]
        (kept / "evaluation.json").write_text(json.dumps(numbers, indent=2) + "\n")
    size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    print(f"{family}: {size} bytes")


if __name__ == "__main__":
    program = str(pathlib.Path(sys.argv[1]).resolve())
    for name in sys.argv[2:] or CONFIGS:
        make(program, name)
