"""Arrays of samples as WAV files, which is how they reach the program."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from ._arguments import refuse

_PCM, _FLOAT = 1, 3


def samples_of(name: str, audio: Any) -> Any:
    """Returns an array of numpy or torch as int16 or float32, [samples] or [samples, channels].

    Arrays with fewer rows than columns have a row per channel, as torchaudio returns them.
    """
    import numpy

    array = audio.detach().cpu() if hasattr(audio, "detach") else audio
    array = numpy.asarray(array)
    if array.dtype.kind == "f":
        array = array.astype("<f4")
    elif array.dtype != numpy.int16:
        raise refuse(name, array.dtype, "samples as floating-point numbers from -1 to 1, or as int16")
    if array.ndim == 2 and array.shape[0] < array.shape[1]:
        array = array.T
    if array.ndim not in (1, 2) or array.size == 0:
        raise refuse(
            name, array.shape, "samples of shape [samples], [samples, channels] or [channels, samples]"
        )
    return array


def rate_of(rate: object) -> int:
    """Returns a sample rate."""
    if isinstance(rate, int) and not isinstance(rate, bool) and rate > 0:
        return rate
    raise refuse("sample_rate", rate, "samples per second of the array, such as 16000")


def write_wav(path: Path, samples: Any, rate: int) -> None:
    """Writes samples as they are: int16 as PCM, float32 as floating-point numbers."""
    import numpy

    data = numpy.ascontiguousarray(samples)
    channels = 1 if data.ndim == 1 else data.shape[1]
    width = data.dtype.itemsize
    kind = _FLOAT if data.dtype.kind == "f" else _PCM
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * width, channels * width, 8 * width)
    size = data.nbytes
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<I", len(form)) + form
    path.write_bytes(head + b"data" + struct.pack("<I", size) + data.tobytes())
