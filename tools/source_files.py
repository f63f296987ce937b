"""What the check scripts share: the tree's files, C++ text without its comments, and who includes whom."""

import posixpath
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CPP_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Literals are matched so that "http://x" does not start a comment; the quote in 100'000 is no literal.
_COMMENT_OR_LITERAL = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)


@dataclass(frozen=True)
class Include:
    line: int
    name: str
    quoted: bool


@dataclass
class Tree:
    """The files git knows under root, or would take: relative paths with forward slashes."""

    root: Path
    files: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.files:
            names = set(git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))
            self.files = sorted(name for name in names if (self.root / name).is_file())
        self._includes: dict[str, list[Include]] = {}
        self._known = set(self.files)

    def cpp(self, *folders: str) -> Iterator[str]:
        """C++ and CUDA sources and headers under the folders."""
        for name in self.files:
            if Path(name).suffix in CPP_SUFFIXES and name.split("/", 1)[0] in folders:
                yield name

    def text(self, name: str) -> str | None:
        """The file's text, or None where it is not text."""
        content = (self.root / name).read_bytes()
        if b"\0" in content:
            return None
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None

    def code(self, name: str) -> str:
        return without_comments(self.text(name) or "")

    def includes(self, name: str) -> list[Include]:
        if name not in self._includes:
            found = []
            for number, line in enumerate(self.code(name).splitlines(), start=1):
                if match := _INCLUDE.match(line):
                    found.append(Include(number, match[2], match[1] == '"'))
            self._includes[name] = found
        return self._includes[name]

    def resolve(self, name: str, include: Include) -> str | None:
        """The file of ours that `name` includes so: below src/, below tests/, or from its own folder."""
        if not include.quoted:
            return None
        beside = posixpath.normpath(f"{name.rsplit('/', 1)[0]}/{include.name}")
        for candidate in (f"src/{include.name}", f"tests/{include.name}", beside):
            if candidate in self._known:
                return candidate
        return None

    def closure(self, name: str) -> set[str]:
        """The file and every file of ours that it includes, directly or not."""
        seen = {name}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            for include in self.includes(current):
                target = self.resolve(current, include)
                if target and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen


def git(root: Path, *arguments: str) -> list[str]:
    """What a git command with -z lists."""
    command = ["git", "-C", str(root), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [name.lstrip("\n") for name in result.stdout.split("\0") if name.strip("\n")]


def without_comments(text: str) -> str:
    """The text with comments blanked and line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match["comment"] else match[0]

    return _COMMENT_OR_LITERAL.sub(blank, text)


def root_of_this_tree() -> Path:
    return Path(__file__).resolve().parent.parent


def report(errors: Iterable[str], warnings: Iterable[str] = ()) -> int:
    """Prints both lists and gives the exit code."""
    for line in warnings:
        print(f"warning: {line}")
    count = 0
    for line in errors:
        print(line)
        count += 1
    return 1 if count else 0
