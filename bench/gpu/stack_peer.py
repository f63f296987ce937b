"""The updates of gpu_stack in PyTorch with Hugging Face's encoder layers: speed and memory to compare with.

usage: bench/gpu/stack_peer.py --lengths FILE [--stack 24x1024] [--micro 32] [--checkpointing] [--json OUT]

bf16 autocast over fp32 weights, SDPA, fused AdamW, gradients clipped, dropout 0.1 (attention 0), padded
batches grouped by length: utterances of a step are sorted and cut into micro-batches.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from transformers import Wav2Vec2Config
from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2EncoderLayerStableLayerNorm

GIB = 1 << 30
FRAMES_A_SECOND = 50
FEATURES = 80
VOCABULARY = 32
STACKS = {"12x768": (12, 768, 12), "24x1024": (24, 1024, 16), "48x1280": (48, 1280, 16)}


class Stack(nn.Module):
    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        config = Wav2Vec2Config(
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            hidden_dropout=0.1,
            activation_dropout=0.1,
            attention_dropout=0.0,
            attn_implementation="sdpa",
        )
        self.front = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(Wav2Vec2EncoderLayerStableLayerNorm(config) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)
        self.checkpointing = False

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.front(x)
        for layer in self.layers:
            if self.checkpointing:
                x = torch.utils.checkpoint.checkpoint(layer, x, mask, use_reentrant=False)
            else:
                x = layer(x, attention_mask=mask)
            if isinstance(x, tuple):
                x = x[0]
        return self.head(self.norm(x))


def read_lengths(path: Path) -> list[tuple[float, int]]:
    lines = path.read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    lengths = [(float(row[2]), int(row[4])) for row in rows]
    generator = torch.Generator().manual_seed(1)
    return [lengths[i] for i in torch.randperm(len(lengths), generator=generator).tolist()]


def micro_batches(step: list[tuple[float, int]], micro: int) -> list[list[tuple[float, int]]]:
    ordered = sorted(step, reverse=True)
    return [ordered[i : i + micro] for i in range(0, len(ordered), micro)]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_update(update: Callable[[int], float], number: int) -> tuple[float, float]:
    """What update(number) returns, which is how much it went through, and its seconds."""
    synchronize()
    start = time.perf_counter()
    amount = update(number)
    synchronize()
    return amount, time.perf_counter() - start


def time_updates(update: Callable[[int], float], warmup: int, steps: int) -> float:
    """The median speed of the updates behind the first."""
    timed = [time_update(update, number) for number in range(warmup + steps)]
    return statistics.median(amount / seconds for amount, seconds in timed[warmup:])


def finish_update(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def run_micro_batch(model: Stack, batch: list[tuple[float, int]], share: float) -> None:
    frames = [int(seconds * FRAMES_A_SECOND) for seconds, _ in batch]
    labels = [min(characters, length // 3) for (_, characters), length in zip(batch, frames, strict=True)]
    x = torch.randn(len(batch), max(frames), FEATURES, device="cuda")
    lengths = torch.tensor(frames, device="cuda")
    keep = torch.arange(max(frames), device="cuda")[None] < lengths[:, None]
    mask = keep[:, None, None, :].expand(-1, 1, max(frames), -1)
    targets = torch.randint(1, VOCABULARY, (len(batch), max(labels)), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(x, mask)
    log_probabilities = torch.log_softmax(logits.float(), dim=-1).transpose(0, 1)
    loss = nn.functional.ctc_loss(
        log_probabilities, targets, lengths, torch.tensor(labels, device="cuda"), zero_infinity=True
    )
    (loss * share).backward()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=Path, required=True)
    parser.add_argument("--stack", choices=STACKS, default="24x1024")
    parser.add_argument("--micro", type=int, default=32)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    lengths = read_lengths(options.lengths)
    torch.manual_seed(1)
    model = Stack(*STACKS[options.stack]).cuda().train()
    model.checkpointing = options.checkpointing
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def update(number: int) -> float:
        step = lengths[number * options.batch : (number + 1) * options.batch]
        for batch in micro_batches(step, options.micro):
            run_micro_batch(model, batch, len(batch) / len(step))
        finish_update(model, optimizer)
        return sum(int(s * FRAMES_A_SECOND) for s, _ in step) / FRAMES_A_SECOND

    speed = time_updates(update, options.warmup, options.steps)
    free, total = torch.cuda.mem_get_info()
    result = {
        "stack": options.stack,
        "micro": options.micro,
        "checkpointing": options.checkpointing,
        "audio_seconds_per_second": speed,
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        "device_bytes": total - free,
    }
    print(
        f"PyTorch {options.stack} micro {options.micro}{' checkpointing' if options.checkpointing else ''}: "
        f"{speed:.0f} audio-s/s, allocated {result['peak_allocated_bytes'] / GIB:.2f} GiB, "
        f"reserved {result['peak_reserved_bytes'] / GIB:.2f} GiB"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
