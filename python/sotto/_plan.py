"""Plans: from a memory budget to the settings of a run, without running it."""

from __future__ import annotations

import base64
import dataclasses
import html
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _arguments, _hub, _program
from ._arguments import Setting
from ._events import from_json


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Settings for a budget, with the memory and the time that they take."""

    numerics: str
    state: str
    tier: str
    max_frames: int
    micro_batches: int
    total_bytes: int
    host_bytes: int
    peak_bytes: Mapping[str, int]
    peak_moment: str
    step_seconds: float
    speed: float
    run_seconds: float


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why a setting has its value."""

    key: str
    value: str
    why: str


@dataclasses.dataclass(frozen=True)
class Outlook:
    """The plan for another budget; `best` is None where the run does not fit into it."""

    budget_bytes: int
    best: Candidate | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """A complete configuration of a run, and what it takes. `sotto.train` runs it.

    `yaml` is the text of plan.yaml, with a reason at every line that was decided; `page` that of plan.html.
    """

    device: str
    budget_bytes: int
    library_bytes: int
    data: str
    best: Candidate
    others: tuple[Candidate, ...]
    outlook: tuple[Outlook, ...]
    reasons: tuple[Reason, ...]
    yaml: str
    page: str = dataclasses.field(repr=False)
    name: str = "run"
    _command: tuple[str, ...] = dataclasses.field(default=(), repr=False)

    def save(self, path: str | Path) -> Path:
        """Writes plan.yaml, which `sotto train --plan` accepts."""
        file = Path(path)
        file.write_text(self.yaml, encoding="utf-8")
        return file

    def to_training_arguments(self) -> dict[str, Any]:
        """Returns the arguments of transformers' TrainingArguments that are closest to this plan.

        Example::

            TrainingArguments(**plan.to_training_arguments())

        The memory that they take is estimated, and kept within the budget.
        """
        with tempfile.TemporaryDirectory(prefix="sotto-") as folder:
            words = [*self._command, "--for", "transformers", "--out", str(Path(folder) / self.name)]
            arguments: dict[str, Any] = _program.run_json(words)["training_arguments"]
        return arguments

    def curve(self) -> str:
        """Returns the chart of speed against memory as an SVG file; empty where there is none."""
        figure = re.search(r"<strong>Speed against memory</strong>.*?(<svg.*?</svg>)", self.page, re.S)
        if figure is None:
            return ""
        styles = "".join(re.findall(r"<style>(.*?)</style>", self.page, re.S))
        svg = figure[1]
        if "xmlns=" not in svg[: svg.index(">")]:
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        start = svg.index(">") + 1
        return f"{svg[:start]}<style>{styles}</style>{svg[start:]}"

    def _repr_html_(self) -> str:
        """Shows the plan in a notebook: memory, decisions, and the curve."""
        rows = [(part, _size(size)) for part, size in self.best.peak_bytes.items() if size > 0]
        rows.append((f"total, in {self.best.peak_moment}", _size(self.best.total_bytes)))
        rows.append(("budget", _size(self.budget_bytes)))
        text = f"<p>{html.escape(self.device)}: {self.best.numerics}, state {self.best.state}, "
        text += f"tier {html.escape(self.best.tier)}, {self.best.micro_batches} micro-batches per step, "
        text += f"{self.best.step_seconds:.3g} s per step</p>"
        text += _table(("memory", "at the peak"), rows)
        text += _table(("decided", "value", "because"), [(r.key, r.value, r.why) for r in self.reasons])
        curve = self.curve()
        if curve:
            code = base64.b64encode(curve.encode()).decode()
            text += f'<img alt="Speed against memory" src="data:image/svg+xml;base64,{code}"/>'
        return text


def _size(size: int) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def name_of(model: object, config: object) -> str:
    """Returns the name of a run: the last part of its model's or its configuration's name."""
    preset = model.get("preset") if isinstance(model, Mapping) else model
    for given in (preset, config):
        if given is not None:
            return re.sub(r"[^\w.-]", "_", Path(str(given)).stem) or "run"
    return "run"


def plan(
    model: str | Path | Mapping[str, Setting] | None = None,
    *,
    config: str | Path | None = None,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    memory: str | None = None,
    host_memory: str | None = None,
    device: str | None = None,
    init_from: str | Path | None = None,
    price: float | None = None,
    **settings: Setting,
) -> Plan:
    """Finds the settings of a run for a memory budget, for this device or for a card that is not here.

    Args:
        model: a preset, a Hugging Face folder, an id on the Hub, a .nemo archive, or settings of a model as a
            dictionary: {"preset": "tiny", "width": 32}.
        config: a configuration in YAML or JSON.
        train: manifest or text to train on; without it usual data are assumed.
        dev: manifest or text to evaluate on.
        memory: the budget: "8GiB", "12GB", "90%" or "auto".
        host_memory: additional host memory of a GPU run.
        device: "cpu", "cuda", "cuda:N", or a card by its name: "rtx4070".
        init_from: initial weights.
        price: price of one hour on the device.
        **settings: settings of the configuration: effective_batch=32, optimizer={"schedule": {"rate": 1e-3}}.

    Raises:
        Infeasible: the budget is too small; the message names one that suffices.
        ConfigError, DataError: the settings or the data are wrong.

    >>> plan = sotto.plan(model="tiny", memory="300MiB", train="train.jsonl", effective_batch=4)
    >>> plan.best.total_bytes <= plan.budget_bytes
    True
    """
    chosen, more_settings = _arguments.with_model(model, settings)
    given = {
        "model": chosen,
        "train": train,
        "dev": dev,
        "memory": memory,
        "host_memory": host_memory,
        "device": device,
        "init_from": init_from,
    }
    words = ["plan", *_arguments.options(given)]
    if config is not None:
        words += ["--config", _arguments.text_of("config", config)]
    words += _arguments.settings(more_settings)
    _hub.fetch_model(chosen)
    name = str(settings.get("name") or name_of(model, config))
    with tempfile.TemporaryDirectory(prefix="sotto-") as scratch:
        folder = Path(scratch) / name
        more = _arguments.options({"price": price})
        found = _program.run_json([*words, *more, "--out", str(folder)])
        yaml = (folder / "plan.yaml").read_text(encoding="utf-8")
        page = (folder / "plan.html").read_text(encoding="utf-8")
    return Plan(
        device=found["device"],
        budget_bytes=found["budget_bytes"],
        library_bytes=found["constant_bytes"],
        data=found["data"],
        best=from_json(Candidate, found["best"]),
        others=tuple(from_json(Candidate, other) for other in found.get("others", [])),
        outlook=tuple(
            Outlook(
                budget_bytes=entry["budget_bytes"],
                best=from_json(Candidate, entry["best"]) if "best" in entry else None,
            )
            for entry in found["outlook"]
        ),
        reasons=tuple(from_json(Reason, reason) for reason in found["reasons"]),
        yaml=yaml,
        page=page,
        name=name,
        _command=tuple(words),
    )
