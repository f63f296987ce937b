"""The fixture of the safetensors format: files by the Python package, byte for byte, and what they hold.

Bytes are written as hexadecimal digits. Every file is read back by the package as well, so that what the
fixture says of a file is what Python finds in it.
"""

from typing import Any

import safetensors
import safetensors.torch
import torch

PACKAGES = ["safetensors"]

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
# Names, types and shapes in an order that is not the file's. One entry of metadata at most: the package
# writes several in an order that differs from run to run.
FILES: list[tuple[dict[str, tuple[str, list[int]]], dict[str, str] | None]] = [
    ({"weight": ("F32", [2, 3])}, None),
    (
        {
            "tiny": ("U8", [5]),
            "encoder.layers.0.weight": ("BF16", [3, 2]),
            "encoder.layers.0.bias": ("F32", [3]),
            "encoder.layers.10.bias": ("F32", [1]),
            "half": ("F16", [2, 1, 2]),
            "step": ("I64", []),
            "ids": ("I32", [4]),
            "nothing": ("F32", [0, 7]),
        },
        {"note": 'a "quoted" line\nand \u00e9'},
    ),
    ({'odd "name"\t\u00fc\u20ac\U0001f600\u007f\u0001': ("U8", [1]), "": ("I32", [1])}, {"": ""}),
    ({kind: (kind, [2]) for kind in TYPES}, None),
]


def values_of(name: str, kind: str, shape: list[int]) -> torch.Tensor:
    count = torch.Size(shape).numel()
    whole = torch.arange(count, dtype=torch.int64) * 3 + len(name)
    return (whole if not TYPES[kind].is_floating_point else whole / 4 - 1).to(TYPES[kind]).view(shape)


def bytes_of(tensor: torch.Tensor) -> str:
    return bytes(tensor.reshape(-1).view(torch.uint8).tolist()).hex() if tensor.numel() else ""


def make_file(entries: dict[str, tuple[str, list[int]]], metadata: dict[str, str] | None) -> dict[str, Any]:
    tensors = {name: values_of(name, kind, shape) for name, (kind, shape) in entries.items()}
    content = safetensors.torch.save(tensors, metadata)
    for name, tensor in safetensors.torch.load(content).items():
        assert torch.equal(tensor, tensors[name]), f"'{name}' is not what was written"
    return {
        "tensors": [
            {"name": name, "dtype": kind, "shape": shape, "bytes": bytes_of(tensors[name])}
            for name, (kind, shape) in entries.items()
        ],
        "metadata": metadata or {},
        "file": content.hex(),
    }


def make() -> dict[str, Any]:
    return {"files": [make_file(entries, metadata) for entries, metadata in FILES]}
