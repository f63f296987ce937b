"""The fixtures of Parakeet: Hugging Face folders of tiny networks, and what transformers computes with them.

Each folder holds what save_pretrained writes (config.json, model.safetensors, preprocessor_config.json),
expected.safetensors and expected.json. Features are those of transformers' feature extractor; the network
runs in double precision, one utterance at a time, in evaluation mode; results are stored in fp32. Per
utterance U, frames first:

    raw.U [samples]             as audio is read
    labels.U [labels]
    logits.U [frames, 12]       of CTC
    logits.U [frames, labels + 1, 12 + durations]    of the lattice of a transducer

Its losses are those of transducer_rule.py, which are compared here with the losses of transformers in every
reduction; `greedy` is what its generate() finds.

Also gradients.NAME and final.NAME with NAME as in model.named_parameters(): the gradient of the loss ctc_mean
of all utterances before clipping, and the values after five steps.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixture
import torch
from fixture_folder import save_tensors
from oracle_steps import SETTINGS, draw, take_steps, zero_gradients
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transducer_rule import Lattice, log_softmax_of_parts, loss_of
from twin import ctc_sum

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    ParakeetCTCConfig,
    ParakeetFeatureExtractor,
    ParakeetForCTC,
    ParakeetForRNNT,
    ParakeetForTDT,
    ParakeetRNNTConfig,
    ParakeetTDTConfig,
    PreTrainedModel,
    logging,
)

PACKAGES = ["safetensors", "transformers", "librosa", "torchaudio"]
SCRIPT = "tests/oracle/make_parakeet.py"
# Features and the table of positions are computed in fp32, whose last places differ between processors; five
# steps of AdamW, which divides small gradients by their size, make them larger (7e-5 and 1e-5 were seen).
TOLERANCE = 2.0**-11

VOCABULARY = 12
BINS = 16
ENCODER = {
    "num_mel_bins": BINS,
    "subsampling_factor": 8,
    "subsampling_conv_channels": 6,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "conv_kernel_size": 9,
}
STILL = dict.fromkeys(["dropout", "activation_dropout", "attention_dropout", "layerdrop"], 0.0)
BLANK = VOCABULARY - 1
WITH_BIASES = {"scale_input": True, "attention_bias": True, "convolution_bias": True}
WITHOUT_BIASES = dict.fromkeys(WITH_BIASES, False)
TRANSDUCER = {
    "vocab_size": VOCABULARY,
    "blank_token_id": BLANK,
    "decoder_hidden_size": 20,
    "num_decoder_layers": 2,
}


@dataclass
class Variant:
    """A network with its head's settings, and those of its encoder."""

    config: type
    model: type
    head: dict[str, Any]
    encoder: dict[str, Any]

    @property
    def is_ctc(self) -> bool:
        return self.model is ParakeetForCTC

    @property
    def durations(self) -> list[int]:
        return self.head.get("durations", [])


CTC_HEAD = {"vocab_size": VOCABULARY, "pad_token_id": BLANK}
VARIANTS = {
    "ctc": Variant(ParakeetCTCConfig, ParakeetForCTC, CTC_HEAD, WITH_BIASES),
    "ctc_no_biases": Variant(ParakeetCTCConfig, ParakeetForCTC, CTC_HEAD, WITHOUT_BIASES),
    "rnnt": Variant(ParakeetRNNTConfig, ParakeetForRNNT, TRANSDUCER | {"pad_token_id": BLANK}, WITH_BIASES),
    # Its labels are counted as those that are not the padding, an entry of the vocabulary.
    "tdt": Variant(
        ParakeetTDTConfig,
        ParakeetForTDT,
        TRANSDUCER | {"pad_token_id": 2, "durations": [0, 1, 2, 3]},
        WITHOUT_BIASES,
    ),
}
REDUCTIONS = ["sum", "mean_volume", "mean_batch", "mean"]
# Samples and labels of the utterances; the first is reduced to one frame.
UTTERANCES = [(1200, [9]), (6400, [6, 10]), (16_000, [7, 4, 10, 10, 8, 6])]


