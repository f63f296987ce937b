"""FLAC to log-mel features on one core: libsndfile and Hugging Face's extractor against sotto, in one run.

    bench/compare_features.py MANIFEST [--sotto build/bin/sotto_audio_bench] [--repeat 3]

The files of MANIFEST (at most 200) become Whisper's features, one utterance at a time, on one thread: here
by soundfile and WhisperFeatureExtractor (padding off), there by sotto's decoder and its kernel. Seconds are
those of the processor; the fastest of --repeat counts. Needs soundfile, torch and transformers. The bars at
the end are printed, not enforced.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import soundfile  # noqa: E402
import torch  # noqa: E402
from transformers import WhisperFeatureExtractor  # noqa: E402

MAX_FILES = 200
MIN_WAVEFORMS = 1000
MIN_FEATURES = 300
MIN_RATIO = 3.0


def peer(files: list[Path], repeat: int) -> dict[str, float]:
    extract = WhisperFeatureExtractor(feature_size=80)
    best = {"waveforms_s": 1e9, "features_s": 1e9}
    audio_s = 0.0
    for _ in range(repeat):
        start = time.process_time()
        waves = [soundfile.read(file, dtype="float32") for file in files]
        middle = time.process_time()
        for samples, rate in waves:
            extract(samples, sampling_rate=rate, padding="do_not_pad", truncation=False, return_tensors="pt")
        end = time.process_time()
        best["waveforms_s"] = min(best["waveforms_s"], middle - start)
        best["features_s"] = min(best["features_s"], end - start)
        audio_s = sum(len(samples) / rate for samples, rate in waves)
    return {
        "waveforms": audio_s / best["waveforms_s"],
        "features": audio_s / best["features_s"],
        "audio_seconds": audio_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--sotto", default="build/bin/sotto_audio_bench")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in arguments.manifest.read_text(encoding="utf-8").splitlines()]
    files = [arguments.manifest.parent / line["audio_filepath"] for line in lines[:MAX_FILES]]
    theirs = peer(files, arguments.repeat)
    command = [arguments.sotto, "--manifest", str(arguments.manifest), "--files", str(MAX_FILES), "--json"]
    command += ["--rounds", str(arguments.repeat)]
    ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    print(f"{len(files)} files, {theirs['audio_seconds']:.0f} s; in seconds of audio a second of one core")
    print(f"{'':12} {'soundfile + Hugging Face':>25} {'sotto':>8} {'ratio':>6} {'bar':>18}")
    bars = {"waveforms": f"{MIN_WAVEFORMS}", "features": f"{MIN_FEATURES}, {MIN_RATIO:g} times"}
    for name, bar in bars.items():
        ratio = ours[name] / theirs[name]
        print(f"{name:12} {theirs[name]:25.0f} {ours[name]:8.0f} {ratio:6.2f} {bar:>18}")


if __name__ == "__main__":
    main()
