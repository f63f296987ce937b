"""What training Wav2Vec2ForCTC with Hugging Face takes on a GPU, shape by shape, to hold estimates against.

    bench/hf_memory.py --json OUT
    bench/hf_memory.py --smoke        one tiny shape on the CPU: whether it works

Each row is a model with random weights, an arithmetic, an attention and a padded micro-batch of so many
utterances of so many seconds, two updates of it: the second has the optimizer's state. The feature encoder
is frozen, attention masks are given where the model's own preprocessing gives them, nothing is hidden.
Printed: what lies there between updates, most up to the end of the feature encoder, most of all, and what
the caching allocator reserved.
"""

import argparse
import contextlib
import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

RATE = 16_000
VOCABULARY = 32
MIB = 1 << 20
NORMS_FIRST = {"do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True}
MODELS = {
    "wav2vec2-base": {},
    "wav2vec2-large-lv60": {
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        **NORMS_FIRST,
    },
    "xls-r-1b": {
        "num_hidden_layers": 48,
        "hidden_size": 1280,
        "num_attention_heads": 16,
        "intermediate_size": 5120,
        **NORMS_FIRST,
    },
    "tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "conv_dim": [16] * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    },
}
TYPES = {"fp32": None, "tf32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Row:
    model: str
    precision: str
    attention: str
    checkpointing: bool
    utterances: int
    seconds: float
    static_bytes: int = 0
    front_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0


def rows_to_measure() -> Iterator[Row]:
    for model, shapes in (
        ("wav2vec2-base", ((8, 30.0), (8, 15.0), (32, 10.0), (2, 20.0))),
        ("wav2vec2-large-lv60", ((8, 30.0), (8, 15.0), (32, 10.0), (2, 20.0))),
        ("xls-r-1b", ((8, 15.0), (2, 30.0))),
    ):
        for utterances, seconds in shapes:
            for checkpointing in (False, True):
                yield Row(model, "bf16", "sdpa", checkpointing, utterances, seconds)
        utterances, seconds = shapes[1]
        for precision in ("fp32", "tf32", "fp16"):
            yield Row(model, precision, "sdpa", False, utterances, seconds)
        yield Row(model, "fp32", "eager", False, utterances, seconds)
        yield Row(model, "fp32", "sdpa", True, utterances, seconds)


def make_model(row: Row, device: torch.device) -> Wav2Vec2ForCTC:
    config = Wav2Vec2Config(
        vocab_size=VOCABULARY,
        layerdrop=0.0,
        apply_spec_augment=False,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        attn_implementation=row.attention,
        **MODELS[row.model],
    )
    model = Wav2Vec2ForCTC(config).to(device).train()
    model.freeze_feature_encoder()
    if row.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def update(
    row: Row, model: Wav2Vec2ForCTC, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> None:
    device = next(model.parameters()).device
    samples = int(row.seconds * RATE)
    batch = {
        "input_values": torch.randn(row.utterances, samples, device=device),
        "labels": torch.randint(1, VOCABULARY, (row.utterances, int(row.seconds * 14)), device=device),
    }
    if MODELS[row.model].get("feat_extract_norm") == "layer":
        batch["attention_mask"] = torch.ones(row.utterances, samples, dtype=torch.long, device=device)
        batch["attention_mask"][0, samples // 2 :] = 0
    half = TYPES[row.precision]
    with torch.autocast(device.type, dtype=half) if half else contextlib.nullcontext():
        loss = model(**batch).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)


def measure(row: Row, device: torch.device) -> Row:
    torch.backends.cuda.matmul.allow_tf32 = row.precision != "fp32"
    torch.manual_seed(1)
    gc.collect()
    torch.cuda.empty_cache()
    model = make_model(row, device)
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=device.type == "cuda")
    scaler = torch.amp.GradScaler(device.type, enabled=row.precision == "fp16")

    def after_front(*_: object) -> None:
        row.front_bytes = torch.cuda.max_memory_allocated()

    model.wav2vec2.feature_projection.register_forward_pre_hook(after_front)
    update(row, model, optimizer, scaler)
    row.static_bytes = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    update(row, model, optimizer, scaler)
    row.peak_bytes = torch.cuda.max_memory_allocated()
    row.reserved_bytes = torch.cuda.max_memory_reserved()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--smoke", action="store_true", help="one tiny shape on the CPU")
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        parser.error("no GPU was found: expected one, or --smoke")
    device = torch.device("cpu" if options.smoke else "cuda")
    rows = [Row("tiny", "bf16", "sdpa", True, 2, 1.0)] if options.smoke else list(rows_to_measure())
    done = []
    for row in rows:
        try:
            done.append(measure(row, device))
        except torch.OutOfMemoryError:
            print(f"{row.model} {row.precision} {row.utterances} x {row.seconds}: out of memory")
            continue
        figures = " ".join(
            f"{value / MIB:8.0f}"
            for value in (row.static_bytes, row.front_bytes, row.peak_bytes, row.reserved_bytes)
        )
        how = f"{row.precision} {row.attention}{' checkpointing' if row.checkpointing else ''}"
        print(f"{row.model:20} {how:25} {row.utterances:3} x {row.seconds:4.0f} s {figures} MiB", flush=True)
    if options.json:
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        device_name = "cpu" if options.smoke else torch.cuda.get_device_name()
        record = {"device": device_name, "versions": versions, "rows": [asdict(row) for row in done]}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