def make_samples(length: int, number: int) -> Tensor:
    """Like speech: a tone with overtones that swells, and noise, as 16-bit audio is read."""
    generator = torch.Generator().manual_seed(100 * length + number)
    time = torch.arange(length, dtype=torch.float64) / 16_000
    pitch = 110.0 + 35.0 * number
    tone = sum(torch.sin(2 * torch.pi * pitch * k * time + k) / k for k in range(1, 9))
    swell = 0.6 + 0.4 * torch.sin(2 * torch.pi * (6 + number) * time)
    samples = 0.08 * swell * tone + 0.02 * draw(generator, length)
    return (samples * 32768).round() / 32768


def drawn(name: str, value: Tensor, generator: torch.Generator) -> Tensor:
    """A value for a parameter or a statistic, of a size that matters."""
    noise = draw(generator, *value.shape)
    if name.endswith("running_var"):
        return 0.5 + noise.square()
    if value.dim() == 1 or "bias_" in name:
        return 0.25 * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
    return noise / value[0].numel() ** 0.5


def make_talkative(model: PreTrainedModel, variant: Variant) -> None:
    """Lets labels follow from what was heard and said before, with blanks between them."""
    model.encoder_projector.weight *= 4.0
    model.decoder.decoder_projector.weight *= 2.0
    model.joint.head.weight *= 1.5
    model.joint.head.bias[BLANK] += 4.0 if variant.durations else 12.0
    if variant.durations:
        model.joint.head.bias[VOCABULARY] -= 3.0


def save_model(number: int, variant: Variant, folder: Path) -> None:
    """The Hugging Face folder, without keys that change with the version that wrote it."""
    config = variant.config(encoder_config=ENCODER | STILL | variant.encoder, **variant.head)
    model = variant.model(config)
    generator = torch.Generator().manual_seed(41 + number)
    with torch.no_grad():
        for name, value in sorted(model.state_dict().items()):
            if value.is_floating_point():
                value.copy_(drawn(name, value, generator))
        if not variant.is_ctc:
            make_talkative(model, variant)
    model.save_pretrained(folder)
    ParakeetFeatureExtractor(feature_size=BINS).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    settings = json.loads((folder / "config.json").read_text())
    del settings["transformers_version"]
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="ascii")


def features_of(samples: Tensor, folder: Path) -> Tensor:
    extractor = ParakeetFeatureExtractor.from_pretrained(folder)
    found = extractor(samples.float().numpy(), sampling_rate=16_000, return_tensors="pt")
    # The last frame is beyond the utterance, by the extractor's own count.
    return found.input_features[0][found.attention_mask[0].bool()].double()


def load_model(variant: Variant, folder: Path) -> PreTrainedModel:
    model, found = variant.model.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="sdpa", output_loading_info=True
    )
    assert not found["missing_keys"] and not found["unexpected_keys"], found
    return model.eval()


def logits_of(variant: Variant, model: PreTrainedModel, features: Tensor, labels: Tensor) -> Tensor:
    if variant.is_ctc:
        return model(features[None]).logits[0]
    inputs = torch.cat([torch.tensor([BLANK]), labels])
    return model(features[None], decoder_input_ids=inputs[None]).logits[0]


def loss_of_logits(variant: Variant, logits: Tensor, labels: Tensor) -> Tensor:
    if variant.is_ctc:
        return ctc_sum(logits, labels, blank=BLANK)
    lattice = Lattice(len(logits), labels.tolist(), BLANK, variant.durations, VOCABULARY)
    loss = loss_of(lattice, log_softmax_of_parts(logits, len(variant.durations)), sigma=0.0)
    assert loss is not None
    return loss


