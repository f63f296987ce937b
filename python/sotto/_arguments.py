"""From Python's arguments to the command line. Wrong types are named before a process starts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import ConfigError

# A setting of the configuration: effective_batch=32, or optimizer={"schedule": {"rate": 1e-3}}.
Setting = Any


def refuse(name: str, value: object, expected: str) -> ConfigError:
    """Returns the error for an argument of a wrong type."""
    return ConfigError("reading arguments", f"{name}={value!r}, a {type(value).__name__}", expected)


def text_of(name: str, value: object, expected: str = "text or a path") -> str:
    """Returns text or a path as text."""
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text:
            return text
    raise refuse(name, value, expected)


def count_of(name: str, value: object) -> str:
    """Returns a positive whole number as text."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    raise refuse(name, value, "a positive whole number")


def number_of(name: str, value: object) -> str:
    """Returns a finite number as text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return repr(value)
    raise refuse(name, value, "a number")


def size_of(name: str, value: object) -> str:
    """Returns a memory size as text: "8GiB"; a number has no unit and is refused."""
    return text_of(name, value, "a size with its unit, such as '8GiB' or '90%'")


# Arguments that have an option of their own, and how they are read.
_READERS = {
    "model": text_of,
    "init_from": text_of,
    "train": text_of,
    "dev": text_of,
    "data": text_of,
    "lm": text_of,
    "device": text_of,
    "pretend_device": text_of,
    "memory": size_of,
    "host_memory": size_of,
    "max_steps": count_of,
    "beam": count_of,
    "vocabulary": count_of,
    "price": number_of,
    "window": number_of,
    "overlap": number_of,
    "lm_weight": number_of,
    "ctc_weight": number_of,
}


def options(given: Mapping[str, object]) -> list[str]:
    """Returns the options for arguments that were given, which are those that are not None."""
    words: list[str] = []
    for name, value in given.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), _READERS[name](name, value)]
    return words


def _plain(name: str, value: Setting) -> Setting:
    """Returns a value that JSON can represent."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", item) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _plain(name, value.item())  # a number of numpy or torch
    raise refuse(name, value, "a setting: text, a number, True or False, a list or a dictionary of them")


def _leaves(name: str, value: Setting) -> Iterator[tuple[str, Setting]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(f"{name}.{key}", item)
    else:
        yield name, _plain(name, value)


def with_model(model: object, given: Mapping[str, Setting]) -> tuple[object, dict[str, Setting]]:
    """Moves a model that is a dictionary of settings to the settings."""
    if isinstance(model, Mapping):
        return None, {**given, "model": model}
    return model, dict(given)


def settings(given: Mapping[str, Setting]) -> list[str]:
    """Returns --set for every setting; the settings of a dictionary are set one by one.

    >>> settings({"epochs": 2, "model": {"width": 32}})
    ['--set', 'epochs=2', '--set', 'model.width=32']
    """
    words: list[str] = []
    for name, value in given.items():
        for key, leaf in _leaves(name, value):
            words += ["--set", f"{key}={json.dumps(leaf, ensure_ascii=False)}"]
    return words
