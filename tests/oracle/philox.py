"""Philox4x32-10 and the keyed streams of src/sotto/core/rng.h once more, slowly, in Python's whole numbers.

Written from the paper (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011)
and from what rng.h, rng.cpp and dropout_mask.h say of the keys.
"""

import math
from dataclasses import dataclass

WORD = 2**32
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
# The key grows by these each round: the fractions of the golden ratio and of the square root of 3.
INCREMENTS = (int((math.sqrt(5) - 1) / 2 * WORD), int((math.sqrt(3) - 1) * WORD))

PURPOSES = {"initialisation": 0, "shuffle": 1, "dropout": 2, "layer_drop": 3, "augmentation": 4}

# Counter, key and result that the paper's authors publish with their Random123 library.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((WORD - 1,) * 4, (WORD - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

Words = tuple[int, ...]


def philox(counter: Words, key: Words) -> Words:
    """Four random words for four of the counter and two of the key."""
    words = counter
    for number in range(ROUNDS):
        round_key = [(key[i] + number * INCREMENTS[i]) % WORD for i in range(2)]
        first_high, first_low = divmod(MULTIPLIERS[0] * words[0], WORD)
        second_high, second_low = divmod(MULTIPLIERS[1] * words[2], WORD)
        words = (
            second_high ^ words[1] ^ round_key[0],
            second_low,
            first_high ^ words[3] ^ round_key[1],
            first_low,
        )
    return words


def halves(value: int) -> Words:
    """64 bits as two words, the low one first."""
    return value % WORD, value // WORD


@dataclass(frozen=True)
class Key:
    seed: int = 0
    purpose: str = "initialisation"
    step: int = 0
    layer: int = 0

    def fold(self) -> Words:
        """The seed is the first key; each further field, with its number, is encrypted to give the next."""
        key = halves(self.seed)
        for number, value in enumerate((PURPOSES[self.purpose], self.step, self.layer), start=1):
            key = philox((*halves(value), number, 0), key)[:2]
        return key


@dataclass(frozen=True)
class Utterance:
    utterance: int = 0
    segment: int = 0
    copy: int = 0

    def fold(self) -> int:
        """An uncut, uncopied utterance is its number; others are two words of their fields encrypted."""
        if self.segment == 0 and self.copy == 0:
            return self.utterance
        name = b"sotto".ljust(8, b"\0")
        key = (int.from_bytes(name[:4], "big"), int.from_bytes(name[4:], "big"))
        words = philox((*halves(self.utterance), self.segment, self.copy), key)
        return words[0] * WORD + words[1]


class Stream:
    def __init__(self, key: Key, utterance: Utterance) -> None:
        self.key = key.fold()
        self.utterance = utterance.fold()

    def block(self, index: int) -> Words:
        return philox((*halves(index), *halves(self.utterance)), self.key)

    def bits(self, n: int) -> int:
        return self.block(n // 4)[n % 4]

    def uniform(self, n: int) -> float:
        """The upper 24 of the 32 bits, as a fraction."""
        return (self.bits(n) // 2**8) / 2**24

    def normal(self, n: int) -> float:
        """Box-Muller: numbers 2m and 2m + 1 are the cosine and the sine of one pair of words."""
        even = n - n % 2
        radius = math.sqrt(-2 * math.log((self.bits(even) + 1) / WORD))
        angle = 2 * math.pi * self.bits(even + 1) / WORD
        return radius * (math.sin(angle) if n % 2 else math.cos(angle))

    def bernoulli(self, n: int, probability: float) -> bool:
        return self.bits(n) / WORD < probability

    def permutation(self, size: int) -> list[int]:
        """Fisher-Yates from the end; place i draws from block i, whose first word is the upper half."""
        order = list(range(size))
        for place in range(size - 1, 0, -1):
            words = self.block(place)
            other = (words[0] * WORD + words[1]) % (place + 1)
            order[place], order[other] = order[other], order[place]
        return order


def dropout_factors(key: Key, utterance: Utterance, num_elements: int, probability: float) -> list[float]:
    """What dropout multiplies the elements of one utterance by, in their order: 0 or 1 / (1 - probability).

    A block serves eight elements with 16 bits each, the lower half of a word first; an element whose bits are
    below the probability in units of 2^-16 is dropped.
    """
    threshold = math.floor(probability * 2**16 + 0.5)
    stream = Stream(key, utterance)
    factors = []
    for element in range(num_elements):
        word = stream.block(element // 8)[element % 8 // 2]
        part = word // 2**16 if element % 2 else word % 2**16
        factors.append(0.0 if part < threshold else 2**16 / (2**16 - threshold))
    return factors
