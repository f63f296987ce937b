"""Compiles every .cu file under src/ for one architecture where nvcc is found, so that they cannot rot.

usage: tools/check_cuda.py

Objects go to build-check/; a file is compiled again when it or a file of ours that it includes is newer.
"""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_files import Tree, root_of_this_tree

FLAGS = ["-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_80", "-I", "src", "-c"]
NUM_PARALLEL = 2
OBJECTS = Path("build-check")


def find_nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def object_of(name: str) -> Path:
    return OBJECTS / (name + ".o")


def is_current(tree: Tree, name: str) -> bool:
    target = tree.root / object_of(name)
    if not target.exists():
        return False
    inputs = [tree.root / part for part in tree.closure(name)] + [Path(__file__)]
    return all(path.stat().st_mtime <= target.stat().st_mtime for path in inputs)


def compile_file(root: Path, nvcc: str, name: str) -> tuple[bool, str]:
    target = object_of(name)
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(
        [nvcc, *FLAGS, name, "-o", str(target)], cwd=root, capture_output=True, text=True, check=False
    )
    return result.returncode == 0, result.stdout + result.stderr


def main() -> int:
    root = root_of_this_tree()
    tree = Tree(root)
    sources = [name for name in tree.cpp("src") if name.endswith(".cu")]
    nvcc = find_nvcc()
    if nvcc is None:
        print(f"no nvcc here: {len(sources)} CUDA files not compiled")
        return 0
    waiting = [name for name in sources if not is_current(tree, name)]
    failed = 0
    with ThreadPoolExecutor(NUM_PARALLEL) as pool:
        for is_good, text in pool.map(lambda name: compile_file(root, nvcc, name), waiting):
            failed += not is_good
            if text:
                print(text, end="")
    current = len(sources) - len(waiting)
    print(f"{len(sources)} CUDA files: {len(waiting)} compiled, {failed} failed, {current} current")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
