"""Reads the card of a folder that `sotto export` wrote as the Hub reads it, and does what it says.

    .deps/oracle/bin/python tests/oracle/check_card.py FOLDER [WER]

The front matter is loaded by huggingface_hub, and its fields are compared with the folder; WER, in percent,
is what the run's own evaluation gave, and must be the card's. Then the card's Python is run on half a second
of sound, by transformers. One line for each thing that is wrong; exit status 1 if there is any.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import soundfile
from huggingface_hub import ModelCard

SAMPLE_RATE = 16_000


def wrong_fields(folder: Path, wer: float | None) -> list[str]:
    """What the front matter says otherwise than expected of a wav2vec2."""
    data = ModelCard.load(folder / "README.md").data
    expected = {"library_name": "transformers", "pipeline_tag": "automatic-speech-recognition"}
    found = {name: data.get(name) for name in expected}
    wrong = [
        f"{name} is {found[name]}, expected {value}"
        for name, value in expected.items()
        if found[name] != value
    ]
    if "wav2vec2" not in (data.tags or []):
        wrong.append(f"the tags are {data.tags}, expected wav2vec2 among them")
    results = {result.metric_type: result for result in data.eval_results or []}
    if wer is None and results:
        wrong.append(f"results {sorted(results)} of a model that was not evaluated")
    if wer is not None:
        value = results["wer"].metric_value if "wer" in results else math.nan
        if not abs(value - wer) <= 0.005:
            wrong.append(f"the WER is {value}, expected {wer}")
        if data.model_name != folder.name:
            wrong.append(f"the model's name is {data.model_name}, expected {folder.name}")
    return wrong


def run_python(folder: Path) -> list[str]:
    """The Python of the card, run where it finds the folder by its name and a speech.wav."""
    blocks = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    if len(blocks) != 1:
        return [f"{len(blocks)} blocks of Python, expected one"]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / folder.name).symlink_to(folder.resolve())
        sound = 0.1 * numpy.sin(0.03 * numpy.arange(SAMPLE_RATE // 2))
        soundfile.write(Path(place) / "speech.wav", sound, SAMPLE_RATE)
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        run = subprocess.run(
            [sys.executable, "-c", blocks[0]], cwd=place, env=environment, capture_output=True, text=True
        )
    if run.returncode != 0:
        return [f"its Python fails: {run.stderr.strip().splitlines()[-1]}"]
    print(f"its Python printed {run.stdout.strip()!r}")
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads a model card as the Hub does, and runs its Python.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what sotto exported")
    parser.add_argument("wer", type=float, nargs="?", metavar="WER", help="of the run, in percent")
    arguments = parser.parse_args()
    wrong = wrong_fields(arguments.folder, arguments.wer) + run_python(arguments.folder)
    for line in wrong:
        print(f"{arguments.folder.name}: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
