"""Models of the Hugging Face Hub: downloaded into its cache, where the program finds them; uploaded."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path

from . import _arguments, _program
from .errors import ConfigError, DataError

_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Configuration, vocabulary and weights, in one format of those that the program reads.
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def fetch_model(model: object) -> None:
    """Downloads a model that is the id of one on the Hub and neither a path nor in the local cache.

    Without huggingface_hub it does nothing: the program then says what is missing.
    """
    if not isinstance(model, str) or not _ID.fullmatch(model) or Path(model).exists():
        return
    if importlib.util.find_spec("huggingface_hub") is None:
        return
    import huggingface_hub

    try:
        huggingface_hub.snapshot_download(model, local_files_only=True, allow_patterns=_FILES)
        return
    except Exception:  # not in the cache: errors differ between versions of huggingface_hub
        pass
    try:
        folder = Path(huggingface_hub.snapshot_download(model, allow_patterns=_FILES))
        if not any(folder.glob("*.safetensors")):
            huggingface_hub.snapshot_download(model, allow_patterns=["pytorch_model*"])
    except Exception as error:
        raise DataError(
            f"downloading {model} from the Hugging Face Hub",
            str(error).split("\n")[0],
            "the id of a model, or a folder of that name",
        ) from error


def push_to_hub(
    model: str | Path,
    repository: str,
    *,
    language: str | None = None,
    license: str | None = None,
    private: bool = False,
) -> str:
    """Uploads a run or a checkpoint to the Hugging Face Hub, with its model card; returns the address.

    Example::

        sotto.push_to_hub("runs/first", "me/first", language="en", license="apache-2.0")

    Raises:
        ConfigError: huggingface_hub is not installed, or `repository` is not ORG/NAME.
    """
    if not isinstance(repository, str) or not _ID.fullmatch(repository):
        raise _arguments.refuse("repository", repository, "ORG/NAME")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise ConfigError(
            f"uploading to {repository}",
            "there is no package huggingface_hub",
            hint="Run: pip install huggingface_hub",
        )
    import huggingface_hub

    with tempfile.TemporaryDirectory(prefix="sotto-") as scratch:
        folder = str(Path(scratch) / repository.split("/")[1])
        words = ["export", "--model", _arguments.text_of("model", model), "--out", folder]
        for name, value in (("--language", language), ("--license", license)):
            if value is not None:
                words += [name, _arguments.text_of(name.strip("-"), value)]
        _program.run(words)
        api = huggingface_hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository, folder_path=folder))
