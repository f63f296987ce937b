"""Checks who includes whom: the module order, and which files may know LibTorch.

usage: tools/check_includes.py [ROOT]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source_files import Tree, report, root_of_this_tree

# A module includes itself and modules before it; ALLOWED narrows that.
MODULES = [
    "core",
    "report",
    "device",
    "kernels",
    "data",
    "nn",
    "models",
    "decode",
    "optim",
    "train",
    "plan",
    "lab",
    "sotto",
    "cli",
]
# Rooms of a module, in their order: a file includes its own and those before it. "" is the module itself.
ROOMS = {
    "core": ["", "files", "config", "formats"],
    "kernels": [
        "base",
        "simd",
        "cuda",
        "product",
        "elementwise",
        "recurrent",
        "norm",
        "attention",
        "loss",
        "convolution",
        "features",
        "optimizer",
    ],
    "data": ["audio", "manifest", "text", "batch", "import"],
    "nn": ["", "layers", "blocks", "fronts", "heads"],
    "models": [
        "files",
        "",
        "parts",
        "transformer_ctc",
        "conformer",
        "wav2vec2",
        "parakeet",
        "whisper",
        "decoder_lm",
        "hub",
    ],
    "train": ["step", "checkpoint", "recognition", "run", "hub"],
    "plan": ["", "run"],
    "cli": ["views", "commands", ""],
}
# The library's face for programs of others: src/sotto/sotto.h and sotto.cpp, a module without a folder.
FACE = "sotto"
ALLOWED = {"data": {"core", "device", "kernels"}}
MAY_INCLUDE_REPORT = {"lab", "cli"}
FOLDERS = [name for name in MODULES if name not in (FACE, "cli")]
WITHOUT_TORCH = {"core", "report"}
TORCH = ("ATen/", "c10/", "torch/")


def allowed_modules(module: str) -> list[str]:
    before = MODULES[: MODULES.index(module)]
    allowed = [name for name in before if name in ALLOWED.get(module, before)]
    if module not in MAY_INCLUDE_REPORT:
        allowed = [name for name in allowed if name != "report"]
    return [*allowed, module]


def module_of(name: str) -> str | None:
    """The module a file under src/ belongs to; None for folders that are no module."""
    parts = name.split("/")
    if parts[:2] == ["src", "cli"]:
        return "cli"
    if parts[:2] == ["src", "sotto"] and len(parts) > 3 and parts[2] in FOLDERS:
        return parts[2]
    if name in ("src/sotto/sotto.h", "src/sotto/sotto.cpp"):
        return FACE
    return None


def module_included(name: str) -> str | None:
    """The module that an include of ours names, whether there is one or not; None for others."""
    if re.fullmatch(r"(?:src/)?sotto/sotto\.h", name):
        return FACE
    if name.startswith("cli/"):
        return "cli"
    match = re.match(r"(?:src/)?sotto/([^/]+)/", name)
    return match[1] if match else None


def room_of(name: str) -> str:
    """The room of a file, or of an include of ours: src/sotto/core/files/x.h is in files."""
    parts = name.removeprefix("src/").removeprefix("sotto/").split("/")
    return parts[1] if len(parts) > 2 else ""


def base_files(tree: Tree) -> set[str]:
    """Files compiled into sotto_base, which links no LibTorch, and all of core and report."""
    found = {name for name in tree.cpp("src") if module_of(name) in WITHOUT_TORCH}
    for name in tree.files:
        if not re.fullmatch(r"src/sotto/\w+/CMakeLists\.txt", name):
            continue
        text = re.sub(r"#.*", "", tree.text(name) or "")
        for sources in re.findall(r"target_sources\(\s*sotto_base\s+PRIVATE([^)]*)\)", text):
            folder = name.rsplit("/", 1)[0]
            found.update(f"{folder}/{source}" for source in sources.split() if source.endswith(".cpp"))
    return found & set(tree.files)


def check_module_order(tree: Tree) -> Iterator[str]:
    for name in tree.cpp("src"):
        module = module_of(name)
        if module is None:
            yield f"{name}:1: of no known module, expected src/cli/, or src/sotto/ and one of {FOLDERS}"
            continue
        for include in tree.includes(name):
            place = f"{name}:{include.line}"
            written = f'"{include.name}"' if include.quoted else f"<{include.name}>"
            included = module_included(include.name)
            if included and not include.quoted:
                yield f'{place}: {written}, expected quotes: "{include.name}"'
            elif included and included not in [*FOLDERS, FACE, "cli"]:
                yield f"{place}: {written} is of no known module, expected one of {', '.join(FOLDERS)}"
            elif included and included not in allowed_modules(module):
                yield (
                    f"{place}: {module} includes {included}, expected only "
                    f"{', '.join(allowed_modules(module))}"
                )
            elif include.quoted and not included:
                yield f'{place}: {written}, expected "sotto/<module>/x.h"'


def check_rooms(tree: Tree) -> Iterator[str]:
    for name in tree.cpp("src"):
        module = module_of(name)
        rooms = ROOMS.get(module or "", [])
        if not rooms:
            continue
        room = room_of(name)
        if room not in rooms:
            yield f"{name}:1: in no known room of {module}, expected one of {', '.join(filter(None, rooms))}"
            continue
        allowed = rooms[: rooms.index(room) + 1]
        for include in tree.includes(name):
            if module_included(include.name) == module and room_of(include.name) not in allowed:
                yield (
                    f"{name}:{include.line}: {module}/{room} includes {room_of(include.name)}, expected only "
                    f"{', '.join(other or module for other in allowed)}"
                )


def check_files_exist(tree: Tree) -> Iterator[str]:
    for name in tree.cpp("src", "tests", "bench"):
        for include in tree.includes(name):
            if include.quoted and tree.resolve(name, include) is None:
                yield (
                    f'{name}:{include.line}: "{include.name}" is not there, expected a file of ours '
                    f"below src/ or tests/, or from the folder of this one"
                )


def check_torch(tree: Tree) -> Iterator[str]:
    for name in tree.cpp("src", "tests", "bench", "examples"):
        for include in tree.includes(name):
            if include.name == "torch/torch.h":
                yield f"{name}:{include.line}: torch/torch.h, expected the narrow ATen/ or c10/ header"
    cuda = {name for name in tree.cpp("src") if name.endswith((".cu", ".cuh"))}
    reasons = dict.fromkeys(base_files(tree), "it is compiled into sotto_base, or of core or report")
    reasons.update(dict.fromkeys(cuda, "nvcc compiles it"))
    face = {name for name in tree.cpp("src") if name == "src/sotto/sotto.h"}
    reasons.update(dict.fromkeys(face, "programs include it that have no header of LibTorch"))
    for first, reason in sorted(reasons.items()):
        for name in sorted(tree.closure(first)):
            for include in tree.includes(name):
                if include.name.startswith(TORCH):
                    through = "" if name == first else f" and {first} includes this file"
                    whose = "" if name == first else f" of {first}"
                    yield (
                        f"{name}:{include.line}: includes {include.name}{through}, expected no header of "
                        f"LibTorch{whose}: {reason}"
                    )


def check(root: Path) -> list[str]:
    tree = Tree(root)
    return [*check_module_order(tree), *check_rooms(tree), *check_files_exist(tree), *check_torch(tree)]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else root_of_this_tree()
    return report(check(root))


if __name__ == "__main__":
    sys.exit(main())
