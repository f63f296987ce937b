"""Ten steps of transformer_ctc by its PyTorch twin, one utterance at a time: initial and final weights.

The C++ test loads the initial weights, takes the same steps on packed micro-batches and compares the final
ones. All in double precision, from values that fp32 holds.
"""

import torch
from oracle_steps import draw, draw_values
from twin import Shape, Twin, ctc_mean, parameter_groups

SHAPE = Shape(features=6, vocabulary=5, layers=2, width=16, heads=2, hidden=24, dropout=0.0)
LENGTHS = [37, 12, 50, 23, 8, 31]
LABELS = [[1, 2, 2, 3], [4], [1, 4, 3, 3, 2, 1], [], [2], [3, 1, 2, 4]]
STEPS = 10
# A larger epsilon than usual: where a gradient is nearly zero Adam would divide noise by noise.
RATE, BETAS, EPSILON, DECAY, CLIP = 3e-3, (0.9, 0.98), 1e-6, 0.01, 1.0


def make() -> dict:
    model = Twin(SHAPE).double()
    draw_values(model, deviation=SHAPE.width**-0.5, seed=11)
    generator = torch.Generator().manual_seed(12)
    features = [(2 * draw(generator, length, SHAPE.features) + 1).float().double() for length in LENGTHS]
    initial = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.AdamW(parameter_groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPSILON)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = sum(
            ctc_mean(model.forward_one(x), torch.tensor(y)) for x, y in zip(features, LABELS, strict=True)
        ) / len(LENGTHS)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return {
        "shape": {
            "features": SHAPE.features,
            "vocabulary": SHAPE.vocabulary,
            "layers": SHAPE.layers,
            "width": SHAPE.width,
            "heads": SHAPE.heads,
            "hidden": SHAPE.hidden,
        },
        "optimizer": {
            "rate": RATE,
            "beta1": BETAS[0],
            "beta2": BETAS[1],
            "epsilon": EPSILON,
            "decay": DECAY,
            "clip": CLIP,
        },
        "features": features,
        "labels": LABELS,
        "losses": losses,
        "initial": initial,
        "final": {name: value.detach() for name, value in model.named_parameters()},
    }
