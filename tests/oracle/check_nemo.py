"""Reads a `.nemo` archive that sotto wrote with the tools that NeMo uses, and compares it with a fixture.

    .deps/oracle/bin/python tests/oracle/check_nemo.py WRITTEN.nemo EXPECTED.nemo

WRITTEN is what sotto wrote of the network in EXPECTED, such as tests/fixtures/nemo/tdt.nemo. The archive
must be a plain tar file; torch.load reads the weights without running anything: the same names, and the same
values to the bit (constants of the features to 1e-6). SentencePiece splits texts alike, and all settings that
EXPECTED has for network and loss are the same. Exit status 1 where something differs.
"""

import argparse
import sys
import tarfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from nemo_names import Archive, file_named_by, read_archive

TEXTS = ["abba cab", "dada x", "bad  cab"]
PARTS = ["encoder", "decoder", "joint", "loss", "preprocessor", "spec_augment", "model_defaults", "labels"]
WHOLE = ["rnnt_reduction", "ctc_reduction", "target", "sample_rate"]
# Noise that sotto does not add, and how NeMo computes, not what.
OTHERS = {"dither", "dropout_att", "fuse_loss_wer"}
FEATURES = "preprocessor.featurizer."
TOLERANCE = 1e-6


def other_weights(ours: Archive, theirs: Archive) -> list[str]:
    names = ours.weights.keys() ^ theirs.weights.keys()
    wrong = [f"{name} is in one of them only" for name in sorted(names)]
    for name in ours.weights.keys() & theirs.weights.keys():
        value, expected = ours.weights[name], theirs.weights[name]
        if (value.dtype, value.shape) != (expected.dtype, expected.shape):
            wrong.append(f"{name}: {value.dtype} {list(value.shape)}, not {list(expected.shape)}")
        elif name.startswith(FEATURES):
            if (difference := (value - expected).abs().max().item()) > TOLERANCE * expected.abs().max():
                wrong.append(f"{name} differs by {difference:.1e}")
        elif not torch.equal(value, expected):
            wrong.append(f"{name} has other values")
    return wrong


def other_settings(ours: Any, theirs: Any, path: str) -> list[str]:
    """What EXPECTED says and WRITTEN does not; zeros may be left out."""
    if isinstance(theirs, dict):
        parts = [
            other_settings((ours or {}).get(key), value, f"{path}.{key}")
            for key, value in theirs.items()
            if key not in OTHERS
        ]
        return [line for part in parts for line in part]
    if ours == theirs or (ours is None and theirs in (0, False, 1, "linear")):
        return []
    return [f"{path} is {ours}, not {theirs}"]


def other_tokens(ours: Archive, theirs: Archive) -> list[str]:
    models = [
        sentencepiece.SentencePieceProcessor(model_proto=file_named_by(archive, "model_path"))
        for archive in (ours, theirs)
    ]
    wrong = []
    if models[0].get_piece_size() != models[1].get_piece_size():
        wrong.append(f"{models[0].get_piece_size()} pieces, not {models[1].get_piece_size()}")
    for text in TEXTS:
        if models[0].encode(text) != models[1].encode(text):
            wrong.append(f"{text!r} is split in another way")
    words = file_named_by(ours, "vocab_path").decode().splitlines()
    scores = file_named_by(ours, "spe_tokenizer_vocab").decode().splitlines()
    if len(words) + 1 != models[0].get_piece_size() or len(scores) != models[0].get_piece_size():
        wrong.append(f"{len(words)} words and {len(scores)} scores")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares a .nemo archive with a fixture.")
    parser.add_argument("written", type=Path, metavar="WRITTEN", help="what sotto wrote")
    parser.add_argument("expected", type=Path, metavar="EXPECTED", help="a file of tests/fixtures/nemo")
    arguments = parser.parse_args()
    with tarfile.open(arguments.written, "r:"):  # not compressed
        pass
    ours, theirs = read_archive(arguments.written), read_archive(arguments.expected)
    wrong = other_weights(ours, theirs) + other_tokens(ours, theirs)
    for part in PARTS + WHOLE:
        if part in theirs.config:
            wrong += other_settings(ours.config.get(part), theirs.config[part], part)
    for line in wrong:
        print(f"{arguments.written}: {line}")
    print(f"{len(ours.weights)} tensors, {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
