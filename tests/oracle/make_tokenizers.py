"""The fixture of tokenizers, of text that is generated here.

SentencePiece models trained on it, with what the Python package encodes and decodes by them; a vocabulary of
characters with what Wav2Vec2CTCTokenizer of transformers makes of it; forms of Unicode as Python has them.
"""

import base64
import io
import json
import random
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import sentencepiece
from transformers import Wav2Vec2CTCTokenizer

PACKAGES = ["sentencepiece", "transformers"]

SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "\u0142a",
    "\u017ce",
    "\u015bci",
    "\u0107",
    "\u0434\u0430",
    "\u4f60",
]
NUM_TEXTS = 400
NUM_ENCODED = 40
# Unknown characters, an empty text, spaces at the ends and doubled, from right to left.
SPECIAL = [
    "",
    "ba",
    "  ba   ce ",
    "ba \u03a9 ce \u03a9\u03a8",
    "\u05e9\u05dc\u05d5\u05dd",
    "baba\u0142a\u017ce",
    "BA ce!",
]

VOCABULARY = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcde", "\u017c", "'"]
CHARACTER_TEXTS = ["abc", "a b c", "bad cab", "\u017ca'b", "e e e", "aXb", "bee deed"]

# One character in several forms, marks in several orders, Hangul, ligatures and full width.
FORMS = [
    "z\u0307o\u0301\u0142ty",
    "\u017c\u00f3\u0142ty",
    "e\u0327\u0301 e\u0301\u0327",
    "\ufb01ve \u2460 \uff28\uff49",
    "\u1100\u1161\u11a8",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
    "\u0645\u0631\u062d\u0628\u0627",
    "\u212b \u2126 \u00bd",
    "q\u0307\u0323 q\u0323\u0307",
]


class Draw:
    """Python promises the sequence of random() for a seed in all its versions."""

    def __init__(self, seed: str) -> None:
        self.source = random.Random(seed)

    def whole(self, below: int) -> int:
        return int(self.source.random() * below)

    def text(self) -> str:
        words = [
            "".join(SYLLABLES[self.whole(len(SYLLABLES))] for _ in range(1 + self.whole(3))) for _ in range(5)
        ]
        return " ".join(words)


def texts() -> list[str]:
    draw = Draw("tokenizers")
    return [draw.text() for _ in range(NUM_TEXTS)]


def train(kind: str) -> bytes:
    """As `sotto tokenizer train` sets it up."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()),
        model_writer=model,
        model_type=kind,
        vocab_size=80,
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        eos_id=2,
        bos_id=-1,
        normalization_rule_name="identity",
        num_threads=8,
        minloglevel=2,
    )
    return model.getvalue()


def pieces(kind: str) -> dict[str, Any]:
    model = train(kind)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    cases = []
    for text in SPECIAL + texts()[:NUM_ENCODED]:
        labels = processor.encode(text)
        cases.append({"text": text, "labels": labels, "decoded": processor.decode(labels)})
    return {"model": base64.b64encode(model).decode("ascii"), "size": processor.vocab_size(), "cases": cases}


def characters() -> dict[str, Any]:
    entries = {entry: number for number, entry in enumerate(VOCABULARY)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        tokenizer = Wav2Vec2CTCTokenizer(str(path))
    cases = []
    for text in CHARACTER_TEXTS:
        labels = tokenizer(text).input_ids
        decoded = tokenizer.decode(labels, group_tokens=False, skip_special_tokens=True)
        cases.append({"text": text, "labels": labels, "decoded": decoded})
    return {"vocabulary": entries, "cases": cases}


def forms() -> list[dict[str, str]]:
    return [
        {"text": text, "nfc": unicodedata.normalize("NFC", text), "nfkc": unicodedata.normalize("NFKC", text)}
        for text in FORMS
    ]


def make() -> dict[str, Any]:
    return {
        "bpe": pieces("bpe"),
        "unigram": pieces("unigram"),
        "characters": characters(),
        "forms": forms(),
    }
