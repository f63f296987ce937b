"""Folders of Parakeet networks that sotto wrote, loaded by transformers: weights, processor and transcripts.

For CTC, RNN-T and TDT, the network of tests/fixtures/parakeet gets a SentencePiece model as tokenizer; sotto
starts a run from it (with a rate of 0, so that its weights stay), and exports the run. transformers must then
compute the fixture's logits, give texts the same ids as sotto, and transcribe the same. Other tokenizers
(unigram and characters with the blank first) are compared in ids and decoded texts.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import check_card
import numpy
import sentencepiece
import soundfile
import torch
from safetensors.torch import load_file
from torch import Tensor

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    AutoProcessor,
    ParakeetForCTC,
    ParakeetForRNNT,
    ParakeetForTDT,
    ParakeetProcessor,
    PreTrainedModel,
    logging,
    pipeline,
)

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "parakeet"
NETWORKS = {"ctc": ParakeetForCTC, "rnnt": ParakeetForRNNT, "tdt": ParakeetForTDT}
TOLERANCE = 1e-4
# Pieces besides the blank, which follows them.
PIECES = 11
TEXTS = ["ab", "abab cab", "  c  ba ", "abcabcabc", "cxb a", "gfedcba abcdefg"]
RULES = ["--unicode", "none"]


class Failed(Exception):
    """A command of sotto that should have succeeded."""


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout


def write_tokenizer(path: Path) -> None:
    """A model of 11 pieces, without one for padding: the blank is then another entry."""
    words = ["ab", "ba", "abc", "cab", "abab", "fg", "ed", "gf", "de"]
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([" ".join(words[i % 9 :]) for i in range(200)]),
            model_writer=file,
            model_type="bpe",
            vocab_size=PIECES,
            character_coverage=1.0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            unk_id=0,
            normalization_rule_name="identity",
            minloglevel=2,
        )


def write_sounds(folder: Path, expected: dict[str, Tensor]) -> tuple[Path, list[Path]]:
    """The fixture's utterances as files, and their manifest."""
    lines, sounds = [], []
    for number in range(sum(name.startswith("raw.") for name in expected)):
        samples = expected[f"raw.{number}"].numpy().astype(numpy.float64)
        path = folder / f"{number}.wav"
        soundfile.write(path, numpy.round(samples * 32768).astype(numpy.int16), 16_000)
        sounds.append(path)
        line = {"audio_filepath": path.name, "duration": len(samples) / 16_000, "text": "ab"}
        lines.append(json.dumps(line))
    # The first is too short for its labels in CTC.
    manifest = folder / "sounds.jsonl"
    manifest.write_text("\n".join(lines[1:]) + "\n")
    return manifest, sounds


def encoded_by(sotto: Path, tokenizer: Path) -> list[dict[str, Any]]:
    """Of each text: `text` by the rules, its `labels`, and what is `unknown`."""
    said = run(sotto, "tokenizer", "encode", "--tokenizer", tokenizer, *RULES, "--json", *TEXTS)
    return [json.loads(line) for line in said.splitlines()]


def compare_texts(sotto: Path, folder: Path, name: str) -> list[str]:
    """What transformers' processor does otherwise with texts and ids."""
    processor = AutoProcessor.from_pretrained(folder)
    if not isinstance(processor, ParakeetProcessor):
        return [f"{name}: the processor is a {type(processor).__name__}"]
    wrong = []
    for encoded in encoded_by(sotto, folder):
        text, ours = encoded["text"], encoded["labels"]
        theirs = processor.tokenizer(text, add_special_tokens=False).input_ids
        if ours != theirs:
            wrong.append(f"{name}: {text!r} is {ours}, not {theirs}")
        if encoded["unknown"]:
            continue  # transformers leaves <unk> out, SentencePiece writes a mark for it
        decoded = processor.tokenizer.decode(ours, group_tokens=False, skip_special_tokens=True)
        said = run(sotto, "tokenizer", "decode", "--tokenizer", folder, " ".join(map(str, ours)))
        if said.strip() != decoded.strip():
            wrong.append(f"{name}: {ours} is {said.strip()!r}, not {decoded.strip()!r}")
    return wrong


def compare_logits(kind: str, model: PreTrainedModel, inputs: list[Any], expected: dict[str, Tensor]) -> str:
    differences, largest = [], 0.0
    for number, features in enumerate(inputs):
        truth = expected[f"logits.{number}"]
        frames = features.input_features[:, : int(features.attention_mask.sum())]
        with torch.no_grad():
            if kind == "ctc":
                found = model(frames).logits[0]
            else:
                start = torch.tensor([PIECES])
                decoded = torch.cat([start, expected[f"labels.{number}"].long()])
                found = model(frames, decoder_input_ids=decoded[None]).logits[0]
        differences.append((found - truth).abs().max())
        largest = max(largest, truth.abs().max().item())
    relative = torch.stack(differences).max().item() / largest
    return f"{kind}: logits differ by {relative:.1e} of the largest" if not relative <= TOLERANCE else ""


