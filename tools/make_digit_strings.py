#!/usr/bin/env python3
"""Joins the recordings of the Free Spoken Digit Dataset into strings of digits with pauses.

    tools/setup.sh data
    tools/make_digit_strings.py FSDD OUT [--hold-out lucas,nicolas] [--seed 1]
                                         [--features 40] [--strings 1200] [--half-rate] [--wav]

FSDD is a folder with train.jsonl, dev.jsonl, test.jsonl and the audio they name. OUT gets audio/*.flac and
the same three manifests: strings of 3 to 7 digits of one speaker each, dev and test from their own recordings
only. With --hold-out the named speakers are in test alone, and the others in train and dev alone. With
--features there are no recordings but stored log-mel features, for machines that cannot decode audio. With
--half-rate the strings have 8 kHz, the rate at which the digits were recorded.
"""

import argparse
import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path


def find_packages(missing: str | None) -> None:
    """Goes on with the Python of a set-up that has the packages; says what to type where there is none."""
    environments = Path(__file__).resolve().parent.parent / ".deps"
    for name in ("data", "oracle"):
        python = environments / name / "bin/python"
        if python.exists() and Path(sys.prefix) != python.parent.parent:
            os.execv(python, [str(python), *sys.argv])
    print(
        f"make_digit_strings: the Python package {missing} is missing. Type: tools/setup.sh data",
        file=sys.stderr,
    )
    sys.exit(2)


try:
    import numpy
    import soundfile
except ModuleNotFoundError as error:
    find_packages(error.name)

RATE = 16_000
STRINGS = {"train": 2400, "dev": 120, "test": 300}


def read_clips(manifest: Path, speakers: set[str] | None, held_out: set[str]) -> dict[str, list[dict]]:
    """The recordings of a split by speaker."""
    clips = defaultdict(list)
    for line in manifest.read_text(encoding="utf-8").splitlines():
        clip = json.loads(line)
        if clip["speaker"] not in held_out and (speakers is None or clip["speaker"] in speakers):
            clips[clip["speaker"]].append(clip)
    return clips


def join(draw: random.Random, clips: list[dict], folder: Path) -> tuple[numpy.ndarray, str]:
    """Samples and text of one string, silence before, between and behind its digits."""
    parts, words = [], []
    for clip in clips:
        samples, rate = soundfile.read(folder / clip["audio_filepath"], dtype="float32")
        if rate != RATE:
            raise SystemExit(f"{clip['audio_filepath']} has {rate} Hz, expected {RATE}")
        parts += [numpy.zeros(int(RATE * draw.uniform(0.05, 0.35)), dtype="float32"), samples]
        words.append(clip["text"])
    parts.append(numpy.zeros(int(RATE * draw.uniform(0.05, 0.35)), dtype="float32"))
    return numpy.concatenate(parts), " ".join(words)


def mel_filters(bins: int, window: int) -> numpy.ndarray:
    """Triangles over the bins of a spectrum, equally wide on the mel scale (2595 log10(1 + f / 700))."""
    mels = numpy.linspace(0.0, 2595.0 * numpy.log10(1.0 + RATE / 2 / 700.0), bins + 2)
    corners = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    frequencies = numpy.linspace(0.0, RATE / 2, window // 2 + 1)
    rising = (frequencies[None] - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    falling = (corners[2:, None] - frequencies[None]) / (corners[2:] - corners[1:-1])[:, None]
    return numpy.maximum(0.0, numpy.minimum(rising, falling))


def log_mel(samples: numpy.ndarray, bins: int) -> numpy.ndarray:
    """[frames, bins] of windows of 32 ms every 10 ms."""
    window, hop = 512, RATE // 100
    frames = numpy.lib.stride_tricks.sliding_window_view(samples, window)[::hop]
    power = numpy.abs(numpy.fft.rfft(frames * numpy.hanning(window))) ** 2
    return numpy.log(power @ mel_filters(bins, window).T + 1e-9)


class FeatureFile:
    """Features of a split one behind the other, as halves."""

    def __init__(self, out: Path, split: str, bins: int) -> None:
        self.name, self.bins, self.frames = f"{split}.f16", bins, 0
        self.file = (out / self.name).open("wb")

    def append(self, samples: numpy.ndarray) -> dict:
        """Where they stand, in a manifest's words."""
        features = log_mel(samples, self.bins).astype("<f2")
        self.file.write(features.tobytes())
        place = {"frame_offset": self.frames, "num_frames": len(features), "feature_dim": self.bins}
        self.frames += len(features)
        return {"feature_filepath": self.name} | place


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, metavar="FSDD")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--hold-out", default="", help="speakers of the test set alone, with commas between")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--features", type=int, default=0, help="mel bins of stored features; 0: recordings")
    parser.add_argument("--strings", type=int, default=STRINGS["train"], help="to train on")
    parser.add_argument("--half-rate", action="store_true", help="8 kHz instead of 16")
    parser.add_argument("--wav", action="store_true", help="WAV instead of FLAC")
    arguments = parser.parse_args()
    step = 2 if arguments.half_rate else 1
    held_out = {name for name in arguments.hold_out.split(",") if name}

    (arguments.out / "audio").mkdir(parents=True)
    for split, num_strings in (STRINGS | {"train": arguments.strings}).items():
        draw = random.Random(f"{arguments.seed} {split}")
        only = held_out or None if split == "test" else None
        clips = read_clips(arguments.source / f"{split}.jsonl", only, set() if split == "test" else held_out)
        if not clips:
            raise SystemExit(f"no recordings for {split}: is {arguments.hold_out} the name of a speaker?")
        features = FeatureFile(arguments.out, split, arguments.features) if arguments.features else None
        lines = []
        for number in range(num_strings):
            speaker = draw.choice(sorted(clips))
            samples, text = join(draw, draw.sample(clips[speaker], draw.randint(3, 7)), arguments.source)
            if features:
                line = features.append(samples)
            else:
                line = {"audio_filepath": f"audio/{split}-{number:04}.{'wav' if arguments.wav else 'flac'}"}
                # Nothing in the recordings is above 4 kHz, so that every second sample is enough.
                soundfile.write(arguments.out / line["audio_filepath"], samples[::step], RATE // step)
            line |= {"duration": len(samples[::step]) * step / RATE, "text": text, "speaker": speaker}
            lines.append(json.dumps(line))
        (arguments.out / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        seconds = sum(json.loads(line)["duration"] for line in lines)
        print(f"{split}: {num_strings} strings, {seconds / 60:.1f} min, speakers {', '.join(sorted(clips))}")


if __name__ == "__main__":
    main()
