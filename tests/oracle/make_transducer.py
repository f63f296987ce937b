"""The fixture of the transducer losses: RNN-T and TDT on 500 small random lattices, in double precision.

The truth is the definition: a sum over alignments, step by step, with gradients by autograd. Before it is
written it is compared with a listing of every alignment (small lattices), with RNN-T of torchaudio, and with
TDT and the joint networks of transformers (Parakeet), which compute in single precision.

Lattices are in packs that share an output layer. T frames and U labels of a lattice, J width of the joint
network. Inputs are multiples of 1/32 up to 3, exact in every type. A pack:

    durations (none: RNN-T), sigma, blank, frames, labels, weights
    without_durations                       lattices of a network with durations that have the loss of RNN-T
    dropout                                 probability, key, and the utterances' keys
    inputs: encoder [sum of T, J], prediction [sum of (U + 1), J], weight [outputs, J], bias [outputs]
    results: loss, d_encoder, d_prediction, grad_weight, grad_bias; infeasible: lattices without an alignment
"""

import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from make_kernels import Draw
from philox import Key, Utterance, dropout_factors
from torch import Tensor
from transducer_rule import Lattice, log_of, log_softmax_of_parts, loss_of

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import

import torchaudio  # noqa: E402
from transformers import ParakeetRNNTConfig, ParakeetTDTConfig  # noqa: E402
from transformers.loss.loss_tdt import tdt_loss  # noqa: E402
from transformers.models.parakeet import modeling_parakeet  # noqa: E402

PACKAGES = ["torchaudio", "transformers"]
NUM_PACKS = 50
LATTICES_PER_PACK = 10
WIDTH = 3
IMPOSSIBLE = -math.inf
# Of losses and gradients in single precision, relative to the largest.
SINGLE = 1e-5
# Lattices of at most this many nodes are listed alignment by alignment.
MAX_LISTED_NODES = 9

# Frames and labels of lattices in every pack: one frame, no labels, both, and more labels than frames.
EDGES = [(1, 0), (1, 4), (5, 0), (2, 5)]
# For every fourth pack RNN-T; with 0 and 1 every lattice has an alignment. Some overrun every end.
DURATIONS = [[], [0, 1, 2, 3, 4], [0, 1, 8], [2, 0, 3]]


def listed_probability(lattice: Lattice, logs: Tensor, sigma: float, frame: int = 0, label: int = 0) -> float:
    """The sum over all alignments from a node, one by one."""
    if lattice.is_end(frame):
        return 1.0
    return sum(
        math.exp(float(log_of(logs[frame, label], step, sigma)))
        * listed_probability(lattice, logs, sigma, *step[:2])
        for step in lattice.steps(frame, label)
    )


@dataclass
class Pack:
    durations: list[int]
    sigma: float
    blank: int
    frames: list[int]
    labels: list[list[int]]
    weights: list[float]
    without_durations: list[int]
    probability: float
    key: Key
    utterances: list[Utterance]
    inputs: dict[str, Tensor] = field(default_factory=dict)

    def parts(self, name: str) -> list[Tensor]:
        sizes = self.frames if name == "encoder" else [len(labels) + 1 for labels in self.labels]
        return list(self.inputs[name].split(sizes))

    def lattice(self, u: int) -> Lattice:
        durations = [] if self.without_durations[u] else self.durations
        first = len(self.inputs["bias"]) - len(self.durations)
        return Lattice(self.frames[u], self.labels[u], self.blank, durations, first)

    def logits(self, u: int) -> Tensor:
        """[T, U + 1, outputs]"""
        encoder, prediction = self.parts("encoder")[u], self.parts("prediction")[u]
        joint = torch.relu(encoder.unsqueeze(1) + prediction)
        factors = dropout_factors(self.key, self.utterances[u], joint.numel(), self.probability)
        joint = joint * torch.tensor(factors, dtype=joint.dtype).view(joint.shape)
        return torch.nn.functional.linear(joint, self.inputs["weight"], self.inputs["bias"])

    def log_probabilities(self, u: int) -> Tensor:
        return log_softmax_of_parts(self.logits(u), len(self.durations))


def draw_pack(number: int) -> Pack:
    draw = Draw(f"transducer {number}")
    durations = DURATIONS[number % len(DURATIONS)]
    entries = 3 + draw.whole(5)
    blank = 0 if number % 8 < 4 else entries - 1
    sizes = EDGES + [(1 + draw.whole(6), draw.whole(6)) for _ in range(LATTICES_PER_PACK - len(EDGES))]
    others = [entry for entry in range(entries) if entry != blank]
    labels = [[others[draw.whole(len(others))] for _ in range(count)] for _, count in sizes]
    outputs = entries + len(durations)
    # Of the utterances of a network with durations, some have the loss of RNN-T; with dropout in every third.
    has_flags, has_dropout = bool(durations) and number % 3 == 1, number % 3 == 2
    pack = Pack(
        durations=durations,
        sigma=[0.0, 0.02, 0.25][number % 3] if durations else 0.0,
        blank=blank,
        frames=[frames for frames, _ in sizes],
        labels=labels,
        weights=[(1 + draw.whole(32)) / 32 for _ in sizes],
        without_durations=[int(has_flags and draw.whole(3) == 0) for _ in sizes],
        probability=0.25 if has_dropout else 0.0,
        key=Key(seed=2**35 + number, purpose="dropout", step=number, layer=3),
        utterances=[Utterance(number * 1000 + u, segment=u % 2) for u in range(len(sizes))],
    )
    pack.inputs = {
        "encoder": draw.tensor(sum(pack.frames), WIDTH),
        "prediction": draw.tensor(sum(len(part) + 1 for part in labels), WIDTH),
        "weight": draw.tensor(outputs, WIDTH),
        "bias": draw.tensor(outputs),
    }
    return pack


