#!/usr/bin/env python3
"""Writes a corpus of noise with given lengths: what memory and speed depend on, without any speech.

    bench/make_noise.py LENGTHS OUT [--count 1280] [--seed 1]

LENGTHS is a TSV of utterances with columns `seconds` and `chars`, also compressed. OUT gets audio/*.wav
(16 kHz, 16 bits), train.jsonl and vocab.json; the transcripts are random letters, as many as the utterance
has characters.
"""

import argparse
import csv
import gzip
import io
import json
import random
import string
import wave
from pathlib import Path

RATE = 16_000


def read_lengths(path: Path) -> list[tuple[float, int]]:
    """Seconds and characters of each utterance."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    rows = csv.DictReader(io.StringIO(text), delimiter="\t")
    return [(float(row["seconds"]), int(row["chars"])) for row in rows]


def write_noise(path: Path, num_samples: int, draw: random.Random) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(draw.randbytes(2 * num_samples))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lengths", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=1280)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lengths = read_lengths(options.lengths)
    chosen = draw.sample(lengths, min(options.count, len(lengths)))
    (options.out / "audio").mkdir(parents=True, exist_ok=True)
    lines = []
    for i, (seconds, num_letters) in enumerate(chosen):
        name = f"audio/{i:05}.wav"
        num_samples = round(seconds * RATE)
        write_noise(options.out / name, num_samples, draw)
        text = "".join(draw.choice(string.ascii_lowercase) for _ in range(num_letters))
        lines.append({"audio_filepath": name, "duration": num_samples / RATE, "text": text})
    entries = ["<pad>", "<unk>", "|", *string.ascii_lowercase]
    (options.out / "vocab.json").write_text(
        json.dumps({entry: i for i, entry in enumerate(entries)}), encoding="utf-8"
    )
    (options.out / "train.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
