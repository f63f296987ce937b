"""The fixture of the error rates: random pairs of texts and what jiwer counts in them.

Alignments with equally few errors can split them differently among insertions, deletions and substitutions.
error_rate.cpp takes the same one as rapidfuzz, by which jiwer aligns, so each kind is compared. (For texts of
thousands of items rapidfuzz divides the table and may choose otherwise; the sum of the three stays equal.)
"""

import random
from typing import Any

import jiwer

PACKAGES = ["jiwer", "rapidfuzz"]

NUM_PAIRS = 60
# Few words, so that they repeat and alignments compete; letters of one to four bytes.
WORDS = ["one", "two", "twenty", "\u00e9t\u00e9", "\u20ac", "\U0001f600s", "o", "on", "tw\u00f6"]
# Where both, one or none is empty; spaces at the ends and doubled.
SPECIAL = [("", ""), ("", "one two"), ("one two", ""), (" one  two ", "one two"), ("one", "one one one")]


class Draw:
    """Python promises the sequence of random() for a seed in all its versions."""

    def __init__(self, seed: str) -> None:
        self.source = random.Random(seed)

    def whole(self, below: int) -> int:
        return int(self.source.random() * below)

    def words(self, count: int) -> list[str]:
        return [WORDS[self.whole(len(WORDS))] for _ in range(count)]

    def changed(self, words: list[str]) -> list[str]:
        """About one word in three is left out, replaced, or has another one before it."""
        result: list[str] = []
        for word in words:
            kind = self.whole(9)
            if kind in (1, 2):
                result += self.words(1)
            if kind not in (0, 1):
                result.append(word)
        return result


def pairs() -> list[tuple[str, str]]:
    draw = Draw("error rates")
    found = list(SPECIAL)
    while len(found) < NUM_PAIRS:
        reference = draw.words(1 + draw.whole(24))
        # Every fourth hypothesis has nothing to do with its reference.
        hypothesis = draw.words(draw.whole(24)) if len(found) % 4 == 0 else draw.changed(reference)
        found.append((" ".join(reference), " ".join(hypothesis)))
    return found


def counts(output: jiwer.WordOutput | jiwer.CharacterOutput) -> dict[str, int]:
    return {
        "insertions": output.insertions,
        "deletions": output.deletions,
        "substitutions": output.substitutions,
        "reference_length": output.hits + output.deletions + output.substitutions,
    }


def make() -> dict[str, Any]:
    texts = pairs()
    references, hypotheses = [reference for reference, _ in texts], [hypothesis for _, hypothesis in texts]
    return {
        "pairs": [
            {
                "reference": reference,
                "hypothesis": hypothesis,
                "words": counts(jiwer.process_words(reference, hypothesis)),
                "characters": counts(jiwer.process_characters(reference, hypothesis)),
                "word_rate": float(jiwer.wer(reference, hypothesis)),
            }
            for reference, hypothesis in texts
        ],
        "word_rate": jiwer.wer(references, hypotheses),
        "character_rate": jiwer.cer(references, hypotheses),
    }
