"""The fixtures of `.nemo` archives: networks like those of tests/fixtures/parakeet as NeMo would save them.

Settings have NeMo's names and those of its published recipes; weights are those of transformers' networks
under NeMo's names, with the blank's row of the embedding at zero, where NeMo keeps it. Each archive has a
small SentencePiece model; that of tdt has <pad> among its pieces, as released ones do. rnnt.nemo is
compressed.
expected.safetensors holds what transformers computes of the samples in tests/fixtures/parakeet:

    NAME.logits.U [frames, 12]                              of CTC
    NAME.logits.U [frames, labels + 1, 12 + durations]      of the lattice of a transducer
"""

import hashlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixture
import make_parakeet
import sentencepiece
import torch
from fixture_folder import save_tensors
from make_parakeet import BINS, ENCODER, VARIANTS, VOCABULARY, Variant
from nemo_names import Archive, nemo_name, write_archive
from safetensors.torch import load_file
from torch import Tensor
from transformers import ParakeetFeatureExtractor, PreTrainedModel, logging

SCRIPT = "tests/oracle/make_nemo.py"
PACKAGES = ["safetensors", "sentencepiece", "transformers"]
TOLERANCE = make_parakeet.TOLERANCE
NAMES = ["ctc", "rnnt", "tdt"]
SENTENCES = ["abba baba", "cab dab", "acca dacca", "bad cab abab", "dada caca baba"]
# In NeMo a feed-forward part is a multiple of the width.
EXPANSION = 2
MODULES = "nemo.collections.asr.modules."


