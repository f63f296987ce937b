"""What the cases of make_kernels.py share: their sizes, their inputs, and gradients by autograd."""

import random
from typing import Any

import torch
from torch import Tensor

Case = dict[str, Any]

# Rows and width: the CPU works on sixteen elements at a time, so two are all rest and one has a whole vector.
SHAPES = [(5, 7), (8, 12), (9, 24)]
# By rows: the utterances of the pack, one of a single frame among them.
LENGTHS = {5: [2, 1, 2], 8: [1, 4, 3], 9: [4, 2, 3]}


class Draw:
    """Inputs of one case. Python promises the sequence of random() for a seed in all its versions."""

    def __init__(self, seed: str) -> None:
        self.source = random.Random(seed)

    def whole(self, below: int) -> int:
        return int(self.source.random() * below)

    def tensor(self, *shape: int, offset: float = 0.0) -> Tensor:
        """Multiples of 1/32 in [-3, 3], moved by an offset."""
        count = torch.Size(shape).numel()
        values = [(self.whole(193) - 96) / 32 + offset for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64).view(shape).requires_grad_()


def gradients(y: Tensor, dy: Tensor, **of: Tensor) -> dict[str, Tensor]:
    """The gradients of sum(y * dy) by autograd, under the given names."""
    return dict(zip(of, torch.autograd.grad(y, list(of.values()), dy), strict=True))
