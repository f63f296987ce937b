"""The eight techniques of `sotto lab run techniques` in plain PyTorch: memory, speed and perplexity.

    bench/lab_peer.py --train TRAIN --dev DEV [--tokenizer MODEL] [--json OUT]
    bench/lab_peer.py --train TRAIN --only baseline bf16 --cap 24 --max-steps 50
    bench/lab_peer.py --device cpu --smoke            tiny sizes and random tokens: whether it works

TRAIN and DEV are the token files that sotto leaves beside its texts (TEXT.tokens), other files of tokens, or
texts with a SentencePiece model (token_rows.py). Rows are cut as sotto cuts them if
data.separate_documents=false; a last row that is not full is left out.

The network is decoder_lm: norms before the sublayers, sinusoidal positions, the output's weight is the
embedding's, dropout behind the embedding, the activation and each sublayer, none in the attention. AdamW is
fused, with betas 0.9 and 0.98 and a decay of 0.01 for matrices; gradients are clipped to a norm of 1; the
rate is constant. bf16 is autocast over fp32 weights; TF32 is off, or on with --tf32.

  baseline         attention by products and a softmax, all scores stored; the whole logits
  bf16             the same under autocast
  flash_attn       bf16, SDPA restricted to the flash kernel
  window_512, _256 bf16, SDPA with a mask (which the flash kernel does not take, so another computes it); with
                   --compile flex_attention. A window that covers the row is flash_attn, with a note
  grad_checkpoint  each block under torch.utils.checkpoint
  bf16_gradcp, flash_gradcp

Bytes are those of tensors (memory_allocated), on the CPU those of the process; `reserved` is what the caching
allocator took. After forward and after backward: the most over all steps, before the update. Gradients are
freed between steps, so the first does not contain them. seconds_per_step is the median, without the first
--warmup steps. The largest batch is found by doubling and bisection, with the allocator limited to --cap GiB,
each batch with two whole updates.
"""

import argparse
import contextlib
import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lm_peer import Attend, Lm, LmShape, causal_attention, lm_batch
from peer_tools import (
    GIB,
    allocated_bytes,
    facts_of,
    limit_memory,
    peak_bytes,
    print_table,
    release_memory,
    reserved_peak_bytes,
    use_tf32,
    write_json,
)
from token_rows import full_rows, read_tokens
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "gpu"), str(HERE.parent / "tests/oracle")]

from stack_peer import finish_update, time_update  # noqa: E402
from twin import parameter_groups, sinusoids  # noqa: E402


@dataclass
class Technique:
    name: str
    bf16: bool = False
    attention: str = "plain"  # plain, flash, window
    window: int = 0
    recompute: bool = False


TECHNIQUES = [
    Technique("baseline"),
    Technique("bf16", bf16=True),
    Technique("flash_attn", bf16=True, attention="flash"),
    Technique("window_512", bf16=True, attention="window", window=512),
    Technique("window_256", bf16=True, attention="window", window=256),
    Technique("grad_checkpoint", recompute=True),
    Technique("bf16_gradcp", bf16=True, recompute=True),
    Technique("flash_gradcp", bf16=True, attention="flash", recompute=True),
]


@dataclass
class Figures:
    """One row."""

    experiment: str
    status: str = "done"
    note: str = ""
    parameters: int = 0
    steps: int = 0
    train_loss: float | None = None
    validation_perplexity: float | None = None
    seconds_per_step: float | None = None
    total_seconds: float = 0.0
    tokens_per_second: float | None = None
    after_forward_bytes: int = 0
    after_backward_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    largest_batch: dict[str, Any] | None = field(default=None)


def banded(length: int, window: int, device: torch.device) -> Tensor:
    """[T, T]: whether a token attends to another; `window` tokens with itself."""
    place = torch.arange(length, device=device)
    back = place[:, None] - place[None]
    return (back >= 0) & (back < window)


