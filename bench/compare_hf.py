"""Whole updates of Wav2Vec2ForCTC as Hugging Face trains it, at its best: speed and memory to compare with.

    bench/compare_hf.py --lengths FILE [--micro 8 32] [--dropout 0.1] [--layerdrop 0] [--json OUT]
    bench/compare_hf.py --lengths FILE --sotto BINARY [-- OPTIONS]    also BINARY, in one table with ratios
    bench/compare_hf.py --lm                                          a language model, eager and compiled
    bench/compare_hf.py --smoke [--lm]                                tiny sizes on the CPU: whether it works

The network has the shape of wav2vec2-large (as large-lv60 and XLS-R 300M: norms before the sublayers, layer
norms in the feature encoder) and random weights; the feature encoder is frozen, and nothing is masked. bf16
autocast over fp32 weights, SDPA, fused AdamW, gradients clipped, batches grouped by length and padded to
whole seconds; each size of micro-batches with and without gradient checkpointing.

FILE is a TSV of utterances (name, samples, seconds, words, characters). BINARY is called as
`BINARY --lengths FILE --model wav2vec2-large-lv60 OPTIONS` and prints a table with a row a configuration and
columns `audio-s/s` and `measured GiB`.
"""

import argparse
import gc
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from lm_peer import Lm, LmShape, lm_batch
from torch import Tensor, nn
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

from stack_peer import (  # noqa: E402
    FRAMES_A_SECOND,
    GIB,
    VOCABULARY,
    finish_update,
    micro_batches,
    read_lengths,
    time_updates,
)

