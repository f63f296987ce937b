"""Commands of the program that end by themselves: run, and their output or their error returned."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from ._install import checked_program, environment
from .errors import Error, InternalError, ProcessKilled, error_from, find_failure, killed_by


def failure_of(attempted: str, exit_code: int, text: str) -> Error:
    """Returns the exception for a program that ended with this exit code and error output."""
    if exit_code < 0:
        return ProcessKilled(attempted, f"the process was ended by {killed_by(-exit_code)}")
    failure = find_failure(text)
    if failure is not None:
        return error_from(failure)
    last = text.strip().splitlines()[-1:] or [f"exit code {exit_code} without a message"]
    return InternalError(attempted, last[0])


def run(arguments: Sequence[str]) -> str:
    """Runs a command to its end and returns what it printed."""
    words = [str(checked_program()), *arguments, "--json-errors"]
    done = subprocess.run(
        words,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise failure_of(f"running sotto {arguments[0]}", done.returncode, done.stderr)
    return done.stdout


def run_json(arguments: Sequence[str]) -> Any:
    """Runs a command with --json and returns what it printed."""
    return json.loads(run([*arguments, "--json"]))
