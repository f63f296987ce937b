"""Loads a Hugging Face folder that sotto saved with transformers, and compares what it computes.

    .deps/oracle/bin/python tests/oracle/check_saved.py FOLDER EXPECTED

FOLDER is what sotto wrote after loading the weights of a fixture, EXPECTED is that fixture's folder, such as
tests/fixtures/wav2vec2/stable. Every weight must be there and none besides; the processor must treat audio
and texts as that of EXPECTED does, and the type of weights, the loss and attention_dropout must be the same.
Prints the largest difference of logits relative to the largest logit; exit status 1 above 1e-4, or where
something differs.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    logging,
)

TOLERANCE = 1e-4
TEXTS = ["abc", "a ch b", "cch", "a<s>b", "aXb"]


def load(folder: Path) -> tuple[Wav2Vec2ForCTC, list[str]]:
    """The network in fp32, and what is wrong with its weights."""
    model, found = Wav2Vec2ForCTC.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    wrong = [
        f"{len(found[key])} {key.replace('_', ' ')}, such as {min(map(str, found[key]))}"
        for key in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if found[key]
    ]
    return model.eval(), wrong


def other_settings(folder: Path, expected: Path) -> list[str]:
    """What processor and config.json say otherwise than those of the fixture."""
    wrong = []
    ours, theirs = (Wav2Vec2FeatureExtractor.from_pretrained(path) for path in (folder, expected))
    for key in ("do_normalize", "sampling_rate", "return_attention_mask"):
        if getattr(ours, key) != getattr(theirs, key):
            wrong.append(f"{key} is {getattr(ours, key)}, not {getattr(theirs, key)}")
    ours, theirs = (Wav2Vec2CTCTokenizer.from_pretrained(path) for path in (folder, expected))
    for text in TEXTS:
        if ours(text).input_ids != theirs(text).input_ids:
            wrong.append(f"{text!r} is {ours(text).input_ids}, not {theirs(text).input_ids}")
    configs = [json.loads((path / "config.json").read_text()) for path in (folder, expected)]
    for key in ("dtype", "attention_dropout", "ctc_loss_reduction", "ctc_zero_infinity", "pad_token_id"):
        ours, theirs = (config.get(key) for config in configs)
        if ours != theirs:
            wrong.append(f"{key} is {ours}, not {theirs}")
    return wrong


def largest_difference(model: Wav2Vec2ForCTC, expected: dict[str, Tensor]) -> float:
    """Over all utterances, relative to the largest logit of all."""
    inputs = [name for name in expected if name.startswith("normalised.")]
    truth = {name: expected[name.replace("normalised", "logits")] for name in inputs}
    with torch.no_grad():
        differences = [(model(expected[name][None]).logits[0] - truth[name]).abs().max() for name in inputs]
    # By torch: max() of Python would pass over a NaN.
    return torch.stack(differences).max().item() / max(value.abs().max().item() for value in truth.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares a saved wav2vec2 with a fixture, by transformers.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what sotto saved")
    parser.add_argument("expected", type=Path, metavar="EXPECTED", help="a folder of tests/fixtures/wav2vec2")
    arguments = parser.parse_args()
    values = arguments.expected / "expected.safetensors"
    for path in (arguments.folder / "config.json", values):
        if not path.is_file():
            parser.error(f"{path} is not there")
    expected = load_file(values)
    if "logits.0" not in expected:
        parser.error(f"{values} holds no logits: expected a fixture of a CTC network")

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model, wrong = load(arguments.folder)
    wrong += other_settings(arguments.folder, arguments.expected)
    for line in wrong:
        print(f"{arguments.folder}: {line}")
    difference = largest_difference(model, expected)
    print(f"largest difference of logits {difference:.1e} of the largest logit, allowed {TOLERANCE:.0e}")
    return 0 if difference <= TOLERANCE and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
