"""The fixture of the log-mel features: torchaudio's MelSpectrogram and log(mel + 1e-9), in double precision.

Written with torch alone, from torchaudio's documented formulas, so that the oracle needs no further package.
It was compared once with torchaudio 2.11.0 itself, torchaudio.transforms.MelSpectrogram on the waveforms of
this fixture in double precision: the logarithms differ by 1.8e-15 at most. In single precision, torchaudio's
default for its filters and window, they differ by 4.1e-5.
"""

import math
import random
from typing import Any

import torch
from torch import Tensor

# The usual features of speech at 16 kHz, and another set that shares no number with them.
CASES: list[dict[str, Any]] = [
    {
        "options": {
            "sample_rate": 16000,
            "window": 400,
            "hop": 160,
            "num_mels": 80,
            "f_min": 0.0,
            "f_max": 8000.0,
        },
        # The shortest that can be reflected; a whole number of hops; one sample short of it.
        "lengths": [201, 960, 1279],
    },
    {
        "options": {
            "sample_rate": 8000,
            "window": 256,
            "hop": 100,
            "num_mels": 23,
            "f_min": 64.0,
            "f_max": 3800.0,
        },
        "lengths": [1000, 129, 350],
    },
]
FLOOR = 1e-9


def waveform(seed: str, length: int) -> list[int]:
    """16-bit samples: a triangle wave with noise, silent in its second half as recordings often are."""
    source = random.Random(seed)
    period = 40 + int(source.random() * 60)
    samples = []
    for i in range(length):
        triangle = abs(i % period - period // 2) * 8000 // period - 2000
        noise = int(source.random() * 400) - 200
        samples.append(0 if length > 900 and i > length // 2 else triangle + noise)
    return samples


def mel_filters(options: dict[str, Any]) -> Tensor:
    """[M, F] as torchaudio.functional.melscale_fbanks has them for norm=None, mel_scale="htk"."""

    def mel(hertz: float) -> float:
        return 2595.0 * math.log10(1.0 + hertz / 700.0)

    num_frequencies = options["window"] // 2 + 1
    frequencies = torch.linspace(0, options["sample_rate"] // 2, num_frequencies, dtype=torch.float64)
    mels = torch.linspace(
        mel(options["f_min"]), mel(options["f_max"]), options["num_mels"] + 2, dtype=torch.float64
    )
    points = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    widths = points.diff()
    slopes = points[:, None] - frequencies[None, :]
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    return torch.minimum(rising, falling).clamp(min=0.0)


def log_mel(samples: list[int], options: dict[str, Any], precision: torch.dtype = torch.float64) -> Tensor:
    """[frames, mels] of one utterance; the spectrum in this precision, what follows in double."""
    wave = torch.tensor(samples, dtype=precision) / 32768.0
    spectrum = torch.stft(
        wave,
        options["window"],
        options["hop"],
        window=torch.hann_window(options["window"], periodic=True, dtype=precision),
        center=True,
        pad_mode="reflect",
        return_complex=True,
    )
    return torch.log(mel_filters(options) @ spectrum.abs().square().double() + FLOOR).t()


def make() -> dict[str, Any]:
    cases = []
    for number, case in enumerate(CASES):
        waves = [waveform(f"{number} {length}", length) for length in case["lengths"]]
        features = [log_mel(wave, case["options"]) for wave in waves]
        cases.append(
            {
                "options": case["options"],
                "lengths": case["lengths"],
                "frames": [len(utterance) for utterance in features],
                "samples": [sample for wave in waves for sample in wave],
                "features": torch.cat(features),
            }
        )
    return {"cases": cases}
