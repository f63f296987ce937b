"""Rows of tokens for a language model, from whatever holds them.

TEXT.tokens   what sotto keeps beside a text that it has read: tokens of 2 or 4 bytes, little-endian; their
              highest bit marks the last token of a document; a foot of 80 bytes (data/text/token_file.cpp)
NAME.npy      a NumPy array of integers
NAME.u16      integers of 2 bytes without a sign, little-endian, nothing else
NAME.i32      integers of 4 bytes, little-endian, nothing else
other names   a text, each line a document, which a SentencePiece model encodes with </s> after each line
"""

import sys
from pathlib import Path

import numpy
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/oracle"))

from token_file import read_token_file  # noqa: E402


def read_tokens(path: Path, tokenizer: Path | None = None) -> Tensor:
    """All tokens of a file [N]."""
    if path.suffix == ".tokens":
        values, _ = read_token_file(path)
    elif path.suffix == ".npy":
        values = numpy.load(path).astype("int64")
    elif path.suffix in (".u16", ".i32"):
        values = numpy.fromfile(path, dtype="<u2" if path.suffix == ".u16" else "<i4").astype("int64")
    else:
        values = encode(path, tokenizer)
    return torch.from_numpy(values)


def encode(path: Path, tokenizer: Path | None) -> numpy.ndarray:
    if tokenizer is None:
        raise SystemExit(f"{path} is a text: --tokenizer MODEL is needed, or a file of tokens")
    import sentencepiece  # only here: machines with tokens do without it

    model = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    encoded = [ids + [model.eos_id()] for ids in model.encode(lines)]
    return numpy.concatenate([numpy.array(ids, dtype="int64") for ids in encoded])


def full_rows(tokens: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets [R, T] of all rows that are full: the target of a token is the next one."""
    rows = (len(tokens) - 1) // length
    return tokens[: rows * length].view(rows, length), tokens[1 : rows * length + 1].view(rows, length)
