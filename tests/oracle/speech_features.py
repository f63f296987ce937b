"""Our log-mel features of real speech beside those of public implementations (extractors.py)."""

import json
import subprocess
from pathlib import Path

import soundfile
import torch
from extractors import EXTRACTORS, Settings, features_of, torchaudio
from fixture_folder import save_tensors
from safetensors.torch import load_file

# Relative to the largest value of an utterance.
TOLERANCE = 1e-4
# The torchaudio kind has no floor worth the name: the logarithm shows the rounding of a spectrum in single
# precision. Ours may be this many times as far from double precision as PyTorch's own in single precision is
# in the worst utterance: in which one that is depends on the processor.
SINGLE_PRECISION = 1.5
NUM_UTTERANCES = 20


def read_speech(manifest: Path) -> list[torch.Tensor]:
    """fp32 in -1 .. 1 at 16 kHz."""
    waves = []
    for line in manifest.read_text().splitlines()[:NUM_UTTERANCES]:
        samples, rate = soundfile.read(manifest.parent / json.loads(line)["audio_filepath"], dtype="float32")
        assert rate == 16000 and samples.ndim == 1, f"{line}: expected one channel of 16 kHz"
        waves.append(torch.from_numpy(samples))
    return waves


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max()).item()


def tolerance_of(settings: Settings, waves: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    if settings.kind != "torchaudio":
        return TOLERANCE
    single = [torchaudio(wave.numpy(), settings, torch.float32) for wave in waves]
    return max(TOLERANCE, SINGLE_PRECISION * max(map(distance, single, theirs)))


def compare(binary: Path, manifest: Path, folder: Path) -> tuple[str, list[str]]:
    """What was compared, and what differs by more than the tolerance."""
    waves = read_speech(manifest)
    save_tensors(folder / "samples", {f"samples.{u}": wave for u, wave in enumerate(waves)})
    differences, largest = [], dict.fromkeys(EXTRACTORS, 0.0)
    for kind in EXTRACTORS:
        command = [binary, kind, folder / "samples", folder / kind]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            return "dump_features failed", [run.stderr.strip()]
        ours = load_file(folder / kind)
        settings = Settings(kind, f_min=20.0 if kind == "kaldi" else 0.0)
        expected = [features_of(wave.numpy(), settings) for wave in waves]
        tolerance = tolerance_of(settings, waves, expected)
        for u, theirs in enumerate(expected):
            mine = ours[f"features.{u}"]
            if mine.shape != theirs.shape:
                differences.append(f"{kind}, utterance {u}: {list(mine.shape)}, not {list(theirs.shape)}")
                continue
            relative = distance(mine, theirs)
            largest[kind] = max(largest[kind], relative)
            if not relative <= tolerance:
                differences.append(
                    f"{kind}, utterance {u}: off by {relative:.1e} of the largest, more than {tolerance:.1e}"
                )
    seconds = sum(len(wave) for wave in waves) / 16000
    shown = ", ".join(f"{kind} {value:.1e}" for kind, value in largest.items())
    return f"{len(waves)} utterances, {seconds:.0f} s; largest difference {shown}", differences
