"""Runs: each has a process of its own, which this module starts, follows, stops and finds again."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from . import _arguments, _events, _hub, _program
from ._arguments import Setting
from ._events import Evaluation, Event, Failed, Finished, Planned, Started, Step, Warned
from ._install import checked_program, environment
from ._plan import Plan, name_of
from ._progress import Progress
from .errors import DataError, Error, ProcessKilled, error_from, killed_by

_OUTPUT = "output.txt"
# Processes that this one has started, by folder and number: kept to learn how they ended.
_children: dict[tuple[Path, int], subprocess.Popen[bytes]] = {}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a run: after the last step, the largest peak so far, and the extent reserved for it."""

    step: int
    current_bytes: int
    peak_bytes: int
    reserved_bytes: int
    budget_bytes: int


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The steps of one epoch that this process ran; `loss` is their mean."""

    epoch: int
    steps: int
    loss: float
    audio_seconds: float
    seconds: float
    evaluation: Evaluation | None


@dataclasses.dataclass(frozen=True)
class Page:
    """A page that `sotto report` wrote."""

    path: Path

    def _repr_html_(self) -> str:
        code = base64.b64encode(self.path.read_bytes()).decode()
        return f'<iframe src="data:text/html;base64,{code}" width="100%" height="600"></iframe>'


class Run:
    """A run in its folder. `sotto.train` starts one, `sotto.find_run` finds one.

    The run goes on in a process of its own. Interrupting a cell or closing a notebook does not end it;
    `stop()` does.

    Example::

        run = sotto.train("digits.yaml", folder="runs/digits")
        for step in run:
            print(step.step, step.loss)
    """

    def __init__(self, folder: Path, position: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.folder = folder
        self._position = position
        self._process = process
        self._on_step: Callable[[Step], object] | None = None
        self._progress: bool | None = False
        self._command: tuple[str, ...] = ()
        self._epochs: Iterator[Event] | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.state})"

    @property
    def _file(self) -> Path:
        return self.folder / _events.FILE

    def _is_over(self) -> bool:
        if self._process is not None:
            return self._process.poll() is not None
        return not _events.is_written(self._file, self.pid)

    def _told(self) -> list[Event]:
        """Returns what the process has told so far."""
        return list(_events.follow(self._file, self._position, lambda: True))

    @property
    def state(self) -> str:
        """One of "running", "finished", "failed" and "killed"."""
        is_over = self._is_over()
        told = self._told()
        if not is_over:
            return "running"
        ends = {Finished: "finished", Failed: "failed"}
        return next((ends[type(event)] for event in reversed(told) if type(event) in ends), "killed")

    @property
    def pid(self) -> int | None:
        """The number of the run's process; None before it has told it."""
        started = next((event for event in self._told() if isinstance(event, Started)), None)
        return started.pid if started else None

    def events(self) -> Iterator[Event]:
        """Yields the events of the process from its start on, as they happen, until it ends.

        Raises:
            ConfigError, DataError, OutOfMemory, InternalError: the error that ended the run.
            ProcessKilled: the process was ended from outside.
        """
        last: Event | None = None
        for event in _events.follow(self._file, self._position, self._is_over):
            last = event
            yield event
            if isinstance(event, Failed):
                self._wait_for_process()
                raise error_from(dataclasses.asdict(event))
        if not isinstance(last, Finished):
            raise self._untold_end()

    def __iter__(self) -> Iterator[Step]:
        """Yields the steps of the process from its first one on, as they happen."""
        progress = Progress(self._progress)
        try:
            for event in self.events():
                if isinstance(event, Planned):
                    progress.begin(event.total_steps)
                elif isinstance(event, Step):
                    # The line is empty while the program may print something of its own.
                    progress.clear()
                    if self._on_step is not None:
                        self._on_step(event)
                    yield event
                    progress.show(event)
        finally:
            progress.end()

    def wait(self) -> Finished:
        """Waits for the end of the run and returns its summary; raises the error that ended it."""
        for _ in self:
            pass
        self._wait_for_process()
        return next(event for event in reversed(self._told()) if isinstance(event, Finished))

    def train_epoch(self) -> Epoch | None:
        """Waits for the end of the next epoch of this process; returns None after the last one.

        The run goes on meanwhile: a program that wants to look at an epoch does not hold up the next.
        """
        if self._epochs is None:
            self._epochs = self.events()
        steps: list[Step] = []
        evaluation: Evaluation | None = None
        for event in self._epochs:
            if isinstance(event, Step) and steps and steps[-1].ends_epoch:
                self._epochs = itertools.chain([event], self._epochs)
                break
            if isinstance(event, Step):
                steps.append(event)
                if self._on_step is not None:
                    self._on_step(event)
            elif isinstance(event, Evaluation):
                evaluation = event
        if not steps:
            return None
        return Epoch(
            epoch=steps[-1].epoch,
            steps=len(steps),
            loss=_events.mean([step.loss for step in steps]),
            audio_seconds=sum(step.audio_seconds for step in steps),
            seconds=sum(step.seconds for step in steps),
            evaluation=evaluation,
        )

    def memory(self) -> Memory | None:
        """Returns the memory of the run as its last step measured it; None before the first step."""
        told = self._told()
        steps = [event for event in told if isinstance(event, Step)]
        plans = [event for event in told if isinstance(event, Planned)]
        if not steps or not plans:
            return None
        return Memory(
            step=steps[-1].step,
            current_bytes=steps[-1].memory_bytes,
            peak_bytes=max(step.peak_bytes for step in steps),
            reserved_bytes=max(step.reserved_bytes for step in steps),
            budget_bytes=plans[-1].budget_bytes,
        )

    def warnings(self) -> list[str]:
        """Returns the warnings of the process so far."""
        return [event.text for event in self._told() if isinstance(event, Warned)]

    def stop(self) -> None:
        """Asks the run to save and end, as Ctrl-C does; `wait()` then returns its summary."""
        pid = self._process.pid if self._process is not None else self.pid
        if pid is not None and not self._is_over():
            os.kill(pid, signal.SIGINT)

    def resume(
        self,
        *,
        max_steps: int | None = None,
        memory: str | None = None,
        device: str | None = None,
        on_step: Callable[[Step], object] | None = None,
        progress: bool | None = None,
    ) -> Run:
        """Continues the run from its latest checkpoint, with its configuration; without one from the start.

        Raises:
            DataError: the run is still in progress.
        """
        if not self._is_over():
            raise DataError(
                f"resuming {self.folder}",
                "the run is in progress",
                "a run that has ended",
                "Wait for it, or stop it.",
            )
        given = {"max_steps": max_steps, "memory": memory, "device": device}
        words = ["--resume", *_arguments.options(given)]
        if not any((self.folder / "checkpoints").glob("step-*")):
            words += self._command or self._written_config()
        return _start(self.folder, words, _Watching(on_step or self._on_step, progress))

    def _written_config(self) -> list[str]:
        """Returns the option for the configuration that the run wrote, copied: it writes that file again."""
        written, copy = self.folder / "config.yaml", self.folder / "given_config.yaml"
        if not written.exists():
            return []
        copy.write_bytes(written.read_bytes())
        return ["--config", str(copy)]

    def report(self) -> Page:
        """Writes report.html, a page with the charts and tables of the run, and returns it."""
        path = self.folder / "report.html"
        _program.run(["report", str(self.folder), "--out", str(path)])
        return Page(path)

    def _wait_for_process(self) -> None:
        if self._process is not None:
            self._process.wait()
        while not self._is_over():
            time.sleep(0.01)

    def _untold_end(self) -> Error:
        """Returns the error for a process that is gone and has not said why."""
        told = self._told()
        steps = [event.step for event in told if isinstance(event, Step)]
        code = self._process.wait() if self._process is not None else None
        attempted = f"training in {self.folder}"
        if code is not None and code >= 0:
            output = self.folder / _OUTPUT
            text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            return _program.failure_of(attempted, code, text)
        how = f"was ended by {killed_by(-code)}" if code is not None else "is gone without a word"
        where = f"after step {steps[-1]}" if steps else "before its first step"
        return ProcessKilled(
            attempted,
            f"process {self.pid} {how} {where}",
            "a run that ends by itself",
            "resume() continues from the latest checkpoint. Linux kills processes when memory is short.",
        )


