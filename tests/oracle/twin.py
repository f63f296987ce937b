"""The network transformer_ctc in PyTorch, with the parameter names and layouts of sotto.

Two modes. `forward_one` takes one utterance at a time: the truth for sotto's packed step. `forward_padded`
takes a padded batch with masks: what a PyTorch user would write, for comparing results, speed and memory.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Shape:
    features: int
    vocabulary: int
    layers: int = 8
    width: int = 256
    heads: int = 4
    hidden: int = 1024
    factor: int = 4
    dropout: float = 0.1
    window: int | None = None  # frames that a frame sees to both sides; None: all


def sinusoids(frames: int, width: int) -> Tensor:
    place = torch.arange(frames, dtype=torch.float64)[:, None]
    angle = place / 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], 2).reshape(frames, width)


def inside(x: Tensor, lengths: Tensor) -> Tensor:
    """[B, length, 1]: which frames of a padded batch belong to its utterances."""
    return (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


def linear(inputs: int, outputs: int, deviation: float | None = None) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=deviation or inputs**-0.5)
    nn.init.zeros_(layer.bias)
    return layer


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = linear(shape.width, 3 * shape.width)
        self.out = linear(shape.width, shape.width, (2 * shape.layers * shape.width) ** -0.5)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, frames, width = x.shape
        q, k, v = self.qkv(x).view(batch, frames, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, frames, width))


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.add_module("in", linear(shape.width, shape.hidden))
        self.out = linear(shape.hidden, shape.width, (2 * shape.layers * shape.hidden) ** -0.5)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.dropout(F.gelu(getattr(self, "in")(x))))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.ffn = FeedForward(shape)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        return x + self.dropout(self.ffn(self.norm2(x)))


class Subsampling(nn.Module):
    """Convolutions over 3 frames, stride 2; weights [width, 3 inputs], the frames of a window in order."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        inputs = shape.features
        for stage in range(shape.factor // 2):
            self.add_module(f"conv{stage + 1}", linear(3 * inputs, shape.width))
            inputs = shape.width

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        for conv in self.children():
            weight = conv.weight.view(conv.weight.shape[0], 3, -1).transpose(1, 2)  # [out, in, 3]
            x = F.gelu(F.conv1d(x.transpose(1, 2), weight, conv.bias, stride=2, padding=1).transpose(1, 2))
            lengths = torch.div(lengths + 1, 2, rounding_mode="floor")
            # What lies behind an utterance must be zero for the next window that reaches over its end.
            x = x * inside(x, lengths)
        return x, lengths


class Head(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.weight = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * shape.width**-0.5)
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(x), self.weight, self.bias)


class Twin(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.subsampling = Subsampling(shape)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = Head(shape)
        self.dropout = nn.Dropout(shape.dropout)

    def frames(self, length: int) -> int:
        return -(-length // self.shape.factor)

    def band(self, frames: int) -> Tensor | None:
        """[frames, frames]: which pairs a window lets see each other."""
        if self.shape.window is None:
            return None
        place = torch.arange(frames)
        return (place[:, None] - place[None, :]).abs() <= self.shape.window

    def forward_one(self, features: Tensor) -> Tensor:
        """Logits [frames, V] of one utterance [length, F]."""
        mean, variance = features.mean(0), features.var(0, unbiased=False)
        normal = (features - mean) / torch.sqrt(variance + 1e-5)
        x, _ = self.subsampling(normal[None], torch.tensor([len(features)]))
        x = self.dropout(x + sinusoids(x.shape[1], self.shape.width).to(x.dtype))
        for block in self.layers:
            x = block(x, self.band(x.shape[1]))
        return self.head(x)[0]

    def forward_padded(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, frames, V] of a padded batch [B, length, F], and the frames of each utterance."""
        mask = inside(features, lengths)
        count = lengths[:, None, None]
        mean = (features * mask).sum(1, keepdim=True) / count
        variance = ((features - mean) ** 2 * mask).sum(1, keepdim=True) / count
        x, frames = self.subsampling((features - mean) / torch.sqrt(variance + 1e-5) * mask, lengths)
        x = self.dropout(x + sinusoids(x.shape[1], self.shape.width).to(x.dtype))
        mask = (torch.arange(x.shape[1]) < frames[:, None])[:, None, None, :]
        band = self.band(x.shape[1])
        if band is not None:
            # A frame behind its utterance sees itself: a softmax over nothing would be NaN.
            mask = mask & band | torch.eye(x.shape[1], dtype=torch.bool)
        for block in self.layers:
            x = block(x, mask)
        return self.head(x), frames


def ctc_sum(logits: Tensor, labels: Tensor, blank: int = 0) -> Tensor:
    """The loss of one utterance."""
    return F.ctc_loss(
        F.log_softmax(logits, -1)[:, None],
        labels[None],
        (len(logits),),
        (len(labels),),
        reduction="sum",
        blank=blank,
        zero_infinity=True,
    )


def ctc_mean(logits: Tensor, labels: Tensor, blank: int = 0) -> Tensor:
    """The loss of one utterance over its number of labels, at least one."""
    return ctc_sum(logits, labels, blank) / max(1, len(labels))


def parameter_groups(model: nn.Module, decay: float) -> list[dict]:
    """Matrices decay, vectors do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def cosine_rate(step: int, total: int, peak: float, warmup: int) -> float:
    """The learning rate of a step, which counts from 1."""
    done = step - 1
    if done < warmup:
        return peak * done / max(1, warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warmup) / max(1, total - warmup))))
