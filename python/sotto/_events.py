"""The events of a run: docs/events.md describes the file, this module reads it while it grows."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .errors import DataError

FORMAT_VERSION = 1
FILE = "events.jsonl"

_Record = TypeVar("_Record")


def record_number(value: Any) -> float:
    """Converts a number of a record, including "nan", "inf" and "-inf", which JSON does not have."""
    return float(value)


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    """An error rate, 0.1 for 10 %, with its counts."""

    rate: float
    insertions: int
    deletions: int
    substitutions: int
    reference: int

    @property
    def errors(self) -> int:
        return self.insertions + self.deletions + self.substitutions


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that a run told; `time` is in seconds since 1970."""

    time: float


@dataclasses.dataclass(frozen=True)
class Started(Event):
    """The process of the run has started."""

    version: str
    commit: str
    pid: int
    host: str


@dataclasses.dataclass(frozen=True)
class Planned(Event):
    """The plan is known: `facts` is the content of facts.json."""

    facts: Mapping[str, Any]

    @property
    def total_steps(self) -> int:
        return int(self.facts["steps"]["total"])

    @property
    def first_step(self) -> int:
        """The first step of this process; above 1 for a run that was resumed."""
        return int(self.facts["steps"]["first"])

    @property
    def steps_per_epoch(self) -> int:
        return int(self.facts["steps"]["per_epoch"])

    @property
    def budget_bytes(self) -> int:
        return int(self.facts["budget"]["total_bytes"])


@dataclasses.dataclass(frozen=True)
class Step(Event):
    """One update. The loss is NaN where all utterances of the step were skipped."""

    step: int
    epoch: int
    ends_epoch: bool
    loss: float
    rate: float
    gradient_norm: float
    updated: bool
    utterances: int
    micro_batches: int
    frames: int
    audio_seconds: float
    seconds: float
    memory_bytes: int
    peak_bytes: int
    reserved_bytes: int
    losses: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Evaluation(Event):
    """An evaluation after a step: error rates of speech, or the perplexity of text."""

    step: int
    loss: float
    seconds: float
    words: ErrorRate | None = None
    characters: ErrorRate | None = None
    perplexity: float | None = None
    utterances: int | None = None

    @property
    def wer(self) -> float | None:
        return None if self.words is None else self.words.rate

    @property
    def cer(self) -> float | None:
        return None if self.characters is None else self.characters.rate


@dataclasses.dataclass(frozen=True)
class Checkpoint(Event):
    """A checkpoint was written after this step."""

    step: int
    path: str


@dataclasses.dataclass(frozen=True)
class Recovery(Event):
    """Memory ran out in a step, which is run again, from the second attempt on within smaller limits."""

    step: int
    attempt: int
    reason: str
    limits: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Stage(Event):
    """A stage of the run begins with this step."""

    step: int
    stage: int
    stages: int
    name: str
    samples: int
    steps: int


@dataclasses.dataclass(frozen=True)
class Warned(Event):
    """A warning of the run."""

    text: str


@dataclasses.dataclass(frozen=True)
class Finished(Event):
    """The end of a run: `steps` is the last step, `stopped` says whether it was asked to stop."""

    folder: str
    steps: int
    stopped: bool
    ended_early: bool
    restarts: int
    seconds: float
    loss: float | None = None
    peak_bytes: int | None = None
    wer: float | None = None
    cer: float | None = None
    best_wer: float | None = None
    perplexity: float | None = None
    best_perplexity: float | None = None
    best_step: int | None = None


@dataclasses.dataclass(frozen=True)
class Failed(Event):
    """The run ended with an error."""

    error: str
    attempted: str
    found: str
    expected: str
    hint: str
    message: str
    exit_code: int


_KINDS: dict[str, type[Event]] = {
    "started": Started,
    "plan": Planned,
    "step": Step,
    "evaluation": Evaluation,
    "checkpoint": Checkpoint,
    "recovery": Recovery,
    "stage": Stage,
    "warning": Warned,
    "finished": Finished,
    "failed": Failed,
}
_RATES = ("words", "characters")


def from_json(kind: type[_Record], record: Mapping[str, Any]) -> _Record:
    """Makes a dataclass of an object; keys that it does not know are left out."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in record:
            continue
        value = record[field.name]
        if field.name in _RATES and isinstance(value, Mapping):
            value = from_json(ErrorRate, value)
        elif isinstance(value, str) and str(field.type).startswith("float"):
            value = record_number(value)
        values[field.name] = value
    return kind(**values)


def event_from(line: str) -> Event | None:
    """Returns the event of a line; None for a kind that this package does not know."""
    record = json.loads(line)
    kind = _KINDS.get(record.get("event", ""))
    if kind is None:
        return None
    if kind is Started and record.get("format_version", 0) > FORMAT_VERSION:
        raise DataError(
            "reading the events of a run",
            f"their format_version is {record['format_version']}",
            f"{FORMAT_VERSION} or less",
            "A newer sotto writes them: update this package.",
        )
    return from_json(kind, record)


def is_written(file: Path, pid: int | None) -> bool:
    """Returns whether a process has the file of events open for writing.

    On a file system without locks, `pid` decides: the process that started there last.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return pid is not None and Path(f"/proc/{pid}").exists()
    finally:
        os.close(descriptor)
    return False


def end_of_lines(file: Path) -> int:
    """Returns where the next process will write: after the last complete line."""
    return file.read_bytes().rfind(b"\n") + 1 if file.exists() else 0


def last_start(file: Path) -> int | None:
    """Returns where the events of the last process begin in the file; None where there are none."""
    found, position = None, 0
    try:
        with file.open("rb") as lines:
            for line in lines:
                if b'"event":"started"' in line:
                    found = position
                position += len(line)
    except OSError:
        return None
    return found


def follow(file: Path, position: int, is_over: Callable[[], bool]) -> Iterator[Event]:
    """Yields the events from a position on as they are written, until the process is over.

    What a process wrote last is yielded after its end. A line that it could not complete is left out.
    """
    rest = b""
    pause = 0.01
    while True:
        was_over = is_over()
        data = b""
        if file.exists():
            with file.open("rb") as stream:
                stream.seek(position)
                data = stream.read()
        position += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            event = event_from(line.decode("utf-8", errors="replace")) if line else None
            if event is not None:
                yield event
        if was_over:
            return
        pause = 0.01 if data else min(2 * pause, 0.2)
        if not data:
            time.sleep(pause)


def mean(values: list[float]) -> float:
    """Returns the mean of the numbers that are finite; NaN where there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