@dataclasses.dataclass(frozen=True)
class _Watching:
    """How a program watches a run that it starts."""

    on_step: Callable[[Step], object] | None
    progress: bool | None


def _start(folder: Path, words: list[str] | tuple[str, ...], watching: _Watching) -> Run:
    file = folder / _events.FILE
    position = _events.end_of_lines(file)
    command = [str(checked_program()), "train", *words, "--json-errors"]
    command += ["--out", str(folder), "--json-events", str(file)]
    with (folder / _OUTPUT).open("wb") as output:
        # A session of its own: neither Ctrl-C in this terminal nor the end of this process ends the run.
        process = subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[folder.resolve(), process.pid] = process
    run = Run(folder, position, process)
    run._on_step, run._progress = watching.on_step, watching.progress
    run._command = tuple(word for word in words if word != "--resume")
    return run


def _claim_folder(name: str) -> Path:
    """Creates runs/NAME-1, runs/NAME-2 and so on: the first that does not exist."""
    for number in itertools.count(1):
        folder = Path("runs") / f"{name}-{number}"
        folder.parent.mkdir(exist_ok=True)
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable")


def _config_words(config: object, folder: Path) -> list[str]:
    """Returns the option for a plan, which is written into the folder, for a file, or for settings."""
    if config is None:
        return []
    if isinstance(config, Plan):
        return ["--plan", str(config.save(folder / "given_plan.yaml"))]
    if isinstance(config, Mapping):
        return _arguments.settings(config)
    return ["--config", _arguments.text_of("config", config, "a plan, a path, or a dictionary of settings")]


