"""Makes every fixture anew and compares it with the committed one; then checks constants against their fit.

    .deps/oracle/bin/python tests/oracle/run.py             what `make oracle` does
    .deps/oracle/bin/python tests/oracle/run.py --write     replaces the committed fixtures
    .deps/oracle/bin/python tests/oracle/run.py kernels     this one only

A fixture is a JSON file, or a folder where its script has make_folder (fixture_folder.py). One line a check,
then `N passed, N failed`; exit status 1 if any failed.
"""

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import check_events
import fixture
import fixture_folder
import numpy
import saved_parakeet
import saved_whisper
import soundfile
import speech_features
import whisper_texts

ORACLE = Path(__file__).resolve().parent
ROOT = ORACLE.parent.parent
MAX_SHOWN = 5
BINARIES = ROOT / "build" / "bin"
SOTTO = BINARIES / "sotto"
# Not a part of the repository; without it the check says so and passes.
SPEECH = Path(os.environ.get("SOTTO_TEST_DATA", ROOT.parent / "shared" / "data")) / "iban_mini" / "dev.jsonl"
# Fixtures of CTC networks, written in files of at most this size.
SAVED = ["base", "base_bias", "processor", "stable", "stable_nobias"]
ARCHIVES = ["ctc", "rnnt", "tdt"]
SHARD_BYTES = "80KiB"
# Plans whose settings transformers is to take, each with its effective batch.
FOR_TRANSFORMERS = {
    "--model wav2vec2-base --device t4": 32,
    "--model wav2vec2-large-lv60 --device rtx4090 --set effective_batch=64": 64,
    "--model xls-r-1b --device a100-80 --set numerics=tf32 --set max_steps=500": 32,
    "--model wav2vec2-base --device rtx3070 --set optimizer.schedule.kind=cosine --set evaluate_every=50": 32,
}

# The polynomials of simd_math.h, by the letter of their variable there.
FITTED = {"f": "exp2", "t": "erfcx", "m": "log1p"}
# Relative to the largest of a polynomial: one unit in its last place of fp32. A fit on another processor may
# be rounded to the next.
COEFFICIENT_TOLERANCE = 2.0**-24


def fixture_names() -> list[str]:
    return sorted(path.stem.removeprefix("make_") for path in ORACLE.glob("make_*.py"))


def path_in(folder: Path, name: str) -> Path:
    script = importlib.import_module(f"make_{name}")
    return folder / (name if hasattr(script, "make_folder") else f"{name}.json")


