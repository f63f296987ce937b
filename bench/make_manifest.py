#!/usr/bin/env python3
"""Writes a manifest of millions of lines, all windows of one file of noise: what indexing, starting and
resuming depend on.

    bench/make_manifest.py LENGTHS OUT [--lines 5200000] [--seed 1]

LENGTHS is a TSV of utterances with columns `seconds` and `chars`, also compressed. OUT gets noise.wav
(16 kHz, 16 bits, as long as the longest utterance) and train.jsonl, whose lines have these lengths in random
order and as many random letters as the utterance has characters.
"""

import argparse
import json
import random
import string
from pathlib import Path

from make_noise import RATE, read_lengths, write_noise

WORDS_DRAWN = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lengths", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lines", type=int, default=5_200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lengths = read_lengths(options.lengths)
    options.out.mkdir(parents=True, exist_ok=True)
    longest = max(seconds for seconds, _ in lengths)
    write_noise(options.out / "noise.wav", round(longest * RATE), draw)
    # Words of two to nine letters; a text is a window of them.
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(WORDS_DRAWN)]
    letters = " ".join(words)
    with (options.out / "train.jsonl").open("w") as file:
        for _ in range(options.lines):
            seconds, num_letters = lengths[draw.randrange(len(lengths))]
            start = draw.randrange(len(letters) - num_letters)
            line = {
                "audio_filepath": "noise.wav",
                "offset": round(draw.random() * (longest - seconds), 3),
                "duration": seconds,
                "text": letters[start : start + num_letters].strip(),
            }
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
