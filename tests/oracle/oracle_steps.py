"""Five steps of AdamW, the same for every network that is compared after training."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from twin import parameter_groups

STEPS = 5
RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.98), 1e-8, 0.01, 1.0

# As it stands in a fixture. Matrices decay, vectors do not.
SETTINGS = {
    "steps": STEPS,
    "rate": RATE,
    "beta1": BETAS[0],
    "beta2": BETAS[1],
    "epsilon": EPSILON,
    "decay": DECAY,
    "clip": CLIP,
}


@dataclass
class Steps:
    """What five steps gave, and the gradients of the first, before clipping, under the parameters' names."""

    losses: list[float]
    norms: list[float]
    gradients: dict[str, Tensor]
    without_gradient: list[str]
    final: dict[str, Tensor]


def take_steps(model: nn.Module, loss_of: Callable[[], Tensor]) -> Steps:
    """Trains the model; loss_of computes the loss of a whole step."""
    optimizer = torch.optim.AdamW(parameter_groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPSILON)
    result = Steps([], [], {}, [], {})
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if step == 0:
            for name, value in model.named_parameters():
                if value.grad is None:
                    result.without_gradient.append(name)
                else:
                    result.gradients[name] = value.grad.clone()
        result.norms.append(nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
        result.losses.append(loss.item())
    result.final = {name: value.detach() for name, value in model.named_parameters()}
    return result


def zero_gradients(gradients: dict[str, Tensor]) -> list[str]:
    """Parameters whose gradient is rounding noise of double precision beside the largest of all."""
    largest = max(value.abs().max().item() for value in gradients.values())
    return sorted(name for name, value in gradients.items() if value.abs().max().item() < 1e-12 * largest)
