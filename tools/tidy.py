"""Runs the pinned clang-tidy over our .cpp files, two at a time, and remembers those it found clean.

usage: tools/tidy.py [--all] [--minutes N]

Without --all: files changed in the last 20 commits or not yet committed, and for each changed header one file
that includes it. With --minutes: those that changed last come first, and after N minutes the rest is left out
and counted (`make test-slow` has no limit). Clean files are remembered in .deps/tidy-cache; a file is checked
again when it, a header of ours that it includes, its compile command or .clang-tidy changes.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from source_files import Tree, git, root_of_this_tree

NUM_COMMITS = 20
NUM_PARALLEL = 2
DAYS_REMEMBERED = 60
CLANG_TIDY = Path(".deps/check/bin/clang-tidy")
CACHE = Path(".deps/tidy-cache")
BUILD = Path("build-tidy")
# The wheel brings clang's own headers but not omp.h. Without OpenMP at::parallel_for is a plain loop, as
# good to read.
ARGUMENTS = ["--quiet", f"-p={BUILD}", "--extra-arg=-fno-openmp"]


@dataclass(frozen=True)
class Outcome:
    name: str
    is_clean: bool
    text: str


def configure(root: Path) -> None:
    """Compile commands, and the one source that is generated."""
    chosen = [f"-D{name}={os.environ[name]}" for name in ("SOTTO_TORCH",) if os.environ.get(name)]
    for command in (
        ["cmake", "--preset", "tidy", *chosen],
        ["cmake", "--build", str(BUILD), "--target", "sotto_build_info"],
    ):
        result = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if result.returncode != 0:
            print(result.stdout + result.stderr)
            sys.exit(f"{' '.join(command)}: failed, expected the compile commands of the tidy preset")


def compile_commands(root: Path) -> dict[str, str]:
    """The compile command of each file of ours, without this machine's path to the tree."""
    commands = {}
    for entry in json.loads((root / BUILD / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.is_relative_to(root):
            commands[str(file.relative_to(root))] = entry["command"].replace(str(root), ".")
    return commands


def changed_files(root: Path) -> list[str]:
    """What changed last comes first."""
    committed = git(root, "log", f"-{NUM_COMMITS}", "--first-parent", "-m", "--name-only", "--format=", "-z")
    uncommitted = git(root, "diff", "--name-only", "-z", "HEAD")
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return list(dict.fromkeys(name.strip() for name in [*new, *uncommitted, *committed]))


def choose(tree: Tree, candidates: list[str], changed: set[str]) -> list[str]:
    """The changed candidates, and for each changed header one candidate that sees it."""
    chosen = {name for name in candidates if name in changed}
    seen: set[str] = set()
    for name in chosen:
        seen |= tree.closure(name)
    for header in sorted(changed):
        if not header.endswith(".h") or header in seen:
            continue
        own = header.removesuffix(".h") + ".cpp"
        for name in sorted(candidates, key=lambda candidate: (candidate != own, candidate)):
            if header in tree.closure(name):
                chosen.add(name)
                seen |= tree.closure(name)
                break
    return sorted(chosen)


def key_of(tree: Tree, name: str, command: str, version: str) -> str:
    """A name for all that the outcome depends on, other people's headers excepted."""
    digest = hashlib.sha256()
    settings = [str(folder / ".clang-tidy") for folder in Path(name).parents]
    parts = sorted(tree.closure(name)) + [file for file in settings if (tree.root / file).is_file()]
    for text in [version, *ARGUMENTS, command]:
        digest.update(text.encode() + b"\0")
    for part in parts:
        digest.update(part.encode() + b"\0" + (tree.root / part).read_bytes() + b"\0")
    return digest.hexdigest()


def run(root: Path, name: str) -> Outcome:
    command = [str(root / CLANG_TIDY), *ARGUMENTS, name]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    text = result.stdout.replace(f"{root}/", "")
    if result.returncode != 0 and not text.strip():
        text = result.stderr
    return Outcome(name, result.returncode == 0, text)


def forget_old(cache: Path) -> None:
    oldest = time.time() - DAYS_REMEMBERED * 86400
    for entry in cache.iterdir():
        if entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="clang-tidy over our .cpp files")
    parser.add_argument("--all", action="store_true", help="every file, not only those changed of late")
    parser.add_argument("--minutes", type=float, help="begin with no further file after this time")
    arguments = parser.parse_args()
    root = root_of_this_tree()
    configure(root)
    tree = Tree(root)
    commands = compile_commands(root)
    sources = [name for name in tree.cpp("src", "tests", "bench", "examples") if name.endswith(".cpp")]
    # A file that this configuration does not compile (another processor, a sanitizer) borrows its neighbour's
    # command. The CUDA versions need CUDA's headers, and those for x86_64 its intrinsics.
    elsewhere = ("_cuda.cpp", "_x86_64.cpp")
    candidates = [name for name in sources if name in commands or not name.endswith(elsewhere)]
    changed = changed_files(root)
    chosen = candidates if arguments.all else choose(tree, candidates, set(changed))
    place = {name: number for number, name in enumerate(changed)}
    chosen.sort(key=lambda name: place.get(name, len(place)))

    asking = [str(root / CLANG_TIDY), "--version"]
    version = subprocess.run(asking, capture_output=True, text=True, check=True).stdout
    cache = root / CACHE
    cache.mkdir(parents=True, exist_ok=True)
    forget_old(cache)
    keys = {name: key_of(tree, name, commands.get(name, ""), version) for name in chosen}
    waiting = []
    for name in chosen:
        entry = cache / keys[name]
        if entry.exists():
            entry.touch()
        else:
            waiting.append(name)

    deadline = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    failed = left = 0
    with ThreadPoolExecutor(NUM_PARALLEL) as pool:
        for outcome in pool.map(
            lambda name: run(root, name) if time.monotonic() < deadline else None, waiting
        ):
            if outcome is None:
                left += 1
            elif outcome.is_clean:
                (cache / keys[outcome.name]).touch()
            else:
                failed += 1
                print(f"{outcome.name}:\n{outcome.text}")
    print(
        f"{len(chosen)} of {len(sources)} files: {len(waiting) - left} checked, {failed} with findings, "
        f"{len(chosen) - len(waiting)} known to be clean"
        + (f", {left} left out after {arguments.minutes:g} minutes" if left else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
