"""Writing, reading and comparing fixtures: JSON files that a C++ test reads without Python.

A script make_NAME.py has a function make() that returns what the fixture NAME holds: dicts and lists of
numbers, strings and tensors; PACKAGES names what it needs besides torch. run.py finds the scripts by their
names. Tensors become nested lists; numbers are written with as many digits as it takes to read the same value
back. Fixtures with many values are folders: fixture_folder.py.
"""

import importlib.metadata
import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch

FOLDER = Path(__file__).resolve().parent.parent / "fixtures"

# Two computations of one number in double precision, relative to the largest of its tensor: another processor
# may take sums in another order.
TOLERANCE = 1e-12
# Stands for zero where a difference is divided by the largest value.
SMALLEST = 1e-30


def versions(packages: Sequence[str] = ()) -> dict[str, str]:
    """What made a fixture, with the packages it needed besides: a difference explains one in the numbers."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
    } | {package: importlib.metadata.version(package) for package in packages}


def write(path: Path, script: str, content: dict[str, Any], packages: Sequence[str] = ()) -> None:
    """Writes a fixture with the script and the versions that made it."""
    head = {"made_by": script, "versions": versions(packages)}
    path.write_text(_text(_plain(head | content)) + "\n", encoding="ascii")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="ascii"))


@dataclass
class Comparison:
    """What two fixtures have in common and where they differ."""

    num_values: int = 0
    largest: float = 0.0  # difference over the largest value of the tensor
    differences: list[str] = field(default_factory=list)  # path inside the fixture, and what stands there
    notes: list[str] = field(default_factory=list)
    tolerance: float = TOLERANCE

    def fail(self, path: str, committed: Any, made: Any) -> None:
        self.differences.append(f"{path}: committed {_short(committed)}, made now {_short(made)}")


def compare(committed: dict[str, Any], made: dict[str, Any], tolerance: float = TOLERANCE) -> Comparison:
    """Structure, strings and whole numbers are to be equal, fractions within the tolerance."""
    result = Comparison(tolerance=tolerance)
    before, now = committed.pop("versions", None), made.pop("versions", None)
    if before != now:
        result.notes.append(f"committed with {_short(before)}, made now with {_short(now)}")
    _compare(committed, made, "", None, result)
    return result


def _compare(committed: Any, made: Any, path: str, scale: float | None, result: Comparison) -> None:
    if type(committed) is not type(made):
        result.fail(path, committed, made)
    elif isinstance(committed, dict):
        only_committed, only_made = committed.keys() - made.keys(), made.keys() - committed.keys()
        if only_committed or only_made:
            result.fail(f"{path} (names)", sorted(only_committed), sorted(only_made))
        for key, value in committed.items():
            if key in made:
                _compare(value, made[key], f"{path}.{key}" if path else key, None, result)
    elif isinstance(committed, list):
        if len(committed) != len(made):
            result.fail(f"{path} (length)", len(committed), len(made))
            return
        if scale is None:
            scale = _largest(committed)
        for i, value in enumerate(committed):
            _compare(value, made[i], f"{path}[{i}]", scale, result)
    elif isinstance(committed, float):
        result.num_values += 1
        relative = abs(committed - made) / (scale or max(abs(committed), SMALLEST))
        result.largest = max(result.largest, relative)
        if not relative <= result.tolerance:
            result.fail(path, committed, made)
    else:
        result.num_values += 1
        if committed != made:
            result.largest = math.inf
            result.fail(path, committed, made)


def _largest(value: Any) -> float | None:
    """The largest magnitude in nested lists of fractions, never quite zero; None for anything else."""
    if isinstance(value, float):
        return max(abs(value), SMALLEST)
    if not isinstance(value, list):
        return None
    parts = [_largest(item) for item in value]
    if not parts or None in parts:
        return None
    return max(part for part in parts if part is not None)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def _text(value: Any, indent: str = "") -> str:
    """JSON with a row of numbers on a line."""
    inner = indent + " "
    if isinstance(value, dict) and any(isinstance(item, dict | list) for item in value.values()):
        items = [f"{inner}{json.dumps(key)}: {_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _text(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
