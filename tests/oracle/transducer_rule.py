"""The loss of a transducer as its definition says, step by step in the lattice, for autograd.

T frames and U labels of a lattice.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Step = tuple[int, int, int, int]  # frame and labels after it, output, output of the duration (-1: none)


@dataclass
class Lattice:
    """One utterance and how its alignments may step."""

    frames: int
    labels: list[int]
    blank: int
    durations: list[int]  # empty: RNN-T
    first_duration: int  # its output

    def steps(self, frame: int, label: int) -> Iterator[Step]:
        """Those from a node: (frames, labels) is the end, which only a blank reaches."""
        moves = [(duration, self.first_duration + i) for i, duration in enumerate(self.durations)]
        is_last = label == len(self.labels)
        for advance, output in moves or [(1, -1)]:
            to = frame + advance
            if advance > 0 and (to < self.frames or (to == self.frames and is_last)):
                yield to, label, self.blank, output
        for advance, output in moves or [(0, -1)]:
            if frame + advance < self.frames and not is_last:
                yield frame + advance, label + 1, self.labels[label], output

    def is_end(self, frame: int) -> bool:
        return frame == self.frames


def log_of(logs: Tensor, step: Step, sigma: float) -> Tensor:
    output, duration = step[2:]
    return logs[output] if duration < 0 else logs[output] - sigma + logs[duration]


def loss_of(lattice: Lattice, logs: Tensor, sigma: float) -> Tensor | None:
    """From log-probabilities [T, U + 1, outputs]; None where no alignment fits."""
    reach: dict[tuple[int, int], list[Tensor]] = {(0, 0): [logs.new_zeros(())]}
    nodes = [(frame, label) for frame in range(lattice.frames) for label in range(len(lattice.labels) + 1)]
    for frame, label in nodes:  # every step leads to a later one
        if (frame, label) not in reach:
            continue
        here = torch.stack(reach[frame, label]).logsumexp(0)
        for step in lattice.steps(frame, label):
            reach.setdefault(step[:2], []).append(here + log_of(logs[frame, label], step, sigma))
    ends = reach.get((lattice.frames, len(lattice.labels)))
    return None if ends is None else -torch.stack(ends).logsumexp(0)


def log_softmax_of_parts(logits: Tensor, num_durations: int) -> Tensor:
    """Log-probabilities [T, U + 1, outputs] of entries and, apart from them, of durations."""
    parts = logits.split([logits.shape[-1] - num_durations, num_durations], -1)
    return torch.cat([part.log_softmax(-1) for part in parts], -1)
