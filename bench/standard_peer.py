"""wav2vec2 as a Hugging Face run trains it, on padded batches: the figures that `sotto lab run limits` reads.

    bench/standard_peer.py --lengths SECONDS --json standard.json      memory and speed, on noise
    bench/standard_peer.py --wer-train T.jsonl --wer-test E.jsonl --json standard.json      word error rates
    bench/standard_peer.py --device cpu --smoke                        tiny sizes: whether it works
    sotto lab run limits --train train.jsonl --standard standard.json

SECONDS is a text with the true duration of an utterance in each line, also as .gz, or a manifest of JSON
lines with `duration`.

Memory and speed, with random weights, in three modes: `standard`, all 32 utterances of an update padded to
the longest of them; `accumulation`, micro-batches of --micro; `accumulation_mixed`, the same under autocast.
The utterances are shuffled, or sorted by length within each update with --group-by-length. Masks, LayerDrop
and dropout are those of sotto's preset; there is no dropout in the attention. No attention mask is given to a
network with a group norm, as transformers' own preprocessing does it.

Word error rates: a small network (--wer-width and so on) from random weights, fp32, padded batches with an
attention mask, layer norms in the feature encoder, one run per seed; greedy recognition of E at the end. The
recipe is sotto's: AdamW with betas 0.9 and 0.98, decay of matrices, clipping, warm-up and a linear decay of
the rate, ctc_mean; no masks and no LayerDrop. The same in sotto:

    sotto train --train T.jsonl --set model.preset=wav2vec2-base --set model.width=128 --set model.layers=4
        --set model.heads=4 --set model.hidden=512 --set 'model.conv_widths=[128,128,128,128,128,128,128]'
        --set model.conv_norm=layer --set model.mask=false --set model.layer_drop=0 --set effective_batch=32
        --set epochs=30 --set optimizer.schedule.kind=linear --set optimizer.schedule.rate=1e-3
        --set optimizer.schedule.warmup_share=0.1

OUT, format_version 1, is of the mode `standard`, with the other modes beside it:

    program, model, parameters, device, effective_batch, steps
    peak_bytes                  most bytes of tensors; peak_reserved_bytes: taken by the caching allocator;
                                peak_device_bytes: with the driver's part, if nothing else is on the GPU
    audio_seconds_per_second    over the timed updates, all together
    seconds_per_step            mean of the timed updates
    wer                         by seed, 0.021 for 2.1 %; wer_model, the network that has them
    modes                       the same figures by mode

A part that is not run keeps the figures that OUT had before.
"""

import argparse
import gzip
import json
import random
import statistics
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from hf_memory import MODELS, RATE, TYPES, VOCABULARY
from peer_tools import (
    GIB,
    device_peak_bytes,
    facts_of,
    peak_bytes,
    print_table,
    release_memory,
    reserved_peak_bytes,
    use_tf32,
    write_json,
)
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, get_linear_schedule_with_warmup

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "gpu"), str(HERE.parent / "tests/oracle")]

from stack_peer import time_update  # noqa: E402
from twin import parameter_groups  # noqa: E402

if TYPE_CHECKING:
    from train_twin import Corpus

LABELS_PER_SECOND = 14
TITLES = ["mode", "precision", "micro", "steps", "allocated GiB", "reserved GiB", "audio-s/s"]
MODES = ["standard", "accumulation", "accumulation_mixed"]
Utterance = tuple[Tensor, list[int]]  # samples [S] and labels


def make_model(sizes: dict[str, Any], options: argparse.Namespace, vocabulary: int) -> Wav2Vec2ForCTC:
    config = Wav2Vec2Config(
        vocab_size=vocabulary,
        attention_dropout=0.0,
        layerdrop=options.layerdrop,
        apply_spec_augment=options.mask,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        attn_implementation=options.attention,
        **sizes,
    )
    model = Wav2Vec2ForCTC(config).to(options.device).train()
    if options.freeze_feature_encoder:
        model.freeze_feature_encoder()
    return model


class Run:
    """A network and its optimizer; fp32 unless `half` is given."""

    def __init__(self, model: Wav2Vec2ForCTC, rate: float, half: torch.dtype | None = None) -> None:
        self.model, self.half = model, half
        trained = [
            group | {"params": [p for p in group["params"] if p.requires_grad]}
            for group in parameter_groups(model, 0.01)
        ]
        self.optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.98), fused=True)
        self.scaler = torch.amp.GradScaler(model.device.type, enabled=half == torch.float16)

    def batch(self, part: list[Utterance]) -> dict[str, Tensor]:
        """Padded to the longest: samples with zeros, labels with -100."""
        device = self.model.device
        waves = [wave for wave, _ in part]
        labels = [torch.tensor(values) for _, values in part]
        padded = {
            "input_values": pad_sequence(waves, batch_first=True).to(device),
            "labels": pad_sequence(labels, batch_first=True, padding_value=-100).to(device),
        }
        if self.model.config.feat_extract_norm == "layer":
            lengths = torch.tensor([len(wave) for wave in waves])
            keep = torch.arange(int(lengths.max())) < lengths[:, None]
            padded["attention_mask"] = keep.long().to(device)
        return padded

    def update(self, utterances: list[Utterance], micro: int) -> float:
        """The loss of an update in micro-batches, each with its share of the utterances."""
        total = 0.0
        for first in range(0, len(utterances), micro):
            part = utterances[first : first + micro]
            autocast = torch.autocast(self.model.device.type, self.half) if self.half else nullcontext()
            with autocast:
                loss = self.model(**self.batch(part)).loss * (len(part) / len(utterances))
            self.scaler.scale(loss).backward()
            total += loss.item()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return total


