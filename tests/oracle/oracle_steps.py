"""What networks that are compared after training share: how values are drawn, and five steps of AdamW."""

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


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    """Normal values, the same on every processor: randn of fp32 has other last digits on others."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def draw_values(model: nn.Module, deviation: float, seed: int) -> None:
    """Values of a size that matters, biases and norms too; such as fp32 holds."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()):
        if value.dim() == 1:
            drawn = 0.25 * draw(generator, *value.shape)
            drawn += 1.0 if "norm" in name and name.endswith("weight") else 0.0
        else:
            drawn = deviation * draw(generator, *value.shape)
        value.data.copy_(drawn.float())


@dataclass
class Steps:
    """What five steps gave, and the gradients of the first, before clipping, under the parameters' names."""

    losses: list[float]
    norms: list[float]
    gradients: dict[str, Tensor]
    without_gradient: list[str]
    final: dict[str, Tensor]


def take_steps(model: nn.Module, loss_of: Callable[[], Tensor], epsilon: float = EPSILON) -> Steps:
    """Trains the model; loss_of computes the loss of a whole step."""
    optimizer = torch.optim.AdamW(parameter_groups(model, DECAY), lr=RATE, betas=BETAS, eps=epsilon)
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
