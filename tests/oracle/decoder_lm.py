"""The network decoder_lm in PyTorch, with the parameter names and layouts of sotto: a language model.

A causal transformer of the blocks of transformer_ctc. `forward_one` takes one row of tokens at a time: the
truth for sotto's packed step.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from twin import Block, Shape, sinusoids

IGNORED = -100  # a target that does not count


@dataclass
class LmShape(Shape):
    """The shape of the blocks, and what a language model has besides."""

    learned_positions: int | None = None  # the longest row; None: sinusoids
    tied: bool = False  # the output's weight is the embedding's


class LmHead(nn.Module):
    def __init__(self, shape: LmShape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        if not shape.tied:
            self.weight = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * shape.width**-0.5)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        return F.linear(self.norm(x), getattr(self, "weight", embedding))


class DecoderLm(nn.Module):
    def __init__(self, shape: LmShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        if shape.learned_positions is not None:
            self.positions = nn.Embedding(shape.learned_positions, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = LmHead(shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward_one(self, tokens: Tensor) -> Tensor:
        """Logits [T, V] of one row of tokens [T]."""
        x = self.embedding(tokens[None])
        length = len(tokens)
        if self.shape.learned_positions is None:
            x = x + sinusoids(length, self.shape.width).to(x.dtype)
        else:
            x = x + self.positions.weight[:length]
        x = self.dropout(x)
        past = torch.ones(length, length, dtype=torch.bool).tril()
        for block in self.layers:
            x = block(x, past)
        return self.head(x, self.embedding.weight)[0]


def row_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The sum over the targets of a row that count."""
    return F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
