"""The fixtures of wav2vec2: Hugging Face folders of tiny networks, and what transformers computes with them.

Each folder holds what save_pretrained writes (config.json, weights, preprocessor_config.json, vocab.json),
expected.safetensors and expected.json. The network is loaded from the folder and run in double precision, one
utterance at a time, without padding; results are stored in fp32. That transformers itself agrees in fp32 is
asserted. Per utterance U, frames first:

    raw.U [samples]             as audio is read
    normalised.U [samples]      what the network is given
    labels.U [labels]
    features.U [frames, 16]     of the convolutions
    projected.U [frames, 32]    of the feature projection
    positioned.U [frames, 32]   what the first layer is given
    layers.L.U [frames, 32]     of layer L
    encoded.U [frames, 32]      the last hidden states; alone for a network of pretraining
    logits.U [frames, 12]

The variant `processor` is what version 5 writes by save_pretrained of model and processor: weights in bf16,
processor_config.json, tokenizer_config.json, added_tokens.json; for 8 kHz, without normalisation, with
digraphs, a blank that is not the first entry, and more outputs than entries. Of it only samples and logits
are kept, and labels of texts.

And, where gradients are kept, gradients.NAME and final.NAME with NAME as in model.named_parameters(): the
gradient of the loss ctc_mean of all utterances before clipping, and the values after five steps.
"""

import json
import os
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fixture
import numpy
import torch
from fixture_folder import save_tensors
from oracle_steps import SETTINGS, Steps, draw, take_steps, zero_gradients
from torch import Tensor
from twin import ctc_mean, ctc_sum

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    PreTrainedModel,
    Wav2Vec2Config,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    Wav2Vec2ForPreTraining,
    Wav2Vec2Processor,
    logging,
)

PACKAGES = ["safetensors", "transformers"]
SCRIPT = "tests/oracle/make_wav2vec2.py"

VOCABULARY = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefg"]
SHAPE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_codevectors_per_group": 4,
    "codevector_dim": 16,
    "proj_codevector_dim": 16,
}
# Nothing random is left: training mode and evaluation compute the same. The probability of masks stays as it
# is: with 0, transformers has no masked_spec_embed.
DROPOUTS = ["hidden", "activation", "attention", "feat_proj", "feat_quantizer", "final"]
STILL = {f"{name}_dropout": 0.0 for name in DROPOUTS} | {"layerdrop": 0.0, "apply_spec_augment": False}
STABLE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}

# Samples and labels of the utterances: 1, 2 and 9 frames, or 4. 400 samples are the fewest with a frame; 9
# frames reach every tap of the positional convolution; repeated labels need a blank between them.
LONG = [(400, [9]), (725, [6, 10]), (2965, [7, 4, 11, 11, 8, 6])]
SHORT = [(400, [9]), (725, [6, 10]), (1365, [7, 7, 4])]

# How far transformers in fp32 may be from double precision, relative to the largest value.
SINGLE_PRECISION = 1e-5


@dataclass
class Variant:
    """One folder. Gradients and final values are kept where the utterances are long."""

    options: dict[str, Any] = field(default_factory=dict)
    utterances: list[tuple[int, list[int]]] = field(default_factory=lambda: SHORT)
    shard_size: str = "1MB"
    pretraining: bool = False
    # Entries by their numbers, of a folder with a processor.
    processor: list[str] = field(default_factory=list)


VARIANTS = {
    "base": Variant({"conv_bias": False}, LONG),
    "base_bias": Variant({"conv_bias": True, "num_conv_pos_embeddings": 15, "mask_time_prob": 0.0}),
    "stable": Variant(STABLE | {"conv_bias": True}, LONG),
    "stable_nobias": Variant(STABLE | {"conv_bias": False}, shard_size="60KB"),
    "pretraining": Variant(STABLE | {"conv_bias": True, "num_hidden_layers": 1}, pretraining=True),
    "processor": Variant(
        STABLE
        | {
            "conv_bias": True,
            "num_hidden_layers": 1,
            "vocab_size": 16,
            "pad_token_id": 2,
            "attention_dropout": 0.1,
            "ctc_loss_reduction": "mean",
            "ctc_zero_infinity": True,
        },
        processor=["[UNK]", "|", "[PAD]", *"abcdefg", "ch"],
    ),
}
TEXTS = ["ab cd", "chab", "cchd g", "a ch b", "aXb"]


def drawn(name: str, value: Tensor, generator: torch.Generator) -> Tensor:
    """A value for a parameter, of a size that matters: 1 is the size of what goes through the network."""
    noise = draw(generator, *value.shape)
    if name.endswith("original0"):
        # The length of a tap of the positional convolution: 1.4 makes its weights 1 / sqrt(inputs).
        return 1.4 + 0.3 * noise.clamp(-3, 3)
    if name.endswith(("original1", "masked_spec_embed", "codevectors")):
        return noise
    if value.dim() == 1:
        return (1.0 if name.endswith("norm.weight") else 0.0) + 0.25 * noise
    # A GELU follows the convolutions, and in base networks no norm: what it takes is given back.
    gain = 1.5 if ".conv." in name else 1.0
    return gain * noise * value[0].numel() ** -0.5


