"""The decoder language model in PyTorch, at its best: batches of full rows, causal SDPA, bf16 autocast."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class LmShape:
    layers: int = 6
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    vocabulary: int = 10_000
    length: int = 512
    dropout: float = 0.1  # behind the embedding, the activation and each sublayer; none in the attention


class LmBlock(nn.Module):
    def __init__(self, shape: LmShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        inner = self.dropout(F.gelu(self.up(self.norm2(x))))
        return x + self.dropout(self.down(inner))


class Lm(nn.Module):
    """Learned positions; the output's weight is the embedding's."""

    def __init__(self, shape: LmShape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.length, shape.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.Sequential(*(LmBlock(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch [B, T]."""
        x = self.dropout(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]])
        logits = F.linear(self.norm(self.blocks(x)), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def lm_batch(shape: LmShape, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(shape.vocabulary, (batch, shape.length + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
