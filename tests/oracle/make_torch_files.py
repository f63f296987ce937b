"""The fixture of weight files by PyTorch: files of torch.save in both of its forms, a folder of shards.

Bytes are written as hexadecimal digits. Every file of torch.save is read back by PyTorch as well, so that
what the fixture says of a file is what Python finds in it.
"""

import collections
import io
import json
import pickle
import warnings
from typing import Any

import safetensors.torch
import torch

PACKAGES = ["safetensors"]

TYPE_NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
MAX_SHARD_BYTES = 40


def counting(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) / 4 - 1).to(dtype).view(shape)


def all_types() -> dict[str, torch.Tensor]:
    return {name: (counting(2, 3) * 8).to(dtype) for dtype, name in TYPE_NAMES.items()}


def all_forms() -> dict[str, torch.Tensor]:
    """Everything but a plain tensor that a state dict may hold."""
    base = counting(4, 6)
    return {
        "whole": base,
        "transposed": base.t(),
        "row": base[2],
        "column": base[:, 1],
        "every_second": base[::2, 1::2],
        "permuted": counting(2, 3, 4).permute(2, 0, 1),
        "expanded": counting(3, 1).expand(3, 2),
        "parameter": torch.nn.Parameter(counting(3, dtype=torch.float16)),
        "nothing": torch.empty(0, 7),
        "scalar": torch.tensor(-5),
        "a \u00e9 \U0001f600": counting(1),
    }


def module_state() -> collections.OrderedDict[str, torch.Tensor]:
    """With the _metadata that a module sets on it."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    for i, parameter in enumerate(network.parameters()):
        torch.nn.init.constant_(parameter, i / 2)
    state = network.state_dict()
    assert hasattr(state, "_metadata")
    return state


def checkpoint() -> dict[str, Any]:
    """What training programs save: the state dict is one entry of several."""
    optimizer = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": counting(2)}}, "groups": [{"lr": 0.1}]}
    return {
        "epoch": 3,
        "best": 0.25,
        "note": "a text",
        "none": None,
        "many": 1 << 40,
        "state_dict": module_state(),
        "optimizer": optimizer,
    }


# What is saved, below which key its tensors are, and how.
FILES: list[tuple[Any, str | None, dict[str, Any]]] = [
    (all_types(), None, {}),
    (all_types(), None, {"_use_new_zipfile_serialization": False}),
    (all_forms(), None, {}),
    (all_forms(), None, {"_use_new_zipfile_serialization": False}),
    (all_forms(), None, {"pickle_protocol": 5}),
    (module_state(), None, {}),
    (checkpoint(), "state_dict", {}),
    (checkpoint(), "state_dict", {"_use_new_zipfile_serialization": False}),
    ({"model": dict(module_state())}, "model", {}),
    ({}, None, {}),
]


def bytes_of(tensor: torch.Tensor) -> str:
    whole = tensor.detach().contiguous().reshape(-1)
    return bytes(whole.view(torch.uint8).tolist()).hex() if whole.numel() else ""


def described(tensors: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
    return [
        {"name": name, "dtype": TYPE_NAMES[value.dtype], "shape": list(value.shape), "bytes": bytes_of(value)}
        for name, value in tensors.items()
    ]


class KeyReader(pickle.Unpickler):
    """Notes the storages of a pickle, with their bytes, in their order."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.sizes: dict[str, int] = {}

    def persistent_load(self, pid: Any) -> Any:
        _, storage_class, key, _, count, _ = pid
        self.sizes[key] = count * torch.empty(0, dtype=storage_class.dtype).element_size()
        return storage_class(count)


def with_lasting_keys(content: bytes) -> bytes:
    """The older form with numbers for its storages' keys, which are addresses: others in every run."""
    file = io.BytesIO(content)
    for _ in range(3):
        pickle.load(file)
    start = file.tell()
    reader = KeyReader(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the storages' classes, which this form is made of
        reader.load()
    state = content[start : file.tell()]
    values = {key: file.read(8 + reader.sizes[key]) for key in pickle.load(file)}
    assert not file.read(), "more than the storages"
    for number, key in enumerate(reader.sizes):
        state = state.replace(opcode_of(key), opcode_of(f"key {number}"))
    keys = [f"key {number}" for number in range(len(values))]
    return content[:start] + state + pickle.dumps(keys, 2) + b"".join(values[key] for key in reader.sizes)


def opcode_of(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def make_file(saved: Any, key: str | None, options: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(saved, file, **options)
    is_old = "_use_new_zipfile_serialization" in options
    content = with_lasting_keys(file.getvalue()) if is_old else file.getvalue()
    loaded = torch.load(io.BytesIO(content), weights_only=False)
    tensors = loaded[key] if key else loaded
    expected = saved[key] if key else saved
    assert tensors.keys() == expected.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, expected[name]), f"'{name}' is not what was saved"
    return {"tensors": described(tensors), "file": content.hex()}


def make_shards() -> dict[str, Any]:
    """A folder as transformers lays it out, in the order of the state dict."""
    tensors = {name: value.contiguous() for name, value in all_types().items()}
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, tensor in tensors.items():
        if (
            shards[-1]
            and sum(value.nbytes for value in shards[-1].values()) + tensor.nbytes > MAX_SHARD_BYTES
        ):
            shards.append({})
        shards[-1][name] = tensor
    files = {}
    weight_map = {}
    for i, shard in enumerate(shards):
        file_name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        content = safetensors.torch.save(shard, {"format": "pt"})
        files[file_name] = content.hex()
        weight_map |= dict.fromkeys(shard, file_name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    files["model.safetensors.index.json"] = text.encode().hex()
    return {"tensors": described(tensors), "max_shard_bytes": MAX_SHARD_BYTES, "files": files}


def make() -> dict[str, Any]:
    return {"files": [make_file(*row) for row in FILES], "shards": make_shards()}
