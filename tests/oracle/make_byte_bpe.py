"""The fixture of byte-level BPE and of Whisper's normalisers.

A small tokenizer, trained here, with the labels and texts of WhisperTokenizer; and lines with what the
normalisers of transformers make of them.
"""

import json
import os
import random
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

import script_texts  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from transformers import WhisperTokenizer  # noqa: E402
from transformers.models.whisper.english_normalizer import (  # noqa: E402
    BasicTextNormalizer,
    EnglishTextNormalizer,
)

PACKAGES = ["tokenizers", "transformers"]
VOCABULARY = 600
NUM_LINES = 240
NUM_SPOKEN = 240
SPECIAL = [
    "",
    " ",
    "  two  spaces  ",
    "\n\n",
    "I'll we've 'tis O'Neill's",
    "a" * 200,
    "\u0000\uffff\U0010ffff",
]
SPELLINGS = {"colour": "color", "aluminium": "aluminum", "naive": "native"}


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [text for text, _ in script_texts.SCRIPTS.values()]
    tokenizer.train_from_iterator(texts * 3, trainer)
    return tokenizer


def trained_files() -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(train().to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def cases(tokenizer: WhisperTokenizer) -> list[dict[str, Any]]:
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True  # <|en|> in a text is text
    made = []
    for text in SPECIAL + script_texts.lines(NUM_LINES, seed=1):
        labels = backend.encode(text, add_special_tokens=False).ids
        made.append({"text": text, "labels": labels, "decoded": backend.decode(labels)})
    return made


def partial_texts(tokenizer: WhisperTokenizer) -> list[dict[str, Any]]:
    """Labels that are no whole characters."""
    draw = random.Random(2)
    labels = [[draw.randrange(VOCABULARY) for _ in range(draw.randint(1, 8))] for _ in range(100)]
    return [{"labels": some, "decoded": tokenizer.backend_tokenizer.decode(some)} for some in labels]


def normalised() -> list[dict[str, str]]:
    normalizers = {
        "basic": BasicTextNormalizer(),
        "basic_diacritics": BasicTextNormalizer(remove_diacritics=True),
        "basic_letters": BasicTextNormalizer(split_letters=True),
        "english": EnglishTextNormalizer(SPELLINGS),
    }
    lines = script_texts.lines(NUM_LINES // 2, seed=3) + script_texts.spoken_lines(NUM_SPOKEN, seed=4)
    return [{"text": line} | {name: apply(line) for name, apply in normalizers.items()} for line in lines]


def make() -> dict[str, Any]:
    vocabulary, merges = trained_files()
    tokenizer = WhisperTokenizer(vocab=vocabulary, merges=merges)
    return {
        "vocabulary": vocabulary,
        "merges": [" ".join(merge) for merge in merges],
        "cases": cases(tokenizer),
        "partial": partial_texts(tokenizer),
        "spellings": SPELLINGS,
        "normalised": normalised(),
    }
