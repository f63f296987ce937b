"""Cases of make_kernels.py: convolutions over time and bins, and the norm of their weights."""

from collections.abc import Iterator

import torch
from kernel_draw import LENGTHS, Case, Draw, gradients
from torch import Tensor
from torch.nn import functional

# By width: groups and taps of the convolution of positions. Taps odd, even, and more than an utterance has.
CONVOLUTIONS = {7: (1, 3), 12: (4, 4), 24: (3, 8)}
# By width: channels of an image. One bin, one channel, and several of both.
IMAGE_CHANNELS = {7: 7, 12: 1, 24: 8}
# By width: taps of the depthwise convolution. One, and more than an utterance has.
DEPTHWISE_TAPS = {7: 3, 12: 1, 24: 9}


def frame_windows(draw: Draw, rows: int, width: int) -> Case:
    """As a convolution over 3 frames with stride 2, whose weights are a product's."""
    x, weight, lengths = draw.tensor(rows, width), draw.tensor(4, 3 * width), LENGTHS[rows]
    dy = draw.tensor(sum((length + 1) // 2 for length in lengths), 4)
    kernel = weight.view(4, 3, width).transpose(1, 2)
    parts = [functional.conv1d(u.t()[None], kernel, stride=2, padding=1)[0].t() for u in x.split(lengths)]
    y = torch.cat(parts)
    return {
        "lengths": lengths,
        "inputs": {"x": x, "weight": weight, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight),
    }


def image_size(rows: int, width: int) -> tuple[int, int, int]:
    """Channels, mel bins and windows along time of images in frames of a width."""
    channels = IMAGE_CHANNELS[width]
    return channels, width // channels, sum((length + 1) // 2 for length in LENGTHS[rows])


def images(x: Tensor, rows: int, channels: int) -> Iterator[Tensor]:
    """The utterances as [1, C, T, F], from frames of bins whose channels are adjacent."""
    for u in x.split(LENGTHS[rows]):
        yield u.view(1, len(u), -1, channels).permute(0, 3, 1, 2)


def image_windows(draw: Draw, rows: int, width: int) -> Case:
    """As a convolution over 3 x 3 with stride 2, whose weights are a product's."""
    channels, bins, windows = image_size(rows, width)
    x, weight = draw.tensor(rows, width), draw.tensor(4, 9 * channels)
    dy = draw.tensor(windows * ((bins + 1) // 2), 4)
    kernel = weight.view(4, 3, 3, channels).permute(0, 3, 1, 2)
    parts = [functional.conv2d(u, kernel, stride=2, padding=1) for u in images(x, rows, channels)]
    y = torch.cat([part[0].permute(1, 2, 0).reshape(-1, 4) for part in parts])
    return {
        "lengths": LENGTHS[rows],
        "channels": channels,
        "inputs": {"x": x, "weight": weight, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight),
    }


def image_depthwise(draw: Draw, rows: int, width: int) -> Case:
    channels, bins, windows = image_size(rows, width)
    x, weight, bias = draw.tensor(rows, width), draw.tensor(channels, 9), draw.tensor(channels)
    dy = draw.tensor(windows, (bins + 1) // 2 * channels)
    kernel = weight.view(channels, 1, 3, 3)
    parts = [
        functional.conv2d(u, kernel, bias, stride=2, padding=1, groups=channels)
        for u in images(x, rows, channels)
    ]
    y = torch.cat([part[0].permute(1, 2, 0).flatten(1) for part in parts])
    return {
        "lengths": LENGTHS[rows],
        "channels": channels,
        "inputs": {"x": x, "weight": weight, "bias": bias, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight, grad_bias=bias),
    }


def grouped_convolution(draw: Draw, rows: int, width: int) -> Case:
    """As wav2vec2 has it: padded by half the taps, and of an even number the last output dropped."""
    groups, taps = CONVOLUTIONS[width]
    lengths = LENGTHS[rows]
    x, dy = draw.tensor(rows, width), draw.tensor(rows, width)
    weight = draw.tensor(width, width // groups, taps)
    parts = [
        functional.conv1d(u.t()[None], weight, padding=taps // 2, groups=groups)[0].t()[: len(u)]
        for u in x.split(lengths)
    ]
    y = torch.cat(parts)
    return {
        "lengths": lengths,
        "inputs": {"x": x, "weight": weight, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight),
    }


def depthwise_convolution(draw: Draw, rows: int, width: int) -> Case:
    taps, lengths = DEPTHWISE_TAPS[width], LENGTHS[rows]
    x, dy = draw.tensor(rows, width), draw.tensor(rows, width)
    weight, bias = draw.tensor(width, taps), draw.tensor(width)
    parts = [
        functional.conv1d(u.t()[None], weight[:, None], bias, padding=taps // 2, groups=width)[0].t()
        for u in x.split(lengths)
    ]
    y = torch.cat(parts)
    return {
        "lengths": lengths,
        "inputs": {"x": x, "weight": weight, "bias": bias, "dy": dy},
        "results": {"y": y} | gradients(y, dy, dx=x, grad_weight=weight, grad_bias=bias),
    }


def weight_norm(draw: Draw, rows: int, width: int) -> Case:
    """By the function behind torch.nn.utils.parametrizations.weight_norm, over all axes but the taps'."""
    v, g, dw = draw.tensor(rows, 2, width), draw.tensor(width), draw.tensor(rows, 2, width)
    w = torch._weight_norm(v, g.view(1, 1, width), 2)
    norm = torch.linalg.vector_norm(v, dim=(0, 1))
    return {
        "inputs": {"v": v, "g": g, "dw": dw},
        "results": {"w": w, "norm": norm} | gradients(w, dw, grad_v=v, grad_g=g),
    }