def require_near(ours: Tensor, theirs: Tensor, what: str) -> None:
    difference = ((ours - theirs).abs().max() / ours.abs().max().clamp(min=1.0)).item()
    if not difference <= SINGLE:
        raise AssertionError(f"{what}: {difference:.1e} off, expected at most {SINGLE:.0e}")


def gradients_of(loss: Tensor, pack: Pack) -> list[Tensor]:
    inputs = list(pack.inputs.values())
    found = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def joint_of_transformers(pack: Pack, u: int) -> Tensor:
    """Logits [1, T, U + 1, outputs] by the joint network of Parakeet."""
    weight, bias = pack.inputs["weight"], pack.inputs["bias"]
    shape = {
        "vocab_size": len(bias) - len(pack.durations),
        "decoder_hidden_size": WIDTH,
        "blank_token_id": pack.blank,
        "pad_token_id": pack.blank,
    }
    if pack.durations:
        config = ParakeetTDTConfig(**shape, durations=pack.durations)
        joint = modeling_parakeet.ParakeetTDTJointNetwork(config)
    else:
        joint = modeling_parakeet.ParakeetRNNTJointNetwork(ParakeetRNNTConfig(**shape))
    encoder, prediction = pack.parts("encoder")[u], pack.parts("prediction")[u]
    states = {
        "encoder_hidden_states": encoder[None, :, None],
        "decoder_hidden_states": prediction[None, None],
    }
    return torch.func.functional_call(joint, {"head.weight": weight, "head.bias": bias}, (), states)


def others_loss(pack: Pack, u: int) -> Tensor:
    """The loss by torchaudio or transformers, in single precision."""
    lattice = pack.lattice(u)
    logits = pack.logits(u)[None] if pack.probability else joint_of_transformers(pack, u)
    count = logits.shape[-1] - len(pack.durations)
    lengths = torch.tensor([lattice.frames]), torch.tensor([len(lattice.labels)])
    if lattice.durations:
        labels = torch.tensor([lattice.labels], dtype=torch.int64)
        logits_of = logits.split([count, len(pack.durations)], -1)
        rule = {"durations": pack.durations, "sigma": pack.sigma, "reduction": "none"}
        return tdt_loss(*logits_of, labels, *lengths, pack.blank, **rule)[0]
    # torchaudio wants a batch as large as its largest lattice: beside one without labels is one with a label.
    entries = logits[..., :count].float().contiguous()
    labels = torch.tensor([lattice.labels], dtype=torch.int32)
    frames, num_labels = (length.int() for length in lengths)
    if not lattice.labels:
        entries = entries.expand(2, -1, 2, -1).contiguous()
        labels = torch.full((2, 1), 1 - min(pack.blank, 1), dtype=torch.int32)
        frames, num_labels = frames.expand(2), torch.tensor([0, 1], dtype=torch.int32)
    return torchaudio.functional.rnnt_loss(
        entries, labels, frames.contiguous(), num_labels, blank=pack.blank, reduction="none"
    )[0]


def check(pack: Pack, u: int, loss: Tensor, logs: Tensor) -> None:
    lattice = pack.lattice(u)
    name = f"durations {lattice.durations}, {lattice.frames} frames, {len(lattice.labels)} labels"
    if lattice.frames * (len(lattice.labels) + 1) <= MAX_LISTED_NODES:
        listed = listed_probability(lattice, logs, pack.sigma)
        if not math.isclose(math.exp(-loss.item()), listed, rel_tol=1e-12):
            raise AssertionError(f"{name}: the alignments sum to {listed}, expected {math.exp(-loss.item())}")
    if lattice.durations and not {0, 1} <= set(lattice.durations):
        return  # the gradient of transformers is NaN where a node cannot be reached
    theirs = others_loss(pack, u)
    require_near(loss, theirs, name)
    for ours, other in zip(gradients_of(loss, pack), gradients_of(theirs, pack), strict=True):
        require_near(ours, other, f"a gradient of {name}")


def results_of(pack: Pack) -> tuple[dict[str, Tensor], list[int]]:
    losses, infeasible = [], []
    for u in range(len(pack.frames)):
        logs = pack.log_probabilities(u)
        loss = loss_of(pack.lattice(u), logs, pack.sigma)
        if loss is None:
            infeasible.append(u)
            loss = logs.new_zeros(())
        else:
            check(pack, u, loss, logs.detach())
        losses.append(loss)
    total = sum(loss * weight for loss, weight in zip(losses, pack.weights, strict=True))
    names = ["d_encoder", "d_prediction", "grad_weight", "grad_bias"]
    found = zip(names, gradients_of(total, pack), strict=True)
    return {"loss": torch.stack(losses).detach()} | dict(found), infeasible


def make() -> dict[str, Any]:
    packs = []
    for number in range(NUM_PACKS):
        pack = draw_pack(number)
        results, infeasible = results_of(pack)
        shown = {
            name: getattr(pack, name)
            for name in ("durations", "sigma", "blank", "frames", "labels", "weights", "without_durations")
        }
        dropout = {
            "probability": pack.probability,
            "key": asdict(pack.key),
            "utterances": [asdict(utterance) for utterance in pack.utterances],
        }
        packs.append(
            shown | {"dropout": dropout, "inputs": pack.inputs, "results": results, "infeasible": infeasible}
        )
    return {"packs": packs}
