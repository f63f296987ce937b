"""Transcripts and error rates of a trained network."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from . import _arguments, _audio, _hub, _program
from ._arguments import Setting
from ._events import ErrorRate, from_json
from ._install import checked_program, environment
from .errors import error_from


@dataclasses.dataclass(frozen=True)
class Word:
    """A word with its start and end in seconds."""

    word: str
    start: float
    end: float


@dataclasses.dataclass(frozen=True)
class Transcript:
    """The text of a recording of `duration` seconds."""

    text: str
    duration: float
    words: tuple[Word, ...]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """An utterance with its reference, its transcript, and the error rates between them."""

    utterance: int
    reference: str
    hypothesis: str
    wer: float
    cer: float


@dataclasses.dataclass(frozen=True)
class Scores:
    """Results of an evaluation: error rates of speech, or the perplexity of text."""

    checkpoint: str
    loss: float
    seconds: float
    wer: ErrorRate | None = None
    cer: ErrorRate | None = None
    perplexity: float | None = None
    utterances: int | None = None
    skipped: int = 0
    sentences: tuple[Sentence, ...] = dataclasses.field(default=(), repr=False)


class Recogniser:
    """A trained network that transcribes, in one process that stays.

    Args:
        folder: a run (its best checkpoint), a checkpoint, a Hugging Face folder or an id on the Hub.
        memory: the budget.
        device: "cpu", "cuda" or "cuda:N".
        beam, lm, lm_weight, ctc_weight: the search; without them that of the run.
        window, overlap: seconds of the windows in which long recordings are recognised.
        **settings: other settings of the search: decode={"word_bonus": 0.5}.

    Raises:
        ConfigError, DataError: at the first transcript, where the folder or a setting is wrong.

    >>> with sotto.Recogniser("run") as recogniser:
    ...     transcript = recogniser.transcribe("a.wav")
    >>> transcript.duration
    1.0
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        memory: str | None = None,
        device: str | None = None,
        beam: int | None = None,
        lm: str | Path | None = None,
        lm_weight: float | None = None,
        ctc_weight: float | None = None,
        window: float | None = None,
        overlap: float | None = None,
        **settings: Setting,
    ) -> None:
        given = {
            "model": folder,
            "memory": memory,
            "device": device,
            "beam": beam,
            "lm": lm,
            "lm_weight": lm_weight,
            "ctc_weight": ctc_weight,
            "window": window,
            "overlap": overlap,
        }
        self._words = ["transcribe", "--serve", *_arguments.options(given), *_arguments.settings(settings)]
        self._model = folder
        self._process: subprocess.Popen[str] | None = None
        self._errors: Any = None
        self._lock = threading.Lock()

    @overload
    def transcribe(self, audio: str | os.PathLike[str], sample_rate: int | None = None) -> Transcript: ...

    @overload
    def transcribe(
        self, audio: list[Any] | tuple[Any, ...], sample_rate: int | None = None
    ) -> list[Transcript]: ...

    @overload
    def transcribe(self, audio: Any, sample_rate: int | None = None) -> Transcript: ...

    def transcribe(self, audio: Any, sample_rate: int | None = None) -> Transcript | list[Transcript]:
        """Transcribes a file, an array of samples, or a list of them.

        Args:
            audio: a path; an array of numpy or torch, which needs `sample_rate`; a dictionary with `array`
                and `sampling_rate`, as datasets have it; or a list of these.
            sample_rate: samples per second of an array; other rates than the network's are converted.
        """
        if isinstance(audio, (list, tuple)):
            return [self._transcribe_one(item, sample_rate) for item in audio]
        return self._transcribe_one(audio, sample_rate)

    def _transcribe_one(self, audio: Any, sample_rate: int | None) -> Transcript:
        if isinstance(audio, (str, os.PathLike)):
            return self._transcribe_file(_arguments.text_of("audio", audio))
        if isinstance(audio, Mapping) and "array" in audio:
            audio, sample_rate = audio["array"], audio.get("sampling_rate", sample_rate)
        if not hasattr(audio, "dtype"):
            raise _arguments.refuse("audio", audio, "a path, an array of numpy or torch, or a list of them")
        samples, rate = _audio.samples_of("audio", audio), _audio.rate_of(sample_rate)
        with tempfile.TemporaryDirectory(prefix="sotto-") as scratch:
            file = Path(scratch) / "audio.wav"
            _audio.write_wav(file, samples, rate)
            return self._transcribe_file(str(file))

    def _transcribe_file(self, file: str) -> Transcript:
        with self._lock:
            answer = self._ask({"audio_filepath": file})
        if "failure" in answer:
            raise error_from(answer["failure"])
        words = tuple(from_json(Word, word) for word in answer["words"])
        return Transcript(text=answer["text"], duration=answer["duration"], words=words)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._opened()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._answer(process)

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.endswith("\n"):
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _opened(self) -> subprocess.Popen[str]:
        if self._process is not None:
            return self._process
        _hub.fetch_model(self._model)
        # A file and not a pipe, which nobody would empty. It lives as long as the process.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(checked_program()), *self._words, "--json-errors"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            # Ctrl-C in a terminal interrupts this program, not the process, which ends with its input.
            start_new_session=True,
        )
        self._answer(self._process)  # that it is ready
        return self._process

    def _ended(self) -> Exception:
        """Returns the error for a process that ended before its answer."""
        process, errors = self._process, self._errors
        assert process is not None
        code = process.wait()
        errors.seek(0)
        text = errors.read().decode("utf-8", errors="replace")
        self.close()
        return _program.failure_of(f"transcribing with {self._model}", code, text)

    def close(self) -> None:
        """Ends the process; a further transcript starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        process.wait()
        self._errors.close()

    def __enter__(self) -> Recogniser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


def evaluate(
    model: str | Path,
    manifest: str | Path,
    *,
    memory: str | None = None,
    device: str | None = None,
    beam: int | None = None,
    lm: str | Path | None = None,
    lm_weight: float | None = None,
    ctc_weight: float | None = None,
    **settings: Setting,
) -> Scores:
    """Computes error rates of a run, a checkpoint or a Hugging Face model on a manifest.

    Args:
        model: as in `Recogniser`.
        manifest: the data to evaluate on; a text for a language model.
        **settings: settings of the data and of the search: data={"broken": "skip"}.

    >>> scores = sotto.evaluate("run", "train.jsonl")
    >>> scores.utterances
    8
    """
    given = {
        "model": model,
        "data": _arguments.text_of("manifest", manifest),
        "memory": memory,
        "device": device,
        "beam": beam,
        "lm": lm,
        "lm_weight": lm_weight,
        "ctc_weight": ctc_weight,
    }
    words = ["eval", *_arguments.options(given), *_arguments.settings(settings)]
    _hub.fetch_model(model)
    found = _program.run_json(words)
    for name in ("wer", "cer"):
        if name in found:
            found[name] = from_json(ErrorRate, found[name])
    found["sentences"] = tuple(from_json(Sentence, sentence) for sentence in found.get("sentences", []))
    if "rows" in found:
        found["utterances"] = found["rows"]
    return from_json(Scores, found)
