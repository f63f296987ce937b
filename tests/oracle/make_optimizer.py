"""The fixture of the optimizer: steps of torch.optim.AdamW in double precision, 8-bit moments as bitsandbytes
has them, and learning-rate schedules.

Maps and what codes stand for come from the package bitsandbytes. The nearest code, and the step between, are
written here, in double: the package's CPU kernel looks codes up in a table that is coarser than the search of
its GPU kernel (0 becomes 7 in the map without a sign).

The schedules are those of transformers (get_constant_schedule_with_warmup, get_linear_schedule_with_warmup,
get_cosine_with_min_lr_schedule_with_warmup, get_inverse_sqrt_schedule) and fairseq's tri_stage, written here
from their formulas: a factor of the peak by the number of steps done. A floor on the straight line is that of
get_polynomial_decay_schedule_with_warmup with power 1; the inverse square root has none there. The warm-up of
fairseq begins at init_lr_scale, which is 0 here. The plateau is torch's ReduceLROnPlateau.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from bitsandbytes import functional as bnb
from kernel_draw import Draw

PACKAGES = ("bitsandbytes",)

VALUES = 67  # not a multiple of sixteen: the CPU works on that many at a time
STEPS = 50
STEPS_BETWEEN = 10  # weights are kept
# By case. Rates and decays large enough to be seen in few steps, and such that the factor by which a weight
# decays is a number of fp32, as its error would add up; an epsilon that would be missed if it were added at
# another place.
KEYS = ("rate", "beta1", "beta2", "epsilon", "weight_decay", "gradient_scale")
SETTINGS = [
    (2**-7, 0.9, 0.999, 1e-8, 2**-6, 1.0),
    (0.125, 0.8, 0.98, 0.05, 0.5, 0.125),
    (0.05, 0.0, 0.95, 1e-6, 0.0, 3.0),
]


def adamw(number: int, settings: dict[str, float]) -> dict[str, Any]:
    """The weights after every so many steps, the moments after the last."""
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
    for step in range(1, STEPS + 1):
        gradients.append(draw.tensor(VALUES).detach())
        parameter.grad = gradients[-1] * settings["gradient_scale"]
        optimizer.step()
        if step % STEPS_BETWEEN == 0:
            after.append(parameter.detach().clone())
    state = optimizer.state[parameter]
    return {
        "settings": settings,
        "steps_between": STEPS_BETWEEN,
        "weights": weights,
        "gradients": torch.stack(gradients),
        "after": torch.stack(after),
        "first_moment": state["exp_avg"],
        "second_moment": state["exp_avg_sq"],
    }


# What a run does to two parameters, by step: both are updated, the first is left out, or neither is updated
# because gradients overflowed.
SKIPS = ["both", "left", "both", "none", "both", "left", "left", "none", "both", "both", "left", "both"]


def skipping_adamw() -> dict[str, Any]:
    """A parameter without a gradient is not counted in torch, nor is a step that the scaler leaves out."""
    draw = Draw("adamw skipping")
    settings = dict(zip(KEYS, SETTINGS[1], strict=True)) | {"weight_decay": 0.0, "gradient_scale": 1.0}
    weights = [draw.tensor(VALUES).detach() for _ in range(2)]
    parameters = [torch.nn.Parameter(value.clone()) for value in weights]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=settings["rate"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
        weight_decay=0.0,
        foreach=False,
        fused=False,
    )
    gradients, after = [], []
    for skip in SKIPS:
        gradients.append(torch.stack([draw.tensor(VALUES).detach() for _ in range(2)]))
        for number, parameter in enumerate(parameters):
            parameter.grad = None if skip == "left" and number == 0 else gradients[-1][number].clone()
        if skip != "none":
            optimizer.step()
        after.append(torch.stack([parameter.detach().clone() for parameter in parameters]))
    counts = [int(optimizer.state[parameter]["step"]) for parameter in parameters]
    assert counts == [
        len(SKIPS) - SKIPS.count("none") - SKIPS.count("left"),
        len(SKIPS) - SKIPS.count("none"),
    ]
    return {
        "settings": settings,
        "skips": SKIPS,
        "weights": torch.stack(weights),
        "gradients": torch.stack(gradients),
        "after": torch.stack(after),
    }


BLOCK = 256


def quantize(values: torch.Tensor, code: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The codes of the nearest numbers, and the largest magnitude of each block."""
    largest = torch.stack([block.abs().max() for block in values.split(BLOCK)])
    inverse = torch.where(largest > 0, 1.0 / largest, 0.0)
    shares = values * inverse.repeat_interleave(BLOCK)[: len(values)]
    distances = (shares[:, None].double() - code[None].double()).abs()
    return distances.argmin(dim=1).to(torch.uint8), largest


