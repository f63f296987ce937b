"""Five steps of conformer networks in PyTorch, one utterance at a time: initial and final weights.

The C++ test loads the initial weights, takes the same steps on packed micro-batches and compares the final
ones. All in double precision, from values that fp32 holds.
"""

from dataclasses import asdict

import torch
from conformer import Conformer, Shape
from oracle_steps import SETTINGS, draw, draw_values, take_steps
from torch import Tensor
from twin import ctc_sum

SIZES = {
    "features": 9,
    "vocabulary": 5,
    "width": 8,
    "heads": 2,
    "hidden": 12,
    "decoder_layers": 1,
}
NETWORKS = {
    "plain": Shape(**SIZES, layers=2, kernel=5, factor=4),
    "separable": Shape(**SIZES, layers=1, kernel=9, factor=8, separable=True, norm="group"),
}
LENGTHS = [67, 12, 50, 3, 41]
# The fourth has more labels than frames: CTC leaves it out, the decoder does not.
LABELS = [[1, 2, 2, 3], [4], [1, 4, 3, 2], [3, 1, 2, 4], [2]]
CTC_WEIGHT = 0.3
# Larger than usual: values of the table of positions that hardly change with the distance have hardly a
# gradient, and Adam would divide noise by noise.
EPSILON = 1e-6


def joint_loss(model: Conformer, features: list[Tensor]) -> Tensor:
    """The mean over the utterances, each over its number of labels."""
    total = torch.zeros((), dtype=torch.float64)
    for values, labels in zip(features, LABELS, strict=True):
        encoded = model.encode(values)
        targets = torch.tensor(labels)
        ctc = ctc_sum(model.ctc(encoded), targets)
        attention = model.attention_loss(encoded, targets)
        total = total + (CTC_WEIGHT * ctc + (1 - CTC_WEIGHT) * attention) / max(1, len(labels))
    return total / len(features)


def make() -> dict:
    result = {
        "optimizer": SETTINGS | {"epsilon": EPSILON},
        "labels": LABELS,
        "ctc_weight": CTC_WEIGHT,
        "networks": {},
    }
    generator = torch.Generator().manual_seed(22)
    features = [(2 * draw(generator, length, SIZES["features"]) + 1).float().double() for length in LENGTHS]
    for name, shape in NETWORKS.items():
        model = Conformer(shape).double()
        draw_values(model, deviation=shape.width**-0.5, seed=21)
        initial = {key: value.detach().clone() for key, value in model.named_parameters()}
        steps = take_steps(model, lambda model=model: joint_loss(model, features), EPSILON)
        result["networks"][name] = {
            "shape": asdict(shape),
            "initial": initial,
            "final": steps.final,
            "losses": steps.losses,
        }
    return result | {"features": features}
