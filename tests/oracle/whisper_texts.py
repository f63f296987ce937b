"""Our byte-level BPE, prompts and normalisers beside those of transformers, on lines in twelve scripts.

The vocabularies and the spellings are those of PyPI's openai-whisper, of which only the files are read. It
stores ranks of byte strings; the merges are the two parts of each string that its own ranks join last.
"""

import base64
import gzip
import importlib.util
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

import script_texts  # noqa: E402
from transformers import WhisperTokenizer  # noqa: E402
from transformers.models.whisper.english_normalizer import (  # noqa: E402
    BasicTextNormalizer,
    EnglishTextNormalizer,
)
from transformers.models.whisper.tokenization_whisper import LANGUAGES  # noqa: E402

NUM_LINES = 10_000
NUM_DECODED = 2_000
NUM_SPOKEN = 5_000
NUM_TIMESTAMPS = 1_501
# Name: its ranks, its number of languages, whether it is of English alone.
VOCABULARIES = {"multilingual": 99, "gpt2": 99, "large-v3": 100}


def package() -> Path:
    found = importlib.util.find_spec("whisper")
    if found is None or found.origin is None:
        raise FileNotFoundError("no openai-whisper among the oracle's packages: run tools/setup.sh oracle")
    return Path(found.origin).parent


def letters() -> dict[int, str]:
    """The character that stands for each byte."""
    printed = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return {byte: chr(byte) for byte in printed} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def parts_of(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two entries that become a token, by merging with all lower ranks."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [
            (ranks.get(a + b, len(ranks)), i) for i, (a, b) in enumerate(zip(parts, parts[1:], strict=False))
        ]
        _, at = min(joined)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def special_tokens(num_languages: int) -> list[str]:
    return [
        "<|startoftranscript|>",
        *[f"<|{code}|>" for code in list(LANGUAGES)[:num_languages]],
        *[f"<|{name}|>" for name in ("translate", "transcribe", "startoflm", "startofprev", "nospeech")],
        "<|notimestamps|>",
    ]


def write_folder(name: str, folder: Path) -> Path:
    """The tokenizer files of a model on the Hub."""
    folder.mkdir()
    file = "gpt2" if name == "gpt2" else "multilingual"
    lines = (package() / "assets" / f"{file}.tiktoken").read_text().split("\n")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    letter = letters()

    def written(token: bytes) -> str:
        return "".join(letter[byte] for byte in token)

    vocabulary = {written(token): rank for token, rank in ranks.items()}
    vocabulary["<|endoftext|>"] = len(ranks)
    merges = ["#version: 0.2"]
    for token in sorted(ranks, key=ranks.__getitem__):
        if len(token) > 1:
            merges.append(" ".join(written(part) for part in parts_of(token, ranks)))
    special = special_tokens(VOCABULARIES[name])
    added = {token: len(vocabulary) + i for i, token in enumerate(special)}
    times = {f"<|{0.02 * i:.2f}|>": len(vocabulary) + len(special) + i for i in range(NUM_TIMESTAMPS)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("\n".join(merges) + "\n")
    (folder / "added_tokens.json").write_text(json.dumps(added | times))
    (folder / "normalizer.json").write_bytes((package() / "normalizers" / "english.json").read_bytes())
    end = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), "<|endoftext|>")
    (folder / "special_tokens_map.json").write_text(json.dumps(end | {"additional_special_tokens": special}))
    decoder = {
        str(number): {"content": token, "special": token in special or token == "<|endoftext|>"}
        for token, number in ({"<|endoftext|>": len(ranks)} | added | times).items()
    }
    settings = {"tokenizer_class": "WhisperTokenizer", "added_tokens_decoder": decoder} | end
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def real_lines(data: Path, count: int) -> list[str]:
    """Lines of the corpora that are there; none without them."""
    found = []
    books, speech = data / "polish_books" / "valid.txt.gz", data / "iban_mini" / "dev.jsonl"
    if books.exists():
        found += gzip.decompress(books.read_bytes()).decode().splitlines()
    if speech.exists():
        found += [json.loads(line)["text"] for line in speech.read_text().splitlines()]
    return random.Random(5).sample(found, min(count, len(found)))


