"""The fixtures of log-mel features: what public implementations (extractors.py) make of synthetic signals.

A folder a set of settings: expected.json with the settings, expected.safetensors with samples.U [samples] and
features.U [frames, mels], each utterance by itself.
"""

import random
from dataclasses import asdict
from pathlib import Path

import fixture
import numpy
import torch
from extractors import PACKAGES, Settings, features_of
from fixture_folder import save_tensors

SCRIPT = "tests/oracle/make_features.py"
# The extractors compute in single precision: another processor's sums differ by rounding errors of the
# loudest sounds, and in the quietest filters their logarithm by up to 5.2e-5 (aarch64 beside x86_64).
# Relative to the largest of a tensor, and what the C++ test allows.
TOLERANCE = 1e-4

CASES = {
    "whisper": Settings("whisper"),
    "whisper_128": Settings("whisper", num_mels=128),
    "nemo": Settings("nemo"),
    "nemo_128": Settings("nemo", num_mels=128),
    "kaldi": Settings("kaldi", f_min=20.0),
    "kaldi_8k": Settings(
        "kaldi", sample_rate=8000, window=200, hop=80, num_mels=40, f_min=60.0, f_max=3800.0
    ),
}


def noise(source: random.Random, length: int, amplitude: float) -> numpy.ndarray:
    return numpy.array([amplitude * source.uniform(-1.0, 1.0) for _ in range(length)])


def signals(kind: str) -> list[numpy.ndarray]:
    """16-bit samples as fp32 in -1 .. 1, of several lengths: only the second is a whole number of hops."""
    source = random.Random("features")
    place = numpy.arange(2977)
    # Without noise the quietest filters would hold rounding errors of the loudest.
    chirp = 0.5 * numpy.sin(0.01 * place + 0.0002 * place**2) + noise(source, len(place), 0.01)
    burst = noise(source, 1600, 0.8)
    # A constant offset, then silence to the bit.
    half_silent = noise(source, 1999, 0.01) + 0.1
    half_silent[1000:] = 0.0
    # The shortest of each kind: one window of kaldi, two frames of nemo, a reflection of whisper. It fades
    # in, because two frames that are alike have no deviation to divide by.
    length = {"kaldi": 400, "nemo": 320, "whisper": 201}[kind]
    shortest = noise(source, length, 0.1) * numpy.linspace(0.01, 1.0, length)
    waves = [chirp, burst, half_silent, shortest]
    # Not for nemo: the deviation of silence is 0, and what is divided by 1e-5 is a rounding error there.
    if kind != "nemo":
        waves.append(numpy.zeros(900))
    return [(numpy.round(wave * 32767.0) / 32768.0).astype(numpy.float32) for wave in waves]


def make_folder(folder: Path) -> None:
    for name, settings in CASES.items():
        (folder / name).mkdir(parents=True)
        tensors = {}
        for number, samples in enumerate(signals(settings.kind)):
            tensors[f"samples.{number}"] = torch.from_numpy(samples)
            tensors[f"features.{number}"] = features_of(samples, settings)
        save_tensors(folder / name / "expected.safetensors", tensors)
        fixture.write(
            folder / name / "expected.json",
            SCRIPT,
            {"options": asdict(settings)},
            [*PACKAGES, "safetensors"],
        )
