"""The encoder of Parakeet by transformers: subsampling by 8, relative attention, batch norm in eval mode.

A tiny ParakeetEncoder with random values, with and without biases in its blocks, runs in double precision,
one utterance at a time; results are stored in fp32. Its input is not scaled. Names and layouts are ours:

    features.U [T, 16]                      of utterance U
    upstream.U [frames, 24]                 the gradient of the loss by the result
    weights.NAME                            those that a variant has are the same in both
    VARIANT.subsampled.U [frames, 24]       what the first block is given
    VARIANT.result.U [frames, 24]
    VARIANT.gradients.NAME                  sums over the utterances
"""

import os
from pathlib import Path

import fixture
import torch
from fixture_folder import save_tensors
from oracle_steps import draw
from torch import Tensor

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

from transformers import ParakeetEncoder, ParakeetEncoderConfig  # noqa: E402

PACKAGES = ["safetensors", "transformers"]
SCRIPT = "tests/oracle/make_parakeet_encoder.py"
# transformers computes the table of positions in fp32, whose sines may differ in the last place between
# processors.
TOLERANCE = 2.0**-18

SHAPE = {
    "num_mel_bins": 16,
    "subsampling_factor": 8,
    "subsampling_conv_channels": 6,
    "hidden_size": 24,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "conv_kernel_size": 9,
}
# Layers, and whether their products and convolutions have biases.
VARIANTS = {"biases": (2, True), "no_biases": (1, False)}
# One is reduced to a single frame, one to fewer frames than the convolution sees.
LENGTHS = [120, 7, 33, 64]

SUBSAMPLING = {
    "layers.0": "conv1",
    "layers.2": "conv2.depthwise",
    "layers.3": "conv2.pointwise",
    "layers.5": "conv3.depthwise",
    "layers.6": "conv3.pointwise",
    "linear": "projection",
}
BLOCK = {
    "norm_feed_forward1": "ffn1.norm",
    "feed_forward1.linear1": "ffn1.in",
    "feed_forward1.linear2": "ffn1.out",
    "norm_self_att": "attention.norm",
    "self_attn.relative_k_proj": "attention.position",
    "self_attn.o_proj": "attention.out",
    "norm_conv": "convolution.norm",
    "conv.pointwise_conv1": "convolution.expand",
    "conv.depthwise_conv": "convolution.depthwise",
    "conv.norm": "convolution.inner_norm",
    "conv.pointwise_conv2": "convolution.project",
    "norm_feed_forward2": "ffn2.norm",
    "feed_forward2.linear1": "ffn2.in",
    "feed_forward2.linear2": "ffn2.out",
    "norm_out": "norm",
}


def make_encoder(variant: str) -> ParakeetEncoder:
    layers, has_biases = VARIANTS[variant]
    config = ParakeetEncoderConfig(
        **SHAPE,
        num_hidden_layers=layers,
        attention_bias=has_biases,
        convolution_bias=has_biases,
        scale_input=False,
    )
    config._attn_implementation = "sdpa"  # the other one rounds to fp32
    return ParakeetEncoder(config).double().eval()


def draw_state(model: ParakeetEncoder) -> dict[str, Tensor]:
    """Values of a size that matters, such as fp32 holds."""
    generator = torch.Generator().manual_seed(31)
    state = {}
    for name, value in sorted(model.state_dict().items()):
        if not value.is_floating_point():  # the number of batches, which nothing reads
            continue
        drawn = draw(generator, *value.shape)
        if name.endswith("running_var"):
            drawn = 0.5 + drawn.square()
        elif value.dim() == 1 or "bias_" in name:
            drawn = 0.25 * drawn + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
        else:
            drawn = drawn / value[0].numel() ** 0.5
        state[name] = drawn.float().double()
    return state


def in_sotto(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights or gradients under our names and in our layouts."""
    ours: dict[str, Tensor] = {}

    def rename(prefix: str, new_prefix: str, names: dict[str, str]) -> None:
        for old, new in names.items():
            for part in ("weight", "bias", "running_mean", "running_var"):
                if (value := values.get(f"{prefix}.{old}.{part}")) is not None:
                    name = part.replace("running_var", "running_variance")
                    ours[f"{new_prefix}.{new}.{name}"] = value.flatten(1) if value.dim() > 2 else value

    rename("subsampling", "subsampling", SUBSAMPLING)
    # Theirs goes channel by channel, ours bin by bin.
    projection = ours["subsampling.projection.weight"].view(
        SHAPE["hidden_size"], SHAPE["subsampling_conv_channels"], -1
    )
    ours["subsampling.projection.weight"] = projection.transpose(1, 2).flatten(1)
    layer = 0
    while f"layers.{layer}.norm_out.weight" in values:
        block = f"layers.{layer}"
        layer += 1
        rename(block, block, BLOCK)
        for part in ("weight", "bias"):
            rows = [values.get(f"{block}.self_attn.{which}_proj.{part}") for which in "qkv"]
            if rows[0] is not None:
                ours[f"{block}.attention.qkv.{part}"] = torch.cat(rows)
        ours[f"{block}.attention.content_bias"] = values[f"{block}.self_attn.bias_u"].flatten()
        ours[f"{block}.attention.position_bias"] = values[f"{block}.self_attn.bias_v"].flatten()
    assert sum(value.numel() for value in ours.values()) == sum(value.numel() for value in values.values())
    return ours


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = draw_state(make_encoder("biases"))
    generator = torch.Generator().manual_seed(32)
    features = [draw(generator, length, SHAPE["num_mel_bins"]).float().double() for length in LENGTHS]
    tensors = {f"weights.{name}": value for name, value in in_sotto(state).items()}
    tensors |= {f"features.{u}": value for u, value in enumerate(features)}
    upstream = [
        draw(generator, -(-length // SHAPE["subsampling_factor"]), SHAPE["hidden_size"]).float().double()
        for length in LENGTHS
    ]
    tensors |= {f"upstream.{u}": value for u, value in enumerate(upstream)}
    for variant in VARIANTS:
        model = make_encoder(variant)
        own = {name: value for name, value in state.items() if name in model.state_dict()}
        missing = model.load_state_dict(own, strict=False).missing_keys
        assert all(name.endswith("num_batches_tracked") for name in missing), missing
        for u, (x, dy) in enumerate(zip(features, upstream, strict=True)):
            result = model(x[None]).last_hidden_state[0]
            (result * dy).sum().backward()
            tensors[f"{variant}.subsampled.{u}"] = model.subsampling(x[None])[0]
            tensors[f"{variant}.result.{u}"] = result
        gradients = {name: value.grad for name, value in model.named_parameters()}
        tensors |= {f"{variant}.gradients.{name}": value for name, value in in_sotto(gradients).items()}
    save_tensors(folder / "expected.safetensors", tensors)
    content = {"shape": SHAPE, "variants": VARIANTS, "lengths": LENGTHS}
    fixture.write(folder / "expected.json", SCRIPT, content, PACKAGES)
