"""Transcripts and error rates of a trained run."""

from __future__ import annotations

import os
import signal

import numpy
import pytest
from conftest import RATE, tone_speech

import sotto


class Tensor:
    """What the package uses of a tensor of torch, which cannot be imported without its dependencies."""

    def __init__(self, values: numpy.ndarray) -> None:
        self.values = values
        self.dtype = values.dtype

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> numpy.ndarray:
        return self.values


def test_arrays_and_files_give_the_same(trained: sotto.Run) -> None:
    samples = tone_speech("ab")
    floats = samples.astype("f8") / 32768.0
    stereo = numpy.stack([floats, floats])
    with sotto.Recogniser(trained.folder) as recogniser:
        expected = recogniser.transcribe("a.wav")
        pid = recogniser._process.pid if recogniser._process else 0
        given = [samples, floats, stereo, stereo.T, Tensor(floats.astype("f4"))]
        for transcript in recogniser.transcribe(given, RATE):
            assert transcript == expected
        assert recogniser.transcribe({"array": floats, "sampling_rate": RATE}) == expected
        # Twice as many samples per second are half as long; the program converts them.
        assert recogniser.transcribe(floats, 2 * RATE).duration == pytest.approx(0.5)
        # One process has done all of it.
        assert recogniser._process is not None
        assert recogniser._process.pid == pid
    assert expected.duration == 1.0
    assert expected.text.split() == [word.word for word in expected.words]


def test_bad_recording_is_an_error_and_the_next_is_transcribed(trained: sotto.Run) -> None:
    with sotto.Recogniser(trained.folder) as recogniser:
        with pytest.raises(sotto.DataError, match=r"none\.wav"):
            recogniser.transcribe("none.wav")
        assert recogniser.transcribe("a.wav").duration == 1.0


def test_killed_process_is_an_error_and_is_started_again(trained: sotto.Run) -> None:
    recogniser = sotto.Recogniser(trained.folder)
    recogniser.transcribe("a.wav")
    assert recogniser._process is not None
    os.kill(recogniser._process.pid, signal.SIGKILL)
    recogniser._process.wait()
    with pytest.raises(sotto.ProcessKilled, match="SIGKILL"):
        recogniser.transcribe("a.wav")
    assert recogniser.transcribe("a.wav").duration == 1.0
    recogniser.close()


def test_recogniser_of_nothing_is_an_error() -> None:
    with pytest.raises(sotto.Error, match="nowhere"):
        sotto.Recogniser("nowhere").transcribe("a.wav")


def test_evaluation_agrees_with_the_run(trained: sotto.Run) -> None:
    scores = sotto.evaluate(trained.folder, "dev.jsonl", data={"broken": "error"})
    assert scores.utterances == 2
    assert scores.wer is not None
    assert scores.wer.rate == trained.wait().best_wer
    assert scores.wer.reference == 2
    assert len(scores.sentences) == 2