def check_reductions(
    variant: Variant, model: PreTrainedModel, inputs: list[Tensor], labels: list[Tensor], losses: list[float]
) -> None:
    """Their loss of a padded batch, which they compute in fp32, is the rule's in every reduction."""
    padding = variant.head["pad_token_id"]
    features = pad_sequence(inputs, batch_first=True)
    mask = pad_sequence([torch.ones(len(x), dtype=torch.long) for x in inputs], batch_first=True)
    padded = pad_sequence(labels, batch_first=True, padding_value=padding)
    starts = torch.full((len(labels), 1), BLANK)
    counts = [len(part) for part in labels]
    expected = {
        "sum": sum(losses),
        "mean_volume": sum(losses) / sum(counts),
        "mean_batch": sum(losses) / len(losses),
        "mean": sum(loss / n for loss, n in zip(losses, counts, strict=True)) / len(losses),
    }
    for reduction in REDUCTIONS:
        with torch.no_grad():
            found = model(
                features,
                attention_mask=mask,
                decoder_input_ids=torch.cat([starts, padded], dim=1),
                labels=padded,
                reduction=reduction,
            ).loss.item()
        assert abs(found - expected[reduction]) < 1e-4 * expected[reduction], (reduction, found, expected)


def greedy_of(variant: Variant, model: PreTrainedModel, inputs: list[Tensor]) -> list[list[int]]:
    """What they transcribe of each utterance alone; an output for a duration is no entry."""
    settings: dict[str, Any] = {"decoder_start_token_id": BLANK, "max_new_tokens": 1000}
    if variant.durations:
        settings["suppress_tokens"] = list(range(VOCABULARY, VOCABULARY + len(variant.durations)))
    found = []
    for features in inputs:
        mask = torch.ones(1, len(features), dtype=torch.long)
        sequence = model.generate(features[None], attention_mask=mask, **settings).sequences[0].tolist()
        found.append([entry for entry in sequence if entry != BLANK])
    return found


def make_variant(number: int, name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    variant = VARIANTS[name]
    save_model(number, variant, folder)
    raw = [make_samples(length, u) for u, (length, _) in enumerate(UTTERANCES)]
    labels = [torch.tensor(part) for _, part in UTTERANCES]
    inputs = [features_of(samples, folder) for samples in raw]
    model = load_model(variant, folder)
    with torch.no_grad():
        logits = [logits_of(variant, model, *pair) for pair in zip(inputs, labels, strict=True)]
    losses = [loss_of_logits(variant, *pair).item() for pair in zip(logits, labels, strict=True)]

    def loss_of() -> Tensor:
        terms = [
            loss_of_logits(variant, logits_of(variant, model, x, y), y) / max(1, len(y))
            for x, y in zip(inputs, labels, strict=True)
        ]
        return sum(terms) / len(inputs)

    greedy = {}
    if not variant.is_ctc:
        check_reductions(variant, model, inputs, labels, losses)
        greedy = {"greedy": greedy_of(variant, model, inputs)}

    steps = take_steps(model, loss_of)
    zeros = zero_gradients(steps.gradients)
    # A bias of the keys adds the same to all scores of a query, which the softmax takes out again.
    keys = [name for name, _ in model.named_parameters() if name.endswith("k_proj.bias")]
    assert zeros == sorted(keys), zeros
    tensors = {f"raw.{u}": value for u, value in enumerate(raw)}
    tensors |= {f"labels.{u}": value for u, value in enumerate(labels)}
    tensors |= {f"logits.{u}": value for u, value in enumerate(logits)}
    kept = {key: value for key, value in steps.gradients.items() if key not in zeros}
    tensors |= {f"gradients.{key}": value for key, value in kept.items()}
    tensors |= {f"final.{key}": value for key, value in steps.final.items() if key not in zeros}
    save_tensors(folder / "expected.safetensors", tensors)
    content = {
        "frames": [len(value) for value in logits],
        "losses": {"by_utterance": losses},
        "optimizer": SETTINGS,
        "step_losses": steps.losses,
        "gradient_norms": steps.norms,
        "zero_gradients": zeros,
        **greedy,
    }
    fixture.write(folder / "expected.json", SCRIPT, content, PACKAGES)


def make_folder(folder: Path) -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for number, name in enumerate(VARIANTS):
        make_variant(number, name, folder / name)
