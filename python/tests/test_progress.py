"""The progress bar in a terminal and in a notebook."""

from __future__ import annotations

import sys
import types

import pytest

import sotto
from sotto._events import event_from
from sotto._progress import Progress


def step(number: int) -> sotto.Step:
    numbers = (
        '"epoch":0,"ends_epoch":false,"loss":2.5,"rate":0.1,"gradient_norm":1.0,"updated":true,"utterances":2'
    )
    more = (
        '"micro_batches":1,"frames":9,"audio_seconds":1.0,"seconds":1.0,"memory_bytes":1,"peak_bytes":3145728'
    )
    event = event_from(f'{{"event":"step","time":1.0,"step":{number},"reserved_bytes":9,{numbers},{more}}}')
    assert isinstance(event, sotto.Step)
    return event


def test_terminal_shows_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Progress(is_wanted=True)
    bar.begin(10)
    bar.show(step(5))
    assert capsys.readouterr().err == "\r\x1b[K" + 12 * "█" + 12 * "░" + " 5/10  loss 2.5000  peak 3 MiB"
    bar.clear()
    bar.end()
    assert capsys.readouterr().err == "\r\x1b[K\n"


def test_pipe_and_request_for_none_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for wanted in (None, False):
        bar = Progress(is_wanted=wanted)
        bar.begin(10)
        bar.show(step(5))
        bar.end()
    assert capsys.readouterr().err == ""


def test_notebook_updates_one_element(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)
    display = types.ModuleType("IPython.display")
    display.HTML = str  # type: ignore[attr-defined]
    display.display = lambda first, display_id: handle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    bar = Progress(is_wanted=None)
    bar.begin(10)
    bar.show(step(5))
    assert shown == ['<progress value="5" max="10"></progress> 5/10  loss 2.5000  peak 3 MiB']