def generated(kind: str, model: PreTrainedModel, processor: ParakeetProcessor, features: Any) -> str:
    limit = {} if kind == "ctc" else {"max_new_tokens": 1000}
    found = model.generate(features.input_features, attention_mask=features.attention_mask, **limit)
    sequences = found if torch.is_tensor(found) else found.sequences
    return processor.batch_decode(sequences, skip_special_tokens=True)[0].strip()


def check_kind(sotto: Path, kind: str, folder: Path) -> list[str]:
    source, saved = folder / f"source_{kind}", folder / f"saved_{kind}"
    shutil.copytree(FIXTURES / kind, source, ignore=shutil.ignore_patterns("expected.*"))
    write_tokenizer(source / "tokenizer.model")
    expected = load_file(FIXTURES / kind / "expected.safetensors")
    manifest, sounds = write_sounds(source, expected)
    train = [sotto, "train", "--model", source, "--train", manifest, "--out", folder / f"run_{kind}"]
    still = ["--set", "optimizer.schedule.rate=0", "--max-steps", "1", "--memory", "200MiB"]
    run(*train, *still)
    run(sotto, "export", "--model", folder / f"run_{kind}", "--out", saved, "--max-shard", "80KiB")

    model, found = NETWORKS[kind].from_pretrained(saved, dtype=torch.float32, output_loading_info=True)
    wrong = [
        f"{kind}: {len(found[key])} {key.replace('_', ' ')}, such as {min(map(str, found[key]))}"
        for key in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if found[key]
    ]
    processor = AutoProcessor.from_pretrained(saved)
    audio = [soundfile.read(path)[0] for path in sounds]
    inputs = [processor(one, sampling_rate=16_000) for one in audio]
    wrong += filter(None, [compare_logits(kind, model.eval(), inputs, expected)])
    wrong += compare_texts(sotto, saved, kind)

    ours = json.loads(run(sotto, "transcribe", "--model", saved, *sounds, "--json"))
    for path, features, one in zip(sounds, inputs, ours, strict=True):
        theirs = generated(kind, model, processor, features)
        if one["text"].strip() != theirs:
            wrong.append(f"{kind}: {path.name} is {one['text']!r}, not {theirs!r}")
    # Its texts may differ by what it hears in the padding.
    recognise = pipeline("automatic-speech-recognition", model=str(saved), dtype=torch.float32)
    if not isinstance(recognise(audio[-1].astype(numpy.float32))["text"], str):
        wrong.append(f"{kind}: no text of the pipeline")
    wrong += [f"{kind}: {line}" for line in check_card.run_python(saved)]
    if not any(one["text"] for one in ours):
        wrong.append(f"{kind}: nothing was transcribed")
    return wrong


def check_tokenizer(sotto: Path, name: str, folder: Path, words: list[str]) -> list[str]:
    """A run from random weights with another kind of tokenizer, and its checkpoint."""
    source, out = folder / "source_ctc", folder / f"run_{name}"
    manifest = source / "sounds.jsonl"
    texts = folder / "texts.txt"
    texts.write_text("\n".join(["abc cab ba", "gfed cba fed", "bad cafe", "a b c d e f g"] * 20) + "\n")
    if name == "unigram":
        model = folder / "unigram.model"
        train = [sotto, "tokenizer", "train", texts, "--type", "unigram", "--size", "16"]
        run(*train, "--out", model)
        words = [*words, "--set", f"data.tokenizer={model}"]
    train = [sotto, "train", "--model", "parakeet-ctc-0.6b", "--train", manifest, "--out", out]
    run(*train, "--max-steps", "1", "--memory", "300MiB", *words)
    return compare_texts(sotto, out / "checkpoints" / "step-1", name)


def check(sotto: Path, folder: Path) -> tuple[str, list[str]]:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    wrong = []
    for kind in NETWORKS:
        try:
            wrong += check_kind(sotto, kind, folder)
        except Failed as error:
            wrong.append(f"{kind}: {error}")
    sizes = ["layers=1", "width=16", "heads=2", "hidden=16", "subsampling_channels=4", "features.num_mels=16"]
    words = [word for size in sizes for word in ("--set", f"model.{size}")]
    for name in ("unigram", "characters"):
        try:
            wrong += check_tokenizer(sotto, name, folder, words)
        except Failed as error:
            wrong.append(f"{name}: {error}")
    return f"{len(NETWORKS)} networks and 5 tokenizers that sotto saved, loaded by transformers", wrong
