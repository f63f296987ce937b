"""FLAC to log-mel features: libsndfile and Hugging Face's extractor against sotto, in one run.

    bench/compare_features.py MANIFEST [--sotto build/bin/sotto_audio_bench] [--repeat 3]

The files of MANIFEST (at most 200) become Whisper's features, one utterance at a time: here by soundfile
and WhisperFeatureExtractor (padding off), there by sotto's decoder and its kernel. First on one core, in
seconds of the processor; then on all of them, in those of the clock, where the peer has the faster of two
ways: a thread of Python and of torch for each core, or one of Python and as many of torch. The sides take
turns and the fastest of --repeat counts. Needs soundfile, torch and transformers. The bars at the end are
printed, not enforced.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402
from transformers import WhisperFeatureExtractor  # noqa: E402

MAX_FILES = 200
MIN_WAVEFORMS = 1000
MIN_FEATURES = 300
MIN_RATIO = 3.0


class Peer:
    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.extractor = WhisperFeatureExtractor(feature_size=80)
        self.audio_s = sum(soundfile.info(file).duration for file in files)

    def read(self, file: Path) -> tuple[np.ndarray, int]:
        return soundfile.read(file, dtype="float32")

    def extract(self, file: Path) -> None:
        samples, rate = self.read(file)
        self.extractor(
            samples, sampling_rate=rate, padding="do_not_pad", truncation=False, return_tensors="pt"
        )

    def on_one_core(self, work: Callable[[Path], object]) -> float:
        torch.set_num_threads(1)
        start = time.process_time()
        for file in self.files:
            work(file)
        return self.audio_s / (time.process_time() - start)

    def on_all_cores(self, work: Callable[[Path], object], cores: int) -> float:
        torch.set_num_threads(cores)
        start = time.perf_counter()
        for file in self.files:
            work(file)
        middle = time.perf_counter()
        torch.set_num_threads(1)
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(work, self.files))
        return self.audio_s / min(time.perf_counter() - middle, middle - start)

    def measure(self, cores: int) -> dict[str, float]:
        return {
            "waveforms": self.on_one_core(self.read),
            "features": self.on_one_core(self.extract),
            "waveforms_all": self.on_all_cores(self.read, cores),
            "features_all": self.on_all_cores(self.extract, cores),
        }


def faster(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {name: max(value, b.get(name, value)) for name, value in a.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--sotto", default="build/bin/sotto_audio_bench")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.manifest.read_text(encoding="utf-8").splitlines()]
    peer = Peer([arguments.manifest.parent / line["audio_filepath"] for line in lines[:MAX_FILES]])
    command = [arguments.sotto, "--manifest", str(arguments.manifest), "--files", str(MAX_FILES), "--json"]
    command += ["--rounds", "1"]
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for _ in range(arguments.repeat):
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        ours = faster(json.loads(output), ours)
        theirs = faster(peer.measure(int(ours["cores"])), theirs)

    print(f"{len(peer.files)} files, {peer.audio_s:.0f} s; in seconds of audio a second")
    print(f"{'':28} {'soundfile + Hugging Face':>25} {'sotto':>8} {'ratio':>6} {'bar':>18}")
    bars = {"waveforms": f"{MIN_WAVEFORMS}", "features": f"{MIN_FEATURES}, {MIN_RATIO:g} times"}
    for suffix, where in {"": "of one core", "_all": f"on {ours['cores']:.0f} cores"}.items():
        for name, bar in bars.items():
            key = name + suffix
            ratio = ours[key] / theirs[key]
            print(f"{name + ' ' + where:28} {theirs[key]:25.0f} {ours[key]:8.0f} {ratio:6.2f} {bar:>18}")


if __name__ == "__main__":
    main()
