"""Trains the PyTorch twin on padded batches with a configuration's recipe: the other side of docs/results.md.

    .deps/oracle/bin/python tests/oracle/train_twin.py --train T.jsonl --dev D.jsonl --test E.jsonl --seed 1

Prints one line an epoch, then a line of JSON: WER on dev and test, audio seconds trained a second, the peak
of the process over what it held before the first step.
"""

import argparse
import json
import random
import resource
import time
import wave
from pathlib import Path

import numpy
import torch
from torch import Tensor
from torch.nn import functional
from twin import Shape, Twin, cosine_rate, parameter_groups

RATE, WINDOW, HOP, MELS = 16_000, 400, 160, 80
PRESETS = {"tiny": (4, 144, 4, 576), "small": (8, 256, 4, 1024)}


def read_samples(path: Path) -> numpy.ndarray:
    """WAV files of 16 bits are read without soundfile, for machines that do not have it."""
    if path.suffix != ".wav":
        import soundfile

        samples, _ = soundfile.read(path, dtype="float32")
        return samples
    with wave.open(str(path)) as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
    return samples.astype("float32") / 32768


class Corpus:
    def __init__(self, manifest: Path) -> None:
        self.lines = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
        self.folder = manifest.parent
        self.is_audio = "audio_filepath" in self.lines[0]
        self.texts = [line["text"] for line in self.lines]
        self.seconds = [line["duration"] for line in self.lines]
        self.values = [self.read(line) for line in self.lines]

    def read(self, line: dict) -> Tensor:
        if self.is_audio:
            return torch.from_numpy(read_samples(self.folder / line["audio_filepath"]))
        width = line["feature_dim"]
        values = numpy.fromfile(
            self.folder / line["feature_filepath"],
            dtype="<f2",
            count=line["num_frames"] * width,
            offset=2 * line["frame_offset"] * width,
        )
        return torch.from_numpy(values.astype("float32")).view(-1, width)

    @property
    def width(self) -> int:
        return MELS if self.is_audio else self.lines[0]["feature_dim"]


def mel_filters() -> Tensor:
    """[F, M], HTK scale, triangles of height one."""
    frequencies = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)
    top = 2595 * numpy.log10(1 + RATE / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, MELS + 2) / 2595) - 1)
    slopes = points[None, :] - frequencies[:, None]
    widths = points[1:] - points[:-1]
    return torch.clamp(torch.minimum(-slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]), min=0)


def log_mel(samples: Tensor, filters: Tensor) -> Tensor:
    spectrum = torch.stft(
        samples, WINDOW, HOP, window=torch.hann_window(WINDOW), center=True, return_complex=True
    )
    return torch.log(spectrum.abs().square().T @ filters + 1e-9)


def padded(corpus: Corpus, places: list[int], filters: Tensor) -> tuple[Tensor, Tensor]:
    features = [log_mel(corpus.values[i], filters) if corpus.is_audio else corpus.values[i] for i in places]
    lengths = torch.tensor([len(x) for x in features])
    return torch.nn.utils.rnn.pad_sequence(features, batch_first=True), lengths


def edit_distance(reference: list[str], hypothesis: list[str]) -> int:
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def error_rate(model: Twin, corpus: Corpus, letters: str, filters: Tensor) -> float:
    model.eval()
    errors = words = 0
    with torch.no_grad():
        for first in range(0, len(corpus.texts), 32):
            places = list(range(first, min(first + 32, len(corpus.texts))))
            logits, frames = model.forward_padded(*padded(corpus, places, filters))
            for row, place in enumerate(places):
                best = logits[row, : frames[row]].argmax(-1).unique_consecutive()
                heard = "".join(letters[i] for i in best.tolist() if i > 0).replace("|", " ").split()
                said = corpus.texts[place].split()
                errors += edit_distance(said, heard)
                words += len(said)
    model.train()
    return errors / words


def step_loss(
    model: Twin, corpus: Corpus, places: list[int], labels: list[Tensor], filters: Tensor
) -> Tensor:
    """Each utterance over its number of labels, then the mean: what `ctc_mean` is."""
    logits, frames = model.forward_padded(*padded(corpus, places, filters))
    chosen = [labels[i] for i in places]
    return functional.ctc_loss(
        functional.log_softmax(logits, -1).transpose(0, 1),
        torch.cat(chosen),
        frames,
        torch.tensor([len(y) for y in chosen]),
        reduction="mean",
        zero_infinity=True,
    )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("train", "dev", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    draw = random.Random(arguments.seed)

    train, dev, test = Corpus(arguments.train), Corpus(arguments.dev), Corpus(arguments.test)
    letters = "_|" + "".join(sorted(set("".join(train.texts)) - {" "}))
    labels = [torch.tensor([letters.index(c) for c in text.replace(" ", "|")]) for text in train.texts]
    filters = mel_filters()
    layers, width, heads, hidden = PRESETS[arguments.preset]
    shape = Shape(
        train.width,
        len(letters),
        layers,
        width,
        heads,
        hidden,
        dropout=arguments.dropout,
        window=arguments.window,
    )
    model = Twin(shape)
    groups = parameter_groups(model, arguments.decay)
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), eps=1e-8)
    steps_per_epoch = -(-len(labels) // arguments.batch)
    total = arguments.epochs * steps_per_epoch
    before = peak_mib()
    step, seconds, audio = 0, 0.0, 0.0
    for epoch in range(arguments.epochs):
        order = list(range(len(labels)))
        draw.shuffle(order)
        losses = []
        start = time.perf_counter()
        for first in range(0, len(order), arguments.batch):
            step += 1
            places = order[first : first + arguments.batch]
            for group in optimizer.param_groups:
                group["lr"] = cosine_rate(step, total, arguments.rate, arguments.warmup)
            optimizer.zero_grad()
            loss = step_loss(model, train, places, labels, filters)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            audio += sum(train.seconds[i] for i in places)
            if step == arguments.max_steps:
                break
        seconds += time.perf_counter() - start
        wer = error_rate(model, dev, letters, filters)
        print(
            f"epoch {epoch + 1}: loss {numpy.mean(losses):.4f}, WER {100 * wer:.2f} %, "
            f"{audio / seconds:.0f} a second",
            flush=True,
        )
        if step == arguments.max_steps:
            break
    result = {
        "dev_wer": wer,
        "test_wer": error_rate(model, test, letters, filters),
        "audio_seconds_per_second": audio / seconds,
        "peak_mib_over_start": peak_mib() - before,
        "seconds": seconds,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
