"""Conformer networks as a PyTorch run trains them, on padded batches: speed and memory beside sotto's.

    bench/conformer_peer.py --lengths noise/train.jsonl --model conformer-l --json peer.json
    bench/conformer_peer.py --device cpu --smoke                       tiny sizes: whether it works
    sotto train --model conformer-l --train noise/train.jsonl --device cuda --set numerics=bf16-exact

The same networks as sotto's presets: the subsampling by convolutions over (time, mel), relative positions
in the form of Transformer-XL, layer norm inside the convolution module, a CTC head and, for joint networks,
an attention decoder of torch.nn.TransformerDecoderLayer. Attention is SDPA with the position term as its
bias. bf16 autocast over fp32 weights, fused AdamW, clipping, dropout 0.1. The utterances of an update are
sorted by length and cut into micro-batches of --micro; features are drawn beforehand and are not timed.

OUT, format_version 1: model, parameters, peak_bytes, peak_reserved_bytes, audio_seconds_per_second (median).
"""

import argparse
import gzip
import json
import math
import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from peer_tools import facts_of, peak_bytes, print_table, release_memory, reserved_peak_bytes, use_tf32
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))
from stack_peer import finish_update, time_updates

FRAMES_PER_SECOND, MELS, VOCABULARY = 100, 80, 32
LABELS_PER_SECOND = 12.0
CTC_WEIGHT, SMOOTHING, DROPOUT, KERNEL = 0.3, 0.1, 0.1, 31
# Blocks, width, heads, blocks of the decoder (0: CTC alone).
MODELS = {
    "conformer-256": (12, 256, 4, 6),
    "conformer-192": (8, 192, 4, 4),
    "conformer-128": (6, 128, 4, 3),
    "conformer-s": (16, 144, 4, 0),
    "conformer-m": (16, 256, 4, 0),
    "conformer-l": (17, 512, 8, 0),
    "smoke": (2, 32, 2, 1),
}


class Subsampling(nn.Module):
    """By 4: two convolutions of 3 x 3 with stride 2, then a projection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(1, width, 3, 2, 1), nn.Conv2d(width, width, 3, 2, 1)])
        self.projection = nn.Linear(width * MELS // 4, width)

    def forward(self, x: Tensor) -> Tensor:
        image = x[:, None]
        for conv in self.convs:
            image = F.relu(conv(image))
        return self.projection(image.transpose(1, 2).flatten(2))


class RelativeAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, table: Tensor, mask: Tensor) -> Tensor:
        batch, frames, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(self.norm(x)).view(batch, frames, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        p = self.position(table).view(-1, self.heads, size).transpose(0, 1)  # [H, 2 T - 1, d]
        term = (q + self.position_bias) @ p.transpose(1, 2)  # [B, H, T, 2 T - 1]
        # Row i begins one column earlier than the row before.
        term = F.pad(term, (1, 0)).view(batch, self.heads, -1, frames)[:, :, 1:]
        term = term.reshape(batch, self.heads, frames, -1)[..., :frames] / math.sqrt(size)
        y = F.scaled_dot_product_attention(q + self.content_bias, k, v, attn_mask=term + mask)
        return self.out(y.transpose(1, 2).reshape(batch, frames, width))


class Convolution(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.inner_norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = F.glu(self.expand(self.norm(x)), -1) * keep
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.project(F.silu(self.inner_norm(x)))


def feed_forward(width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, 4 * width),
        nn.SiLU(),
        nn.Dropout(dropout),
        nn.Linear(4 * width, width),
        nn.Dropout(dropout),
    )


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ffn1 = feed_forward(width, dropout)
        self.attention = RelativeAttention(width, heads)
        self.convolution = Convolution(width)
        self.ffn2 = feed_forward(width, dropout)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, table: Tensor, mask: Tensor, keep: Tensor) -> Tensor:
        x = x + 0.5 * self.ffn1(x)
        x = x + self.dropout(self.attention(x, table, mask))
        x = x + self.dropout(self.convolution(x, keep))
        return self.norm(x + 0.5 * self.ffn2(x))


class Network(nn.Module):
    def __init__(
        self, layers: int, width: int, heads: int, decoder_layers: int, dropout: float = DROPOUT
    ) -> None:
        super().__init__()
        self.subsampling = Subsampling(width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ctc = nn.Linear(width, VOCABULARY)
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(
                width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(decoder_layers)
        )
        if decoder_layers:
            self.embedding = nn.Embedding(VOCABULARY + 1, width)
            self.norm = nn.LayerNorm(width)

    def sinusoids(self, places: Tensor) -> Tensor:
        width = self.ctc.in_features
        rates = 10_000 ** (-torch.arange(0, width, 2, device=places.device) / width)
        angle = places[:, None] * rates
        return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)

    def encode(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """[B, frames, D] and which frames are real, [B, frames]."""
        x = self.subsampling(features)
        frames = x.shape[1]
        real = torch.arange(frames, device=x.device) < -(-lengths[:, None] // 4)
        mask = torch.zeros(real.shape, device=x.device, dtype=x.dtype)
        mask = mask.masked_fill(~real, -1e9)[:, None, None]
        table = self.sinusoids(torch.arange(frames - 1, -frames, -1, device=x.device)).to(x.dtype)
        for block in self.blocks:
            x = block(x, table, mask, real[..., None])
        return x, real

    def losses(self, features: Tensor, lengths: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        """Of each utterance, over its number of labels."""
        x, real = self.encode(features, lengths)
        scores = F.log_softmax(self.ctc(x).float(), -1).transpose(0, 1)
        ctc = F.ctc_loss(scores, labels, real.sum(1), counts, reduction="none", zero_infinity=True) / counts
        if not self.decoder:
            return ctc
        border = torch.full((len(labels), 1), VOCABULARY, device=x.device)
        tokens = torch.cat([border, labels], 1)
        y = self.embedding(tokens) + self.sinusoids(torch.arange(tokens.shape[1], device=x.device))
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=x.device)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=~real)
        logits = F.linear(self.norm(y), self.embedding.weight).float()
        place = torch.arange(tokens.shape[1], device=x.device)
        targets = F.pad(labels, (0, 1)).scatter(1, counts[:, None], VOCABULARY)
        targets = targets.masked_fill(place > counts[:, None], -100)
        attention = F.cross_entropy(
            logits.transpose(1, 2), targets, reduction="none", label_smoothing=SMOOTHING
        ).sum(1)
        return CTC_WEIGHT * ctc + (1 - CTC_WEIGHT) * attention / counts


def read_seconds(path: Path) -> list[float]:
    """The durations of a manifest, or of a text with one in each line, also as .gz."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    lines = text.splitlines()
    return [json.loads(line)["duration"] if line.startswith("{") else float(line) for line in lines]


