"""What the peers in this folder share: memory of the device, tables, and the facts of a measurement.

Bytes are those of tensors on the GPU; without one, resident memory of the whole process.
"""

import argparse
import gc
import json
from pathlib import Path
from typing import Any

import torch

GIB = 1 << 30


def resident_bytes(what: str) -> int:
    """Memory of this process: now (VmRSS), or the most since release_memory() (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def release_memory() -> None:
    """Returns unused memory to the device, and forgets the peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def allocated_bytes() -> int:
    return torch.cuda.memory_allocated() if torch.cuda.is_available() else resident_bytes("VmRSS:")


def peak_bytes() -> int:
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else resident_bytes("VmHWM:")


def reserved_peak_bytes() -> int:
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else peak_bytes()


def device_peak_bytes() -> int:
    """The reserved peak and what the driver took, provided that no other process uses the GPU."""
    if not torch.cuda.is_available():
        return peak_bytes()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved() + reserved_peak_bytes()


def use_tf32(is_on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = is_on
    torch.backends.cudnn.allow_tf32 = is_on


def limit_memory(cap_bytes: int) -> None:
    """Lets this process take at most so many bytes of the GPU for tensors. 0: all of it."""
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap_bytes / total) if cap_bytes else 1.0)


def facts_of(options: argparse.Namespace) -> dict[str, Any]:
    """What a reader of a record has to know: device, version and settings."""
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    return {"device": name, "torch": torch.__version__, "settings": settings}


def print_table(titles: list[str], rows: list[list[str]]) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in [titles, *rows]) for i in range(len(titles))]
    for line in [titles, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *cells]).rstrip())


def write_json(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
