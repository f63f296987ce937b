"""Wrong types are named before a process starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

import sotto
from sotto import _arguments


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: sotto.plan(model="tiny", memory=8), "memory=8, a int. Expected a size with its unit"),  # type: ignore[arg-type]
        (lambda: sotto.plan(model=3), "model=3, a int"),  # type: ignore[arg-type]
        (lambda: sotto.plan(model="tiny", price="much"), "price='much', a str"),  # type: ignore[arg-type]
        (lambda: sotto.plan(model="tiny", epochs=object), "epochs=<class 'object'>, a type"),
        (
            lambda: sotto.plan(model="tiny", optimizer={"schedule": {"rate": float("nan")}}),
            "schedule.rate=nan",
        ),
        (lambda: sotto.train(7), "config=7, a int. Expected a plan, a path, or a dictionary"),  # type: ignore[arg-type]
        (lambda: sotto.train(model="tiny", max_steps=True), "max_steps=True, a bool"),
        (lambda: sotto.train(model="tiny", folder=b"x"), "folder=b'x', a bytes"),  # type: ignore[arg-type]
        (lambda: sotto.train(model=""), "model='', a str"),
        (lambda: sotto.Recogniser("run", beam=1.5), "beam=1.5, a float"),  # type: ignore[arg-type]
        (lambda: sotto.Recogniser("run").transcribe(7), "audio=7, a int"),
        (lambda: sotto.Recogniser("run").transcribe(numpy.zeros(9)), "sample_rate=None, a NoneType"),
        (
            lambda: sotto.Recogniser("run").transcribe(numpy.zeros(9, "i8"), 16000),
            "Expected samples as floating",
        ),
        (lambda: sotto.evaluate("run", 5), "manifest=5, a int"),  # type: ignore[arg-type]
        (lambda: sotto.find_run(None), "folder=None, a NoneType"),  # type: ignore[arg-type]
        (lambda: sotto.push_to_hub("run", "nobody"), "repository='nobody', a str. Expected ORG/NAME"),
        (lambda: sotto.profile(model="tiny", data="x"), "model and data"),
    ],
)
def test_wrong_types_are_named(call: Any, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", start)
    before = sorted(Path().iterdir())
    with pytest.raises(sotto.ConfigError) as caught:
        call()
    assert named in str(caught.value)
    assert sorted(Path().iterdir()) == before


def test_settings_keep_their_type() -> None:
    given = {
        "epochs": 2,
        "adaptive_batching": True,
        "name": "no: [1]",
        "model": {"width": numpy.int64(32), "preset": "tiny"},
        "stages": [{"samples": "50%", "epochs": 1}],
        "data": {"train": Path("ü x.jsonl")},
    }
    assert _arguments.settings(given)[1::2] == [
        "epochs=2",
        "adaptive_batching=true",
        'name="no: [1]"',
        "model.width=32",
        'model.preset="tiny"',
        'stages=[{"samples": "50%", "epochs": 1}]',
        'data.train="ü x.jsonl"',
    ]