def make_batch(seconds: list[float], device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lengths = torch.tensor([int(s * FRAMES_PER_SECOND) for s in seconds])
    counts = torch.tensor([max(1, int(s * LABELS_PER_SECOND)) for s in seconds])
    features = torch.randn(len(seconds), int(lengths.max()), MELS)
    features *= torch.arange(features.shape[1])[None, :, None] < lengths[:, None, None]
    labels = torch.randint(1, VOCABULARY, (len(seconds), int(counts.max())))
    return tuple(part.to(device) for part in (features, lengths, labels, counts))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=Path, metavar="SECONDS")
    parser.add_argument("--model", choices=MODELS, default="conformer-256")
    parser.add_argument("--batch", type=int, default=32, help="utterances of an update")
    parser.add_argument("--micro", type=int, default=32, help="utterances of a micro-batch")
    parser.add_argument("--warmup", type=int, default=3, help="updates that are not timed")
    parser.add_argument("--steps", type=int, default=20, help="updates that are timed")
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--smoke", action="store_true", help="a tiny network and short utterances")
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.batch, options.micro, options.warmup, options.steps = "smoke", 4, 2, 1, 2

    seconds = read_seconds(options.lengths) if options.lengths else [1.0 + i % 7 for i in range(1000)]
    random.Random(1).shuffle(seconds)
    torch.manual_seed(1)
    use_tf32(True)
    network = Network(*MODELS[options.model]).to(options.device).train()
    fused = options.device == "cuda"
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=fused)
    updates = []
    for number in range(options.warmup + options.steps):
        own = sorted(seconds[number * options.batch : (number + 1) * options.batch], reverse=True)
        cut = [own[i : i + options.micro] for i in range(0, len(own), options.micro)]
        updates.append((sum(own), [make_batch(part, options.device) for part in cut]))
    release_memory()

    def update(number: int) -> float:
        audio, batches = updates[number]
        for batch in batches:
            with torch.autocast(options.device, dtype=torch.bfloat16, enabled=not options.fp32):
                loss = network.losses(*batch).sum() / options.batch
            loss.backward()
        finish_update(network, optimizer)
        return audio

    speed = time_updates(update, options.warmup, options.steps)
    result = {
        "format_version": 1,
        "program": f"torch {torch.__version__}, SDPA with the position term as its bias",
        "model": options.model,
        "parameters": sum(p.numel() for p in network.parameters()),
        "peak_bytes": peak_bytes(),
        "peak_reserved_bytes": reserved_peak_bytes(),
        "audio_seconds_per_second": speed,
    } | facts_of(options)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    gib = 1 << 30
    print_table(
        ["model", "parameters", "audio-s/s", "peak GiB", "reserved GiB"],
        [
            [
                options.model,
                f"{result['parameters']:,}",
                f"{speed:,.0f}",
                f"{result['peak_bytes'] / gib:.2f}",
                f"{result['peak_reserved_bytes'] / gib:.2f}",
            ]
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
