"""The fixtures of Whisper: Hugging Face folders of tiny networks, and what transformers computes with them.

Each folder holds what save_pretrained writes (config.json, model.safetensors, preprocessor_config.json),
expected.safetensors and expected.json. The window is 1 s instead of 30 s. Features are those of transformers'
feature extractor; the network runs in double precision, one utterance at a time; results are stored in fp32.
Per utterance U:

    raw.U [samples]             as audio is read
    labels.U [labels]           prompt and text, without the end
    logits.U [labels + 1, 40]   of every label and the end

`losses` are sums over labels and end; `smoothed` those of PyTorch's cross_entropy with label_smoothing.
`greedy` is what generate() finds after the prompt.

The folder openai holds a network in OpenAI's format, in fp16, and the losses that transformers computes with
its weights under its own names.

Also gradients.NAME and final.NAME with NAME as in model.named_parameters(): the gradient of the mean of the
smoothed loss over all labels and ends before clipping, and the values after five steps.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import fixture
import torch
from fixture_folder import save_tensors
from make_parakeet import make_samples
from oracle_steps import SETTINGS, draw, take_steps, zero_gradients
from torch import Tensor

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    GenerationConfig,
    GenerationMixin,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    logging,
)

PACKAGES = ["safetensors", "transformers"]
SCRIPT = "tests/oracle/make_whisper.py"
# As of Parakeet: features are computed in fp32.
TOLERANCE = 2.0**-11

VOCABULARY, END, START = 40, 3, 4
PROMPT = [5, 6, 7]
SHAPE = {
    "vocab_size": VOCABULARY,
    "d_model": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 32,
    "max_source_positions": 50,
    "max_target_positions": 20,
    "decoder_start_token_id": START,
    "eos_token_id": END,
    "bos_token_id": END,
    "pad_token_id": END,
    "begin_suppress_tokens": None,
}


@dataclass
class Variant:
    """A network with its features, the smoothing of its loss, and layers that the stacks do not share."""

    mels: int
    smoothing: float
    decoder_layers: int
    # Chosen so that transcripts differ, and one ends before the window of tokens does.
    seed: int


VARIANTS = {"mel80": Variant(80, 0.0, 2, seed=77), "mel128": Variant(128, 0.1, 1, seed=98)}
# Samples and text of the utterances; the last fills the window.
UTTERANCES = [(3200, [9]), (9000, [30, 10, 12, 11, 39]), (16_000, [17, 14, 20, 20, 8, 26, 38, 33])]


def save_model(variant: Variant, folder: Path) -> None:
    """The Hugging Face folder, without keys that change with the version that wrote it."""
    shape = SHAPE | {"decoder_layers": variant.decoder_layers}
    model = WhisperForConditionalGeneration(WhisperConfig(num_mel_bins=variant.mels, **shape))
    generator = torch.Generator().manual_seed(variant.seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            if name == "model.encoder.embed_positions.weight":
                continue  # sines, which nobody draws
            noise = draw(generator, *value.shape)
            if value.dim() == 1:
                value.copy_(0.25 * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
            else:
                value.copy_(1.5 * noise / value[0].numel() ** 0.5)
        # Tokens follow from what is heard and from their position, and texts end.
        decoder = model.model.decoder
        decoder.embed_positions.weight *= 6.0
        decoder.embed_tokens.weight[END] *= 1.4
        decoder.layer_norm.bias.zero_()
        for layer in decoder.layers:
            layer.encoder_attn.out_proj.weight *= 2.0
    model.save_pretrained(folder)
    WhisperFeatureExtractor(feature_size=variant.mels, chunk_length=1).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    settings = json.loads((folder / "config.json").read_text())
    del settings["transformers_version"]
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="ascii")


def features_of(samples: Tensor, folder: Path) -> Tensor:
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    found = extractor(samples.float().numpy(), sampling_rate=16_000, return_tensors="pt")
    return found.input_features[0].double()


def load_model(folder: Path) -> WhisperForConditionalGeneration:
    model, found = WhisperForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="sdpa", output_loading_info=True
    )
    assert not found["missing_keys"] and not found["unexpected_keys"], found
    # As they are in a new network; from_pretrained() of version 5 forgets it.
    model.model.encoder.embed_positions.requires_grad_(False)
    return model.eval()


def logits_of(model: WhisperForConditionalGeneration, features: Tensor, labels: list[int]) -> Tensor:
    inputs = torch.tensor([[START, *labels]])
    return model(features[None], decoder_input_ids=inputs).logits[0]


def loss_of_logits(logits: Tensor, labels: list[int], smoothing: float) -> Tensor:
    targets = torch.tensor([*labels, END])
    return torch.nn.functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def check_loss(
    model: WhisperForConditionalGeneration, features: Tensor, labels: list[int], loss: float
) -> None:
    """Their loss of labels with the end, which they shift behind the start, is the mean of ours."""
    with torch.no_grad():
        theirs = model(features[None], labels=torch.tensor([[*labels, END]])).loss.item()
    assert abs(theirs - loss / (len(labels) + 1)) < 1e-6 * loss, (theirs, loss)


def greedy_of(model: WhisperForConditionalGeneration, features: Tensor) -> list[int]:
    """Tokens after the prompt, without the end; that of all decoders, without Whisper's own rules."""
    settings = GenerationConfig(
        max_length=SHAPE["max_target_positions"],
        decoder_start_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
    )
    prompt = torch.tensor([[START, *PROMPT]])
    found = GenerationMixin.generate(
        model, features[None], generation_config=settings, decoder_input_ids=prompt
    )
    tokens = found[0].tolist()[prompt.shape[1] :]
    return tokens[: tokens.index(END)] if END in tokens else tokens


