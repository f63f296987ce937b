"""How the program and LibTorch are found, and what the wheel holds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import sotto
from sotto import _install

SCRIPT = Path(sys.executable).parent / "sotto"


def call_script(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def fake_torch(folder: Path, version: str) -> Path:
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("raise ImportError('torch must not be imported')\n")
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    return folder


def test_script_is_the_program() -> None:
    shown = call_script("--version")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == f"sotto {sotto.__version__.split('+')[0]}"
    assert f"torch {_install.wanted_torch()}" in lines
    # Its exit code and its error are those of the program.
    refused = call_script("profile", "--model", "nothing")
    assert refused.returncode == 2
    assert refused.stderr.startswith("sotto: ")


def test_torch_is_not_imported() -> None:
    code = "import sotto, sys; sotto.profile(); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_torch_is_refused(tmp_path: Path) -> None:
    refused = call_script("--version", PYTHONPATH=str(fake_torch(tmp_path, "2.10.0")))
    assert refused.returncode == 2
    assert "torch 2.10.0 in " in refused.stderr
    assert f"Run: pip install torch=={_install.wanted_torch()}" in refused.stderr


def test_torch_without_libraries_is_refused(tmp_path: Path) -> None:
    path = str(fake_torch(tmp_path, _install.wanted_torch() + "+cpu"))
    refused = call_script("--version", PYTHONPATH=path)
    assert refused.returncode == 2
    assert "no libtorch_cpu.so in " in refused.stderr


def test_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "base_prefix", "/nowhere")
    with pytest.raises(sotto.ConfigError, match="there is no package torch") as caught:
        sotto.profile()
    assert caught.value.hint == f"Run: pip install torch=={_install.wanted_torch()}"


def test_torch_of_the_base_python_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)}))
    torch = fake_torch(purelib, _install.wanted_torch()) / "torch"
    (torch / "lib" / "libtorch_cpu.so").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert _install.torch_libraries() == torch / "lib"


def test_program_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "sotto"
    other.write_text("#!/bin/sh\necho sotto 9.9.9\n")
    other.chmod(0o755)
    monkeypatch.setenv("SOTTO_PROGRAM", str(other))
    with pytest.raises(sotto.ConfigError, match=r"is version 9\.9\.9"):
        sotto.profile()
    monkeypatch.setenv("SOTTO_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(sotto.ConfigError, match="no program at"):
        sotto.profile()


def test_wheel_has_no_libtorch_and_the_licence_of_what_it_has() -> None:
    files = [str(file) for file in importlib.metadata.files("sotto") or []]
    libraries = [Path(file).name for file in files if file.startswith("sotto.libs/")]
    assert any(name.startswith("libsndfile") for name in libraries)
    for outside in ("libtorch", "libc10", "libgomp", "libcud"):
        assert not any(name.startswith(outside) for name in libraries), outside
    licences = [file for file in files if ".dist-info/licenses/" in file]
    assert any(file.endswith("/LICENSE") for file in licences)
    assert (
        sum(file.endswith(".txt") for file in licences) >= len({name.split("_")[0] for name in libraries}) - 1
    )
    assert "sotto/py.typed" in files
