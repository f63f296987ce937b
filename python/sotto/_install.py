"""Finds the program of this package and the LibTorch that it runs with, without importing torch.

Also the console script `sotto`: it sets the library path and becomes the program.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

from .errors import ConfigError, Error, InternalError


def version() -> str:
    """Returns the version of this package."""
    return importlib.metadata.version("sotto")


def wanted_torch() -> str:
    """Returns the version of torch that this package depends on."""
    for requirement in importlib.metadata.requires("sotto") or []:
        if match := re.match(r"torch==([0-9.]+)", requirement):
            return match[1]
    raise InternalError("reading what sotto depends on", "no version of torch", "torch==VERSION")


def _package_folder(name: str) -> Path | None:
    """Finds a package on sys.path, or in the site-packages of the Python that a virtual environment is of."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
    for folder in {sysconfig.get_path(key, vars=base) for key in ("purelib", "platlib")}:
        if (Path(folder) / name / "__init__.py").is_file():
            return Path(folder) / name
    return None


def _version_of(folder: Path) -> str:
    """Reads the version that a torch package states about itself."""
    file = folder / "version.py"
    match = (
        re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", file.read_text(), re.M) if file.is_file() else None
    )
    return match[1] if match else "unknown"


def torch_libraries() -> Path:
    """Returns the folder of LibTorch's libraries.

    Raises:
        ConfigError: there is no torch, another version of it, or one without its libraries.
    """
    wanted = wanted_torch()
    install = f"pip install torch=={wanted}"
    folder = _package_folder("torch")
    if folder is None:
        raise ConfigError(
            "finding LibTorch", "there is no package torch", f"torch {wanted}", f"Run: {install}"
        )
    found = _version_of(folder)
    # A local version such as +cpu is the same release.
    if found.split("+")[0] != wanted:
        raise ConfigError(
            "finding LibTorch", f"torch {found} in {folder}", f"torch {wanted}", f"Run: {install}"
        )
    libraries = folder / "lib"
    if not (libraries / "libtorch_cpu.so").is_file():
        raise ConfigError(
            "finding LibTorch", f"no libtorch_cpu.so in {libraries}", "torch for Linux", f"Run: {install}"
        )
    return libraries


def program_file() -> Path:
    """Returns the program: that of this package, or SOTTO_PROGRAM."""
    named = os.environ.get("SOTTO_PROGRAM")
    file = Path(named) if named else Path(__file__).parent / "bin" / "sotto"
    if not os.access(file, os.X_OK) or not file.is_file():
        raise ConfigError(
            "finding the program sotto",
            f"no program at {file}",
            "the file that SOTTO_PROGRAM names" if named else "the program in the package",
            "" if named else "Run: pip install --force-reinstall --no-deps sotto",
        )
    return file


def environment() -> dict[str, str]:
    """Returns the environment in which the program finds LibTorch."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    libraries = str(torch_libraries())
    return {**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{before}" if before else libraries}


@functools.cache
def _program_version(file: Path) -> str:
    asked = subprocess.run(
        [file, "--version"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise InternalError(f"starting {file}", asked.stderr.strip() or f"exit code {asked.returncode}")
    return asked.stdout.split("\n", 1)[0].removeprefix("sotto ").strip()


def checked_program() -> Path:
    """Returns the program, after a check that it is of the version of this package."""
    file = program_file()
    found, wanted = _program_version(file), version()
    # The local version of a wheel, such as +cu130, is not known to the program.
    if found != wanted.split("+")[0]:
        raise ConfigError(
            "starting the program sotto",
            f"{file} is version {found}",
            f"version {wanted}, that of the package",
            "Install both from the same wheel.",
        )
    return file


def main() -> NoReturn:
    """Becomes the program, with the arguments of this process."""
    try:
        program, variables = program_file(), environment()
    except Error as error:
        print(f"sotto: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    os.execve(program, ["sotto", *sys.argv[1:]], variables)
