"""Log-mel features of one utterance by public implementations: what each kind of ours is held against.

    whisper     transformers' WhisperFeatureExtractor with padding="do_not_pad" and truncation=False: the
                utterance as long as it is. do_normalize (of the waveform) is off, as it is by default.
    nemo        transformers' ParakeetFeatureExtractor; the frames of its attention_mask, others are padding.
    kaldi       kaldi-native-fbank's OnlineFbank with dither 0, on samples in -1 .. 1.
    torchaudio  make_log_mel.py in double precision, which was compared with torchaudio itself.

The others compute in single precision.
"""

import os
from dataclasses import dataclass

import kaldi_native_fbank
import make_log_mel
import numpy
import torch
from torch import Tensor

os.environ["HF_HUB_OFFLINE"] = "1"  # read on import: nothing is fetched

from transformers import ParakeetFeatureExtractor, WhisperFeatureExtractor  # noqa: E402

PACKAGES = ["transformers", "librosa", "kaldi-native-fbank"]


@dataclass
class Settings:
    """Of LogMelOptions; f_max 0: half the sample rate."""

    kind: str
    sample_rate: int = 16000
    window: int = 400
    hop: int = 160
    num_mels: int = 80
    f_min: float = 0.0
    f_max: float = 0.0


def whisper(samples: numpy.ndarray, settings: Settings) -> Tensor:
    extract = WhisperFeatureExtractor(
        feature_size=settings.num_mels, sampling_rate=settings.sample_rate, hop_length=settings.hop
    )
    result = extract(
        samples,
        sampling_rate=settings.sample_rate,
        padding="do_not_pad",
        truncation=False,
        return_tensors="pt",
    )
    return result.input_features[0].t()


def nemo(samples: numpy.ndarray, settings: Settings) -> Tensor:
    extract = ParakeetFeatureExtractor(
        feature_size=settings.num_mels, sampling_rate=settings.sample_rate, hop_length=settings.hop
    )
    result = extract(samples, sampling_rate=settings.sample_rate, return_tensors="pt")
    return result.input_features[0][result.attention_mask[0]]


def kaldi(samples: numpy.ndarray, settings: Settings) -> Tensor:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = settings.sample_rate
    options.frame_opts.frame_length_ms = 1000.0 * settings.window / settings.sample_rate
    options.frame_opts.frame_shift_ms = 1000.0 * settings.hop / settings.sample_rate
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = settings.num_mels
    options.mel_opts.low_freq = settings.f_min
    options.mel_opts.high_freq = settings.f_max
    fbank = kaldi_native_fbank.OnlineFbank(options)
    fbank.accept_waveform(settings.sample_rate, samples.tolist())
    fbank.input_finished()
    return torch.from_numpy(numpy.stack([fbank.get_frame(i) for i in range(fbank.num_frames_ready)]))


def torchaudio(samples: numpy.ndarray, settings: Settings, precision: torch.dtype = torch.float64) -> Tensor:
    options = {
        "sample_rate": settings.sample_rate,
        "window": settings.window,
        "hop": settings.hop,
        "num_mels": settings.num_mels,
        "f_min": settings.f_min,
        "f_max": settings.f_max or settings.sample_rate // 2,
    }
    return make_log_mel.log_mel(numpy.round(samples * 32768.0).astype(int).tolist(), options, precision)


EXTRACTORS = {"whisper": whisper, "nemo": nemo, "kaldi": kaldi, "torchaudio": torchaudio}


def features_of(samples: numpy.ndarray, settings: Settings) -> Tensor:
    """fp32 [frames, mels] of one utterance, fp32 in -1 .. 1."""
    return EXTRACTORS[settings.kind](samples, settings).float().contiguous()
