"""The fixtures of decoder_lm: a folder a variant with its weights, logits, losses, gradients and five steps.

The network is that of decoder_lm.py in double precision, from values that fp32 holds; results are stored in
fp32. That GPT2LMHeadModel of transformers computes the same with the same weights is asserted of each
variant: logits, gradients and the values after five steps. In expected.safetensors, for row R:

    tokens.R, targets.R [T]     a target of -100 does not count
    logits.R [T, V]

and gradients.NAME (of the loss by `tokens`, before clipping) and final.NAME.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixture
import torch
from decoder_lm import IGNORED, DecoderLm, LmShape, row_loss
from fixture_folder import save_tensors
from oracle_steps import SETTINGS, Steps, draw_values, take_steps
from torch import Tensor
from twin import sinusoids

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

PACKAGES = ["safetensors", "transformers"]
SCRIPT = "tests/oracle/make_decoder_lm.py"

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS = 23, 16, 2, 32, 2
LENGTHS = [1, 5, 9]
LONGEST = 12  # longer than any row: the last positions are not used
# Of GPT-2 against ours: sums in another order. In the steps a gradient that is noise is divided by epsilon.
SAME, SAME_AFTER_STEPS = 1e-12, 1e-9

# What GPT-2 calls ours. Its matrices are [inputs, outputs].
GPT2_NAMES = {
    "embedding": "transformer.wte",
    "positions": "transformer.wpe",
    "norm1": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "norm2": "ln_2",
    "ffn.in": "mlp.c_fc",
    "ffn.out": "mlp.c_proj",
    "head.norm": "transformer.ln_f",
    "head.weight": "lm_head.weight",
    "layers.": "transformer.h.",
}


@dataclass
class Variant:
    """One folder."""

    learned_positions: bool
    tied: bool
    smoothing: float = 0.0
    ignored: tuple[tuple[int, int], ...] = ()  # row and place


VARIANTS = {
    "sinusoidal": Variant(learned_positions=False, tied=False),
    "learned_tied": Variant(learned_positions=True, tied=True),
    "smoothing": Variant(
        learned_positions=True, tied=True, smoothing=0.1, ignored=((1, 0), (1, 3), (2, 4), (2, 8))
    ),
}


def make_rows(variant: Variant) -> tuple[list[Tensor], list[Tensor]]:
    """Tokens and targets: what follows each token, and some that do not count."""
    generator = torch.Generator().manual_seed(5)
    rows = [torch.randint(VOCABULARY, (length + 1,), generator=generator) for length in LENGTHS]
    targets = [row[1:].clone() for row in rows]
    for row, place in variant.ignored:
        targets[row][place] = IGNORED
    return [row[:-1].clone() for row in rows], targets


def gpt2_name(name: str) -> str:
    for ours, theirs in GPT2_NAMES.items():
        name = name.replace(ours, theirs)
    return name


def gpt2_of(model: DecoderLm) -> GPT2LMHeadModel:
    """GPT-2 with the weights of ours; sinusoids are positions that are not learned."""
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LONGEST,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=HIDDEN,
        activation_function="gelu",
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=model.shape.tied,
        attn_implementation="eager",
    )
    gpt2 = GPT2LMHeadModel(config).double().eval()
    theirs = dict(gpt2.named_parameters())
    with torch.no_grad():
        for name, value in model.named_parameters():
            theirs[gpt2_name(name)].copy_(turned(name, value))
        if model.shape.learned_positions is None:
            theirs["transformer.wpe.weight"].copy_(sinusoids(LONGEST, WIDTH))
            theirs["transformer.wpe.weight"].requires_grad = False
    return gpt2


def turned(name: str, value: Tensor) -> Tensor:
    """A matrix of a block in the layout of GPT-2."""
    return value.T if name.startswith("layers.") and value.dim() == 2 else value


def largest_of(gradients: dict[str, Tensor]) -> float:
    return max(value.abs().max().item() for value in gradients.values())


def check_same(what: str, ours: Tensor, theirs: Tensor, limit: float) -> None:
    difference = (ours - theirs).abs().max().item()
    assert difference < limit, f"{what} differs from GPT-2's by {difference:.1e}"


def check_steps(ours: Steps, theirs: Steps) -> None:
    check_same("a loss", torch.tensor(ours.losses), torch.tensor(theirs.losses), SAME * ours.losses[0])
    assert set(theirs.gradients) == {gpt2_name(name) for name in ours.gradients}
    limit = SAME * largest_of(ours.gradients)
    for name, value in ours.gradients.items():
        other = gpt2_name(name)
        check_same(f"the gradient of {name}", value, turned(name, theirs.gradients[other]), limit)
        check_same(f"final {name}", ours.final[name], turned(name, theirs.final[other]), SAME_AFTER_STEPS)


def without_noise(gradients: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
    """The gradients with true zeros, and where: name to begin and end in the flat tensor.

    A bias of the keys adds the same to all scores of a query, which the softmax takes out again: the second
    third of qkv.bias has no gradient but rounding. Everything else is not small, or exactly zero because
    nothing uses it (embeddings of tokens that are not there, positions behind the longest row).
    """
    noise = SAME * largest_of(gradients)
    result, ranges = {}, {}
    for name, value in gradients.items():
        value = value.clone()
        if name.endswith("qkv.bias"):
            assert value[WIDTH : 2 * WIDTH].abs().max() < noise
            value[WIDTH : 2 * WIDTH] = 0
            ranges[name] = [WIDTH, 2 * WIDTH]
        assert ((value == 0) | (value.abs() > noise)).all(), f"{name} has a gradient that is noise"
        result[name] = value
    return result, ranges


def make_model(variant: Variant) -> DecoderLm:
    shape = LmShape(
        features=0,
        vocabulary=VOCABULARY,
        layers=LAYERS,
        width=WIDTH,
        heads=HEADS,
        hidden=HIDDEN,
        dropout=0.0,
        learned_positions=LONGEST if variant.learned_positions else None,
        tied=variant.tied,
    )
    model = DecoderLm(shape).double()
    draw_values(model, deviation=1.5 * WIDTH**-0.5, seed=17)
    return model


def shape_of(variant: Variant) -> dict[str, Any]:
    return {
        "vocabulary": VOCABULARY,
        "layers": LAYERS,
        "width": WIDTH,
        "heads": HEADS,
        "hidden": HIDDEN,
        "positions": "learned" if variant.learned_positions else "sinusoidal",
        "max_frames": LONGEST,
        "tied": variant.tied,
    }


def make_variant(variant: Variant, folder: Path) -> None:
    model = make_model(variant)
    gpt2 = gpt2_of(model)
    tokens, targets = make_rows(variant)
    count = sum(int((row != IGNORED).sum()) for row in targets)
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / "model.safetensors", dict(model.named_parameters()))

    def losses_of(logits: list[Tensor]) -> list[Tensor]:
        return [row_loss(part, goal, variant.smoothing) for part, goal in zip(logits, targets, strict=True)]

    def run_ours() -> list[Tensor]:
        return [model.forward_one(row) for row in tokens]

    def run_gpt2() -> list[Tensor]:
        return [gpt2(row[None]).logits[0] for row in tokens]

    with torch.no_grad():
        logits = run_ours()
        for ours, theirs in zip(logits, run_gpt2(), strict=True):
            check_same("a logit", ours, theirs, SAME * ours.abs().max().item())
    losses = [loss.item() for loss in losses_of(logits)]
    steps = take_steps(model, lambda: sum(losses_of(run_ours())) / count)
    check_steps(steps, take_steps(gpt2, lambda: sum(losses_of(run_gpt2())) / count))
    gradients, zeros = without_noise(steps.gradients)

    tensors = {f"tokens.{r}": row for r, row in enumerate(tokens)}
    tensors |= {f"targets.{r}": row for r, row in enumerate(targets)}
    tensors |= {f"logits.{r}": part for r, part in enumerate(logits)}
    tensors |= {f"gradients.{name}": value for name, value in gradients.items()}
    tensors |= {f"final.{name}": value for name, value in steps.final.items()}
    save_tensors(folder / "expected.safetensors", tensors)
    reductions = {"sum": sum(losses), "tokens": sum(losses) / count, "utterances": sum(losses) / len(losses)}
    content = {
        "shape": shape_of(variant),
        "label_smoothing": variant.smoothing,
        "lengths": LENGTHS,
        "num_targets": count,
        "losses": {"by_row": losses} | reductions,
        "optimizer": SETTINGS,
        "step_losses": steps.losses,
        "gradient_norms": steps.norms,
        "zero_gradients": zeros,
    }
    fixture.write(folder / "expected.json", SCRIPT, content, PACKAGES)


def make_folder(folder: Path) -> None:
    for name, variant in VARIANTS.items():
        make_variant(variant, folder / name)
