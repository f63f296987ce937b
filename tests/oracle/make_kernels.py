"""The fixture of the kernels: inputs, results and gradients by PyTorch in double precision; random streams.

T frames of an utterance, D width. Inputs are multiples of 1/32 up to 6, which bf16 and fp16 hold exactly, so
that one truth serves all types.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from kernel_convolutions import (
    depthwise_convolution,
    frame_windows,
    grouped_convolution,
    image_depthwise,
    image_windows,
    weight_norm,
)
from kernel_draw import LENGTHS, SHAPES, Case, Draw, gradients
from kernel_recurrent import lstm
from philox import KNOWN_ANSWERS, WORD, Key, Stream, Utterance, dropout_factors, philox
from torch import Tensor
from torch.nn import functional

# By width. Large ones too: the usual ones would vanish below the tolerance.
EPSILON = {7: 1e-5, 12: 0.25, 24: 1e-2}
# By width: one group, several, and a channel a group as in wav2vec2.
GROUPS = {7: 1, 12: 4, 24: 24}
# By width: frames seen before and behind a frame (none: all), in heads.
WINDOWS = {7: (None, None), 12: (1, 0), 24: (None, 1)}
# By rows: the queries that cross-attention has for the keys of LENGTHS. One, as many, fewer and more.
QUERIES = {5: [3, 4, 1], 8: [2, 1, 3], 9: [1, 7, 2]}
HEADS = {7: 1, 12: 3, 24: 4}
# By rows.
PROBABILITY = {5: 0.1, 8: 0.5, 9: 0.3}
DROPOUT_KEYS = {
    5: Key(seed=1, purpose="dropout"),
    8: Key(seed=2**40 + 3, purpose="dropout", step=17, layer=5),
    9: Key(seed=7, purpose="dropout", step=2**33 + 1, layer=11),
}
DROPOUT_UTTERANCES = [Utterance(6), Utterance(2**35 + 9), Utterance(6, segment=2, copy=1)]

# By rows, for the utterances of LENGTHS: repeats, none, as many as frames, and more, which cannot be aligned.
LABELS = {5: [[1, 2], [3], []], 8: [[1, 2], [2, 2, 1], [5]], 9: [[3, 3], [7, 7], [1, 23, 1]]}
BLANK = {5: 0, 8: 4, 9: 6}

# By rows: those without a target, an utterance of nothing else among them. By width: label smoothing.
NO_TARGET = {5: [], 8: [0, 6], 9: [2, 4, 5]}
SMOOTHING = {7: 0.0, 12: 0.1, 24: 0.25}


def gemm(draw: Draw, rows: int, width: int) -> Case:
    x, weight, bias = draw.tensor(rows, width), draw.tensor(6, width), draw.tensor(6)
    dy = draw.tensor(rows, 6)
    y = functional.linear(x, weight, bias)
    return {
        "inputs": {"x": x, "weight": weight, "bias": bias, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight, grad_bias=bias),
    }


def layer_norm(draw: Draw, rows: int, width: int) -> Case:
    x, dy = draw.tensor(rows, width, offset=3.0), draw.tensor(rows, width)
    gamma, beta = draw.tensor(width), draw.tensor(width)
    epsilon = EPSILON[width]
    y = functional.layer_norm(x, (width,), gamma, beta, epsilon)
    mean, rstd = x.mean(1), (x.var(1, correction=0) + epsilon).rsqrt()
    return {
        "epsilon": epsilon,
        "inputs": {"x": x, "gamma": gamma, "beta": beta, "dy": dy},
        "results": {"y": y, "mean": mean, "rstd": rstd}
        | gradients(y, dy, dx=x, grad_gamma=gamma, grad_beta=beta),
    }


def rms_norm(draw: Draw, rows: int, width: int) -> Case:
    x, dy, gamma = draw.tensor(rows, width), draw.tensor(rows, width), draw.tensor(width)
    epsilon = EPSILON[width]
    y = functional.rms_norm(x, (width,), gamma, epsilon)
    rstd = (x.square().mean(1) + epsilon).rsqrt()
    return {
        "epsilon": epsilon,
        "inputs": {"x": x, "gamma": gamma, "dy": dy},
        "results": {"y": y, "rstd": rstd} | gradients(y, dy, dx=x, grad_gamma=gamma),
    }


def group_norm(draw: Draw, rows: int, width: int) -> Case:
    x, dy = draw.tensor(rows, width, offset=3.0), draw.tensor(rows, width)
    gamma, beta = draw.tensor(width), draw.tensor(width)
    epsilon, groups, lengths = EPSILON[width], GROUPS[width], LENGTHS[rows]
    y, mean, rstd = [], [], []
    for utterance in x.split(lengths):  # [T, D]
        channels = utterance.t().unsqueeze(0)  # [1, D, T]
        y.append(functional.group_norm(channels, groups, gamma, beta, epsilon).squeeze(0).t())
        grouped = channels.reshape(groups, -1)
        mean.append(grouped.mean(1))
        rstd.append((grouped.var(1, correction=0) + epsilon).rsqrt())
    packed = torch.cat(y)
    return {
        "epsilon": epsilon,
        "groups": groups,
        "lengths": lengths,
        "inputs": {"x": x, "gamma": gamma, "beta": beta, "dy": dy},
        "results": {"y": packed, "mean": torch.stack(mean), "rstd": torch.stack(rstd)}
        | gradients(packed, dy, dx=x, grad_gamma=gamma, grad_beta=beta),
    }


def batch_norm(draw: Draw, rows: int, width: int) -> Case:
    """By torch.nn.BatchNorm1d, with the statistics of the batch and with constants."""
    x, dy = draw.tensor(rows, width, offset=3.0), draw.tensor(rows, width)
    gamma, beta = draw.tensor(width), draw.tensor(width)
    mean, variance = draw.tensor(width).detach(), draw.tensor(width).detach().abs() + 0.5
    epsilon, results = EPSILON[width], {}
    for prefix in ("", "frozen_"):
        norm = torch.nn.BatchNorm1d(width, eps=epsilon, dtype=torch.float64)
        norm.weight, norm.bias = torch.nn.Parameter(gamma.detach()), torch.nn.Parameter(beta.detach())
        norm.running_mean, norm.running_var = mean.clone(), variance.clone()
        norm.train(prefix == "")
        y = norm(x)
        grads = gradients(y, dy, dx=x, grad_gamma=norm.weight, grad_beta=norm.bias)
        results |= {prefix + name: value for name, value in ({"y": y} | grads).items()}
        if norm.training:
            results |= {"running_mean": norm.running_mean, "running_variance": norm.running_var}
    return {
        "epsilon": epsilon,
        "inputs": {"x": x, "gamma": gamma, "beta": beta, "mean": mean, "variance": variance, "dy": dy},
        "results": results,
    }


def attention(draw: Draw, rows: int, width: int) -> Case:
    qkv, dy = draw.tensor(rows, 3 * width), draw.tensor(rows, width)
    heads, (left, right), lengths = HEADS[width], WINDOWS[width], LENGTHS[rows]
    parts = []
    for utterance in qkv.split(lengths):  # [T, 3 D]
        frames = len(utterance)
        q, k, v = utterance.view(frames, 3, heads, -1).permute(1, 2, 0, 3).unsqueeze(1)  # [1, H, T, D / H]
        distance = torch.arange(frames)[None, :] - torch.arange(frames)[:, None]  # from query to key
        seen = torch.ones(frames, frames, dtype=torch.bool)
        seen &= distance >= -left if left is not None else True
        seen &= distance <= right if right is not None else True
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        parts.append(mixed[0].transpose(0, 1).reshape(frames, width))
    y = torch.cat(parts)
    return {
        "heads": heads,
        "left": -1 if left is None else left,
        "right": -1 if right is None else right,
        "lengths": lengths,
        "inputs": {"qkv": qkv, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dqkv=qkv),
    }


def cross_attention(draw: Draw, rows: int, width: int) -> Case:
    heads, queries, keys = HEADS[width], QUERIES[rows], LENGTHS[rows]
    # Small, so that no softmax is that of a single key: its gradient would be little but rounding.
    q = (draw.tensor(sum(queries), width) / 8).detach().requires_grad_()
    kv, dy = draw.tensor(rows, 2 * width), draw.tensor(sum(queries), width)
    parts = []
    for of_queries, of_keys in zip(q.split(queries), kv.split(keys), strict=True):  # [T, D], [T, 2 D]
        one = of_queries.view(len(of_queries), heads, -1).transpose(0, 1)  # [H, T, D / H]
        k, v = of_keys.view(len(of_keys), 2, heads, -1).permute(1, 2, 0, 3)
        mixed = functional.scaled_dot_product_attention(one[None], k[None], v[None])
        parts.append(mixed[0].transpose(0, 1).reshape(len(of_queries), width))
    y = torch.cat(parts)
    return {
        "heads": heads,
        "queries": queries,
        "lengths": keys,
        "inputs": {"q": q, "kv": kv, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dq=q, dkv=kv),
    }


def elementwise(function: Callable[[Tensor], Tensor]) -> Callable[[Draw, int, int], Case]:
    def make_case(draw: Draw, rows: int, width: int) -> Case:
        x, dy = draw.tensor(rows, width), draw.tensor(rows, width)
        y = function(x)
        return {"inputs": {"x": x, "dy": dy}, "results": {"y": y} | gradients(y, dy, dx=x)}

    return make_case


def glu(draw: Draw, rows: int, width: int) -> Case:
    x, dy = draw.tensor(rows, 2 * width), draw.tensor(rows, width)
    y = functional.glu(x, 1)
    return {"inputs": {"x": x, "dy": dy}, "results": {"y": y} | gradients(y, dy, dx=x)}


def dropout(draw: Draw, rows: int, width: int) -> Case:
    x, dy = draw.tensor(rows, width), draw.tensor(rows, width)
    key, probability, lengths = DROPOUT_KEYS[rows], PROBABILITY[rows], LENGTHS[rows]
    factors = []
    for utterance, length in zip(DROPOUT_UTTERANCES, lengths, strict=True):
        factors += dropout_factors(key, utterance, length * width, probability)
    mask = torch.tensor(factors, dtype=torch.float64).view(rows, width)
    y = x * mask
    return {
        "key": asdict(key),
        "utterances": [asdict(utterance) for utterance in DROPOUT_UTTERANCES],
        "probability": probability,
        "lengths": lengths,
        "inputs": {"x": x, "dy": dy},
        "results": {"mask": mask, "y": y} | gradients(y, dy, dx=x),
    }


def residual_add(draw: Draw, rows: int, width: int) -> Case:
    x, residual = draw.tensor(rows, width), draw.tensor(rows, width)
    return {"inputs": {"x": x, "residual": residual}, "results": {"y": x + residual}}


def column_sum(draw: Draw, rows: int, width: int) -> Case:
    x = draw.tensor(rows, width)
    return {"inputs": {"x": x}, "results": {"sum": x.sum(0)}}


def embedding(draw: Draw, rows: int, width: int) -> Case:
    entries = 6  # fewer than the tokens of the larger cases: some occur twice
    ids = torch.tensor([draw.whole(entries) for _ in range(rows)])
    table, dy = draw.tensor(entries, width), draw.tensor(rows, width)
    y = functional.embedding(ids, table)
    return {
        "inputs": {"ids": ids, "table": table, "dy": dy},
        "results": {"y": y} | gradients(y, dy, grad_table=table),
    }


def ctc(draw: Draw, rows: int, width: int) -> Case:
    logits = draw.tensor(rows, width)
    lengths, labels, blank = LENGTHS[rows], LABELS[rows], BLANK[rows]
    weights = [(1 + draw.whole(16)) / 16 for _ in lengths]
    losses = [
        functional.ctc_loss(
            utterance.log_softmax(1).unsqueeze(1),  # [T, 1, V]
            torch.tensor([targets], dtype=torch.long),
            [len(utterance)],
            [len(targets)],
            blank,
            reduction="none",
            zero_infinity=True,
        )
        for utterance, targets in zip(logits.split(lengths), labels, strict=True)
    ]
    loss = torch.cat(losses)
    return {
        "lengths": lengths,
        "labels": labels,
        "blank": blank,
        "weights": weights,
        "inputs": {"logits": logits},
        "results": {"loss": loss}
        | gradients(loss, torch.tensor(weights, dtype=torch.float64), gradient=logits),
    }


def cross_entropy(draw: Draw, rows: int, width: int) -> Case:
    entries = 2 * width + 1
    x = draw.tensor(rows, width)
    # Logits of about 1: larger ones would lose too many digits in 16 bits.
    weight = (draw.tensor(entries, width).detach() / 16).requires_grad_()
    drawn = [draw.whole(entries) for _ in range(rows)]
    targets = torch.tensor([-100 if row in NO_TARGET[rows] else entry for row, entry in enumerate(drawn)])
    lengths, smoothing = LENGTHS[rows], SMOOTHING[width]
    weights = [(1 + draw.whole(16)) / 16 for _ in lengths]
    of_rows = functional.cross_entropy(
        functional.linear(x, weight), targets, reduction="none", label_smoothing=smoothing
    )
    loss = torch.stack([utterance.sum() for utterance in of_rows.split(lengths)])
    return {
        "lengths": lengths,
        "targets": [utterance.tolist() for utterance in targets.split(lengths)],
        "smoothing": smoothing,
        "weights": weights,
        "inputs": {"x": x, "weight": weight},
        "results": {"loss": loss}
        | gradients(loss, torch.tensor(weights, dtype=torch.float64), dx=x, grad_weight=weight),
    }


def relative_shift(scores: Tensor) -> Tensor:
    """Transformer-XL's shift: from scores [H, T, 2 T - 1] by falling distance to [H, T, T] by key."""
    heads, frames, distances = scores.shape
    padded = functional.pad(scores, (1, 0)).view(heads, distances + 1, frames)
    return padded[:, 1:].reshape(heads, frames, distances)[..., :frames]