def make_fixture(name: str, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = path_in(folder, name)
    script = importlib.import_module(f"make_{name}")
    if hasattr(script, "make_folder"):
        shutil.rmtree(path, ignore_errors=True)
        script.make_folder(path)
    else:
        fixture.write(path, f"tests/oracle/make_{name}.py", script.make(), getattr(script, "PACKAGES", ()))
    return path


def compare_fixtures(name: str, committed: Path, made: Path) -> fixture.Comparison:
    if committed.is_dir():
        script = importlib.import_module(f"make_{name}")
        return fixture_folder.compare(committed, made, getattr(script, "TOLERANCE", fixture_folder.TOLERANCE))
    return fixture.compare(fixture.read(committed), fixture.read(made))


def report(name: str, passed: bool, text: str, differences: list[str]) -> bool:
    print(f"{'ok  ' if passed else 'FAIL'} {name}: {text}")
    for line in differences[:MAX_SHOWN]:
        print(f"     {line}")
    if len(differences) > MAX_SHOWN:
        print(f"     and {len(differences) - MAX_SHOWN} more")
    return passed


def check_fixture(name: str, folder: Path) -> bool:
    committed = path_in(fixture.FOLDER, name)
    if not committed.exists():
        return report(name, False, f"{committed.relative_to(ROOT)} is not there: make it with --write", [])
    result = compare_fixtures(name, committed, make_fixture(name, folder))
    passed = report(
        name,
        not result.differences,
        f"{result.num_values} values, largest difference {result.largest:.1e}",
        result.differences,
    )
    for note in result.notes:
        print(f"     note: {note}")
    return passed


def header_polynomials(text: str) -> dict[str, list[float]]:
    """The coefficients of the Horner schemes in simd_math.h, constant term first."""
    found: dict[str, list[float]] = {}
    scheme = re.compile(r"Lanes p = (\S+)f;\n((?:\s*p = p \* \w+ [+-] \S+f;\n)+)")
    for first, rest in scheme.findall(text):
        steps = re.findall(r"p = p \* (\w+) ([+-]) (\S+)f;", rest)
        coefficients = [float(first)] + [float(sign + value) for _, sign, value in steps]
        found[FITTED.get(steps[0][0], steps[0][0])] = coefficients[::-1]
    return found


def fitted_polynomials(text: str) -> dict[str, list[float]]:
    """The coefficients that tools/fit_vector_math.py prints."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(\w+): .*", line):
            found[match[1]] = []
        else:
            found[list(found)[-1]].append(float(line.strip().removesuffix("f")))
    return found


def check_vector_math(_: Path) -> bool:
    command = [sys.executable, ROOT / "tools" / "fit_vector_math.py"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return report(
            "vector_math", False, "tools/fit_vector_math.py failed", run.stderr.splitlines()[-MAX_SHOWN:]
        )
    fitted = fitted_polynomials(run.stdout)
    header = header_polynomials((ROOT / "src/sotto/kernels/simd/simd_math.h").read_text())
    result = fixture.compare(header, fitted, COEFFICIENT_TOLERANCE)
    if missing := set(FITTED.values()) - header.keys():
        result.differences.append(f"simd_math.h: no polynomial of {', '.join(sorted(missing))} was found")
    text = f"{result.num_values} coefficients, largest difference {result.largest:.1e}"
    return report("vector_math", not result.differences, text, result.differences)


def check_saved_models(folder: Path) -> bool:
    """What `sotto export` wrote of each fixture's network, loaded and run by transformers."""
    wrong = []
    for name in SAVED:
        source, saved = fixture.FOLDER / "wav2vec2" / name, folder / f"saved_{name}"
        commands = [
            [SOTTO, "export", "--model", source, "--out", saved, "--max-shard", SHARD_BYTES],
            [sys.executable, ORACLE / "check_saved.py", saved, source],
        ]
        for command in commands:
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                wrong.append(f"{name}: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
                break
    text = f"{len(SAVED)} folders that sotto saved, loaded by transformers"
    return report("saved_models", not wrong, text, wrong)


def check_saved_parakeet(folder: Path) -> bool:
    """What runs and `sotto export` wrote of each kind of Parakeet, loaded and run by transformers."""
    text, differences = saved_parakeet.check(SOTTO, folder)
    return report("saved_parakeet", not differences, text, differences)


def check_saved_whisper(folder: Path) -> bool:
    """What runs and `sotto export` wrote of Whisper networks, loaded and run by transformers."""
    text, differences = saved_whisper.check(SOTTO, folder)
    return report("saved_whisper", not differences, text, differences)


def check_saved_archives(folder: Path) -> bool:
    """What `sotto export` wrote of each archive and of folders, read by the tools that NeMo uses."""
    wrong = []
    for name in ARCHIVES:
        source, saved = fixture.FOLDER / "nemo" / f"{name}.nemo", folder / f"saved_{name}.nemo"
        commands = [
            [SOTTO, "export", "--model", source, "--out", saved],
            [sys.executable, ORACLE / "check_nemo.py", saved, source],
        ]
        for command in commands:
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                wrong.append(f"{name}: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
                break
    text = f"{len(ARCHIVES)} .nemo archives that sotto wrote, read by tarfile, yaml, torch and sentencepiece"
    return report("saved_archives", not wrong, text, wrong)


def write_sounds(folder: Path) -> Path:
    """A manifest of short sounds, for a run that is about its card alone."""
    lines = []
    for number in range(4):
        samples = 0.1 * numpy.sin((0.02 + 0.01 * number) * numpy.arange(8_000 + 1_000 * number))
        soundfile.write(folder / f"{number}.wav", samples, 16_000)
        seconds = len(samples) / 16_000
        lines.append(json.dumps({"audio_filepath": f"{number}.wav", "duration": seconds, "text": "ab"}))
    manifest = folder / "sounds.jsonl"
    manifest.write_text("\n".join(lines) + "\n")
    return manifest


def check_model_cards(folder: Path) -> bool:
    """Cards of a model without a run and with one, read by huggingface_hub; transformers runs their code."""
    source, run = fixture.FOLDER / "wav2vec2" / "stable", folder / "card_run"
    sounds = write_sounds(folder)
    wrong = []

    def succeeds(*command: str | Path) -> bool:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append((done.stderr or done.stdout).strip().splitlines()[-1])
        return done.returncode == 0

    check = [sys.executable, ORACLE / "check_card.py"]
    if succeeds(SOTTO, "export", "--model", source, "--out", folder / "card_plain"):
        succeeds(*check, folder / "card_plain")
    train = [SOTTO, "train", "--model", source, "--train", sounds, "--dev", sounds, "--out", run]
    said = ["--language", "no", "--license", "mit"]
    if succeeds(*train, "--memory", "150MiB", "--max-steps", "2") and succeeds(
        SOTTO, "export", "--model", run, "--out", folder / "card_trained", *said
    ):
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        rates = [record["words"]["rate"] for record in records if record.get("kind") == "evaluation"]
        succeeds(*check, folder / "card_trained", str(100.0 * min(rates)))
    return report("model_cards", not wrong, "2 cards, read by huggingface_hub and run by transformers", wrong)


def check_speech_features(folder: Path) -> bool:
    """Features of real speech, packed by us and one by one by others."""
    if not SPEECH.exists():
        return report("speech_features", True, f"skipped: no {SPEECH.parent.name} (SOTTO_TEST_DATA)", [])
    # The kinds of features are the names of its files, and a fixture may have the same name.
    own = folder / "speech_features"
    own.mkdir()
    text, differences = speech_features.compare(BINARIES / "dump_features", SPEECH, own)
    return report("speech_features", not differences, text, differences)


def check_whisper_texts(folder: Path) -> bool:
    """Labels, prompts and normalised texts of many lines, with Whisper's own vocabularies."""
    text, differences = whisper_texts.compare(BINARIES / "dump_text", SPEECH.parent.parent, folder)
    return report("whisper_texts", not differences, text, differences)


def check_event_files(folder: Path) -> bool:
    """What `sotto train` wrote for TensorBoard, read by TensorBoard."""
    text, differences = check_events.check(SOTTO, folder)
    return report("event_files", not differences, text, differences)


def check_training_arguments(folder: Path) -> bool:
    """What `sotto plan --for transformers` wrote, taken by transformers."""
    wrong = []
    for number, (words, batch) in enumerate(FOR_TRANSFORMERS.items()):
        out = folder / f"arguments_{number}"
        commands = [
            [SOTTO, "plan", *words.split(), "--for", "transformers", "--out", out],
            [sys.executable, ORACLE / "check_arguments.py", out / "training_arguments.json", str(batch)],
        ]
        for command in commands:
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                wrong.append(f"{words}: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
                break
    text = f"{len(FOR_TRANSFORMERS)} plans for transformers, taken by its TrainingArguments"
    return report("training_arguments", not wrong, text, wrong)


# Checks that are not of a fixture, and the program that each runs.
CHECKS = {
    "event_files": (check_event_files, SOTTO),
    "model_cards": (check_model_cards, SOTTO),
    "saved_archives": (check_saved_archives, SOTTO),
    "saved_models": (check_saved_models, SOTTO),
    "saved_parakeet": (check_saved_parakeet, SOTTO),
    "saved_whisper": (check_saved_whisper, SOTTO),
    "speech_features": (check_speech_features, BINARIES / "dump_features"),
    "training_arguments": (check_training_arguments, SOTTO),
    "vector_math": (check_vector_math, None),
    "whisper_texts": (check_whisper_texts, BINARIES / "dump_text"),
}


def check(name: str, folder: Path, writes: bool) -> bool:
    if name not in CHECKS:
        if writes:
            make_fixture(name, fixture.FOLDER)
        return check_fixture(name, folder)
    function, program = CHECKS[name]
    if program is not None and not program.exists():
        return report(name, False, f"{program.relative_to(ROOT)} is not there: run `make build` first", [])
    return function(folder)


def main() -> int:
    known = [*fixture_names(), *CHECKS]
    parser = argparse.ArgumentParser(description="Compares the committed fixtures with newly made ones.")
    parser.add_argument("--write", action="store_true", help="replace the committed fixtures")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"unknown {', '.join(sorted(unknown))}: expected some of {', '.join(known)}")

    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or known:
            try:
                outcomes.append(check(name, Path(folder), arguments.write))
            except Exception as error:  # one that cannot be made or read must not hide the others
                outcomes.append(report(name, False, f"{type(error).__name__}: {error}", []))
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
