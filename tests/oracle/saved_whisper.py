"""Folders of Whisper networks that sotto wrote, loaded by transformers: weights, processor and transcripts.

The networks are like those of make_whisper.py, over a vocabulary of the bytes with Whisper's special tokens.
sotto starts a run from them (with a rate of 0, so that its weights stay), and exports the run. transformers
must then find every weight and no other, compute the same logits, and generate, with the
generation_config.json that sotto wrote, the words that `sotto transcribe` prints.
"""

import json
import os
from pathlib import Path

import numpy
import soundfile
import torch
from make_whisper import VARIANTS, Variant, make_samples
from oracle_steps import draw
from saved_parakeet import Failed, run
from whisper_texts import letters

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: a folder must be enough

from transformers import (  # noqa: E402
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    logging,
)

TOLERANCE = 1e-4
SPECIAL = ["endoftext", "startoftranscript", "en", "pl", "ms", "translate", "transcribe", "startoflm"]
SPECIAL += ["startofprev", "nospeech", "notimestamps"]
END = 256
VOCABULARY = END + len(SPECIAL) + 1501
SHAPE = {
    "vocab_size": VOCABULARY,
    "d_model": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 32,
    "max_source_positions": 50,
    "max_target_positions": 20,
    "decoder_start_token_id": END + 1,
    "eos_token_id": END,
    "bos_token_id": END,
    "pad_token_id": END,
    "begin_suppress_tokens": None,
}
LENGTHS = [9000, 16_000, 12_800]


def write_tokenizer(folder: Path) -> None:
    """The bytes without merges, and the special tokens, of which older files do not name the timestamps."""
    bytes_in_letters = {letter: byte for byte, letter in letters().items()}
    (folder / "vocab.json").write_text(json.dumps(bytes_in_letters))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    names = {f"<|{name}|>": END + i for i, name in enumerate(SPECIAL)}
    (folder / "added_tokens.json").write_text(json.dumps(names))
    tokens = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    settings = {"tokenizer_class": "WhisperTokenizer", "bos_token": "<|endoftext|>", **tokens}
    settings["additional_special_tokens"] = list(names)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_source(variant: Variant, folder: Path) -> WhisperForConditionalGeneration:
    folder.mkdir()
    shape = SHAPE | {"decoder_layers": variant.decoder_layers}
    model = WhisperForConditionalGeneration(WhisperConfig(num_mel_bins=variant.mels, **shape))
    generator = torch.Generator().manual_seed(variant.seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            if name != "model.encoder.embed_positions.weight":
                noise = draw(generator, *value.shape) / max(1, value[0].numel()) ** 0.5
                value.copy_(1.5 * noise if value.dim() > 1 else 0.2 * noise + ("norm.weight" in name))
        decoder = model.model.decoder
        decoder.embed_positions.weight *= 6.0
        # Letters, and nothing that a transcript does not have.
        decoder.embed_tokens.weight[END + 1 :] *= 0.3
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    WhisperFeatureExtractor(feature_size=variant.mels, chunk_length=1).save_pretrained(folder)
    write_tokenizer(folder)
    return model.eval()


def write_sounds(folder: Path) -> tuple[Path, list[Path]]:
    lines, sounds = [], []
    for number, length in enumerate(LENGTHS):
        path = folder / f"{number}.wav"
        samples = (make_samples(length, number) * 32768).round().numpy().astype(numpy.int16)
        soundfile.write(path, samples, 16_000)
        sounds.append(path)
        line = {"audio_filepath": path.name, "duration": length / 16_000, "text": "ab", "lang": "pl"}
        lines.append(json.dumps(line))
    manifest = folder / "sounds.jsonl"
    manifest.write_text("\n".join(lines) + "\n")
    return manifest, sounds


def compare(name: str, model: WhisperForConditionalGeneration, saved: Path) -> list[str]:
    """The weights, and the logits of the first recording's length of noise."""
    ours, found = WhisperForConditionalGeneration.from_pretrained(
        saved, dtype=torch.float32, output_loading_info=True
    )
    wrong = [
        f"{name}: {len(found[key])} {key.replace('_', ' ')}, such as {min(map(str, found[key]))}"
        for key in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if found[key]
    ]
    features = draw(torch.Generator().manual_seed(1), 1, model.config.num_mel_bins, 100).float()
    inputs = torch.tensor([[END + 1, END + 3, END + 6, END + 10, 97]])
    with torch.no_grad():
        truth, logits = (one.eval()(features, decoder_input_ids=inputs).logits for one in (model, ours))
    relative = ((logits - truth).abs().max() / truth.abs().max()).item()
    if not relative <= TOLERANCE:
        wrong.append(f"{name}: logits differ by {relative:.1e} of the largest")
    return wrong


def compare_words(name: str, sotto: Path, saved: Path, sounds: list[Path]) -> list[str]:
    """What generate() finds with the prompt that the generation config makes of a language."""
    model = WhisperForConditionalGeneration.from_pretrained(saved, dtype=torch.float32)
    processor = WhisperProcessor.from_pretrained(saved)
    language = ["--set", "data.language=pl", "--window", "1", "--overlap", "0"]
    ours = json.loads(run(sotto, "transcribe", "--model", saved, *sounds, "--json", *language))
    wrong = []
    for path, one in zip(sounds, ours, strict=True):
        samples = soundfile.read(path, dtype="float32")[0]
        features = processor(samples, sampling_rate=16_000, return_tensors="pt").input_features
        tokens = model.generate(features, language="pl", task="transcribe")
        theirs = processor.batch_decode(tokens, skip_special_tokens=True)[0].strip()
        if one["text"].strip() != theirs:
            wrong.append(f"{name}: {path.name} is {one['text']!r}, not {theirs!r}")
    if not any(one["text"] for one in ours):
        wrong.append(f"{name}: nothing was transcribed")
    return wrong


def check_variant(sotto: Path, name: str, folder: Path) -> list[str]:
    source, saved = folder / f"source_{name}", folder / f"saved_{name}"
    model = save_source(VARIANTS[name], source)
    manifest, sounds = write_sounds(source)
    out = folder / f"run_{name}"
    still = ["--set", "optimizer.schedule.rate=0", "--max-steps", "1", "--memory", "200MiB"]
    run(sotto, "train", "--model", source, "--train", manifest, "--out", out, *still)
    run(sotto, "export", "--model", out, "--out", saved, "--max-shard", "80KiB")
    return compare(name, model, saved) + compare_words(name, sotto, saved, sounds)


def check(sotto: Path, folder: Path) -> tuple[str, list[str]]:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    wrong = []
    for name in VARIANTS:
        try:
            wrong += check_variant(sotto, name, folder)
        except Failed as error:
            wrong.append(f"{name}: {error}")
    return f"{len(VARIANTS)} networks that sotto saved, loaded by transformers", wrong
