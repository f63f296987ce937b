"""The fixture of Whisper's decoding: what transformers' rules, beam search and time warping do.

- rules: random histories and scores, and which tokens WhisperTimeStampLogitsProcessor and the processors of
  suppressed tokens leave.
- searches: what generate() finds in a table of scores, which stands for a network: what follows depends on
  the last token and its position, so that no two sequences have the same score.
- segments: how _retrieve_segment divides windows.
- warping: _median_filter, _dynamic_time_warping and the times of _extract_token_timestamps.
"""

import random
from types import SimpleNamespace
from typing import Any

import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.generation.logits_process import (
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    WhisperTimeStampLogitsProcessor,
)
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.whisper.generation_whisper import (
    WhisperGenerationMixin,
    _dynamic_time_warping,
    _median_filter,
)

PACKAGES = ["transformers"]

# Texts 0 to 9, the end, a start, no timestamps, and ten timestamps.
END, NO_TIMESTAMPS, SIZE = 10, 12, 23
FIRST = NO_TIMESTAMPS + 1
SUPPRESSED, SUPPRESSED_FIRST = [4, 11], [0, END]


def numbers(draw: random.Random, count: int, scale: float) -> list[float]:
    """Multiples of 1/1024, which fp32 holds: Python promises random() in all its versions."""
    return [round((draw.random() * 2.0 - 1.0) * scale * 1024.0) / 1024.0 for _ in range(count)]


def histories(draw: random.Random) -> list[list[int]]:
    """Begins of texts with timestamps, of which some keep no rule."""
    found: list[list[int]] = [
        [],
        [FIRST],
        [FIRST, 1],
        [FIRST, 1, FIRST + 2],
        [FIRST, 1, FIRST + 2, FIRST + 2],
    ]
    while len(found) < 60:
        tokens = [FIRST + int(draw.random() * 3)]
        for _ in range(int(draw.random() * 7)):
            is_timestamp = draw.random() < 0.4
            tokens.append(FIRST + int(draw.random() * 10) if is_timestamp else int(draw.random() * 10))
        found.append(tokens)
    return found


def rules() -> dict[str, Any]:
    draw = random.Random("rules")
    rows = []
    for index, tokens in enumerate(histories(draw) + [[]] * 20):
        max_initial = [None, 0, 3][index % 3]
        config = SimpleNamespace(
            no_timestamps_token_id=NO_TIMESTAMPS,
            eos_token_id=END,
            bos_token_id=END,
            max_initial_timestamp_index=max_initial,
        )
        prompt = [11, 2]
        scores = torch.tensor(numbers(draw, SIZE, 3.0))
        ids = torch.tensor([prompt + tokens])
        left = SuppressTokensAtBeginLogitsProcessor(SUPPRESSED_FIRST, begin_index=len(prompt))(
            ids, scores[None]
        )
        left = SuppressTokensLogitsProcessor(SUPPRESSED)(ids, left)
        left = WhisperTimeStampLogitsProcessor(config, begin_index=len(prompt))(ids, left)[0]
        rows.append(
            {
                "tokens": tokens,
                "max_initial_index": max_initial,
                "scores": scores,
                "allowed": torch.nonzero(left > float("-inf")).flatten().tolist(),
            }
        )
    return {
        "end": END,
        "first_timestamp": FIRST,
        "suppressed": SUPPRESSED,
        "suppressed_first": SUPPRESSED_FIRST,
        "rows": rows,
    }


class Table(PreTrainedModel, GenerationMixin):
    """A network whose logits are those of its last token at its position."""

    config_class = PretrainedConfig

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(PretrainedConfig(vocab_size=logits.shape[-1], is_encoder_decoder=False))
        self.logits = torch.nn.Parameter(logits, requires_grad=False)

    def prepare_inputs_for_generation(self, input_ids: torch.Tensor, **_: Any) -> dict[str, Any]:
        return {"input_ids": input_ids}

    def forward(self, input_ids: torch.Tensor, **_: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.logits[torch.arange(input_ids.shape[1]), input_ids])


