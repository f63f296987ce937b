"""From collections of recordings to manifests, which describe data to sotto."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _arguments, _audio, _program
from .errors import ConfigError, DataError

# Columns in which public datasets keep the transcript, in order.
_TEXT_COLUMNS = ("text", "sentence", "transcription", "transcript", "normalized_text", "raw_text")


def from_folder(folder: str | Path, manifest: str | Path | None = None, *, broken: str | None = None) -> Path:
    """Writes a manifest of a folder of recordings with their transcripts, as `sotto data import` does.

    Args:
        folder: audio files, each with a text file of its name; or another source of `sotto data import`.
        manifest: the file to write; without it FOLDER.jsonl.
        broken: what happens to files that cannot be read: "error" or "skip".

    >>> sotto.datasets.from_folder("recordings", "all.jsonl").read_text().count("audio_filepath")
    2
    """
    source = _arguments.text_of("folder", folder)
    path = Path(_arguments.text_of("manifest", manifest or source.rstrip("/") + ".jsonl"))
    words = ["data", "import", source, "--out", str(path)]
    if broken is not None:
        words += ["--broken", _arguments.text_of("broken", broken)]
    _program.run(words)
    return path


def from_huggingface(
    dataset: Iterable[Mapping[str, Any]],
    folder: str | Path,
    *,
    audio: str = "audio",
    text: str | None = None,
    speaker: str | None = None,
    lang: str | None = None,
) -> Path:
    """Writes the recordings of a dataset as audio files, and a manifest of them; returns the manifest.

    Args:
        dataset: rows with audio and text: a `datasets.Dataset`, or any list of dictionaries.
        folder: where the files and manifest.jsonl are written; it must not have a manifest yet.
        audio: the column with the audio: a dictionary with `array` and `sampling_rate`, or a torchcodec
            decoder.
        text: the column with the transcript; without it one of the usual names.
        speaker, lang: columns with the speaker and the language.

    Files are FLAC where the package soundfile is installed, and else WAV, both with 16 bits.

    >>> rows = [{"audio": {"array": numpy.zeros(8000), "sampling_rate": 16000}, "text": "ab"}]
    >>> print(sotto.datasets.from_huggingface(rows, "corpus").read_text().strip())
    {"audio_filepath": "audio_000000.wav", "duration": 0.5, "text": "ab"}
    """
    out = Path(_arguments.text_of("folder", folder))
    manifest = out / "manifest.jsonl"
    if manifest.exists():
        raise DataError(
            f"writing {manifest}", "it exists", "a folder without a manifest", "Name another folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, row in enumerate(dataset):
        if not isinstance(row, Mapping):
            raise _arguments.refuse(f"dataset[{number}]", row, "a dictionary with audio and text")
        column = text or next((name for name in _TEXT_COLUMNS if name in row), "text")
        for needed in (audio, column):
            if needed not in row:
                raise ConfigError(
                    f"reading row {number} of a dataset",
                    f"no column {needed!r}",
                    f"one of {', '.join(map(str, row))}",
                    "Name the columns with audio= and text=.",
                )
        samples, rate = _decoded(f"dataset[{number}]", row[audio])
        name = _write(out, f"audio_{number:06d}", samples, rate)
        line = {"audio_filepath": name, "duration": len(samples) / rate, "text": str(row[column])}
        for key, source in (("speaker", speaker), ("lang", lang)):
            if source is not None:
                line[key] = str(row[source])
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    manifest.write_text("".join(lines), encoding="utf-8")
    return manifest


def _decoded(name: str, audio: Any) -> tuple[Any, int]:
    """Returns samples as int16, and their rate."""
    import numpy

    if isinstance(audio, Mapping) and "array" in audio:
        array, rate = audio["array"], audio["sampling_rate"]
    elif hasattr(audio, "get_all_samples"):
        decoded = audio.get_all_samples()
        array, rate = decoded.data, decoded.sample_rate
    else:
        raise _arguments.refuse(
            name, audio, "a dictionary with array and sampling_rate, or a decoder of torchcodec"
        )
    samples = _audio.samples_of(name, numpy.asarray(array) if isinstance(array, (list, tuple)) else array)
    if samples.dtype.kind == "f":
        samples = numpy.rint(numpy.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
    return samples, _audio.rate_of(rate)


def _write(folder: Path, name: str, samples: Any, rate: int) -> str:
    if importlib.util.find_spec("soundfile") is None:
        _audio.write_wav(folder / f"{name}.wav", samples, rate)
        return f"{name}.wav"
    import soundfile

    soundfile.write(folder / f"{name}.flac", samples, rate, subtype="PCM_16")
    return f"{name}.flac"
