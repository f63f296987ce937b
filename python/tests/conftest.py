"""A small corpus of made speech: words are tones, so that no speech synthesis is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import sotto
from sotto import _audio

RATE = 16000
TONES = {"a": 400.0, "b": 900.0, "c": 1700.0}
# A network of a few thousand parameters, and steps of a quarter of the corpus.
SMALL: dict[str, Any] = {
    "model": {"preset": "tiny", "layers": 1, "width": 16, "heads": 2, "hidden": 32},
    "effective_batch": 2,
}


def tone_speech(text: str) -> Any:
    """Returns one second of audio, with a tone per letter, as int16."""
    times = numpy.arange(RATE // len(text)) / RATE
    waves = [8000.0 * numpy.sin(2.0 * numpy.pi * TONES[letter] * times) for letter in text]
    return numpy.concatenate([*waves, numpy.zeros(RATE - len(text) * len(times))]).astype("<i2")


def write_corpus(folder: Path) -> Path:
    """Writes train.jsonl with 8 utterances, dev.jsonl with 2, a.wav, and recordings/ with texts beside."""
    texts = ["ab", "ba", "ac", "ca", "bc", "cb", "abc", "cba"]
    (folder / "recordings").mkdir(parents=True)
    lines = []
    for number, text in enumerate(texts):
        name = f"u{number}.wav"
        _audio.write_wav(folder / name, tone_speech(text), RATE)
        lines.append(json.dumps({"audio_filepath": name, "duration": 1.0, "text": text}) + "\n")
    (folder / "train.jsonl").write_text("".join(lines))
    (folder / "dev.jsonl").write_text("".join(lines[:2]))
    _audio.write_wav(folder / "a.wav", tone_speech("ab"), RATE)
    for text in texts[:2]:
        _audio.write_wav(folder / "recordings" / f"{text}.wav", tone_speech(text), RATE)
        (folder / "recordings" / f"{text}.txt").write_text(text)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Paths of users have spaces and umlauts.
    return write_corpus(tmp_path_factory.mktemp("sotto") / "Übungs daten")


@pytest.fixture(autouse=True)
def here(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs in the folder of the corpus."""
    monkeypatch.chdir(corpus)
    yield


@pytest.fixture(scope="session")
def trained(corpus: Path) -> sotto.Run:
    """A run of 20 steps, of which tests only read."""
    before = Path.cwd()
    os.chdir(corpus)
    try:
        run = sotto.train(
            folder="trained run",
            train="train.jsonl",
            dev="dev.jsonl",
            memory="200MiB",
            max_steps=20,
            **SMALL,
        )
        run.wait()
        return sotto.find_run(corpus / "trained run")
    finally:
        os.chdir(before)
