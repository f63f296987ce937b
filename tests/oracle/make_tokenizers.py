"""The fixture of tokenizers, of text that is generated here.

SentencePiece models trained on it, with what the Python package encodes and decodes by them; a vocabulary of
characters with what Wav2Vec2CTCTokenizer of transformers makes of it, alone and with every file that it reads
beside it, hand-written and random; forms of Unicode and of letter case as Python has them.
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


# Folders that Wav2Vec2CTCTokenizer.from_pretrained takes: what differs from the plain vocabulary above.
PLAIN = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5, "b": 6, "c": 7, "h": 8}
DIGRAPHS = PLAIN | {"ch": 9, "chh": 10, "ab": 11, "a\u0303": 12}
BRACKETS = {"a": 0, "b": 1, "|": 2, "[UNK]": 3, "[PAD]": 4}
BRACKETS_CONFIG = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
UPPER = {"<pad>": 0, "A": 1, "|": 2, "<unk>": 3, "S": 4, "\u017b": 5, "\u03a3": 6, "CH": 7, "ch": 8, "I": 9}
TYPED = {"__type": "AddedToken", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
FOLDERS: dict[str, dict[str, Any]] = {
    "digraphs": {"vocab.json": DIGRAPHS},
    "digraphs in upper case": {"vocab.json": UPPER, "tokenizer_config.json": {"do_lower_case": True}},
    "brackets": {"vocab.json": BRACKETS, "tokenizer_config.json": BRACKETS_CONFIG},
    "both paddings": {
        "vocab.json": {"<pad>": 0, "[PAD]": 1, "a": 2, "|": 3, "<unk>": 4},
        "tokenizer_config.json": {"pad_token": "[PAD]"},
    },
    "blank": {
        "vocab.json": {"<blank>": 0, "a": 1, "|": 2, "<pad>": 3, "<unk>": 4},
        "tokenizer_config.json": {"pad_token": "<blank>"},
    },
    "typed tokens": {
        "vocab.json": BRACKETS,
        "tokenizer_config.json": {
            "pad_token": TYPED | {"content": "[PAD]"},
            "unk_token": TYPED | {"content": "[UNK]"},
        },
    },
    "special tokens map": {
        "vocab.json": BRACKETS,
        "tokenizer_config.json": {"pad_token": "<pad>", "unk_token": "[UNK]"},
        "special_tokens_map.json": {"pad_token": {"content": "[PAD]", "lstrip": False, "normalized": True}},
    },
    "added tokens": {
        "vocab.json": BRACKETS,
        "tokenizer_config.json": BRACKETS_CONFIG,
        "added_tokens.json": {"<s>": 5, "</s>": 6, "xy": 7},
    },
    "added tokens decoder": {
        "vocab.json": BRACKETS,
        "tokenizer_config.json": BRACKETS_CONFIG
        | {
            "added_tokens_decoder": {
                "3": {"content": "[UNK]", "lstrip": False, "rstrip": False},
                "5": {"content": "zz", "single_word": True},
                "6": {"content": "<q>", "special": True},
                "7": {"content": "ll", "lstrip": True},
            }
        },
        # Both are left aside where the decoder is there.
        "added_tokens.json": {"ww": 9},
        "special_tokens_map.json": {"pad_token": "a"},
    },
    "tokenizer.json": {
        "vocab.json": BRACKETS,
        "tokenizer_config.json": BRACKETS_CONFIG,
        "tokenizer.json": {"added_tokens": [{"id": 5, "content": "zz", "lstrip": False, "rstrip": True}]},
    },
    "gaps": {"vocab.json": {"<pad>": 0, "a": 2, "|": 3, "<unk>": 5, "zz": 9}},
    "languages": {
        "vocab.json": {"eng": {"<pad>": 0, "a": 1}, "fra": {"<pad>": 0, "b": 1, "|": 2, "<unk>": 3}},
        "tokenizer_config.json": {"target_lang": "fra"},
    },
    "more special tokens": {
        "vocab.json": {"<pad>": 0, "a": 1, "|": 2, "<x>": 3, "[y]": 4, "<unk>": 5},
        "tokenizer_config.json": {"additional_special_tokens": ["<x>"]},
    },
    "clean-up": {
        "vocab.json": {"<pad>": 0, "a": 1, "|": 2, "'": 3, "s": 4, ".": 5, "<unk>": 6},
        "tokenizer_config.json": {
            "clean_up_tokenization_spaces": True,
            "tokenizer_class": "Wav2Vec2CTCTokenizer",
        },
    },
}
# from_pretrained() of 5.17 reads the delimiter back as "|": here it is what the constructor was told.
DELIMITERS: dict[str, dict[str, Any]] = {
    "underscore": {
        "vocab.json": {"<pad>": 0, "a": 1, "_": 2, "<unk>": 3, "ch": 4},
        "tokenizer_config.json": {"word_delimiter_token": "_"},
    },
    "space": {
        "vocab.json": {"<pad>": 0, "a": 1, " ": 2, "<unk>": 3},
        "tokenizer_config.json": {"word_delimiter_token": " "},
    },
    "hyphen": {
        "vocab.json": {"<pad>": 0, "a": 1, "_": 2, "<unk>": 3},
        "tokenizer_config.json": {"word_delimiter_token": "_", "replace_word_delimiter_char": "-"},
    },
}
FOLDER_TEXTS = [
    "a ch a",
    "chhh chab ab",
    "abch a\u0303 ab  a",
    "a|b",
    "a<unk>b",
    "a [UNK] b",
    "a xy b",
    "axyb xy",
    "a zz b zz",
    "azz b",
    "a ll b",
    "a<q> b",
    "<x>a[y] a",
    "a 's a .",
    "s\u00df \u0131\u017c",
    "CHa chA \u03c3a\u03c2",
    "a_a a",
    "b",
]
NUM_RANDOM = 30
RANDOM_TEXTS = 8


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


def cases_of(tokenizer: Wav2Vec2CTCTokenizer, texts: list[str], size: int) -> list[dict[str, Any]]:
    """Without those that say the blank, or what the network has no output for: they are refused here."""
    cases = []
    for text in texts:
        labels = tokenizer(text).input_ids
        if tokenizer.pad_token_id in labels or any(label is None or label >= size for label in labels):
            continue
        decoded = tokenizer.decode(labels, group_tokens=False, skip_special_tokens=True)
        cases.append({"text": text, "labels": labels, "decoded": decoded})
    return cases


def write_folder(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def case_of_folder(
    name: str, files: dict[str, Any], texts: list[str], by_constructor: bool
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_folder(folder, files)
        if by_constructor:
            tokenizer = Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), **files["tokenizer_config.json"])
        else:
            tokenizer = Wav2Vec2CTCTokenizer.from_pretrained(folder)
    # A head with outputs that have no entry, as well.
    size = len(tokenizer) + 6
    config = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "vocab_size": size}
    config["pad_token_id"] = tokenizer.pad_token_id
    every = [number for number in range(size) if number != tokenizer.pad_token_id]
    decoded = tokenizer.decode(every, group_tokens=False, skip_special_tokens=True)
    return {
        "name": name,
        "files": files | {"config.json": config},
        "size": size,
        "blank": tokenizer.pad_token_id,
        "cases": cases_of(tokenizer, texts, size),
        "every_label": decoded,
    }


def random_folder(number: int) -> tuple[dict[str, Any], list[str]]:
    """Tokens that begin, contain and overlap each other, over three letters."""
    draw = Draw(f"folder {number}")

    def letters(at_most: int) -> str:
        return "".join("abc"[draw.whole(3)] for _ in range(1 + draw.whole(at_most)))

    vocabulary = {"<pad>": 0, "<unk>": 1, "|": 2, "a": 3, "b": 4, "c": 5}
    for _ in range(1 + draw.whole(6)):
        vocabulary.setdefault(letters(5), len(vocabulary))
    files: dict[str, Any] = {"vocab.json": vocabulary}
    if draw.whole(2):
        token = letters(4) + "c"
        if token not in vocabulary:
            files["added_tokens.json"] = {token: len(vocabulary)}
    return files, [" ".join(letters(12) for _ in range(1 + draw.whole(3))) for _ in range(RANDOM_TEXTS)]


def folders() -> list[dict[str, Any]]:
    made = [case_of_folder(name, files, FOLDER_TEXTS, False) for name, files in FOLDERS.items()]
    made += [case_of_folder(name, files, FOLDER_TEXTS, True) for name, files in DELIMITERS.items()]
    for number in range(NUM_RANDOM):
        files, texts_of_it = random_folder(number)
        made.append(case_of_folder(f"random {number}", files, texts_of_it, False))
    return made


def letter_cases() -> list[dict[str, str]]:
    """Every character that becomes several in upper case, and a sigma that ends a word or does not."""
    several = "".join(chr(code) for code in range(0x10000) if len(chr(code).upper()) > 1)
    texts_of_it = ["stra\u00dfe", several, "\u03a3\u0391\u03a3 \u039f\u03a3\u039f", "\u0130I \u017b\u0141"]
    return [{"text": text, "upper": text.upper(), "lower": text.lower()} for text in texts_of_it]


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
        "folders": folders(),
        "forms": forms(),
        "letter_cases": letter_cases(),
    }
