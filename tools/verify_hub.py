"""Compares sotto with transformers on a released checkpoint: the logits of a few seconds of audio.

    .deps/oracle/bin/python tools/verify_hub.py ID [--audio FILE.wav] [--sotto build/bin/sotto]

ID is a wav2vec2, XLS-R or Parakeet checkpoint on the Hugging Face hub, such as facebook/wav2vec2-base-960h,
a folder with one, or a `.nemo` archive. It is fetched as it was released, and both programs read the same
files; weights of an archive are renamed for transformers. A wav2vec2 without a CTC head (as XLS-R before
fine-tuning) gets one of random weights. Transducers are compared by their greedy transcripts. Without --audio
the signal is synthetic. The audio and both results stay in runs/verify_hub. Exit status 1 where logits differ
by more than 1e-3 of the largest, or transcripts at all, 2 where something is missing. Needs torch,
transformers and a network.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path
from typing import Any, NoReturn

try:
    import numpy
    import torch
    from huggingface_hub import snapshot_download
    from safetensors.torch import load_file, save_file
    from torch import Tensor
    from transformers import Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC, logging
    from verify_parakeet import is_parakeet, load_parakeet
except ImportError as error:
    print(
        f"verify_hub: the Python package {error.name} is missing: expected torch and transformers.\n"
        "  `tools/setup.sh oracle` installs them: run this with .deps/oracle/bin/python",
        file=sys.stderr,
    )
    sys.exit(2)

ROOT = Path(__file__).resolve().parent.parent
RATE = 16_000
SECONDS = 5
TOLERANCE = 1e-3
DESCRIPTIONS = [
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "vocab.json",
    "tokenizer.json",
    "tokenizer_config.json",
]
HEAD_ENTRIES = 32  # of a checkpoint whose configuration names no vocabulary


def fail(*lines: str) -> NoReturn:
    print("verify_hub: " + "\n  ".join(lines), file=sys.stderr)
    raise SystemExit(2)


def fetch(name: str) -> Path:
    """The folder of a checkpoint with one form of its weights, or an archive."""
    if Path(name).exists():
        return Path(name)
    try:
        folder = Path(snapshot_download(name, allow_patterns=[*DESCRIPTIONS, "model*.safetensors*"]))
        if not list(folder.glob("model*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*DESCRIPTIONS, "pytorch_model*.bin*"]))
        if not (folder / "config.json").is_file():
            folder = Path(snapshot_download(name, allow_patterns=["*.nemo"]))
            return next(iter(folder.glob("*.nemo")), folder)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        fail(
            f"could not fetch '{name}' from the Hugging Face hub: {first}",
            "Expected a network and a checkpoint's id, such as facebook/wav2vec2-base-960h, or a folder.",
        )
    return folder


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        fail(f"{path} is not there: expected a folder as transformers saves it")
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("model_type") != "wav2vec2":
        fail(f"{path}: the model is of type '{config.get('model_type')}', expected wav2vec2 or parakeet")
    return config


def add_head(folder: Path, config: dict[str, Any], copy: Path) -> None:
    """The checkpoint with a CTC head beside its weights, which keep their names and their file's form."""
    entries = config.get("vocab_size") or HEAD_ENTRIES
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(entries, config["hidden_size"], generator=generator) * config["hidden_size"] ** -0.5
    head = {"lm_head.weight": weight, "lm_head.bias": 0.1 * torch.randn(entries, generator=generator)}
    if (folder / "model.safetensors").is_file():
        save_file(
            load_file(folder / "model.safetensors") | head, copy / "model.safetensors", {"format": "pt"}
        )
    elif (folder / "pytorch_model.bin").is_file():
        state = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
        torch.save(state | head, copy / "pytorch_model.bin")
    else:
        fail(
            f"{folder} holds neither model.safetensors nor pytorch_model.bin.",
            "A head can be added to weights in one file only.",
        )
    changed = config | {"architectures": ["Wav2Vec2ForCTC"], "vocab_size": entries}
    (copy / "config.json").write_text(json.dumps(changed, indent=2) + "\n", encoding="utf-8")
    vocabulary = {f"<{number}>" if number else "<pad>": number for number in range(entries)}
    (copy / "vocab.json").write_text(json.dumps(vocabulary) + "\n", encoding="utf-8")
    if (folder / "preprocessor_config.json").is_file():
        shutil.copy(folder / "preprocessor_config.json", copy)


def read_audio(path: Path) -> numpy.ndarray:
    """The first seconds of a recording, as 16-bit samples."""
    try:
        with wave.open(str(path), "rb") as file:
            found = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            content = file.readframes(SECONDS * RATE)
    except (OSError, EOFError, wave.Error) as error:
        fail(f"could not read '{path}': {error}", "Expected a WAV file: mono, 16 bits, 16,000 Hz.")
    if found != (1, 2, RATE):
        channels, width, rate = found
        fail(
            f"'{path}' has {channels} channels of {8 * width} bits at {rate} Hz",
            "Expected mono, 16 bits, 16,000 Hz: ffmpeg -i IN -ac 1 -ar 16000 -c:a pcm_s16le OUT.wav",
        )
    return numpy.frombuffer(content, dtype="<i2")


def make_audio() -> numpy.ndarray:
    """A tone that glides and swells, with overtones and noise."""
    time = numpy.arange(SECONDS * RATE) / RATE
    phase = 2 * numpy.pi * numpy.cumsum(120 + 40 * numpy.sin(2 * numpy.pi * 0.7 * time)) / RATE
    tone = sum(numpy.sin(k * phase) / k for k in range(1, 20))
    noise = numpy.random.default_rng(1).standard_normal(len(time))
    samples = 0.1 * (0.55 + 0.45 * numpy.sin(2 * numpy.pi * 3 * time)) * tone + 0.01 * noise
    return (samples * 32768).round().astype("<i2")


