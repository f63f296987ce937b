"""A progress bar of a run: one line in a terminal, an element of the output in a notebook."""

from __future__ import annotations

import sys
from typing import Any

from ._events import Step

_WIDTH = 24


def _notebook_handle() -> Any:
    """Returns a display of the notebook that can be updated; None outside of one."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython.display import HTML, display

    return display(HTML(""), display_id=True)


def _bytes_text(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


class Progress:
    """Shows steps; without a terminal and outside of a notebook it shows nothing."""

    def __init__(self, is_wanted: bool | None) -> None:
        self._handle = None if is_wanted is False else _notebook_handle()
        is_terminal = is_wanted is True or (is_wanted is None and sys.stderr.isatty())
        self._shows_line = self._handle is None and is_terminal
        self._total = 0
        self._has_line = False

    def begin(self, total_steps: int) -> None:
        self._total = total_steps

    def show(self, step: Step) -> None:
        total = max(self._total, step.step)
        text = f"{step.step}/{total}  loss {step.loss:.4f}  peak {_bytes_text(step.peak_bytes)}"
        if self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(f'<progress value="{step.step}" max="{total}"></progress> {text}'))
        elif self._shows_line:
            done = _WIDTH * step.step // total
            bar = "█" * done + "░" * (_WIDTH - done)
            print(f"\r\x1b[K{bar} {text}", end="", file=sys.stderr, flush=True)
            self._has_line = True

    def clear(self) -> None:
        if self._has_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._has_line:
            print(file=sys.stderr)
        self._has_line = False
