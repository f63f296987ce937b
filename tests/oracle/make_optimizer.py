"""The fixture of the optimizer: steps of torch.optim.AdamW in double precision, and learning-rate schedules.

The schedules are those of transformers (get_constant_schedule_with_warmup, get_linear_schedule_with_warmup,
get_cosine_with_min_lr_schedule_with_warmup, get_inverse_sqrt_schedule), written here from their formulas: a
factor of the peak by the number of steps done. A floor on the straight line is that of
get_polynomial_decay_schedule_with_warmup with power 1; the inverse square root has none there.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from make_kernels import Draw

VALUES = 203  # not a multiple of sixteen: the CPU works on that many at a time
STEPS = 10
# By case. Rates and decays large enough to be seen in few steps; an epsilon that would be missed if it were
# added at another place.
KEYS = ("rate", "beta1", "beta2", "epsilon", "weight_decay", "gradient_scale")
SETTINGS = [
    (1e-2, 0.9, 0.999, 1e-8, 0.01, 1.0),
    (0.1, 0.8, 0.98, 0.05, 0.5, 0.125),
    (0.05, 0.0, 0.95, 1e-6, 0.0, 3.0),
]


def adamw(number: int, settings: dict[str, float]) -> dict[str, Any]:
    """The weights after each step, the moments after the last."""
    draw = Draw(f"adamw {number}")
    weights = draw.tensor(VALUES).detach()
    parameter = torch.nn.Parameter(weights.clone())
    optimizer = torch.optim.AdamW(
        [parameter],
        lr=settings["rate"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
        weight_decay=settings["weight_decay"],
        foreach=False,
        fused=False,
    )
    gradients, after = [], []
    for _ in range(STEPS):
        gradients.append(draw.tensor(VALUES).detach())
        parameter.grad = gradients[-1] * settings["gradient_scale"]
        optimizer.step()
        after.append(parameter.detach().clone())
    state = optimizer.state[parameter]
    return {
        "settings": settings,
        "weights": weights,
        "gradients": torch.stack(gradients),
        "after": torch.stack(after),
        "first_moment": state["exp_avg"],
        "second_moment": state["exp_avg_sq"],
    }


def constant(done: int, warmup: int, total: int, final: float) -> float:
    return done / max(1, warmup) if done < warmup else 1.0


def linear(done: int, warmup: int, total: int, final: float) -> float:
    if done < warmup:
        return done / max(1, warmup)
    return final + (1 - final) * max(0.0, (total - done) / max(1, total - warmup))


def cosine(done: int, warmup: int, total: int, final: float) -> float:
    if done < warmup:
        return done / max(1, warmup)
    progress = (done - warmup) / max(1, total - warmup)
    factor = 0.5 * (1.0 + math.cos(math.pi * 0.5 * 2.0 * progress))
    return max(0.0, factor * (1 - final) + final)


def inverse_square_root(done: int, warmup: int, total: int, final: float) -> float:
    if done < warmup:
        return done / max(1, warmup)
    timescale = warmup or 10_000
    return max(final, 1.0 / math.sqrt((done + timescale - warmup) / timescale))


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "noam": inverse_square_root,
}
# Peak, warm-up, total, final ratio.
RUNS = [(1e-3, 0, 12, 0.0), (2.5e-4, 5, 40, 0.0), (0.75, 3, 30, 0.125), (1e-4, 20, 10, 0.0)]


def schedule(kind: str, rate: float, warmup: int, total: int, final: float) -> dict[str, Any]:
    """The rates of all steps of a run, from the first."""
    return {
        "kind": kind,
        "rate": rate,
        "warmup_steps": warmup,
        "total_steps": total,
        "final_ratio": final,
        "rates": [rate * SCHEDULES[kind](done, warmup, total, final) for done in range(total)],
    }


def make() -> dict[str, Any]:
    return {
        "adamw": [
            adamw(number, dict(zip(KEYS, values, strict=True))) for number, values in enumerate(SETTINGS)
        ],
        "schedules": [schedule(kind, *run) for kind in SCHEDULES for run in RUNS],
    }