def make_variant(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    variant = VARIANTS[name]
    save_model(variant, folder)
    raw = [make_samples(length, u) for u, (length, _) in enumerate(UTTERANCES)]
    labels = [PROMPT + text for _, text in UTTERANCES]
    inputs = [features_of(samples, folder) for samples in raw]
    model = load_model(folder)
    with torch.no_grad():
        logits = [logits_of(model, *pair) for pair in zip(inputs, labels, strict=True)]
        plain, smoothed = (
            [loss_of_logits(*pair, smoothing).item() for pair in zip(logits, labels, strict=True)]
            for smoothing in (0.0, variant.smoothing)
        )
    for features, tokens, loss in zip(inputs, labels, plain, strict=True):
        check_loss(model, features, tokens, loss)
    greedy = [greedy_of(model, features) for features in inputs]
    num_targets = sum(len(tokens) + 1 for tokens in labels)

    def loss_of() -> Tensor:
        terms = [
            loss_of_logits(logits_of(model, x, y), y, variant.smoothing)
            for x, y in zip(inputs, labels, strict=True)
        ]
        return sum(terms) / num_targets

    steps = take_steps(model, loss_of)
    assert steps.without_gradient == ["model.encoder.embed_positions.weight"], steps.without_gradient
    assert not zero_gradients(steps.gradients)
    tensors = {f"raw.{u}": value for u, value in enumerate(raw)}
    tensors |= {f"labels.{u}": torch.tensor(value) for u, value in enumerate(labels)}
    tensors |= {f"logits.{u}": value for u, value in enumerate(logits)}
    tensors |= {f"gradients.{key}": value for key, value in steps.gradients.items()}
    tensors |= {f"final.{key}": value for key, value in steps.final.items() if key in steps.gradients}
    save_tensors(folder / "expected.safetensors", tensors)
    content = {
        "losses": plain,
        "smoothed": smoothed,
        "label_smoothing": variant.smoothing,
        "greedy": greedy,
        "optimizer": SETTINGS,
        "step_losses": steps.losses,
        "gradient_norms": steps.norms,
        "zero_gradients": [],
    }
    fixture.write(folder / "expected.json", SCRIPT, content, PACKAGES)


# OpenAI's names of what transformers calls otherwise, part by part.
OPENAI_PARTS = {
    "layers": "blocks",
    "self_attn": "attn",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn": "cross_attn",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "embed_tokens": "token_embedding",
}
OPENAI_ENDS = {
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "embed_positions.weight": "positional_embedding",
}
# The smallest vocabulary that OpenAI's files have, of English alone, so that all else must be tiny.
OPENAI_DIMS = {
    "n_mels": 80,
    "n_audio_ctx": 50,
    "n_audio_state": 4,
    "n_audio_head": 2,
    "n_audio_layer": 1,
    "n_vocab": 51_864,
    "n_text_ctx": 12,
    "n_text_state": 4,
    "n_text_head": 1,
    "n_text_layer": 2,
}
OPENAI_LABELS = [50_362, 1234, 40_000, 7]


def openai_name(name: str) -> str:
    for theirs, ours in OPENAI_ENDS.items():
        name = name.replace(theirs, ours)
    return ".".join(OPENAI_PARTS.get(part, part) for part in name.removeprefix("model.").split("."))


def make_openai(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dims = OPENAI_DIMS
    config = WhisperConfig(
        num_mel_bins=dims["n_mels"],
        max_source_positions=dims["n_audio_ctx"],
        d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"],
        encoder_attention_heads=dims["n_audio_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"],
        vocab_size=dims["n_vocab"],
        max_target_positions=dims["n_text_ctx"],
        decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"],
        decoder_ffn_dim=4 * dims["n_text_state"],
    )
    model = WhisperForConditionalGeneration(config).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            drawn = 0.4 * draw(generator, *value.shape) + (1.0 if "norm.weight" in name else 0.0)
            value.copy_(drawn.half())
    weights = {openai_name(name): value.detach().half() for name, value in model.named_parameters()}
    torch.save({"dims": dims, "model_state_dict": weights}, folder / "tiny.pt")
    samples = make_samples(9000, 1)
    extractor = WhisperFeatureExtractor(chunk_length=1)
    features = extractor(samples.float().numpy(), sampling_rate=16_000, return_tensors="pt").input_features
    start, end = config.decoder_start_token_id, config.eos_token_id
    with torch.no_grad():
        logits = model.double()(
            features.double(), decoder_input_ids=torch.tensor([[start, *OPENAI_LABELS]])
        ).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([*OPENAI_LABELS, end]), reduction="sum")
    tensors = {"raw.0": samples, "labels.0": torch.tensor(OPENAI_LABELS)}
    save_tensors(folder / "expected.safetensors", tensors)
    fixture.write(folder / "expected.json", SCRIPT, {"losses": [loss.item()]}, PACKAGES)


def make_folder(folder: Path) -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name in VARIANTS:
        make_variant(name, folder / name)
    make_openai(folder / "openai")
