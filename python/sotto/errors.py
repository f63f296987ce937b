"""Exceptions, with the four parts of the program's messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Error(Exception):
    """Something went wrong: what was attempted, what was found, what was expected, what to try.

    >>> error = ConfigError("reading memory", "'8'", "a size with a unit", "Write '8GiB'.")
    >>> str(error)
    "reading memory: '8'. Expected a size with a unit. Write '8GiB'."
    >>> error.hint
    "Write '8GiB'."
    """

    exit_code = 70

    def __init__(self, attempted: str, found: str, expected: str = "", hint: str = "") -> None:
        super().__init__(attempted, found, expected, hint)
        self.attempted = attempted
        self.found = found
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.attempted}: {self.found}."
        if self.expected:
            text += f" Expected {self.expected}."
        return f"{text} {self.hint}" if self.hint else text


class ConfigError(Error):
    """Settings or arguments are wrong, or cannot take effect on this machine."""

    exit_code = 2


class Infeasible(ConfigError):
    """The settings are valid, but need more than the budget or the device has."""


class DataError(Error):
    """Files are missing, broken or of another version."""

    exit_code = 2


class OutOfMemory(Error):
    """Memory ran out, and nothing was left to try."""

    exit_code = 3


class InternalError(Error):
    """A bug in sotto."""


class ProcessKilled(Error):
    """The process of a run was ended from outside, so that it could not say why."""


_KINDS: dict[str, type[Error]] = {
    kind.__name__: kind for kind in (ConfigError, Infeasible, DataError, OutOfMemory, InternalError)
}


def error_from(failure: Mapping[str, Any]) -> Error:
    """Returns the exception for an object of --json-errors or an event `failed`."""
    kind = _KINDS.get(str(failure.get("error")), InternalError)
    return kind(*(str(failure.get(part, "")) for part in ("attempted", "found", "expected", "hint")))


def find_failure(text: str) -> Mapping[str, Any] | None:
    """Returns the last line of a program's error output that is an object of --json-errors."""
    for line in reversed(text.splitlines()):
        if not line.startswith('{"error"'):
            continue
        try:
            failure = json.loads(line)
        except ValueError:
            continue
        if isinstance(failure, dict):
            return failure
    return None


def killed_by(number: int) -> str:
    """Describes the signal that ended a process: "signal 9 (SIGKILL)"."""
    import signal

    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
