"""Parakeet by transformers, for verify_hub.py: from a Hugging Face folder, or from a `.nemo` archive whose
weights get transformers' names."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import sentencepiece
import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    ParakeetCTCConfig,
    ParakeetFeatureExtractor,
    ParakeetForCTC,
    ParakeetForRNNT,
    ParakeetForTDT,
    ParakeetRNNTConfig,
    ParakeetTDTConfig,
    PreTrainedModel,
)

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests/oracle"))
from nemo_names import file_named_by, nemo_name, read_archive

RATE = 16_000
MODELS = {"parakeet_ctc": ParakeetForCTC, "parakeet_rnnt": ParakeetForRNNT, "parakeet_tdt": ParakeetForTDT}
# NeMo's settings of the encoder, as transformers names them.
ENCODER = {
    "feat_in": "num_mel_bins",
    "n_layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "n_heads": "num_attention_heads",
    "conv_kernel_size": "conv_kernel_size",
    "subsampling_factor": "subsampling_factor",
    "subsampling_conv_channels": "subsampling_conv_channels",
    "xscaling": "scale_input",
    "use_bias": "attention_bias",
}


def is_parakeet(path: Path) -> bool:
    if path.suffix == ".nemo":
        return True
    config = path / "config.json"
    return config.is_file() and json.loads(config.read_text()).get("model_type") in MODELS


@dataclass
class Parakeet:
    model: PreTrainedModel
    extractor: ParakeetFeatureExtractor
    decode: Callable[[list[int]], str]

    @property
    def is_ctc(self) -> bool:
        return isinstance(self.model, ParakeetForCTC)

    @property
    def num_parameters(self) -> int:
        return sum(value.numel() for value in self.model.parameters())

    def features(self, samples: numpy.ndarray) -> Tensor:
        found = self.extractor(samples, sampling_rate=RATE, return_tensors="pt")
        # The last frame is beyond the utterance, by the extractor's own count.
        return found.input_features[0][found.attention_mask[0].bool()]

    def logits(self, samples: numpy.ndarray) -> Tensor:
        with torch.no_grad():
            return self.model(self.features(samples)[None]).logits[0].contiguous()

    def transcript(self, samples: numpy.ndarray) -> str:
        """What a greedy search finds."""
        inputs = self.features(samples)[None]
        config = self.model.config
        settings: dict[str, Any] = {
            "decoder_start_token_id": config.blank_token_id,
            "max_new_tokens": 10 * inputs.shape[1],
        }
        if isinstance(self.model, ParakeetForTDT):
            last = config.vocab_size + len(config.durations)
            settings["suppress_tokens"] = list(range(config.vocab_size, last))
        mask = torch.ones(inputs.shape[:2], dtype=torch.long)
        with torch.no_grad():
            found = self.model.generate(inputs, attention_mask=mask, **settings).sequences[0].tolist()
        return self.decode([entry for entry in found if entry != config.blank_token_id])


def config_of_archive(config: dict[str, Any], weights: dict[str, Tensor]) -> tuple[type, Any]:
    encoder = {theirs: config["encoder"][nemo] for nemo, theirs in ENCODER.items()}
    encoder["convolution_bias"] = encoder["attention_bias"]
    encoder["intermediate_size"] = config["encoder"]["ff_expansion_factor"] * encoder["hidden_size"]
    if "prednet" not in config["decoder"]:
        entries = len(weights["decoder.decoder_layers.0.bias"])
        head = {"vocab_size": entries, "pad_token_id": entries - 1}
        return ParakeetForCTC, ParakeetCTCConfig(encoder_config=encoder, **head)
    entries = len(weights["decoder.prediction.embed.weight"])
    head = {
        "vocab_size": entries,
        "blank_token_id": entries - 1,
        "pad_token_id": entries - 1,
        "decoder_hidden_size": config["decoder"]["prednet"]["pred_hidden"],
        "num_decoder_layers": config["decoder"]["prednet"]["pred_rnn_layers"],
    }
    if config.get("loss", {}).get("loss_name") != "tdt":
        return ParakeetForRNNT, ParakeetRNNTConfig(encoder_config=encoder, **head)
    durations = config["loss"]["tdt_kwargs"]["durations"]
    return ParakeetForTDT, ParakeetTDTConfig(encoder_config=encoder, durations=durations, **head)


def load_archive(path: Path) -> Parakeet:
    archive = read_archive(path)
    kind, config = config_of_archive(archive.config, archive.weights)
    model = kind(config)
    names = {nemo_name(name): name for name in model.state_dict()}
    # Without dropout the last layer of the joint network has another number.
    names |= {name.replace("joint_net.2.", "joint_net.1."): theirs for name, theirs in names.items()}
    state = {names[name]: value for name, value in archive.weights.items() if name in names}
    model.load_state_dict(state)
    processor = sentencepiece.SentencePieceProcessor(model_proto=file_named_by(archive, "model_path"))
    extractor = ParakeetFeatureExtractor(feature_size=archive.config["preprocessor"]["features"])
    return Parakeet(model.float().eval(), extractor, processor.decode)


def load_parakeet(path: Path) -> Parakeet:
    if path.suffix == ".nemo":
        return load_archive(path)
    kind = MODELS[json.loads((path / "config.json").read_text())["model_type"]]
    model = kind.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    return Parakeet(
        model,
        ParakeetFeatureExtractor.from_pretrained(path),
        lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
    )