def write_audio(path: Path, samples: numpy.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())


def prepared_place(name: str, samples: numpy.ndarray) -> Path:
    """The folder of the results, with the audio."""
    place = ROOT / "runs/verify_hub" / name.strip("/").replace("/", "--")
    place.mkdir(parents=True, exist_ok=True)
    write_audio(place / "audio.wav", samples)
    return place


def run_transformers(folder: Path, samples: numpy.ndarray) -> tuple[Tensor, int]:
    """Logits [frames, vocabulary] in fp32, and the number of parameters."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        extractor = Wav2Vec2FeatureExtractor.from_pretrained(folder)
        model = Wav2Vec2ForCTC.from_pretrained(folder, dtype=torch.float32).eval()
    except (OSError, ValueError, RuntimeError) as error:
        fail(f"transformers could not load {folder}: {str(error).strip().splitlines()[0]}")
    audio = samples.astype(numpy.float32) / 32768
    inputs = extractor(audio, sampling_rate=RATE, return_tensors="pt").input_values
    with torch.no_grad():
        logits = model(inputs).logits[0]
    return logits.contiguous(), sum(value.numel() for value in model.parameters())


def call_sotto(command: list[Any]) -> str:
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        fail(
            f"`{' '.join(map(str, command))}` ended with status {run.returncode}",
            *run.stderr.strip().splitlines()[-5:],
        )
    return run.stdout


def run_sotto(program: Path, folder: Path, audio: Path, out: Path) -> Tensor:
    """Logits [frames, vocabulary] in fp32."""
    out.unlink(missing_ok=True)
    call_sotto([program, "logits", "--model", folder, "--audio", audio, "--out", out])
    tensors = load_file(out)
    if "logits" not in tensors:
        fail(f"{out} holds {', '.join(sorted(tensors)) or 'nothing'}: expected a tensor 'logits'")
    return tensors["logits"]


def compare(name: str, num_parameters: int, ours: Tensor, theirs: Tensor) -> bool:
    """Prints the table; whether the logits agree."""
    if ours.shape != theirs.shape:
        print(f"{name}: sotto's logits are {list(ours.shape)}, those of transformers {list(theirs.shape)}")
        return False
    absolute = (ours - theirs).abs().max().item()
    relative = absolute / theirs.abs().max().item()
    same = (ours.argmax(1) == theirs.argmax(1)).float().mean().item()
    rows = [
        ("checkpoint", name),
        ("parameters", f"{num_parameters:,}"),
        ("logits", f"{theirs.shape[0]} frames x {theirs.shape[1]}"),
        ("largest difference", f"{absolute:.2e}"),
        ("relative to the largest logit", f"{relative:.2e} (allowed {TOLERANCE:.0e})"),
        ("frames with the same best entry", f"{100 * same:.2f} %"),
    ]
    for title, value in rows:
        print(f"{title:<32} {value}")
    return relative <= TOLERANCE


def compare_parakeet(name: str, program: Path, model: Path, place: Path) -> bool:
    """The logits of CTC, or the greedy transcript of a transducer."""
    try:
        theirs = load_parakeet(model)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        fail(f"transformers could not load {model}: {str(error).strip().splitlines()[0]}")
    samples = read_audio(place / "audio.wav").astype(numpy.float32) / 32768
    if theirs.is_ctc:
        logits = theirs.logits(samples)
        save_file({"logits": logits}, place / "transformers.safetensors")
        ours = run_sotto(program, model, place / "audio.wav", place / "sotto.safetensors")
        return compare(name, theirs.num_parameters, ours, logits)
    found = call_sotto([program, "transcribe", "--model", model, place / "audio.wav", "--json"])
    ours, expected = json.loads(found)[0]["text"].strip(), theirs.transcript(samples).strip()
    for title, value in [
        ("checkpoint", name),
        ("parameters", f"{theirs.num_parameters:,}"),
        ("transcript of sotto", ours),
        ("transcript of transformers", expected),
    ]:
        print(f"{title:<32} {value}")
    return ours == expected


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("id", metavar="ID", help="a checkpoint on the hub, a folder, or a .nemo file")
    parser.add_argument("--audio", type=Path, metavar="FILE.wav", help="mono, 16 bits, 16,000 Hz")
    parser.add_argument(
        "--sotto", type=Path, default=ROOT / "build/bin/sotto", help="default: build/bin/sotto"
    )
    arguments = parser.parse_args()
    if not arguments.sotto.is_file():
        fail(f"{arguments.sotto} is not there: run `make build`, or name the program with --sotto")
    samples = read_audio(arguments.audio) if arguments.audio else make_audio()

    with tempfile.TemporaryDirectory() as temporary:
        folder = fetch(arguments.id)
        if is_parakeet(folder):
            place = prepared_place(arguments.id, samples)
            same = compare_parakeet(arguments.id, arguments.sotto.resolve(), folder, place)
            return 0 if same else 1
        config = read_config(folder)
        if config.get("architectures") != ["Wav2Vec2ForCTC"]:
            add_head(folder, config, Path(temporary))
            folder = Path(temporary)
        place = prepared_place(arguments.id, samples)
        theirs, num_parameters = run_transformers(folder, samples)
        save_file({"logits": theirs}, place / "transformers.safetensors")
        ours = run_sotto(arguments.sotto.resolve(), folder, place / "audio.wav", place / "sotto.safetensors")
    return 0 if compare(arguments.id, num_parameters, ours, theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
