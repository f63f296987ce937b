"""The fixture of the prediction network: layers of transformers' Parakeet, in double precision.

`trained` trains the blank's row of the embedding, as transformers does; in `untrained` it is zero and has no
gradient, as in NeMo. The projection after the layers belongs to the joint network and is left out.
"""

from typing import Any

import torch
from kernel_draw import Draw
from torch import Tensor
from transformers import ParakeetRNNTConfig
from transformers.models.parakeet.modeling_parakeet import ParakeetRNNTDecoder

PACKAGES = ("transformers",)

VOCABULARY, WIDTH, LAYERS = 9, 8, 2
BLANK = VOCABULARY - 1
# The labels of each utterance; the second has none.
LABELS = [[3, 0, 0, 7], [], [5], [1, 2, 3, 4, 5, 6]]


def set_weights(decoder: ParakeetRNNTDecoder, draw: Draw) -> None:
    """Values that fp32 holds; gates that are neither open nor closed."""
    for name, parameter in decoder.named_parameters():
        values = draw.tensor(*parameter.shape).detach()
        parameter.data = values if name.startswith("embedding") else values / 8


def with_untrained_blank(decoder: ParakeetRNNTDecoder) -> None:
    table = decoder.embedding.weight.detach().clone()
    table[BLANK] = 0
    decoder.embedding = torch.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=BLANK)


def case(name: str) -> dict[str, Any]:
    draw = Draw(f"prediction network {name}")
    config = ParakeetRNNTConfig(
        vocab_size=VOCABULARY,
        decoder_hidden_size=WIDTH,
        num_decoder_layers=LAYERS,
        blank_token_id=BLANK,
    )
    decoder = ParakeetRNNTDecoder(config).double()
    decoder.decoder_projector = torch.nn.Identity()
    set_weights(decoder, draw)
    if name == "untrained":
        with_untrained_blank(decoder)
    parts: list[Tensor] = [decoder(torch.tensor([[BLANK, *labels]]))[0] for labels in LABELS]
    y = torch.cat(parts)
    dy = draw.tensor(*y.shape).detach()
    y.backward(dy)
    named = dict(decoder.named_parameters())
    return {
        "weights": {name: parameter.detach() for name, parameter in named.items()},
        "y": y.detach(),
        "dy": dy,
        "gradients": {name: parameter.grad for name, parameter in named.items()},
    }


def make() -> dict[str, Any]:
    return {
        "vocabulary": VOCABULARY,
        "blank": BLANK,
        "width": WIDTH,
        "layers": LAYERS,
        "labels": LABELS,
        "cases": {name: case(name) for name in ("trained", "untrained")},
    }
