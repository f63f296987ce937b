"""Descriptions of this machine, of a model, of a corpus."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from . import _arguments, _hub, _program
from ._arguments import Setting
from ._events import from_json
from .errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Host:
    """Processor and memory of this machine, within the container's limits."""

    operating_system: str
    architecture: str
    cpu: str
    cores: int
    memory_total_bytes: int
    memory_free_bytes: int
    container_limit_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU; None where its driver does not tell."""

    index: int
    name: str | None
    capability: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    processes: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Machine:
    """This machine; `notes` say why something could not be found out."""

    host: Host
    gpus: tuple[Gpu, ...]
    driver_version: str | None
    cuda_version: str | None
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Model:
    """A model's parameters, and the bytes that they take: one row per kind."""

    preset: str
    family: str
    layers: int
    width: int
    vocabulary: int
    parameters: int
    trainable_parameters: int
    bytes: tuple[Mapping[str, Any], ...]


@overload
def profile(*, model: str | Path, vocabulary: int | None = None, **settings: Setting) -> Model: ...


@overload
def profile(*, data: str | Path) -> dict[str, Any]: ...


@overload
def profile() -> Machine: ...


def profile(
    *,
    model: str | Path | None = None,
    data: str | Path | None = None,
    vocabulary: int | None = None,
    **settings: Setting,
) -> Machine | Model | dict[str, Any]:
    """Describes this machine; with `model` a model, without allocating a weight; with `data` a corpus.

    >>> sotto.profile().host.cores > 0
    True
    >>> sotto.profile(model="xls-r-1b").parameters // 10**6
    962
    """
    if model is not None and data is not None:
        raise ConfigError("choosing what to describe", "model and data", "one of them at a time")
    _hub.fetch_model(model)
    words = _arguments.options({"model": model, "data": data, "vocabulary": vocabulary})
    found: dict[str, Any] = _program.run_json(["profile", *words, *_arguments.settings(settings)])
    if data is not None:
        return found
    if model is not None:
        return from_json(Model, {**found, "bytes": tuple(found["bytes"])})
    gpus = tuple(from_json(Gpu, {**gpu, "processes": tuple(gpu["processes"])}) for gpu in found["gpus"])
    whole = {**found, "host": from_json(Host, found["host"]), "gpus": gpus, "notes": tuple(found["notes"])}
    return from_json(Machine, whole)
