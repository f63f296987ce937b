"""Runs as a program or a notebook meets them: followed, stopped, killed, resumed, found again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL

import sotto

# Long enough to be stopped or killed, with checkpoints from the start.
LONG: dict[str, Any] = {**SMALL, "epochs": 2000, "checkpoint_every": 5}


def start(folder: str, **more: Any) -> sotto.Run:
    given = {"train": "train.jsonl", "memory": "200MiB", **SMALL, **more}
    return sotto.train(folder=folder, **given)


def test_steps_are_those_of_metrics(trained: sotto.Run) -> None:
    steps = list(trained)
    assert [step.step for step in steps] == list(range(1, 21))
    lines = (trained.folder / "metrics.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines if '"kind":"step"' in line]
    assert [step.loss for step in steps] == [record["loss"] for record in recorded]
    assert [step.ends_epoch for step in steps] == [False, False, False, True] * 5
    summary = trained.wait()
    assert summary.steps == 20
    assert summary.loss == steps[-1].loss
    assert not summary.stopped
    assert trained.state == "finished"
    assert trained.warnings() == [event.text for event in trained.events() if isinstance(event, sotto.Warned)]
    events = list(trained.events())
    evaluations = [event for event in events if isinstance(event, sotto.Evaluation)]
    assert len(evaluations) == 5
    assert summary.wer == evaluations[-1].wer
    assert any(isinstance(event, sotto.Checkpoint) and Path(event.path).is_dir() for event in events)


def test_memory_is_that_of_the_steps(trained: sotto.Run) -> None:
    memory = trained.memory()
    assert memory is not None
    assert memory.step == 20
    assert 0 < memory.current_bytes < memory.peak_bytes <= memory.reserved_bytes <= memory.budget_bytes
    assert memory.budget_bytes == 200 * 2**20


def test_report_is_a_page(trained: sotto.Run) -> None:
    page = trained.report()
    assert page.path == trained.folder / "report.html"
    assert "<svg" in page.path.read_text()
    assert "<iframe" in page._repr_html_()


def test_epochs_and_callback() -> None:
    seen: list[int] = []
    run = start("epochs", dev="dev.jsonl", epochs=2, on_step=lambda step: seen.append(step.step))
    epochs = []
    while (epoch := run.train_epoch()) is not None:
        epochs.append(epoch)
    assert [epoch.steps for epoch in epochs] == [4, 4]
    assert [epoch.epoch for epoch in epochs] == [0, 1]
    assert all(epoch.evaluation is not None and epoch.loss > 0 for epoch in epochs)
    assert seen == list(range(1, 9))


def test_stop_saves_and_resume_continues() -> None:
    run = start("stopped", **LONG)
    for step in run:
        if step.step == 7:
            run.stop()
    summary = run.wait()
    assert summary.stopped
    assert (run.folder / "checkpoints" / f"step-{summary.steps}").is_dir()
    again = run.resume(max_steps=summary.steps + 3)
    assert [step.step for step in again] == [summary.steps + number for number in (1, 2, 3)]


def test_killed_run_says_so_and_resumes_to_its_end() -> None:
    run = start("killed", **LONG)
    with pytest.raises(sotto.ProcessKilled) as caught:
        for step in run:
            if step.step == 12:
                assert run.pid is not None
                os.kill(run.pid, signal.SIGKILL)
    assert "signal 9 (SIGKILL) after step" in caught.value.found
    assert "resume()" in caught.value.hint
    assert run.state == "killed"
    again = run.resume(max_steps=20)
    steps = [step.step for step in again]
    assert steps[-1] == 20
    assert steps[0] in (6, 11, 16)
    assert again.wait().steps == 20
    assert again.state == "finished"
    assert sotto.find_run("killed").wait().steps == 20


def test_killed_before_a_checkpoint_starts_again() -> None:
    run = start("early", **{**LONG, "checkpoint_every": 100000})
    with pytest.raises(sotto.ProcessKilled):
        for _ in run:
            assert run.pid is not None
            os.kill(run.pid, signal.SIGKILL)
    again = sotto.find_run("early").resume(max_steps=2)
    assert [step.step for step in again] == [1, 2]


def test_run_outlives_the_program_that_started_it() -> None:
    code = (
        "import sotto, os\n"
        f"run = sotto.train(folder='left', train='train.jsonl', memory='200MiB', **{LONG!r})\n"
        "next(iter(run))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    run = sotto.find_run("left")
    assert run.state == "running"
    # A session of its own: signals of the terminal, and its end, do not reach it.
    assert run.pid is not None
    assert os.getsid(run.pid) == run.pid
    with pytest.raises(sotto.DataError, match="the run is in progress"):
        run.resume()
    with pytest.raises(sotto.DataError, match="another process is writing it"):
        start("left", **LONG).wait()
    steps = iter(run)
    first = next(steps)
    run.stop()
    last = [step.step for step in steps][-1]
    assert run.wait().steps == last > first.step
    assert run.state == "finished"


def test_errors_are_exceptions_with_their_parts() -> None:
    with pytest.raises(sotto.DataError) as caught:
        start("no data", train="nowhere.jsonl").wait()
    error = caught.value
    assert "nowhere.jsonl" in error.attempted
    assert error.found
    assert error.exit_code == 2
    assert sotto.find_run("no data").state == "failed"
    with pytest.raises(sotto.Infeasible, match="MiB|KiB"):
        start("no memory", memory="100KiB").wait()
    with pytest.raises(sotto.DataError, match=r"no events\.jsonl"):
        sotto.find_run("nothing")


def test_run_of_a_plan_in_a_numbered_folder() -> None:
    plan = sotto.plan(memory="200MiB", train="train.jsonl", **SMALL)
    runs = [sotto.train(plan, max_steps=2) for _ in range(2)]
    assert [str(run.folder) for run in runs] == ["runs/tiny-1", "runs/tiny-2"]
    assert [run.wait().steps for run in runs] == [2, 2]


def test_iterator_ends_soon_after_the_run() -> None:
    run = start("soon", max_steps=3)
    end = run.wait()
    assert time.time() - end.time < 5.0
