"""Reading the file of events while it grows."""

from __future__ import annotations

import json
import math
import pickle
import threading
import time
from pathlib import Path

import pytest

import sotto
from sotto import _events, errors

STARTED = {
    "event": "started",
    "time": 1.0,
    "format_version": 1,
    "version": "x",
    "commit": "y",
    "pid": 7,
    "host": "h",
}


@pytest.mark.parametrize("kind", ["ConfigError", "Infeasible", "DataError", "OutOfMemory", "InternalError"])
def test_every_failure_has_its_exception(kind: str) -> None:
    parts = {"attempted": "a", "found": "b", "expected": "c", "hint": "Do d."}
    error = errors.error_from({"error": kind, **parts})
    assert type(error).__name__ == kind
    assert str(error) == "a: b. Expected c. Do d."
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint) == (type(error), str(error), "Do d.")
    text = 'info: {"error"\n' + json.dumps({"error": kind, **parts}) + "\nlast line\n"
    assert errors.find_failure(text) == {"error": kind, **parts}


def line(**event: object) -> str:
    return json.dumps(event, separators=(",", ":")) + "\n"


def test_unknown_events_and_keys_are_left_out() -> None:
    assert _events.event_from(line(event="later", time=1.0)) is None
    assert _events.event_from('{"format_version":1,"kind":"run_record"}') is None
    warned = _events.event_from(line(event="warning", time=2.0, text="low", more=3))
    assert warned == sotto.Warned(time=2.0, text="low")


def test_newer_format_is_refused() -> None:
    with pytest.raises(sotto.DataError, match="format_version is 2"):
        _events.event_from(line(**{**STARTED, "format_version": 2}))


def test_numbers_that_json_does_not_have() -> None:
    event = _events.event_from(
        line(event="evaluation", time=1.0, step=3, loss="nan", seconds=1.0, perplexity="inf")
    )
    assert isinstance(event, sotto.Evaluation)
    assert math.isnan(event.loss)
    assert event.perplexity == math.inf


def test_lines_are_followed_as_they_grow(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    parts = [
        line(**STARTED),
        '{"event":"warn',
        'ing","time":2.0,"text":"a"}\n',
        line(event="warning", time=3.0, text="b"),
    ]
    is_over = threading.Event()

    def write() -> None:
        for part in parts:
            time.sleep(0.05)
            with file.open("a") as stream:
                stream.write(part)
        with file.open("a") as stream:
            stream.write('{"event":"warning","time":4.0,"te')  # cut off by a kill
        is_over.set()

    writer = threading.Thread(target=write)
    writer.start()
    told = list(_events.follow(file, 0, is_over.is_set))
    writer.join()
    assert [type(event).__name__ for event in told] == ["Started", "Warned", "Warned"]
    assert _events.end_of_lines(file) == sum(len(part) for part in parts)
    assert _events.last_start(file) == 0