class Dump:
    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder

    def __call__(self, action: str, file: Path, values: list[Any]) -> list[Any]:
        given, made = self.folder / "given.jsonl", self.folder / "made.jsonl"
        given.write_text("".join(json.dumps(value) + "\n" for value in values))
        run = subprocess.run([self.binary, action, file, given, made], capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip())
        return [json.loads(line) for line in made.read_text().split("\n") if line]


def differences_of(what: str, given: list[Any], ours: list[Any], theirs: list[Any]) -> list[str]:
    return [
        f"{what}: {value!r}: ours {mine!r}, not {expected!r}"
        for value, mine, expected in zip(given, ours, theirs, strict=True)
        if mine != expected
    ]


def compare_prompts(dump: Dump, name: str, folder: Path, tokenizer: WhisperTokenizer) -> list[str]:
    """The start of a transcript for each language, task, and with timestamps or none."""
    languages = [""] if name == "gpt2" else list(LANGUAGES.items())[: VOCABULARIES[name]]
    prompts, expected = [], []
    for language in languages:
        for spelled in language if language else [""]:
            for task in ["transcribe"] if name == "gpt2" else ["transcribe", "translate"]:
                for timestamps in (False, True):
                    prompts.append({"language": spelled, "task": task, "timestamps": timestamps})
                    if language:
                        tokenizer.set_prefix_tokens(
                            language=spelled, task=task, predict_timestamps=timestamps
                        )
                    else:
                        tokenizer.set_prefix_tokens(predict_timestamps=timestamps)
                    expected.append(tokenizer.prefix_tokens)
    return differences_of(
        f"{name}, prompts", prompts, dump("prompt", folder / "vocab.json", prompts), expected
    )


def compare_labels(dump: Dump, name: str, folder: Path, lines: list[str]) -> list[str]:
    tokenizer = WhisperTokenizer.from_pretrained(folder)
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True  # <|en|> in a text is text
    labels = [encoded.ids for encoded in backend.encode_batch(lines, add_special_tokens=False)]
    ours = dump("encode", folder / "vocab.json", lines)
    wrong = differences_of(f"{name}, labels", lines, [one["labels"] for one in ours], labels)
    wrong += differences_of(f"{name}, round trip", lines, [one["text"] for one in ours], lines)
    draw = random.Random(6)
    end = tokenizer.eos_token_id
    some = [[draw.randrange(end + 1) for _ in range(draw.randint(1, 12))] for _ in range(NUM_DECODED)]
    texts = [backend.decode(one, skip_special_tokens=True) for one in some]
    wrong += differences_of(f"{name}, decoded", some, dump("decode", folder / "vocab.json", some), texts)
    return wrong + compare_prompts(dump, name, folder, tokenizer)


def compare_normalisers(dump: Dump, lines: list[str]) -> list[str]:
    spellings = package() / "normalizers" / "english.json"
    normalizers: dict[str, Callable[[str], str]] = {
        "basic": BasicTextNormalizer(),
        "basic_diacritics": BasicTextNormalizer(remove_diacritics=True),
        "basic_letters": BasicTextNormalizer(split_letters=True),
        "english": EnglishTextNormalizer(json.loads(spellings.read_text())),
    }
    wrong = []
    for name, apply in normalizers.items():
        wrong += differences_of(name, lines, dump(name, spellings, lines), [apply(line) for line in lines])
    return wrong


def compare(binary: Path, data: Path, folder: Path) -> tuple[str, list[str]]:
    """What was compared, and what differs."""
    dump = Dump(binary, folder)
    real = real_lines(data, NUM_LINES // 4)
    lines = real + script_texts.lines(NUM_LINES - len(real), seed=7)
    wrong = []
    for name in VOCABULARIES:
        wrong += compare_labels(dump, name, write_folder(name, folder / name), lines)
    spoken = script_texts.spoken_lines(NUM_SPOKEN, seed=8)
    wrong += compare_normalisers(dump, lines + spoken)
    corpora = f"{len(real)} of corpora" if real else "none of corpora: SOTTO_TEST_DATA"
    return (
        f"{len(lines)} lines in {len(script_texts.SCRIPTS)} scripts ({corpora}) with {len(VOCABULARIES)} "
        f"vocabularies, and with {len(spoken)} lines of numbers by the normalisers",
        wrong,
    )
