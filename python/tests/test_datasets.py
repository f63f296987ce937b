"""Manifests from folders and from datasets; models from and to the Hub."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import RATE, tone_speech

import sotto
from sotto import _hub


class Decoder:
    """What the package uses of torchcodec's decoder: two channels, as floating-point numbers."""

    def get_all_samples(self) -> types.SimpleNamespace:
        floats = tone_speech("ba").astype("f4") / 32768.0
        return types.SimpleNamespace(data=numpy.stack([floats, floats]), sample_rate=RATE)


def test_dataset_becomes_a_corpus(tmp_path: Path) -> None:
    rows = [
        {"audio": {"array": tone_speech("ab") / 32768.0, "sampling_rate": RATE}, "sentence": "ab", "who": 1},
        {"audio": Decoder(), "sentence": "ba", "who": 2},
    ]
    manifest = sotto.datasets.from_huggingface(rows, tmp_path / "aus dem Netz", speaker="who")
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["ab", "ba"]
    assert [line["duration"] for line in lines] == [1.0, 1.0]
    assert [line["speaker"] for line in lines] == ["1", "2"]
    assert sotto.profile(data=manifest)["utterances"] == 2
    with pytest.raises(sotto.DataError, match="it exists"):
        sotto.datasets.from_huggingface(rows, manifest.parent)
    with pytest.raises(sotto.ConfigError, match="no column 'words'") as caught:
        sotto.datasets.from_huggingface(rows, tmp_path / "other", text="words")
    assert "audio, sentence, who" in caught.value.expected


def test_folder_becomes_a_manifest(tmp_path: Path) -> None:
    manifest = sotto.datasets.from_folder("recordings", tmp_path / "all.jsonl")
    assert sotto.profile(data=manifest)["utterances"] == 2


class FakeHub(types.ModuleType):
    """huggingface_hub, without a network."""

    def __init__(self, cached: set[str]) -> None:
        super().__init__("huggingface_hub")
        self.__spec__ = importlib.util.spec_from_loader("huggingface_hub", None)
        self.cached = cached
        self.downloaded: list[str] = []
        self.uploaded: dict[str, Any] = {}
        self.HfApi = lambda: self

    def snapshot_download(self, name: str, local_files_only: bool = False, **_: Any) -> str:
        if local_files_only and name not in self.cached:
            raise FileNotFoundError(name)
        if name == "me/none":
            raise ConnectionError("404\nmore")
        if not local_files_only:
            self.downloaded.append(name)
        return "."

    def create_repo(self, name: str, private: bool, exist_ok: bool) -> None:
        self.uploaded["name"] = name

    def upload_folder(self, repo_id: str, folder_path: str) -> str:
        self.uploaded["files"] = sorted(path.name for path in Path(folder_path).iterdir())
        return f"https://hub/{repo_id}"


@pytest.fixture()
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub({"me/cached"})
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return fake


def test_models_of_the_hub_are_downloaded_once(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/mine").mkdir(parents=True)
    for model in ("tiny", "runs/mine", "me/cached", "me/new", Path("a/b"), None):
        _hub.fetch_model(model)
    # The second is there for weights in PyTorch's format, as the first brought none.
    assert hub.downloaded == ["me/new", "me/new"]
    with pytest.raises(sotto.DataError, match="downloading me/none") as caught:
        _hub.fetch_model("me/none")
    assert caught.value.found == "404"


def test_run_is_uploaded_with_its_card(hub: FakeHub, trained: sotto.Run) -> None:
    address = sotto.push_to_hub(trained.folder, "me/tones", language="en", license="apache-2.0")
    assert address == "https://hub/me/tones"
    assert {"README.md", "model.safetensors", "vocab.json"} <= set(hub.uploaded["files"])


def test_upload_without_the_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "huggingface_hub" else find(name)
    )
    with pytest.raises(sotto.ConfigError, match="there is no package huggingface_hub"):
        sotto.push_to_hub("trained run", "me/tones")
