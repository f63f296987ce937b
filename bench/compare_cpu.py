"""A network on the CPU, forward and backward in fp32: PyTorch's against sotto's, speed and memory.

    bench/compare_cpu.py [--sotto build/bin/sotto_model_bench] [--threads 8] [--repeat 3] [--json OUT]
    bench/compare_cpu.py --model conformer-128

wav2vec2-base: eight utterances of 2 to 15 s, 68 s in total, a loss of `ctc mean`, once with the feature
encoder trained, once with it frozen. Hugging Face's Wav2Vec2ForCTC gets the eight padded to one batch, SDPA,
and no attention mask: a model with a group norm in its feature encoder was trained without one, and is
fastest so. (The losses in OUT differ for that: without a mask padding counts as audio.)

conformer-128: sixteen utterances of 2 to 12 s, 112 s in total, CTC and attention decoder. The network of
conformer_peer.py gets the sixteen padded to one batch and features drawn beforehand; sotto's time includes
its log-mel features.

Both have random weights and a vocabulary of 32; dropout, layer drop and masking are off; no optimizer. sotto
packs the utterances. Each measurement is a process of its own on the same number of threads; seconds are the
median after one update to warm up.

Memory is what is held in addition to weights and gradients, and the inputs of the update are part of it. Of
sotto: the peak of its arena less the bytes of weights and gradients in it. Of PyTorch: how far the largest
resident memory of the process (VmHWM) grew from just before the first update of all utterances to the end; a
tiny update before that has allocated the gradients and loaded the libraries. The column `resident MiB` is the
growth of resident memory on both sides: for sotto it includes what libraries take outside of the arena.

Needs torch, and transformers for wav2vec2. The bars at the end are printed, not enforced. Exit status 1 where
a side fails.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RATE = 16_000
LABELS_PER_SECOND = 12  # the same in bench/model_bench.cpp
VOCABULARY = 32
MIB = 1 << 20
TIERS = ["norms", "block"]
MIN_SPEED = 1.3


@dataclass(frozen=True)
class Case:
    """A network, its utterances, and the bars for it."""

    seconds: list[float]
    peer: str
    feature_encoders: list[str]
    max_memory: dict[str, float]


CASES = {
    "wav2vec2-base": Case(
        seconds=[2.0, 3.9, 5.7, 7.6, 9.4, 11.3, 13.1, 15.0],
        peer="Hugging Face",
        feature_encoders=["trained", "frozen"],
        max_memory={"norms": 0.6, "block": 0.35},
    ),
    "conformer-128": Case(
        seconds=[round(2 + 10 * i / 15, 1) for i in range(16)],
        peer="PyTorch",
        feature_encoders=["trained"],
        max_memory={"norms": 0.5, "block": 0.5},
    ),
}


@dataclass
class Row:
    """One measurement. Bytes are those beyond weights and gradients."""

    side: str
    feature_encoder: str
    tier: str
    seconds: float
    audio_seconds_per_second: float
    peak_bytes: int
    resident_growth_bytes: int
    loss: float
    parameters: int
    threads: int


class SideFailedError(Exception):
    """A process ended without its numbers."""


def resident_peak() -> int:
    """The largest resident memory that this process has had, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


# A model, what draws a batch of utterances of given seconds, and the loss of a batch.
Peer = tuple[Any, Callable[[list[float]], Any], Callable[[Any], Any]]


def hugging_face(options: argparse.Namespace) -> Peer:
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=VOCABULARY,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        apply_spec_augment=False,
        ctc_loss_reduction="mean",
        attn_implementation="sdpa",
    )
    model = Wav2Vec2ForCTC(config).train()
    if options.peer == "frozen":
        model.freeze_feature_encoder()

    def make_batch(seconds: list[float]) -> dict[str, torch.Tensor]:
        waves = [torch.randn(int(length * RATE)) for length in seconds]
        counts = [int(length * LABELS_PER_SECOND) for length in seconds]
        labels = torch.full((len(waves), max(counts)), -100)
        for u, count in enumerate(counts):
            labels[u, :count] = 1 + (7 * torch.arange(count) + u) % (VOCABULARY - 1)
        padded = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
        return {"input_values": padded, "labels": labels}

    return model, make_batch, lambda batch: model(**batch).loss


def conformer(options: argparse.Namespace) -> Peer:
    from conformer_peer import MODELS, Network, make_batch

    model = Network(*MODELS[options.model], dropout=0.0).train()
    return model, lambda seconds: make_batch(seconds, "cpu"), lambda batch: model.losses(*batch).mean()


def measure_peer(options: argparse.Namespace) -> dict[str, Any]:
    """PyTorch's side, in this process."""
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    build = hugging_face if options.model.startswith("wav2vec2") else conformer
    model, make_batch, loss_of = build(options)

    def update(batch: Any) -> float:
        model.zero_grad(set_to_none=False)
        loss = loss_of(batch)
        loss.backward()
        return loss.item()

    update(make_batch([0.5]))
    before = resident_peak()
    batch = make_batch(CASES[options.model].seconds)
    seconds = []
    for _ in range(options.repeat + 1):
        start = time.perf_counter()
        loss = update(batch)
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(seconds[1:]),
        "resident_growth_bytes": resident_peak() - before,
        "loss": loss,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
    }