def read_seconds(path: Path) -> list[float]:
    raw = path.read_bytes()
    lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).split(b"\n")
    values = [json.loads(line) for line in lines if line.strip()]
    return [value["duration"] if isinstance(value, dict) else value for value in values]


def updates_of(seconds: list[float], options: argparse.Namespace) -> list[list[float]]:
    """Durations of the utterances of each update, the same in all modes."""
    shuffled = random.Random(1).sample(seconds, len(seconds))
    count = min(options.warmup + options.steps, len(shuffled) // options.batch)
    if count <= options.warmup:
        raise SystemExit(f"{len(seconds)} utterances: expected {options.batch} for each of more updates")
    cut = [shuffled[i * options.batch : (i + 1) * options.batch] for i in range(count)]
    return [sorted(part, reverse=True) for part in cut] if options.group_by_length else cut


def noise(seconds: float) -> Utterance:
    labels = torch.randint(1, VOCABULARY, (max(1, int(seconds * LABELS_PER_SECOND)),))
    return torch.randn(int(seconds * RATE)), labels.tolist()


def measure(mode: str, options: argparse.Namespace, updates: list[list[float]]) -> dict[str, Any]:
    """Figures of one mode, or why there are none."""
    release_memory()
    torch.manual_seed(1)
    half = TYPES[options.half] if mode == "accumulation_mixed" else None
    micro = options.batch if mode == "standard" else options.micro
    use_tf32(options.precision == "tf32")
    try:
        run = Run(make_model(MODELS[options.model], options, VOCABULARY), 1e-4, half)
        # Made before they are timed: a loader would have them ready.
        utterances = [[noise(seconds) for seconds in part] for part in updates]

        def update(number: int) -> float:
            run.update(utterances[number], micro)
            return sum(updates[number])

        timed = [time_update(update, number) for number in range(len(updates))][options.warmup :]
    except torch.OutOfMemoryError as error:
        return {"mode": mode, "error": str(error).splitlines()[0]}
    audio, seconds = (sum(values) for values in zip(*timed, strict=True))
    return {
        "mode": mode,
        "precision": options.half if half else options.precision,
        "micro_batch": micro,
        "steps": len(timed),
        "parameters": run.model.num_parameters(),
        "peak_bytes": peak_bytes(),
        "peak_reserved_bytes": reserved_peak_bytes(),
        "peak_device_bytes": device_peak_bytes(),
        "seconds_per_step": seconds / len(timed),
        "audio_seconds_per_second": audio / seconds,
    }


def utterances_of(corpus: "Corpus", letters: str) -> list[Utterance]:
    """Samples of mean 0 and variance 1, as transformers' feature extractor makes them."""
    waves = [(wave - wave.mean()) / (wave.var(correction=0) + 1e-7).sqrt() for wave in corpus.values]
    labels = [[letters.index(c) for c in text.replace(" ", "|")] for text in corpus.texts]
    return list(zip(waves, labels, strict=True))


@torch.no_grad()
def error_rate(run: Run, corpus: "Corpus", letters: str) -> float:
    from train_twin import edit_distance

    run.model.eval()
    errors = words = 0
    for (wave, _), text in zip(utterances_of(corpus, letters), corpus.texts, strict=True):
        best = run.model(wave[None].to(run.model.device)).logits[0].argmax(-1).unique_consecutive()
        heard = "".join(letters[i] for i in best.tolist() if i > 0).replace("|", " ").split()
        errors += edit_distance(text.split(), heard)
        words += len(text.split())
    return errors / words


def small_network(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "hidden_size": options.wer_width,
        "num_hidden_layers": options.wer_layers,
        "num_attention_heads": options.wer_heads,
        "intermediate_size": 4 * options.wer_width,
        "conv_dim": [options.wer_conv_width] * 7,
        "feat_extract_norm": "layer",
    }


def train_seed(seed: int, options: argparse.Namespace, train: "Corpus", test: "Corpus") -> float:
    """WER of the run of a seed."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    letters = "_|" + "".join(sorted(set("".join(train.texts + test.texts)) - {" "}))
    run = Run(make_model(small_network(options), options, len(letters)), options.wer_rate)
    utterances = utterances_of(train, letters)
    total = options.wer_epochs * -(-len(utterances) // options.batch)
    schedule = get_linear_schedule_with_warmup(run.optimizer, total // 10, total)
    for epoch in range(options.wer_epochs):
        draw.shuffle(utterances)
        losses = []
        for first in range(0, len(utterances), options.batch):
            losses.append(run.update(utterances[first : first + options.batch], options.batch))
            schedule.step()
        print(
            f"seed {seed}, epoch {epoch + 1}: loss {statistics.mean(losses):.3f}", file=sys.stderr, flush=True
        )
    return error_rate(run, test, letters)


def measure_wer(options: argparse.Namespace) -> dict[str, Any]:
    from train_twin import Corpus  # only here: it needs soundfile

    options.mask, options.layerdrop = False, 0.0
    train, test = Corpus(options.wer_train), Corpus(options.wer_test)
    rates = []
    for seed in options.wer_seeds:
        rates.append(train_seed(seed, options, train, test))
        print(f"seed {seed}: WER {100 * rates[-1]:.2f} %", flush=True)
    shape = f"wav2vec2 {options.wer_layers} x {options.wer_width}, random weights"
    return {"wer": rates, "wer_seeds": options.wer_seeds, "wer_model": shape}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=Path, metavar="SECONDS")
    parser.add_argument("--model", choices=MODELS, default="wav2vec2-base")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--precision", choices=["fp32", "tf32"], default="fp32")
    parser.add_argument("--half", choices=["bf16", "fp16"], default="bf16", help="of accumulation_mixed")
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--batch", type=int, default=32, help="utterances of an update")
    parser.add_argument("--micro", type=int, default=8, help="utterances of a micro-batch")
    parser.add_argument("--warmup", type=int, default=3, help="updates that are not timed")
    parser.add_argument("--steps", type=int, default=20, help="updates that are timed")
    parser.add_argument("--group-by-length", action="store_true")
    parser.add_argument("--freeze-feature-encoder", action="store_true")
    parser.add_argument("--layerdrop", type=float, default=0.1)
    parser.add_argument("--no-mask", dest="mask", action="store_false")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--smoke", action="store_true", help="a tiny network and short utterances")
    parser.add_argument("--wer-train", type=Path, metavar="MANIFEST")
    parser.add_argument("--wer-test", type=Path, metavar="MANIFEST")
    parser.add_argument("--wer-seeds", type=int, nargs="+", default=[1, 2, 3])
    for name, default in {"width": 128, "layers": 4, "heads": 4, "conv-width": 128, "epochs": 30}.items():
        parser.add_argument(f"--wer-{name}", type=int, default=default)
    parser.add_argument("--wer-rate", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.batch, options.micro, options.warmup, options.steps = "tiny", 4, 2, 1, 2
    elif not (options.lengths or options.wer_train):
        parser.error("--lengths or --wer-train is needed, or --smoke")
    if bool(options.wer_train) != bool(options.wer_test):
        parser.error("--wer-train and --wer-test are needed together")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU was found: expected one, or --device cpu")
    return options


def main() -> int:
    options = parse_options()
    facts = facts_of(options)
    record: dict[str, Any] = {"format_version": 1}
    if options.json and options.json.exists():
        record = json.loads(options.json.read_text(encoding="utf-8"))
    if options.lengths or options.smoke:
        seconds = (
            read_seconds(options.lengths) if options.lengths else [0.5 + 0.1 * (i % 7) for i in range(16)]
        )
        updates = updates_of(seconds, options)
        modes = [measure(mode, options, updates) for mode in options.modes]
        named = {figures["mode"]: figures for figures in modes}
        program = f"transformers {transformers.__version__}, {options.precision}, {options.attention}"
        record |= {"program": program, "model": options.model, "effective_batch": options.batch, **facts}
        if "standard" in named:
            # Nothing of an earlier run stays beside its figures.
            for key in ("error", "steps", "peak_bytes", "seconds_per_step", "audio_seconds_per_second"):
                record.pop(key, None)
            record |= named["standard"]
        record.pop("mode", None)
        record["modes"] = modes
        print_table(TITLES, [row_of(figures) for figures in modes])
    if options.wer_train:
        record |= measure_wer(options) | {"wer_settings": facts["settings"]}
        print(f"{record['wer_model']}: WER {100 * statistics.mean(record['wer']):.2f} %")
    if options.json:
        write_json(options.json, record)
    return 0


def row_of(figures: dict[str, Any]) -> list[str]:
    if "error" in figures:
        return [figures["mode"], "does not fit", *[""] * (len(TITLES) - 2)]
    return [
        figures["mode"],
        figures["precision"],
        str(figures["micro_batch"]),
        str(figures["steps"]),
        f"{figures['peak_bytes'] / GIB:.2f}",
        f"{figures['peak_reserved_bytes'] / GIB:.2f}",
        f"{figures['audio_seconds_per_second']:,.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