def attention_relative(draw: Draw, rows: int, width: int) -> Case:
    heads, lengths = HEADS[width], LENGTHS[rows]
    # Small, so that no softmax is that of a single key: its gradient would be little but rounding.
    qkv = (draw.tensor(rows, 3 * width) / 8).detach().requires_grad_()
    positions = (draw.tensor(2 * max(lengths) - 1, width) / 8).detach().requires_grad_()
    content_bias, position_bias, dy = draw.tensor(width), draw.tensor(width), draw.tensor(rows, width)
    parts = []
    for utterance in qkv.split(lengths):  # [T, 3 D]
        frames = len(utterance)
        q, k, v = utterance.view(frames, 3, heads, -1).permute(1, 2, 0, 3)  # [H, T, D / H]
        begin = max(lengths) - frames
        p = positions[begin : begin + 2 * frames - 1].view(2 * frames - 1, heads, -1).transpose(0, 1)
        content = (q + content_bias.view(heads, 1, -1)) @ k.transpose(1, 2)
        by_distance = (q + position_bias.view(heads, 1, -1)) @ p.transpose(1, 2)
        scores = (content + relative_shift(by_distance)) / (width // heads) ** 0.5
        parts.append((scores.softmax(2) @ v).transpose(0, 1).reshape(frames, width))
    y = torch.cat(parts)
    biases = {"d_content_bias": content_bias, "d_position_bias": position_bias}
    return {
        "heads": heads,
        "lengths": lengths,
        "inputs": {
            "qkv": qkv,
            "positions": positions,
            "content_bias": content_bias,
            "position_bias": position_bias,
            "dy": dy,
        },
        "results": {"y": y} | gradients(y, dy, dqkv=qkv, d_positions=positions, **biases),
    }


KERNELS: dict[str, Callable[[Draw, int, int], Case]] = {
    "Gemm": gemm,
    "LayerNorm": layer_norm,
    "RmsNorm": rms_norm,
    "GroupNorm": group_norm,
    "BatchNorm": batch_norm,
    "Gelu": elementwise(functional.gelu),
    "Relu": elementwise(functional.relu),
    "Silu": elementwise(functional.silu),
    "Glu": glu,
    "Dropout": dropout,
    "ResidualAdd": residual_add,
    "ColumnSum": column_sum,
    "Embedding": embedding,
    "Attention": attention,
    "AttentionRelative": attention_relative,
    "CrossAttention": cross_attention,
    "FrameWindows": frame_windows,
    "ImageWindows": image_windows,
    "ImageDepthwise": image_depthwise,
    "GroupedConvolution": grouped_convolution,
    "DepthwiseConvolution": depthwise_convolution,
    "WeightNorm": weight_norm,
    "Lstm": lstm,
    "Ctc": ctc,
    "CrossEntropy": cross_entropy,
}

STREAMS = [
    (Key(), Utterance()),
    (Key(seed=1, purpose="shuffle", step=3), Utterance()),
    (Key(seed=2**63 + 12345, purpose="dropout", step=40, layer=3), Utterance(2**32 + 7)),
    (Key(seed=5, purpose="layer_drop", step=2**32, layer=2**32 + 1), Utterance(12, segment=3)),
    (Key(seed=5, purpose="augmentation", step=1), Utterance(2**40, segment=1, copy=WORD - 1)),
]
# Within a block, across blocks, and where the number of the block needs its second word.
PLACES = [0, 1, 2, 3, 4, 5, 6, 7, 30, 31, 1000, 4 * WORD - 1, 4 * WORD, 4 * WORD + 6, 2**62 + 5]
CHANCE = 0.375


def philox_values() -> list[dict[str, Any]]:
    for counter, key, answer in KNOWN_ANSWERS:
        assert philox(counter, key) == answer, "Philox in Python does not give its authors' known answers"
    draw = Draw("philox")
    drawn = [[draw.whole(WORD) for _ in range(6)] for _ in range(8)]
    pairs = [(counter, key) for counter, key, _ in KNOWN_ANSWERS] + [(d[:4], d[4:]) for d in drawn]
    return [
        {"counter": list(counter), "key": list(key), "words": list(philox(tuple(counter), tuple(key)))}
        for counter, key in pairs
    ]


def stream_values(key: Key, utterance: Utterance) -> dict[str, Any]:
    stream = Stream(key, utterance)
    return {
        "key": asdict(key),
        "utterance": asdict(utterance),
        "folded_key": list(stream.key),
        "folded_utterance": stream.utterance,
        "places": PLACES,
        "bits": [stream.bits(n) for n in PLACES],
        "uniform": [stream.uniform(n) for n in PLACES],
        "normal": [stream.normal(n) for n in PLACES],
        "chance": CHANCE,
        "bernoulli": [stream.bernoulli(n, CHANCE) for n in PLACES],
        "permutations": [stream.permutation(size) for size in (0, 1, 2, 10, 33)],
    }


def make() -> dict[str, Any]:
    return {
        "kernels": {
            name: [make_case(Draw(f"{name} {rows} {width}"), rows, width) for rows, width in SHAPES]
            for name, make_case in KERNELS.items()
        },
        "philox": philox_values(),
        "streams": [stream_values(key, utterance) for key, utterance in STREAMS],
    }