def make_samples(length: int, number: int) -> Tensor:
    """Like speech: a tone with overtones that swells, noise, and an offset, as 16-bit audio is read."""
    generator = torch.Generator().manual_seed(100 * length + number)
    time = torch.arange(length, dtype=torch.float64) / 16_000
    pitch = 110.0 + 35.0 * number
    tone = sum(torch.sin(2 * torch.pi * pitch * k * time + k) / k for k in range(1, 9))
    swell = 0.6 + 0.4 * torch.sin(2 * torch.pi * (6 + number) * time)
    noise = draw(generator, length)
    samples = 0.012 + 0.08 * swell * tone + 0.01 * noise
    return (samples * 32768).round() / 32768


def normalised(samples: Tensor) -> Tensor:
    """By the feature extractor's own function, whose sums are taken in double precision here."""
    extractor = Wav2Vec2FeatureExtractor()
    (values,) = extractor.zero_mean_unit_var_norm([samples.numpy()], None)
    usual = extractor(samples.numpy(), sampling_rate=16_000).input_values[0]
    assert usual.dtype == numpy.float32
    assert numpy.abs(values - usual).max() <= SINGLE_PRECISION * numpy.abs(values).max()
    return torch.from_numpy(values.astype(numpy.float32)).double()


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="ascii")


def save_released(model: PreTrainedModel, path: Path) -> None:
    """As the released checkpoints of XLS-R: a pickle in a zip file, weight norm spelled as torch once did."""
    state = model.state_dict()
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    released = OrderedDict()
    for name, value in state.items():
        for new, old in names.items():
            name = name.replace(new, old)
        released[name] = value
    released._metadata = state._metadata  # an attribute, which the pickle of a state dict has too
    torch.save(released, path)


def make_processor(entries: list[str]) -> Wav2Vec2Processor:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "vocab.json"
        write_json(path, {entry: number for number, entry in enumerate(entries)})
        tokenizer = Wav2Vec2CTCTokenizer(str(path), pad_token="[PAD]", unk_token="[UNK]")
    extractor = Wav2Vec2FeatureExtractor(sampling_rate=8_000, do_normalize=False, return_attention_mask=True)
    return Wav2Vec2Processor(extractor, tokenizer)


def save_model(name: str, variant: Variant, folder: Path) -> None:
    """The Hugging Face folder, without keys that change with the version that wrote it."""
    kind = Wav2Vec2ForPreTraining if variant.pretraining else Wav2Vec2ForCTC
    model = kind(Wav2Vec2Config(**SHAPE | STILL | variant.options))
    generator = torch.Generator().manual_seed(1 + list(VARIANTS).index(name))
    with torch.no_grad():
        for parameter_name, value in sorted(model.named_parameters()):
            value.copy_(drawn(parameter_name, value, generator))
    if variant.processor:
        model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=variant.shard_size)
    if variant.processor:
        make_processor(variant.processor).save_pretrained(folder)
    elif variant.pretraining:
        (folder / "model.safetensors").unlink()
        save_released(model, folder / "pytorch_model.bin")
    else:
        write_json(folder / "vocab.json", {token: number for number, token in enumerate(VOCABULARY)})
        assert Wav2Vec2CTCTokenizer.from_pretrained(folder).pad_token_id == 0
    config = json.loads((folder / "config.json").read_text())
    del config["transformers_version"]
    write_json(folder / "config.json", config)
    if variant.processor:
        return
    # Networks with layer norms were trained with masks, those with a group norm without.
    masks = model.config.feat_extract_norm == "layer"
    Wav2Vec2FeatureExtractor(return_attention_mask=masks).save_pretrained(folder)


def load_model(variant: Variant, folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    kind = Wav2Vec2ForPreTraining if variant.pretraining else Wav2Vec2ForCTC
    model, found = kind.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True
    )
    assert not found["missing_keys"] and not found["unexpected_keys"], found
    return model.eval()


def observe(model: PreTrainedModel, samples: Tensor) -> dict[str, Tensor]:
    """What passes through the network for one utterance, by name; frames first."""
    seen: dict[str, Tensor] = {}
    network = model.wav2vec2
    layers = network.encoder.layers

    def keep(name: str, value: Tensor) -> None:
        seen[name] = value[0].detach()

    hooks = [
        network.feature_extractor.register_forward_hook(lambda *a: keep("features", a[-1].transpose(1, 2))),
        network.feature_projection.register_forward_hook(lambda *a: keep("projected", a[-1][0])),
        layers[0].register_forward_pre_hook(lambda _, inputs: keep("positioned", inputs[0])),
    ]
    for number, layer in enumerate(layers):
        hooks.append(layer.register_forward_hook(lambda *a, n=number: keep(f"layers.{n}", a[-1])))
    with torch.no_grad():
        keep("encoded", network(samples[None]).last_hidden_state)
        if isinstance(model, Wav2Vec2ForCTC):
            keep("logits", model(samples[None]).logits)
    for hook in hooks:
        hook.remove()
    return seen


