"""The network `conformer` in PyTorch, one utterance at a time, with the names and layouts of sotto."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from twin import sinusoids


@dataclass
class Shape:
    features: int
    vocabulary: int
    layers: int = 12
    width: int = 256
    heads: int = 4
    hidden: int = 1024
    kernel: int = 31
    factor: int = 4
    separable: bool = False
    norm: str = "layer"
    decoder_layers: int = 6
    smoothing: float = 0.1


class Affine(nn.Module):
    """A weight and a bias of any shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(shape[0]))


class Subsampling(nn.Module):
    """3 x 3 convolutions with stride 2 over (time, mel); dense weights are [C, 9 inputs], tap by tap."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.separable = shape.separable
        self.stages = int(math.log2(shape.factor))
        mels = shape.features
        for stage in range(1, self.stages + 1):
            mels = -(-mels // 2)
            if stage == 1:
                self.add_module("conv1", Affine(shape.width, 9))
            elif shape.separable:
                pair = nn.ModuleDict()
                pair["depthwise"] = Affine(shape.width, 9)
                pair["pointwise"] = Affine(shape.width, shape.width)
                self.add_module(f"conv{stage}", pair)
            else:
                self.add_module(f"conv{stage}", Affine(shape.width, 9 * shape.width))
        self.projection = nn.Linear(mels * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """[T, F] to [ceil(T / factor), D]."""
        image = x[None, None]  # [1, C, T, F]
        for stage in range(1, self.stages + 1):
            dense = getattr(self, f"conv{stage}")
            if stage > 1 and self.separable:
                depthwise, dense = dense["depthwise"], dense["pointwise"]
                weight = depthwise.weight.view(-1, 1, 3, 3)
                image = F.conv2d(image, weight, depthwise.bias, 2, 1, groups=len(weight))
                image = F.conv2d(image, dense.weight[:, :, None, None], dense.bias)
            else:
                weight = dense.weight.view(len(dense.weight), 3, 3, -1).permute(0, 3, 1, 2)
                image = F.conv2d(image, weight, dense.bias, 2, 1)
            image = F.relu(image)
        return self.projection(image[0].permute(1, 2, 0).flatten(1))  # bin by bin


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.add_module("in", nn.Linear(shape.width, shape.hidden))
        self.out = nn.Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.silu(getattr(self, "in")(self.norm(x))))


def relative_sinusoids(frames: int, width: int) -> Tensor:
    """[2 frames - 1, width]: the distances from frames - 1 to 1 - frames."""
    distance = torch.arange(frames - 1, -frames, -1, dtype=torch.float64)[:, None]
    angle = distance / 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], 2).reshape(-1, width)


class RelativeAttention(nn.Module):
    """Attention in the form of Transformer-XL, its position term in full."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.position = nn.Linear(shape.width, shape.width, bias=False)
        self.content_bias = nn.Parameter(torch.empty(shape.width))
        self.position_bias = nn.Parameter(torch.empty(shape.width))
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        frames, width = x.shape

        def by_head(rows: Tensor) -> Tensor:
            return rows.view(len(rows), self.heads, -1).transpose(0, 1)  # [H, rows, d]

        q, k, v = self.qkv(self.norm(x)).chunk(3, 1)
        p = by_head(self.position(relative_sinusoids(frames, width).to(x.dtype)))
        content = by_head(q + self.content_bias) @ by_head(k).transpose(1, 2)
        by_distance = by_head(q + self.position_bias) @ p.transpose(1, 2)  # [H, T, 2 T - 1]
        place = torch.arange(frames)
        row = frames - 1 - (place[:, None] - place[None, :])
        position = by_distance.gather(2, row.expand(self.heads, frames, frames))
        weights = ((content + position) / math.sqrt(width // self.heads)).softmax(-1)
        return self.out((weights @ by_head(v)).transpose(0, 1).reshape(frames, width))


class Convolution(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.kind = shape.norm
        self.norm = nn.LayerNorm(shape.width)
        self.expand = nn.Linear(shape.width, 2 * shape.width)
        self.depthwise = Affine(shape.width, shape.kernel)
        self.inner_norm = nn.LayerNorm(shape.width)
        self.project = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.glu(self.expand(self.norm(x)), 1)
        weight = self.depthwise.weight[:, None]
        x = F.conv1d(
            x.t()[None], weight, self.depthwise.bias, padding=weight.shape[2] // 2, groups=len(weight)
        )[0].t()
        if self.kind == "layer":
            x = self.inner_norm(x)
        else:
            x = F.group_norm(x.t()[None], 1, self.inner_norm.weight, self.inner_norm.bias)[0].t()
        return self.project(F.silu(x))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ffn1 = FeedForward(shape)
        self.attention = RelativeAttention(shape)
        self.convolution = Convolution(shape)
        self.ffn2 = FeedForward(shape)
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.ffn1(x)
        x = x + self.attention(x)
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.ffn2(x))


class DecoderAttention(nn.Module):
    """Weights for attention to the own pack, or to that of the encoder."""

    def __init__(self, shape: Shape, crosses: bool) -> None:
        super().__init__()
        if crosses:
            self.norm = nn.LayerNorm(shape.width)
            self.query = nn.Linear(shape.width, shape.width)
            self.kv = nn.Linear(shape.width, 2 * shape.width)
        else:
            self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)


class DecoderBlock(nn.Module):
    """A block of the decoder, computed by torch.nn.TransformerDecoderLayer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = DecoderAttention(shape, crosses=False)
        self.norm2 = nn.LayerNorm(shape.width)
        self.ffn = nn.Module()
        self.ffn.add_module("in", nn.Linear(shape.width, shape.hidden))
        self.ffn.out = nn.Linear(shape.hidden, shape.width)
        self.cross = DecoderAttention(shape, crosses=True)
        self.layer = [
            nn.TransformerDecoderLayer(
                shape.width,
                shape.heads,
                shape.hidden,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            ).double()
        ]

    def values(self) -> dict[str, Tensor]:
        """Ours under the names of torch."""
        cross, own, feed_in = self.cross, self.attention, getattr(self.ffn, "in")
        return {
            "self_attn.in_proj_weight": own.qkv.weight,
            "self_attn.in_proj_bias": own.qkv.bias,
            "self_attn.out_proj.weight": own.out.weight,
            "self_attn.out_proj.bias": own.out.bias,
            "multihead_attn.in_proj_weight": torch.cat([cross.query.weight, cross.kv.weight]),
            "multihead_attn.in_proj_bias": torch.cat([cross.query.bias, cross.kv.bias]),
            "multihead_attn.out_proj.weight": cross.out.weight,
            "multihead_attn.out_proj.bias": cross.out.bias,
            "linear1.weight": feed_in.weight,
            "linear1.bias": feed_in.bias,
            "linear2.weight": self.ffn.out.weight,
            "linear2.bias": self.ffn.out.bias,
            "norm1.weight": self.norm1.weight,
            "norm1.bias": self.norm1.bias,
            "norm2.weight": cross.norm.weight,
            "norm2.bias": cross.norm.bias,
            "norm3.weight": self.norm2.weight,
            "norm3.bias": self.norm2.bias,
        }

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        causal = torch.full((len(x), len(x)), -math.inf, dtype=x.dtype).triu(1)
        return torch.func.functional_call(
            self.layer[0], self.values(), (x[None], seen[None]), {"tgt_mask": causal}
        )[0]


class Decoder(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary + 1, shape.width)
        self.layers = nn.ModuleList(DecoderBlock(shape) for _ in range(shape.decoder_layers))
        self.head = nn.Module()
        self.head.norm = nn.LayerNorm(shape.width)

    def forward(self, tokens: Tensor, seen: Tensor) -> Tensor:
        """Logits [L, V + 1]."""
        x = self.embedding(tokens)
        x = x + sinusoids(len(x), x.shape[1]).to(x.dtype)
        for block in self.layers:
            x = block(x, seen)
        return F.linear(self.head.norm(x), self.embedding.weight)


class Conformer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.subsampling = Subsampling(shape)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ctc = nn.Linear(shape.width, shape.vocabulary)
        self.decoder = Decoder(shape)

    def encode(self, features: Tensor) -> Tensor:
        """[T, F] to [frames, D]."""
        mean, variance = features.mean(0), features.var(0, unbiased=False)
        x = self.subsampling((features - mean) / torch.sqrt(variance + 1e-5))
        for block in self.layers:
            x = block(x)
        return x

    def attention_loss(self, encoded: Tensor, labels: Tensor) -> Tensor:
        """The sum over the tokens and the end of the sentence, smoothed."""
        border = torch.tensor([self.shape.vocabulary])
        logits = self.decoder(torch.cat([border, labels]), encoded)
        targets = torch.cat([labels, border])
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=self.shape.smoothing)