def dequantize(codes: torch.Tensor, largest: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    return bnb.dequantize_blockwise(codes, absmax=largest.float(), code=code, blocksize=BLOCK).double()


def moment_map(signed: bool) -> dict[str, Any]:
    """All numbers of a map, and the codes of shares of all sizes."""
    code = bnb.create_dynamic_map(signed=signed)
    draw = Draw(f"moment map {signed}")
    shares = [1.0]
    for _ in range(2 * BLOCK - 1):
        sign = -1.0 if signed and draw.whole(2) else 1.0
        shares.append(sign * 10.0 ** (-7.0 * draw.source.random()))
    values = torch.tensor(shares, dtype=torch.float32)
    values[BLOCK] = 1.0
    return {"values": code, "shares": values, "codes": quantize(values, code)[0]}


CODED_VALUES = 600  # two blocks and a part
CODED_STEPS = 12
CODED_SETTINGS = dict(zip(KEYS, (2**-7, 0.9, 0.98, 1e-8, 2**-6, 1.0), strict=True))


def coded_adamw() -> dict[str, Any]:
    """Steps with moments that are codes in between; weights and state after the last."""
    draw = Draw("adamw 8bit")
    rate, beta1, beta2, epsilon, decay, _ = CODED_SETTINGS.values()
    signed, unsigned = bnb.create_dynamic_map(signed=True), bnb.create_dynamic_map(signed=False)
    weights = draw.tensor(CODED_VALUES).detach()
    before = weights.clone()
    first, first_largest = quantize(torch.zeros(CODED_VALUES).double(), signed)
    second, second_largest = quantize(torch.zeros(CODED_VALUES).double(), unsigned)
    gradients = []
    for step in range(1, CODED_STEPS + 1):
        gradient = draw.tensor(CODED_VALUES).detach()
        m = dequantize(first, first_largest, signed) * beta1 + gradient * (1 - beta1)
        v = dequantize(second, second_largest, unsigned) * beta2 + gradient * gradient * (1 - beta2)
        denominator = v.sqrt() / math.sqrt(1 - beta2**step) + epsilon
        weights = weights * (1 - rate * decay) - rate / (1 - beta1**step) * m / denominator
        first, first_largest = quantize(m, signed)
        second, second_largest = quantize(v, unsigned)
        gradients.append(gradient)
    return {
        "settings": CODED_SETTINGS,
        "weights": before,
        "gradients": torch.stack(gradients),
        "after": weights,
        "first_codes": first,
        "second_codes": second,
        "first_scales": first_largest,
        "second_scales": second_largest,
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


# Shares of the steps: warm-up, hold, decay.
PHASES = (0.1, 0.4, 0.5)


def tri_stage(done: int, warmup: int, total: int, final: float) -> float:
    warmup, hold, decay = (int(total * share) for share in PHASES)
    if done < warmup:
        return done / warmup
    if done < warmup + hold:
        return 1.0
    if done <= warmup + hold + decay:
        return math.exp(math.log(final) / decay * (done - warmup - hold))
    return final


SCHEDULES: dict[str, Callable[[int, int, int, float], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse_sqrt": inverse_square_root,
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


def tri_stage_schedule(rate: float, total: int, final: float) -> dict[str, Any]:
    return {
        "kind": "tri_stage",
        "rate": rate,
        "warmup_share": PHASES[0],
        "hold_share": PHASES[1],
        "total_steps": total,
        "final_ratio": final,
        "rates": [rate * tri_stage(done, 0, total, final) for done in range(total)],
    }


# Factor, patience, final ratio.
PLATEAUS = [(0.5, 2, 0.0), (0.1, 0, 0.02), (0.7, 3, 0.5)]


def plateau(factor: float, patience: int, final: float) -> dict[str, Any]:
    """The rate, as a share of the peak, after each of a row of evaluations."""
    draw = Draw(f"plateau {factor}")
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule_of = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer,
        factor=factor,
        patience=patience,
        threshold=0.0,
        threshold_mode="abs",
        min_lr=final,
        eps=0.0,
    )
    values, factors = [], []
    for number in range(40):
        values.append(max(0.25, 1.0 - number / 32) + draw.whole(9) / 32)
        schedule_of.step(values[-1])
        factors.append(optimizer.param_groups[0]["lr"])
    return {
        "factor": factor,
        "patience": patience,
        "final_ratio": final,
        "values": values,
        "factors": factors,
    }


def make() -> dict[str, Any]:
    return {
        "adamw": [
            adamw(number, dict(zip(KEYS, values, strict=True))) for number, values in enumerate(SETTINGS)
        ],
        "adamw_skipping": skipping_adamw(),
        "moment_maps": {"signed": moment_map(True), "unsigned": moment_map(False)},
        "adamw_8bit": coded_adamw(),
        "schedules": [schedule(kind, *run) for kind in SCHEDULES for run in RUNS]
        + [tri_stage_schedule(*run) for run in [(1e-3, 100, 0.01), (0.5, 40, 0.05)]],
        "plateaus": [plateau(*run) for run in PLATEAUS],
    }
