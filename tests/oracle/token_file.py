"""The tokens of a text as sotto keeps them beside it: TEXT.tokens (data/text/token_file.cpp)."""

from pathlib import Path

import numpy

FOOT_BYTES = 80


def read_token_file(path: Path) -> tuple[numpy.ndarray, numpy.ndarray]:
    """All tokens [N], and which of them are the last of their document [N]."""
    raw = path.read_bytes()
    foot, tokens = raw[-FOOT_BYTES:], raw[:-FOOT_BYTES]
    size = int.from_bytes(foot[12:16], "little")
    if len(foot) < FOOT_BYTES or size not in (2, 4):
        raise SystemExit(f"{path} is no token file of sotto: expected a foot of {FOOT_BYTES} bytes")
    marked = numpy.frombuffer(tokens, dtype="<u2" if size == 2 else "<u4").astype("int64")
    mark = 1 << (8 * size - 1)
    return marked & (mark - 1), (marked & mark) != 0
