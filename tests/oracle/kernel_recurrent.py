"""Case of make_kernels.py: a layer of long short-term memory over packed sequences."""

import torch
from kernel_draw import LENGTHS, Case, Draw, gradients
from torch import Tensor

# By width of the inputs: the width of the state.
STATE_WIDTH = {7: 5, 12: 3, 24: 8}


def small(draw: Draw, *shape: int) -> Tensor:
    """Weights of gates that are neither open nor closed: multiples of 1/512."""
    return (draw.tensor(*shape).detach() / 16).requires_grad_()


def lstm(draw: Draw, rows: int, width: int) -> Case:
    """By torch.nn.LSTM, sequence by sequence."""
    state = STATE_WIDTH[width]
    x, dy = draw.tensor(rows, width), draw.tensor(rows, state)
    weights = {
        "weight_ih_l0": small(draw, 4 * state, width),
        "weight_hh_l0": small(draw, 4 * state, state),
        "bias_ih_l0": small(draw, 4 * state),
        "bias_hh_l0": small(draw, 4 * state),
    }
    layer = torch.nn.LSTM(width, state, dtype=torch.float64)
    y = torch.cat([torch.func.functional_call(layer, weights, (part,))[0] for part in x.split(LENGTHS[rows])])
    names = ["input_weight", "hidden_weight", "input_bias", "hidden_bias"]
    named = dict(zip(names, weights.values(), strict=True))
    of = {"dx": x} | {f"grad_{name}": weight for name, weight in named.items()}
    return {
        "lengths": LENGTHS[rows],
        "inputs": {"x": x, "dy": dy} | named,
        "results": {"y": y} | gradients(y, dy, **of),
    }
