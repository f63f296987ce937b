"""The fixture of tokenizer.json: files as transformers converts them from SentencePiece models, and texts.

`bpe` is what transformers' converter makes for Parakeet, with <pad> added after the vocabulary; `blank` has
<blank> after a vocabulary that already has <pad>, as for transducers; `unigram` is of the same texts, by
Hugging Face's tokenizers directly. The first has a small map of characters, a full-width A to A.
"""

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
from make_tokenizers import NUM_ENCODED, SPECIAL, texts

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402
from transformers.convert_slow_tokenizer import ParakeetConverter  # noqa: E402

PACKAGES = ["sentencepiece", "transformers"]
FULL_WIDTH = ["\uff21\uff21 ba", "ba\uff21ce"]


def train(folder: Path, kind: str, **options: Any) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*texts(), "A AA AAba"]),
        model_writer=model,
        model_type=kind,
        vocab_size=80,
        character_coverage=1.0,
        bos_id=-1,
        eos_id=-1,
        num_threads=8,
        minloglevel=2,
        **options,
    )
    path = folder / f"{kind}.model"
    path.write_bytes(model.getvalue())
    return path


def special(*names: str) -> list[AddedToken]:
    return [AddedToken(name, normalized=False, special=True) for name in names]


def case(tokenizer: Tokenizer, blank: str) -> dict[str, Any]:
    cases = [
        {"text": text, "labels": tokenizer.encode(text, add_special_tokens=False).ids}
        for text in SPECIAL + FULL_WIDTH + texts()[:NUM_ENCODED]
    ]
    return {
        "file": json.loads(tokenizer.to_str()),
        "size": tokenizer.get_vocab_size(with_added_tokens=True),
        "blank": tokenizer.token_to_id(blank),
        "cases": cases,
    }


def bpe(folder: Path) -> dict[str, Any]:
    rules = folder / "rules.tsv"
    rules.write_text("FF21\t41\n")
    path = train(folder, "bpe", unk_id=0, pad_id=-1, normalization_rule_tsv=str(rules))
    tokenizer = ParakeetConverter(str(path)).converted()
    tokenizer.add_special_tokens(special("<pad>"))
    return case(tokenizer, "<pad>")


def with_blank(folder: Path) -> dict[str, Any]:
    path = train(folder, "bpe", unk_id=0, pad_id=2, normalization_rule_name="identity")
    tokenizer = ParakeetConverter(str(path)).converted()
    tokenizer.add_special_tokens(special("<pad>", "<blank>"))
    return case(tokenizer, "<blank>")


def unigram(folder: Path) -> dict[str, Any]:
    path = train(folder, "unigram", unk_id=0, pad_id=-1, normalization_rule_name="identity")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    scored = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.vocab_size())]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Strip(left=True, right=True), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.add_special_tokens(special("<unk>", "<pad>"))
    return case(tokenizer, "<pad>")


def make() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return {"bpe": bpe(folder), "blank": with_blank(folder), "unigram": unigram(folder)}
