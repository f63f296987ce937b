"""What docstrings and docs/python.md show is run."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from conftest import write_corpus

import sotto

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MODULES = ["sotto", *(f"sotto.{module.name}" for module in pkgutil.iter_modules(sotto.__path__))]


@pytest.fixture(scope="module")
def with_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a run in run/, as the examples name them."""
    folder = write_corpus(tmp_path_factory.mktemp("examples") / "corpus of examples")
    sotto.train(
        folder=folder / "run", model="tiny", train=folder / "train.jsonl", memory="300MiB", max_steps=2
    ).wait()
    return folder


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_docstring(example: doctest.DocTest, with_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_run
    if ".train" in example.name or example.name == "sotto":
        folder = write_corpus(with_run.parent / example.name)  # it makes a run of its own
    monkeypatch.chdir(folder)
    example.globs.update(sotto=sotto, numpy=numpy)
    failures: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=failures.append)
    assert not failures, "".join(failures)


def test_public_names_have_docstrings() -> None:
    for name in sotto.__all__:
        assert getattr(sotto, name).__doc__, name


def test_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_corpus(tmp_path / "page"))
    script = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert sum(kind == "python" for kind, _ in blocks) >= 6
    names: dict[str, object] = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102
            continue
        # Lines that install are run by tools/test_python.sh.
        for line in text.splitlines():
            if line.startswith("sotto "):
                subprocess.run(["/bin/sh", "-c", line], env={**os.environ, "PATH": script}, check=True)