def train_tokenizer(has_padding: bool) -> bytes:
    """One piece less than the network has entries: the blank follows."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=written,
        model_type="bpe",
        vocab_size=VOCABULARY - 1,
        unk_id=0,
        pad_id=2 if has_padding else -1,
        bos_id=1 if has_padding else -1,
        eos_id=-1,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return written.getvalue()


def hashed(content: bytes, name: str) -> str:
    return f"{hashlib.md5(content).hexdigest()}_{name}"


def encoder_config(variant: Variant) -> dict[str, Any]:
    return {
        "_target_": MODULES + "ConformerEncoder",
        "feat_in": BINS,
        "feat_out": -1,
        "n_layers": ENCODER["num_hidden_layers"],
        "d_model": ENCODER["hidden_size"],
        "use_bias": variant.encoder["attention_bias"],
        "subsampling": "dw_striding",
        "subsampling_factor": ENCODER["subsampling_factor"],
        "subsampling_conv_channels": ENCODER["subsampling_conv_channels"],
        "causal_downsampling": False,
        "reduction": None,
        "reduction_position": None,
        "reduction_factor": 1,
        "ff_expansion_factor": EXPANSION,
        "self_attention_model": "rel_pos",
        "n_heads": ENCODER["num_attention_heads"],
        "att_context_size": [-1, -1],
        "att_context_style": "regular",
        "xscaling": variant.encoder["scale_input"],
        "untie_biases": True,
        "pos_emb_max_len": 5000,
        "conv_kernel_size": ENCODER["conv_kernel_size"],
        "conv_norm_type": "batch_norm",
        "conv_context_size": None,
        "dropout": 0.1,
        "dropout_pre_encoder": 0.1,
        "dropout_emb": 0.0,
        "dropout_att": 0.1,
        "stochastic_depth_drop_prob": 0.0,
        "stochastic_depth_mode": "linear",
        "stochastic_depth_start_layer": 1,
    }


def transducer_config(variant: Variant, pieces: list[str]) -> dict[str, Any]:
    width = variant.head["decoder_hidden_size"]
    durations = variant.durations
    config: dict[str, Any] = {
        "model_defaults": {"enc_hidden": ENCODER["hidden_size"], "pred_hidden": width, "joint_hidden": width},
        "decoder": {
            "_target_": MODULES + "RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "prednet": {
                "pred_hidden": width,
                "pred_rnn_layers": variant.head["num_decoder_layers"],
                "t_max": None,
                "dropout": 0.2,
            },
            "vocab_size": len(pieces),
        },
        "joint": {
            "_target_": MODULES + "RNNTJoint",
            "log_softmax": None,
            "preserve_memory": False,
            "fuse_loss_wer": True,
            "fused_batch_size": 4,
            "jointnet": {
                "joint_hidden": width,
                "activation": "relu",
                "dropout": 0.2,
                "encoder_hidden": ENCODER["hidden_size"],
                "pred_hidden": width,
            },
            "num_classes": len(pieces),
            "vocabulary": pieces,
        },
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}},
        "loss": {"loss_name": "default", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
        "rnnt_reduction": "mean_volume",
    }
    if durations:
        config["model_defaults"] |= {"tdt_durations": durations, "num_tdt_durations": len(durations)}
        config["joint"]["num_extra_outputs"] = len(durations)
        config["decoding"] |= {"model_type": "tdt", "durations": durations}
        arguments = {
            "fastemit_lambda": 0.0,
            "clamp": -1.0,
            "durations": durations,
            "sigma": 0.02,
            "omega": 0.1,
        }
        config["loss"] = {"loss_name": "tdt", "tdt_kwargs": arguments}
    return config


def ctc_config(pieces: list[str]) -> dict[str, Any]:
    return {
        "decoder": {
            "_target_": MODULES + "ConvASRDecoder",
            "feat_in": ENCODER["hidden_size"],
            "num_classes": len(pieces),
            "vocabulary": pieces,
        },
        "decoding": {"strategy": "greedy"},
        "ctc_reduction": "mean_batch",
    }


def config_of(variant: Variant, tokenizer: dict[str, str], pieces: list[str]) -> dict[str, Any]:
    kind = "EncDecCTCModelBPE" if variant.is_ctc else "EncDecRNNTBPEModel"
    return {
        "sample_rate": 16000,
        "log_prediction": True,
        "train_ds": {"manifest_filepath": None, "batch_size": 16},
        "tokenizer": {"dir": None, "type": "bpe", **tokenizer},
        "preprocessor": {
            "_target_": MODULES + "AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000,
            "normalize": "per_feature",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": BINS,
            "n_fft": 512,
            "log": True,
            "frame_splicing": 1,
            "dither": 1.0e-05,
            "pad_to": 0,
            "pad_value": 0.0,
        },
        "spec_augment": {
            "_target_": MODULES + "SpectrogramAugmentation",
            "freq_masks": 2,
            "time_masks": 10,
            "freq_width": 7,
            "time_width": 0.05,
        },
        "encoder": encoder_config(variant),
        "labels": pieces,
        **(ctc_config(pieces) if variant.is_ctc else transducer_config(variant, pieces)),
        "optim": {"name": "adamw", "lr": 0.001},
        "target": "nemo.collections.asr.models." + kind,
    }


def feature_constants() -> dict[str, Tensor]:
    """What NeMo keeps of its features in an archive."""
    extractor = ParakeetFeatureExtractor(feature_size=BINS)
    return {
        "preprocessor.featurizer.window": torch.hann_window(400, periodic=False),
        "preprocessor.featurizer.fb": extractor.mel_filters.float()[None],
    }


def logits_of_utterances(variant: Variant, network: PreTrainedModel, folder: Path) -> list[Tensor]:
    expected = load_file(fixture.FOLDER / "parakeet" / "ctc" / "expected.safetensors")
    found = []
    for u in range(len(make_parakeet.UTTERANCES)):
        inputs = make_parakeet.features_of(expected[f"raw.{u}"], folder)
        with torch.no_grad():
            found.append(make_parakeet.logits_of(variant, network, inputs, expected[f"labels.{u}"]))
    return found


def make_archive(name: str, path: Path) -> list[Tensor]:
    """Returns the logits of transformers' network with the same weights."""
    variant = replace(
        VARIANTS[name],
        encoder=VARIANTS[name].encoder | {"intermediate_size": EXPANSION * ENCODER["hidden_size"]},
    )
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary)
        make_parakeet.save_model(NAMES.index(name), variant, source)
        weights = load_file(source / "model.safetensors")
        if not variant.is_ctc:
            weights["decoder.embedding.weight"][VOCABULARY - 1] = 0.0
        network = make_parakeet.load_model(variant, source)
        network.load_state_dict({key: value.double() for key, value in weights.items()})
        logits = logits_of_utterances(variant, network, source)
    model = train_tokenizer(has_padding=name == "tdt")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    words = "".join(f"{piece}\n" for piece in pieces[1:]).encode()
    names = {"model_path": hashed(model, "tokenizer.model"), "vocab_path": hashed(words, "vocab.txt")}
    archive = Archive(
        config=config_of(variant, {key: f"nemo:{value}" for key, value in names.items()}, pieces),
        weights=feature_constants() | {nemo_name(key): value for key, value in weights.items()},
        files={names["model_path"]: model, names["vocab_path"]: words},
    )
    write_archive(path, archive, packs=name == "rnnt")
    return logits


def make_folder(folder: Path) -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for name in NAMES:
        logits = make_archive(name, folder / f"{name}.nemo")
        tensors |= {f"{name}.logits.{u}": value for u, value in enumerate(logits)}
    save_tensors(folder / "expected.safetensors", tensors)
    fixture.write(folder / "expected.json", SCRIPT, {"archives": NAMES}, PACKAGES)