def searches() -> dict[str, Any]:
    draw = random.Random("searches")
    size, end, prompt, max_length = 6, 1, [2, 3], 9
    rows = []
    for index in range(48):
        # [positions, last token, next token]
        logits = torch.tensor(numbers(draw, max_length * size**2, 3.0)).view(max_length, size, size)
        # The end is likely or not.
        logits[:, :, end] += [-1.0, 0.0, 1.0][index % 3]
        beams, penalty = [1, 2, 3, 5][index % 4], [0.0, 1.0, -0.5, 2.0][index // 12]
        config = GenerationConfig(
            num_beams=beams,
            length_penalty=penalty,
            max_length=max_length,
            early_stopping=False,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=end,
            bos_token_id=0,
            use_cache=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        result = Table(logits).eval().generate(torch.tensor([prompt]), generation_config=config)
        tokens = result.sequences[0, len(prompt) :].tolist()
        score = None if beams == 1 else round(float(result.sequences_scores[0]), 3)
        rows.append(
            {
                "logits": logits.flatten(),
                "beams": beams,
                "length_penalty": penalty,
                "tokens": tokens[: tokens.index(end)] if end in tokens else tokens,
                "score": score,
            }
        )
    return {"size": size, "end": end, "prompt": prompt, "max_length": max_length, "rows": rows}


def segments() -> list[dict[str, Any]]:
    draw = random.Random("segments")
    rows = []
    for index in range(40):
        tokens, now = [FIRST], 0
        for _ in range(int(draw.random() * 5)):
            tokens += [int(draw.random() * 10) for _ in range(1 + int(draw.random() * 3))]
            now += 1 + int(draw.random() * 40)
            tokens.append(FIRST + now)
            if draw.random() < 0.8:
                tokens.append(FIRST + now)
        tokens += [int(draw.random() * 10) for _ in range(int(draw.random() * 3))]
        if index % 5 == 0:
            tokens = [token for token in tokens if token < FIRST] or [3]
        frames = [3000, 1234][index % 2]
        found, advance = WhisperGenerationMixin._retrieve_segment(
            seek_sequence=torch.tensor(tokens),
            seek_outputs=[{}],
            time_offset=torch.tensor([12.5], dtype=torch.float64),
            timestamp_begin=FIRST,
            seek_num_frames=torch.tensor([frames]),
            time_precision=0.02,
            time_precision_features=0.01,
            input_stride=2,
            prev_idx=0,
            idx=0,
            return_token_timestamps=False,
            decoder_input_ids=torch.zeros(1, 4),
        )
        rows.append(
            {
                "tokens": tokens,
                "num_frames": frames,
                "advance": int(advance),
                "segments": [
                    {
                        "start": float(segment["start"]),
                        "end": float(segment["end"]),
                        "text": [token for token in segment["tokens"].tolist() if token < FIRST],
                    }
                    for segment in found
                ],
            }
        )
    return rows


def warping() -> dict[str, Any]:
    draw = random.Random("warping")
    paths = []
    for rows, columns in [(1, 1), (1, 6), (6, 1), (3, 8), (7, 7), (9, 4), (12, 30)]:
        costs = torch.tensor(numbers(draw, rows * columns, 1.0), dtype=torch.float64).view(rows, columns)
        text, time = _dynamic_time_warping(costs.numpy())
        paths.append({"costs": costs, "rows": text.tolist(), "columns": time.tolist()})
    filters = []
    for size, width in [(3, 7), (4, 7), (20, 7), (9, 3), (5, 1)]:
        row = torch.tensor(numbers(draw, size, 1.0))
        filtered = _median_filter(row[None, None, None], width).flatten()
        filters.append({"row": row, "width": width, "filtered": filtered})
    timed = []
    for heads, tokens, frames in [(1, 4, 20), (2, 6, 31), (3, 9, 60)]:
        # As the attentions of a decoder of one layer: [1, heads, tokens, frames].
        values = numbers(draw, heads * tokens * frames, 1.0)
        logits = torch.tensor(values, dtype=torch.float64).view(1, heads, tokens, frames)
        for token in range(tokens):
            begin = token * frames // tokens
            logits[:, :, token, begin : begin + frames // tokens] += 3.0
        weights = logits.softmax(-1)
        model = SimpleNamespace(config=SimpleNamespace(decoder_layers=1, median_filter_width=7))

        class Outputs(dict):
            cross_attentions = [(weights,)]
            sequences = torch.zeros(1, tokens)

        times = WhisperGenerationMixin._extract_token_timestamps(
            model, Outputs(), [[0, head] for head in range(heads)], time_precision=1.0, num_input_ids=0
        )
        timed.append({"weights": weights[0], "frames": times[0, :tokens].long().tolist()})
    return {"paths": paths, "filters": filters, "timed": timed}


def make() -> dict[str, Any]:
    with torch.no_grad():
        return {"rules": rules(), "searches": searches(), "segments": segments(), "warping": warping()}