def train(
    config: Plan | str | Path | Mapping[str, Setting] | None = None,
    *,
    folder: str | Path | None = None,
    model: str | Path | Mapping[str, Setting] | None = None,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    memory: str | None = None,
    host_memory: str | None = None,
    device: str | None = None,
    pretend_device: str | None = None,
    init_from: str | Path | None = None,
    max_steps: int | None = None,
    on_step: Callable[[Step], object] | None = None,
    progress: bool | None = None,
    **settings: Setting,
) -> Run:
    """Starts a run and returns it at once; iterate over it, or wait for it.

    Args:
        config: a plan of `sotto.plan`, a configuration in YAML or JSON, or a dictionary of settings.
        folder: the folder of the run; without it runs/NAME-1, runs/NAME-2 and so on.
        model, train, dev, memory, host_memory, device, init_from: as in `sotto.plan`.
        pretend_device: a card whose memory and features are simulated on the GPU.
        max_steps: number of updates.
        on_step: called after every step while somebody iterates or waits.
        progress: whether to show a progress bar; None: in a terminal and in a notebook.
        **settings: settings of the configuration.

    Raises:
        ConfigError: an argument is of a wrong type. Errors of the run itself are raised where it is followed.

    >>> run = sotto.train(model="tiny", train="train.jsonl", memory="300MiB", max_steps=2, folder="run")
    >>> [step.step for step in run]
    [1, 2]
    >>> run.wait().steps
    2
    """
    chosen, more_settings = _arguments.with_model(model, settings)
    given = {
        "model": chosen,
        "train": train,
        "dev": dev,
        "memory": memory,
        "host_memory": host_memory,
        "device": device,
        "pretend_device": pretend_device,
        "init_from": init_from,
        "max_steps": max_steps,
    }
    words = [*_arguments.options(given), *_arguments.settings(more_settings)]
    if not isinstance(config, Plan):
        _config_words(config, Path())  # named before a folder is created
    path = Path(_arguments.text_of("folder", folder)) if folder is not None else None
    checked_program()
    _hub.fetch_model(chosen)
    if path is None:
        path = _claim_folder(str(settings.get("name") or _name_of(model, config)))
    path.mkdir(parents=True, exist_ok=True)
    return _start(path, [*_config_words(config, path), *words], _Watching(on_step, progress))


def _name_of(model: object, config: object) -> str:
    if isinstance(config, Plan):
        return config.name
    return name_of(model, None if isinstance(config, Mapping) else config)


def find_run(folder: str | Path) -> Run:
    """Finds a run by its folder, in progress or ended: for example after a notebook was restarted.

    Raises:
        DataError: no run was started there with --json-events, which `sotto.train` does.

    >>> run = sotto.train(model="tiny", train="train.jsonl", memory="300MiB", max_steps=2, folder="found")
    >>> run.wait().steps
    2
    >>> sotto.find_run("found").state
    'finished'
    """
    path = Path(_arguments.text_of("folder", folder))
    position = _events.last_start(path / _events.FILE)
    if position is None:
        raise DataError(
            f"finding the run in {path}",
            f"no {_events.FILE} there",
            "the folder of a run that sotto.train started",
        )
    run = Run(path, position)
    run._process = _children.get((path.resolve(), run.pid or 0))
    return run
