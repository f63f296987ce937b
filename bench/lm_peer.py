"""The decoder language model in PyTorch: batches of full rows, causal SDPA unless another is given."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Maps q, k and v [B, H, T, D / H] to the mixed values.
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass
class LmShape:
    layers: int = 6
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    vocabulary: int = 10_000
    length: int = 512
    dropout: float = 0.1  # behind the embedding, the activation and each sublayer; none in the attention


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class LmBlock(nn.Module):
    def __init__(self, shape: LmShape, attend: Attend) -> None:
        super().__init__()
        self.heads, self.attend = shape.heads, attend
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = self.attend(q, k, v)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        inner = self.dropout(F.gelu(self.up(self.norm2(x))))
        return x + self.dropout(self.down(inner))


class Lm(nn.Module):
    """Learned positions; the output's weight is the embedding's."""

    def __init__(self, shape: LmShape, attend: Attend = causal_attention, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute  # blocks keep their input only
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.length, shape.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.ModuleList(LmBlock(shape, attend) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch [B, T], from all logits at once."""
        x = self.dropout(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def lm_batch(shape: LmShape, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(shape.vocabulary, (batch, shape.length + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