def check_single_precision(variant: Variant, folder: Path, seen: list[dict], inputs: list[Tensor]) -> None:
    model = load_model(variant, folder, torch.float32)
    for (_, labels), truth, samples in zip(variant.utterances, seen, inputs, strict=True):
        found = observe(model, samples.float())
        for name, value in truth.items():
            difference = (found[name].double() - value).abs().max() / value.abs().max()
            assert difference < SINGLE_PRECISION, f"{folder.name}: {name} differs by {difference:.1e} in fp32"
        if not variant.pretraining and not variant.processor:
            loss = model(samples.float()[None], labels=torch.tensor([labels])).loss.item()
            expected = ctc_sum(truth["logits"], torch.tensor(labels)).item()
            assert abs(loss - expected) < SINGLE_PRECISION * expected, (
                f"{folder.name}: loss {loss}, not {expected}"
            )


def explained_zeros(model: PreTrainedModel) -> list[str]:
    """The parameters that cannot change the output, so that their gradient is zero but for rounding.

    A bias of the keys adds the same to all scores of a query, which the softmax takes out again. A bias of
    the first convolution is the same in all frames of a channel, and a group norm with a group for each
    channel subtracts the mean over frames. Layer norms are over channels: they take out what the biases of
    all channels have in common, not the bias of one.
    """
    zeros = [name for name, _ in model.named_parameters() if name.endswith("k_proj.bias")]
    if model.config.feat_extract_norm == "group" and model.config.conv_bias:
        zeros.append("wav2vec2.feature_extractor.conv_layers.0.conv.bias")
    return sorted(zeros)


def losses_of(logits: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
    """By utterance, and over all by each reduction."""
    pairs = list(zip(logits, labels, strict=True))
    losses = [ctc_sum(*pair).item() for pair in pairs]
    return {
        "by_utterance": losses,
        "sum": sum(losses),
        "tokens": sum(losses) / sum(len(part) for part in labels),
        "utterances": sum(losses) / len(losses),
        "ctc_mean": sum(ctc_mean(*pair).item() for pair in pairs) / len(pairs),
    }


def train(model: PreTrainedModel, inputs: list[Tensor], labels: list[Tensor]) -> Steps:
    def loss_of() -> Tensor:
        pairs = zip(inputs, labels, strict=True)
        return sum(ctc_mean(model(x[None]).logits[0], y) for x, y in pairs) / len(inputs)

    steps = take_steps(model, loss_of)
    assert zero_gradients(steps.gradients) == explained_zeros(model), zero_gradients(steps.gradients)
    masks = [name for name, _ in model.named_parameters() if name.endswith("masked_spec_embed")]
    assert steps.without_gradient == masks, steps.without_gradient
    return steps


def make_variant(name: str, variant: Variant, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_model(name, variant, folder)
    raw = [make_samples(length, number) for number, (length, _) in enumerate(variant.utterances)]
    inputs = [samples if variant.processor else normalised(samples) for samples in raw]
    labels = [torch.tensor(part) for _, part in variant.utterances]
    model = load_model(variant, folder, torch.float64)
    seen = [observe(model, samples) for samples in inputs]
    check_single_precision(variant, folder, seen, inputs)

    content: dict[str, Any] = {
        "samples": [len(part) for part in raw],
        "frames": [len(s["encoded"]) for s in seen],
    }
    tensors = {f"raw.{u}": value for u, value in enumerate(raw)}
    tensors |= {f"normalised.{u}": value for u, value in enumerate(inputs)}
    if variant.processor:
        processor = Wav2Vec2Processor.from_pretrained(folder)
        for samples, given in zip(raw, inputs, strict=True):
            values = processor(samples.numpy(), sampling_rate=8_000).input_values[0]
            assert numpy.array_equal(values, given.float().numpy())
        content["texts"] = [{"text": text, "labels": processor(text=text).input_ids} for text in TEXTS]
        tensors |= {f"logits.{u}": part["logits"] for u, part in enumerate(seen)}
    elif variant.pretraining:
        tensors |= {f"encoded.{u}": part["encoded"] for u, part in enumerate(seen)}
    else:
        tensors |= {f"labels.{u}": value for u, value in enumerate(labels)}
        tensors |= {f"{key}.{u}": value for u, part in enumerate(seen) for key, value in part.items()}
        content["losses"] = losses_of([part["logits"] for part in seen], labels)
        steps = train(model, inputs, labels)
        content["optimizer"] = SETTINGS
        content["step_losses"], content["gradient_norms"] = steps.losses, steps.norms
        content["zero_gradients"] = zeros = zero_gradients(steps.gradients)
        content["without_gradient"] = steps.without_gradient
        if variant.utterances is LONG:
            kept = {
                key: torch.zeros_like(value) if key in zeros else value
                for key, value in steps.gradients.items()
            }
            tensors |= {f"gradients.{key}": value for key, value in kept.items()}
            tensors |= {f"final.{key}": value for key, value in steps.final.items()}
    save_tensors(folder / "expected.safetensors", tensors)
    fixture.write(folder / "expected.json", SCRIPT, content, PACKAGES)


def make_folder(folder: Path) -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name, variant in VARIANTS.items():
        make_variant(name, variant, folder / name)
