"""Fixtures that are folders: safetensors, JSON, pickled weights and archives, compared file by file.

A script make_NAME.py of such a fixture has a function make_folder(folder) that writes it. Values are computed
in double precision and stored in fp32, so that two computations differ by the last rounding at most; a script
whose values are not has a TOLERANCE of its own.
"""

from collections.abc import Mapping
from pathlib import Path

import fixture
import torch
from nemo_names import read_archive
from safetensors.torch import load_file, save_file
from torch import Tensor

# Relative to the largest of its tensor: one unit in the last place of fp32.
TOLERANCE = 2.0**-22


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fractions are rounded to fp32."""
    plain = {name: value.detach().contiguous() for name, value in tensors.items()}
    save_file({name: v.float() if v.is_floating_point() else v for name, v in plain.items()}, path)


def compare(committed: Path, made: Path, tolerance: float = TOLERANCE) -> fixture.Comparison:
    """Every file of both folders; paths in what is found start with the file's."""
    result = fixture.Comparison()
    before, now = _files(committed), _files(made)
    if before != now:
        result.fail("(files)", sorted(before - now), sorted(now - before))
    for name in sorted(before & now):
        _join(result, name, _compare_file(committed / name, made / name, tolerance))
    return result


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _compare_file(committed: Path, made: Path, tolerance: float) -> fixture.Comparison:
    if committed.suffix == ".json":
        # Fractions of JSON files are double, unless what the script computes is not.
        own = fixture.TOLERANCE if tolerance == TOLERANCE else tolerance
        return fixture.compare(fixture.read(committed), fixture.read(made), own)
    if committed.suffix == ".nemo":
        before, now = read_archive(committed), read_archive(made)
        result = _compare_tensors(before.weights, now.weights, tolerance)
        if (before.config, before.files) != (now.config, now.files):
            result.fail("(settings and files)", "others", "others")
        return result
    return _compare_tensors(_read_tensors(committed), _read_tensors(made), tolerance)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".bin":
        return torch.load(path, weights_only=True)
    if path.suffix == ".pt":
        return torch.load(path, weights_only=True)["model_state_dict"]
    raise ValueError(f"{path.name}: expected a .json, .safetensors, .bin or .pt file")


def _compare_tensors(
    committed: dict[str, Tensor], made: dict[str, Tensor], tolerance: float
) -> fixture.Comparison:
    result = fixture.Comparison()
    if committed.keys() != made.keys():
        names = committed.keys() - made.keys(), made.keys() - committed.keys()
        result.fail("(names)", *(sorted(part) for part in names))
    for name in committed.keys() & made.keys():
        before, now = committed[name], made[name]
        if (before.dtype, before.shape) != (now.dtype, now.shape):
            result.fail(name, f"{before.dtype} {list(before.shape)}", f"{now.dtype} {list(now.shape)}")
            continue
        result.num_values += before.numel()
        if before.numel() == 0:
            continue
        difference = (before.double() - now.double()).abs()
        # Whole numbers must be equal: the least difference of any is 1.
        scale = max(before.abs().max().item(), fixture.SMALLEST) if before.is_floating_point() else 1.0
        relative = difference.max().item() / scale
        result.largest = max(result.largest, relative)
        if not relative <= tolerance:
            place = int(difference.argmax())
            result.fail(f"{name}[{place}]", before.flatten()[place].item(), now.flatten()[place].item())
    return result


def _join(whole: fixture.Comparison, name: str, part: fixture.Comparison) -> None:
    whole.num_values += part.num_values
    whole.largest = max(whole.largest, part.largest)
    whole.differences += [f"{name}: {line}" for line in part.differences]
    whole.notes += [f"{name}: {line}" for line in part.notes]
