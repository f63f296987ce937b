"""Plans and descriptions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sotto


def test_profile_describes_machine_model_and_corpus() -> None:
    machine = sotto.profile()
    assert machine.host.cores > 0
    assert 0 < machine.host.memory_free_bytes <= machine.host.memory_total_bytes
    model = sotto.profile(model="xls-r-1b")
    assert model.layers == 48
    assert model.parameters > 900_000_000
    assert sotto.profile(data="train.jsonl")["utterances"] == 8


def test_plan_has_typed_fields_text_and_curve() -> None:
    plan = sotto.plan(model="tiny", memory="300MiB", train="train.jsonl", effective_batch=4)
    assert plan.budget_bytes == 300 * 2**20
    assert 0 < plan.best.total_bytes <= plan.budget_bytes
    assert plan.best.peak_bytes["weights"] > 0
    assert {reason.key for reason in plan.reasons} >= {"tier"}
    assert re.search(r'^effective_batch: "?4"?$', plan.yaml, re.M)
    assert len(plan.outlook) >= 2
    shown = plan._repr_html_()
    assert "<table>" in shown
    assert "data:image/svg+xml;base64," in shown
    assert plan.curve().startswith("<svg")
    assert "Speed against memory" not in plan.curve()[:20]


def test_plan_for_a_card_that_is_not_here() -> None:
    plan = sotto.plan(model="xls-r-300m", memory="8GiB", device="rtx4070")
    assert "4070" in plan.device
    arguments = plan.to_training_arguments()
    assert arguments["per_device_train_batch_size"] >= 1


def test_budget_that_is_too_small_names_one_that_suffices() -> None:
    with pytest.raises(sotto.Infeasible) as caught:
        sotto.plan(model="tiny", memory="1MiB", train="train.jsonl")
    error = caught.value
    assert isinstance(error, sotto.ConfigError)
    assert error.attempted and error.found and error.expected
    assert str(error).startswith(f"{error.attempted}: {error.found}.")


def test_plan_of_missing_data_is_refused() -> None:
    with pytest.raises(sotto.DataError, match=r"nowhere\.jsonl"):
        sotto.plan(model="tiny", memory="300MiB", train="nowhere.jsonl")
    with pytest.raises(sotto.ConfigError, match="epohcs") as caught:
        sotto.plan(model="tiny", memory="300MiB", epohcs=3)
    assert "epochs" in caught.value.hint


def test_plan_is_saved_as_a_file_that_a_run_accepts(tmp_path: Path) -> None:
    plan = sotto.plan(model="tiny", memory="300MiB", train="train.jsonl", effective_batch=4)
    file = plan.save(tmp_path / "plan.yaml")
    assert sotto.plan(config=file).best.numerics == plan.best.numerics
