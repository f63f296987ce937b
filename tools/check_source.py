"""Checks rules of the tree that a compiler and a formatter do not see.

usage: tools/check_source.py [ROOT]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source_files import CPP_SUFFIXES, Tree, report, root_of_this_tree

MAX_FILE_BYTES = 1_000_000
MAX_LINES = 500
MAX_MACROS = 4
SOURCE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh", ".cmake", ".txt", ".yaml", ".yml", ".json", ".toml", ".in"}
KERNEL_TABLE = "tests/support/kernel_cases"  # and what follows: its files
KERNEL_VERBS = "forward|backward|apply|accumulate|multiply"
# Files kept byte by byte as others made them.
VERBATIM = ("tests/fixtures/", "tests/oracle/fixtures/", "shared/")

NO_AUTOGRAD = re.compile(r"torch::nn|requires_grad|autograd")
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")
PRINTS = re.compile(
    r"\bstd::(cout|cerr|clog)\b|(?<![\w.>])(?:std::)?v?f?printf\s*\(|(?<![\w.>])(?:std::)?f?puts\s*\("
    r"|\bfmt::print(ln)?\b"
)
TRAILING_SPACE = re.compile(r"[ \t\r]+$")
USING_NAMESPACE = re.compile(r"^\s*using\s+namespace\b")
# Written so that this file does not match itself.
UNNUMBERED_TODO = re.compile(r"\b(?:TO[D]O|FIX[M]E)\b(?!\(#\d+\))")
MACHINE_PATH = re.compile(r"(?<![\w.$})*-])/(?:work|home|root)/")


def lines_matching(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if match := pattern.search(line):
            yield number, match[0].strip()


def check_src(tree: Tree) -> Iterator[str]:
    macros: dict[str, str] = {}
    for name in tree.cpp("src"):
        for number, found in lines_matching(NO_AUTOGRAD, tree.text(name) or ""):
            yield f"{name}:{number}: {found}, expected forward and backward of our own: the step has no graph"
        code = tree.code(name)
        for number, found in lines_matching(CONDITIONAL, code):
            yield f"{name}:{number}: {found}, expected two files and a choice in CMakeLists.txt"
        for number, line in enumerate(code.splitlines(), start=1):
            if match := DEFINE.match(line):
                macros.setdefault(match[1], f"{name}:{number}")
        if name.startswith("src/sotto/"):
            for number, found in lines_matching(PRINTS, code):
                found = found.rstrip("( ")
                yield f"{name}:{number}: {found} in a library, expected a returned text or core/log.h"
    for macro, place in macros.items():
        if not macro.startswith("SOTTO_"):
            yield f"{place}: macro {macro}, expected a function, a constant, or a name SOTTO_..."
    if len(macros) > MAX_MACROS:
        places = ", ".join(f"{macro} ({place})" for macro, place in macros.items())
        yield f"src: {len(macros)} macros, expected at most {MAX_MACROS}: {places}"


def check_headers(tree: Tree) -> Iterator[str]:
    for name in tree.cpp("src", "tests", "bench"):
        if not name.endswith((".h", ".cuh")):
            continue
        code = tree.code(name)
        if not re.search(r"^#pragma once$", code, re.MULTILINE):
            yield f"{name}:1: no include guard, expected #pragma once"
        for number, found in lines_matching(USING_NAMESPACE, code):
            yield f"{name}:{number}: {found} in a header, expected full names or an alias inside a function"


def struct_bodies(code: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and body of each struct that starts at the margin."""
    for match in re.finditer(r"^struct (\w+)(?: final)? \{", code, re.MULTILINE):
        depth = 1
        end = match.end()
        while depth > 0 and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        yield code.count("\n", 0, match.start()) + 1, match[1], code[match.end() : end]


def check_kernel_table(tree: Tree) -> Iterator[str]:
    table = "\n".join(tree.code(name) for name in tree.cpp("tests") if name.startswith(KERNEL_TABLE))
    rows = set(re.findall(r'\{\s*"(\w+)",', table))
    for name in tree.cpp("src"):
        if not re.fullmatch(r"src/sotto/kernels/(?:\w+/)?\w+\.h", name):
            continue
        for line, struct, body in struct_bodies(tree.code(name)):
            is_kernel = re.search(rf"\bstatic\b[^;{{}}()]*\b(?:{KERNEL_VERBS})\s*\(", body)
            if is_kernel and struct not in rows:
                row = f'{{"{struct}",'
                place = f"{name}:{line}: kernel {struct}"
                yield f"{place} is not tested, expected a row {row} in {KERNEL_TABLE}*.cpp"


def check_all_files(tree: Tree) -> Iterator[str]:
    for name in tree.files:
        size = (tree.root / name).stat().st_size
        if size > MAX_FILE_BYTES:
            yield f"{name}: {size} bytes, expected at most {MAX_FILE_BYTES}"
            continue
        if name.startswith(VERBATIM):
            continue
        text = tree.text(name)
        if text is None:
            continue
        for number, _ in lines_matching(TRAILING_SPACE, text):
            yield f"{name}:{number}: trailing space, expected none"
        for number, found in lines_matching(MACHINE_PATH, text):
            yield f"{name}:{number}: a path of one machine ({found}), expected a relative path"
        if Path(name).suffix in SOURCE_SUFFIXES or Path(name).name == "Makefile":
            for number, found in lines_matching(UNNUMBERED_TODO, text):
                yield f"{name}:{number}: {found} without an issue, expected {found}(#12)"


def long_files(tree: Tree) -> Iterator[str]:
    for name in tree.files:
        if Path(name).suffix in CPP_SUFFIXES | {".py", ".sh"}:
            count = (tree.text(name) or "").count("\n")
            if count > MAX_LINES:
                yield f"{name}: {count} lines, expected at most {MAX_LINES}: could it be two files?"


def check(root: Path) -> list[str]:
    tree = Tree(root)
    return [*check_src(tree), *check_headers(tree), *check_kernel_table(tree), *check_all_files(tree)]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else root_of_this_tree()
    return report(check(root), long_files(Tree(root)))


if __name__ == "__main__":
    sys.exit(main())