def plain_attention(mask: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    return scores.masked_fill(~mask, -math.inf).softmax(-1).to(v.dtype) @ v


def flash_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return causal_attention(q, k, v)


def masked_attention(mask: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def flexible_attention(length: int, window: int, device: torch.device) -> Attend:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query - key < window)

    blocks = create_block_mask(sees, None, None, length, length, device=str(device))
    return partial(flex_attention, block_mask=blocks)


class Peer:
    """One technique: its network and optimizer, and a step of any batch."""

    def __init__(self, technique: Technique, options: argparse.Namespace) -> None:
        self.options, self.device, self.bf16 = options, torch.device(options.device), technique.bf16
        self.shape = LmShape(**{name: getattr(options, name) for name in asdict(LmShape())})
        torch.manual_seed(options.seed)
        self.model = Lm(self.shape, self.attention_of(technique), technique.recompute)
        self.initialise()
        self.model.to(self.device).train()
        self.compute: Callable[[Tensor, Tensor], Tensor] = (
            torch.compile(self.model) if options.compile else self.model
        )
        trained = parameter_groups(self.model, 0.01)
        self.optimizer = torch.optim.AdamW(trained, lr=options.rate, betas=(0.9, 0.98), fused=True)
        self.after_forward = self.after_backward = 0

    def attention_of(self, technique: Technique) -> Attend:
        length = self.shape.length
        if technique.attention == "plain":
            return partial(plain_attention, banded(length, length, self.device))
        if technique.attention == "flash" or technique.window >= length:
            return flash_attention
        if self.options.compile:
            return flexible_attention(length, technique.window, self.device)
        return partial(masked_attention, banded(length, technique.window, self.device))

    def initialise(self) -> None:
        """Begins as decoder_lm does."""
        for block in self.model.blocks:
            for linear, share in ((block.qkv, 1), (block.up, 1), (block.out, 2), (block.down, 2)):
                layers = self.shape.layers if share == 2 else 1
                nn.init.normal_(linear.weight, std=(linear.in_features * share * layers) ** -0.5)
                nn.init.zeros_(linear.bias)
        table = sinusoids(self.shape.length, self.shape.width).float()
        self.model.positions = nn.Embedding.from_pretrained(table)

    def autocast(self) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else contextlib.nullcontext()

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, and one update by it."""
        with self.autocast():
            loss = self.compute(tokens, targets)
        self.after_forward = max(self.after_forward, allocated_bytes())
        loss.backward()
        self.after_backward = max(self.after_backward, allocated_bytes())
        finish_update(self.model, self.optimizer)
        return loss.detach()

    def train(self, inputs: Tensor, targets: Tensor) -> list[tuple[float, float]]:
        """Loss and seconds of every step."""
        generator = torch.Generator().manual_seed(self.options.seed)
        rows = torch.randperm(len(inputs), generator=generator).split(self.options.batch)
        rows = rows[: self.options.max_steps or None]

        def update(number: int) -> float:
            places = rows[number]
            return self.step(inputs[places].to(self.device), targets[places].to(self.device)).item()

        return [time_update(update, number) for number in range(len(rows))]

    @torch.no_grad()
    def perplexity(self, inputs: Tensor, targets: Tensor) -> float:
        self.model.eval()
        loss = 0.0
        for tokens, following in zip(inputs.split(16), targets.split(16), strict=True):
            with self.autocast():
                mean = self.model(tokens.to(self.device), following.to(self.device))
            loss += mean.item() * tokens.numel()
        self.model.train()
        return math.exp(loss / inputs.numel())

    def seconds_with(self, batch: int) -> float | None:
        """Seconds of the second of two updates of a batch; none where memory does not suffice."""
        release_memory()
        tokens, targets = lm_batch(self.shape, batch, self.device)
        try:
            return [time_update(lambda _: self.step(tokens, targets).item(), i)[1] for i in range(2)][1]
        except torch.OutOfMemoryError:
            self.optimizer.zero_grad(set_to_none=True)
            return None

    def largest_batch(self, first: int) -> dict[str, Any]:
        """Doubles until it no longer fits, then halves the gap."""
        fits, too_large, found = 0, 0, {}
        batch = first
        while batch > fits:
            seconds = self.seconds_with(batch)
            if seconds is None:
                too_large = batch
            else:
                fits = batch
                found = {
                    "batch": batch,
                    "seconds_per_step": seconds,
                    "tokens_per_second": batch * self.shape.length / seconds,
                    "peak_bytes": peak_bytes(),
                    "reserved_bytes": reserved_peak_bytes(),
                }
            batch = (fits + too_large) // 2 if too_large else 2 * batch
        return found


def note_on(technique: Technique, options: argparse.Namespace) -> str:
    if technique.attention != "window":
        return ""
    if technique.window >= options.length:
        return f"no effect: the window covers the whole row of {options.length}"
    return "flex_attention" if options.compile else "SDPA with a mask"


def measure(technique: Technique, options: argparse.Namespace, rows: dict[str, Any]) -> Figures:
    figures = Figures(technique.name, note=note_on(technique, options))
    torch.compiler.reset()
    release_memory()
    limit_memory(int(options.cap * GIB))
    try:
        peer = Peer(technique, options)
        figures.parameters = sum(value.numel() for value in peer.model.parameters() if value.requires_grad)
        timed = peer.train(*rows["train"])
        seconds = [took for _, took in timed]
        settled = seconds[options.warmup :] or seconds
        figures.steps, figures.total_seconds = len(timed), sum(seconds)
        figures.train_loss = statistics.mean(loss for loss, _ in timed)
        figures.seconds_per_step = statistics.median(settled)
        figures.tokens_per_second = options.batch * options.length / figures.seconds_per_step
        figures.after_forward_bytes, figures.after_backward_bytes = peer.after_forward, peer.after_backward
        figures.peak_bytes, figures.reserved_bytes = peak_bytes(), reserved_peak_bytes()
        if rows["dev"]:
            figures.validation_perplexity = peer.perplexity(*rows["dev"])
        if options.find_batch and options.device != "cpu":
            figures.largest_batch = peer.largest_batch(options.batch)
    except torch.OutOfMemoryError as error:
        figures.status, figures.note = "does not fit", str(error).splitlines()[0]
    except RuntimeError as error:
        figures.status, figures.note = "failed", str(error).splitlines()[0]
    finally:
        limit_memory(0)
    return figures


def shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def row_of(figures: Figures) -> list[str]:
    """A line of the table."""
    largest = figures.largest_batch or {}
    return [
        figures.experiment,
        figures.status,
        f"{figures.after_forward_bytes / GIB:.2f}",
        f"{figures.after_backward_bytes / GIB:.2f}",
        f"{figures.peak_bytes / GIB:.2f}",
        shown(figures.seconds_per_step, 3),
        shown(figures.tokens_per_second, 0),
        shown(figures.train_loss, 3),
        shown(figures.validation_perplexity, 1),
        shown(largest.get("batch"), 0),
        shown(largest.get("tokens_per_second"), 0),
    ]


TITLES = ["experiment", "status", "forward GiB", "backward GiB", "peak GiB", "s/step", "tokens/s", "loss"]
TITLES += ["dev ppl", "largest", "tokens/s there"]
# Longer than one window and shorter than the other.
TINY = {"layers": 2, "width": 32, "heads": 4, "hidden": 64, "vocabulary": 50, "length": 300, "batch": 2}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [technique.name for technique in TECHNIQUES]
    parser.add_argument("--train", type=Path, metavar="TOKENS")
    parser.add_argument("--dev", type=Path, metavar="TOKENS")
    parser.add_argument("--tokenizer", type=Path, metavar="MODEL", help="SentencePiece model, for texts")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes and random tokens")
    for name, size in asdict(LmShape()).items():
        parser.add_argument(f"--{name}", type=type(size), default=size)
    parser.add_argument("--batch", type=int, default=64, help="rows of a step")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=0, help="0: one epoch")
    parser.add_argument("--warmup", type=int, default=3, help="first steps, which are not timed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cap", type=float, default=0.0, metavar="GIB", help="0: the whole card")
    parser.add_argument("--no-find-batch", dest="find_batch", action="store_false")
    parser.add_argument("--tf32", action="store_true", help="TF32 in the products of fp32 experiments")
    parser.add_argument("--compile", action="store_true", help="and flex_attention for windows")
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args()
    if options.smoke:
        vars(options).update(TINY)
        options.max_steps, options.warmup = options.max_steps or 2, 1
    elif not options.train:
        parser.error("--train is needed: tokens, or a text with --tokenizer; or --smoke")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU was found: expected one, or --device cpu")
    return options


def read_rows(options: argparse.Namespace) -> dict[str, Any]:
    """Inputs and targets of both sets; none for DEV where there is none."""
    if options.smoke and not options.train:
        tokens = torch.randint(options.vocabulary, (4 * options.length + 1,))
        return {"train": full_rows(tokens, options.length), "dev": full_rows(tokens, options.length)}
    rows = {}
    for name, path in (("train", options.train), ("dev", options.dev)):
        tokens = read_tokens(path, options.tokenizer) if path else None
        if tokens is not None and int(tokens.max()) >= options.vocabulary:
            raise SystemExit(f"{path} has token {int(tokens.max())}: expected --vocabulary above it")
        rows[name] = None if tokens is None else full_rows(tokens, options.length)
    if len(rows["train"][0]) < options.batch:
        raise SystemExit(f"{options.train} has {len(rows['train'][0])} rows: expected a smaller --batch")
    return rows


def main() -> int:
    options = parse_options()
    use_tf32(options.tf32)
    rows = read_rows(options)
    chosen = [technique for technique in TECHNIQUES if technique.name in options.only]
    done = []
    for technique in chosen:
        done.append(measure(technique, options, rows))
        print(f"{technique.name}: {done[-1].status} {done[-1].note}".rstrip(), file=sys.stderr, flush=True)
    print_table(TITLES, [row_of(figures) for figures in done])
    if options.json:
        record = {"format_version": 1, "peer": "PyTorch", **facts_of(options)}
        write_json(options.json, record | {"experiments": [asdict(figures) for figures in done]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