def run_side(command: list[str], threads: int, out: Path) -> Any:
    """What a process that measures one side wrote to `out`."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    try:
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        raise SideFailedError(f"`{' '.join(command)}` cannot be run: {error.strerror}") from error
    if run.returncode != 0:
        last = "\n  ".join(run.stderr.strip().splitlines()[-5:])
        raise SideFailedError(f"`{' '.join(command)}` ended with status {run.returncode}:\n  {last}")
    return json.loads(out.read_text(encoding="utf-8"))


def run_peer(options: argparse.Namespace, feature_encoder: str, out: Path) -> Row:
    case = CASES[options.model]
    command = [sys.executable, str(Path(__file__).resolve()), "--model", options.model]
    command += ["--peer", feature_encoder, "--threads", str(options.threads)]
    command += ["--repeat", str(options.repeat), "--json", str(out)]
    found = run_side(command, options.threads, out)
    return Row(
        side=case.peer,
        feature_encoder=feature_encoder,
        tier="",
        audio_seconds_per_second=sum(case.seconds) / found["seconds"],
        peak_bytes=found["resident_growth_bytes"],
        **found,
    )


def run_sotto(options: argparse.Namespace, feature_encoder: str, tier: str, out: Path) -> Row:
    command = [str(options.sotto), "--model", options.model]
    command += ["--seconds", *map(str, CASES[options.model].seconds)]
    command += ["--tier", tier, "--repeat", str(options.repeat), "--json", str(out)]
    if feature_encoder == "frozen":
        command.append("--frozen")
    (found,) = run_side(command, options.threads, out)
    return Row(
        side="sotto",
        feature_encoder=feature_encoder,
        tier=tier,
        seconds=found["seconds"],
        audio_seconds_per_second=found["audio_seconds_per_second"],
        peak_bytes=found["activation_peak_bytes"],
        resident_growth_bytes=found["resident_growth_bytes"],
        loss=found["loss"],
        parameters=found["parameters"],
        threads=found["threads"],
    )


def measure_all(options: argparse.Namespace) -> list[Row]:
    """Takes minutes: each row is printed on standard error when it is there."""
    rows: list[Row] = []

    def add(row: Row) -> None:
        what = f"{row.side}{' ' + row.tier if row.tier else ''}, feature encoder {row.feature_encoder}"
        print(f"{what}: {row.seconds:.2f} s", file=sys.stderr, flush=True)
        rows.append(row)

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "side.json"
        for feature_encoder in CASES[options.model].feature_encoders:
            add(run_peer(options, feature_encoder, out))
            for tier in TIERS:
                add(run_sotto(options, feature_encoder, tier, out))
    return rows


def print_table(rows: list[Row]) -> None:
    """Ratios are those to PyTorch's row above."""
    titles = ["side", "feature encoder", "tier", "seconds", "audio-s/s"]
    titles += ["peak MiB", "resident MiB", "speed", "memory"]
    lines = [titles]
    for row in rows:
        peer = peer_of(row, rows)
        ratios = [f"{speed_ratio(row, peer):.2f}", f"{memory_ratio(row, peer):.2f}"]
        lines.append(
            [
                row.side,
                row.feature_encoder,
                row.tier,
                f"{row.seconds:.2f}",
                f"{row.audio_seconds_per_second:.2f}",
                f"{row.peak_bytes / MIB:,.0f}",
                f"{row.resident_growth_bytes / MIB:,.0f}",
                *(ratios if row.tier else ["", ""]),
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        left = [cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(line[3:], widths[3:], strict=True)]
        print("  ".join(left + right).rstrip())


def peer_of(row: Row, rows: list[Row]) -> Row:
    return next(other for other in rows if not other.tier and other.feature_encoder == row.feature_encoder)


def speed_ratio(row: Row, peer: Row) -> float:
    return row.audio_seconds_per_second / peer.audio_seconds_per_second


def memory_ratio(row: Row, peer: Row) -> float:
    return row.peak_bytes / peer.peak_bytes


def print_bars(rows: list[Row], case: Case) -> None:
    """The speed has a bar at the tier that people use, the memory at both."""
    for row in rows:
        if not row.tier:
            continue
        peer, where = peer_of(row, rows), f"{row.tier}, feature encoder {row.feature_encoder}"
        if row.tier == "norms":
            speed = speed_ratio(row, peer)
            print_bar(f"speed at {where}", speed, f"at least {MIN_SPEED}", speed >= MIN_SPEED)
        memory, most = memory_ratio(row, peer), case.max_memory[row.tier]
        print_bar(f"memory at {where}", memory, f"at most {most}", memory <= most)


def print_bar(what: str, ratio: float, wanted: str, is_met: bool) -> None:
    print(f"{what + ':':<44}{ratio:.3f}, wanted {wanted}: {'met' if is_met else 'missed'}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=CASES, default="wav2vec2-base")
    parser.add_argument("--sotto", type=Path, default=Path("build/bin/sotto_model_bench"), metavar="BINARY")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of either side")
    parser.add_argument("--repeat", type=int, default=3, help="updates that are timed")
    parser.add_argument("--json", type=Path, metavar="OUT")
    # One measurement of PyTorch's side, for the processes that this program starts.
    parser.add_argument("--peer", choices=["trained", "frozen"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads < 1 or options.repeat < 1:
        parser.error("--threads and --repeat: expected 1 or more")
    return options


def main() -> int:
    options = parse_options()
    if options.peer:
        found: Any = measure_peer(options)
    else:
        try:
            rows = measure_all(options)
        except SideFailedError as error:
            print(f"compare_cpu: {error}", file=sys.stderr)
            return 1
        case = CASES[options.model]
        print(f"{options.model}, {sum(case.seconds):.0f} s of audio, {options.threads} threads\n")
        print_table(rows)
        print()
        print_bars(rows, case)
        found = [asdict(row) for row in rows]
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