RATE = 16_000
MODEL = "wav2vec2-large"
# The same network there: norms first, a norm and a bias on every convolution.
SOTTO_MODEL = "wav2vec2-large-lv60"
LARGE = {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
TINY = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
TINY_LM = LmShape(layers=2, width=32, heads=4, hidden=64, vocabulary=50, length=16)
LM_BATCH = 128


@dataclass
class Result:
    """One row. Bytes are the most at any moment; sotto reserves none besides."""

    what: str
    speed: float
    allocated_bytes: float
    reserved_bytes: float | None = None


def device_of(options: argparse.Namespace) -> torch.device:
    return torch.device("cpu" if options.smoke else "cuda")


def make_model(options: argparse.Namespace, checkpointing: bool) -> Wav2Vec2ForCTC:
    config = Wav2Vec2Config(
        vocab_size=VOCABULARY,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
        conv_bias=True,
        hidden_dropout=options.dropout,
        activation_dropout=options.dropout,
        feat_proj_dropout=options.dropout,
        final_dropout=options.dropout,
        attention_dropout=options.attention_dropout,
        layerdrop=options.layerdrop,
        apply_spec_augment=False,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        attn_implementation="sdpa",
        **(TINY if options.smoke else LARGE),
    )
    model = Wav2Vec2ForCTC(config).to(device_of(options)).train()
    model.freeze_feature_encoder()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def make_batch(batch: list[tuple[float, int]], device: torch.device) -> dict[str, Tensor]:
    """Audio of no meaning, normalised, padded with zeros to whole seconds; labels padded with -100."""
    samples = torch.tensor([int(seconds * RATE) for seconds, _ in batch], device=device)
    padded = math.ceil(max(seconds for seconds, _ in batch)) * RATE
    keep = torch.arange(padded, device=device) < samples[:, None]
    counts = [min(characters, int(seconds * FRAMES_A_SECOND) // 3) for seconds, characters in batch]
    labels = torch.randint(1, VOCABULARY, (len(batch), max(counts)), device=device)
    behind = torch.arange(max(counts), device=device) >= torch.tensor(counts, device=device)[:, None]
    return {
        "input_values": torch.randn(len(batch), padded, device=device) * keep,
        "attention_mask": keep.long(),
        "labels": labels.masked_fill(behind, -100),
    }


def measure(what: str, unit: str, run: Callable[[], float]) -> list[Result]:
    """Runs a configuration from empty memory and prints its line. Nothing where memory does not suffice."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.init()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        speed = run()
    except torch.OutOfMemoryError:
        print(f"{what}: out of memory", flush=True)
        return []
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    memory = f"allocated {allocated / GIB:.2f} GiB, reserved {reserved / GIB:.2f} GiB"
    print(f"{what}: {speed:,.0f} {unit}, {memory}", flush=True)
    return [Result(what, speed, allocated, reserved)]


def run_wav2vec2(options: argparse.Namespace, micro: int, checkpointing: bool) -> float:
    """Seconds of audio trained a second."""
    device = device_of(options)
    lengths = smoke_lengths() if options.smoke else read_lengths(options.lengths)
    torch.manual_seed(1)
    model = make_model(options, checkpointing)
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)

    def update(number: int) -> float:
        step = lengths[number * options.batch : (number + 1) * options.batch]
        for part in micro_batches(step, micro):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = model(**make_batch(part, device)).loss
            (loss * (len(part) / len(step))).backward()
        finish_update(model, optimizer)
        return sum(seconds for seconds, _ in step)

    return time_updates(update, options.warmup, options.steps)


def run_lm(options: argparse.Namespace, compiled: bool) -> float:
    """Tokens trained a second."""
    device = device_of(options)
    shape = TINY_LM if options.smoke else LmShape(dropout=options.dropout)
    rows = 4 if options.smoke else LM_BATCH
    torch.manual_seed(1)
    model: nn.Module = Lm(shape).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(model) if compiled else model

    def update(_: int) -> float:
        tokens, targets = lm_batch(shape, rows, device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = forward(tokens, targets)
        loss.backward()
        finish_update(model, optimizer)
        return tokens.numel()

    return time_updates(update, options.warmup, options.steps)


def smoke_lengths() -> list[tuple[float, int]]:
    return [(1.0 + 0.37 * (i % 5), 8 + i % 7) for i in range(64)]


def read_table(text: str) -> list[Result]:
    """The rows of a table that sotto printed, by the titles of its columns."""
    rows: list[Result] = []
    titles: list[str] = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if {"audio-s/s", "measured GiB"} <= set(cells):
            titles = cells
        elif titles and len(cells) == len(titles):
            named = dict(zip(titles, cells, strict=True))
            speed = float(named["audio-s/s"].replace(",", ""))
            rows.append(Result(f"sotto {cells[0]}", speed, float(named["measured GiB"]) * GIB))
    return rows


def run_sotto(options: argparse.Namespace) -> list[Result]:
    command = [options.sotto, "--lengths", options.lengths, "--model", SOTTO_MODEL, *options.sotto_options]
    run = subprocess.run(command, capture_output=True, text=True)
    print(run.stdout, end="", flush=True)
    rows = read_table(run.stdout) if run.returncode == 0 else []
    if not rows:
        print(f"compare_hf: `{' '.join(map(str, command))}`", file=sys.stderr)
        print(f"  ended with status {run.returncode}: {run.stderr.strip()}", file=sys.stderr)
        print("  Expected a table with columns audio-s/s and measured GiB.", file=sys.stderr)
    return rows


def print_table(peers: list[Result], ours: list[Result]) -> None:
    """All rows; speed and memory over those of the fastest peer."""
    fastest = max(peers, key=lambda row: row.speed)
    most = fastest.reserved_bytes or math.nan
    width = max(len(row.what) for row in peers + ours)
    print(f"{'':<{width}}  audio-s/s    GiB  speed  memory   (ratios to {fastest.what})")
    for row in peers + ours:
        held = row.allocated_bytes if row.reserved_bytes is None else row.reserved_bytes
        print(
            f"{row.what:<{width}}  {row.speed:>9,.0f}  {held / GIB:>5.1f}"
            f"  {row.speed / fastest.speed:>5.2f}  {held / most:>6.2f}"
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=Path, metavar="FILE")
    parser.add_argument("--lm", action="store_true", help="the language model instead")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--micro", type=int, nargs="+", default=[8, 32], help="utterances of a micro-batch")
    parser.add_argument("--batch", type=int, default=32, help="utterances of a step")
    parser.add_argument("--dropout", type=float, default=0.1, help="all but the attention's")
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--layerdrop", type=float, default=0.0)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--sotto", type=Path, metavar="BINARY")
    parser.add_argument("sotto_options", nargs="*", metavar="OPTIONS", help="of BINARY, behind --")
    options = parser.parse_args()
    if options.smoke:
        options.batch, options.micro, options.warmup, options.steps = 4, [2, 4], 1, 2
    elif not torch.cuda.is_available():
        parser.error("no GPU was found: expected one, or --smoke")
    if not (options.lengths or options.lm or (options.smoke and not options.sotto)):
        parser.error("--lengths is needed: a TSV of utterances")
    if options.sotto and options.lm:
        parser.error("--sotto is compared with wav2vec2 only: leave out --lm")
    return options


def main() -> int:
    options = parse_options()
    torch.set_float32_matmul_precision("high")
    results: list[Result] = []
    if options.lm:
        for compiled in (False, True):
            how = "compiled" if compiled else "eager"
            what = f"PyTorch {'tiny ' if options.smoke else ''}language model {how}"
            results += measure(what, "tokens/s", partial(run_lm, options, compiled))
    else:
        for micro, checkpointing in itertools.product(options.micro, (False, True)):
            how = f"micro {micro}{' checkpointing' if checkpointing else ''}"
            what = f"Hugging Face {'tiny' if options.smoke else MODEL} {how}"
            results += measure(what, "audio-s/s", partial(run_wav2vec2, options, micro, checkpointing))
    ours = run_sotto(options) if options.sotto else []
    if results and ours:
        print_table(results, ours)
    if options.json:
        rows = [asdict(row) for row in results + ours]
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 1 if options.sotto and not ours else 0


if __name__ == "__main__":
    sys.exit(main())
