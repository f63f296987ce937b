"""Trains decoder_lm in PyTorch beside a run of sotto: the other side of docs/results.md.

    .deps/oracle/bin/python tests/oracle/train_lm_twin.py --init INIT --train TRAIN.tokens --dev DEV.tokens \
        --vocabulary 4000 --tied --steps 200 --batch 32 --row-tokens 128 --rate 1e-3 --warmup 20 --seed 1

INIT is a checkpoint that sotto wrote before it learned anything (`--max-steps 1`: warm-up begins at a rate of
0); the token files lie beside the texts after a run. Both sides then begin with the same weights and see the
same rows in the same order. Without dropout. Prints the loss of every twentieth step, then a line of JSON
with all of them and the perplexity on DEV.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from decoder_lm import IGNORED, DecoderLm, LmShape, row_loss
from philox import Key, Stream, Utterance
from safetensors.torch import load_file
from token_file import read_token_file
from torch import Tensor
from twin import cosine_rate, parameter_groups, sinusoids


class Rows:
    """The rows of a token file, as data/text_rows.h cuts them."""

    def __init__(self, path: Path, length: int) -> None:
        self.tokens, self.is_last = map(torch.from_numpy, read_token_file(path))
        self.length = length

    def __len__(self) -> int:
        return math.ceil(len(self.tokens) / self.length)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [T], targets [T], and the number of each token's document in the row [T]."""
        begin, end = row * self.length, min((row + 1) * self.length, len(self.tokens))
        tokens, is_last = self.tokens[begin:end], self.is_last[begin:end]
        following = torch.cat([self.tokens[begin + 1 : end + 1], torch.zeros(1, dtype=torch.int64)])
        targets = torch.where(is_last, IGNORED, following[: len(tokens)])
        return tokens, targets, torch.cumsum(is_last, 0) - is_last.to(torch.int64)


def logits_of(model: DecoderLm, tokens: Tensor, documents: Tensor) -> Tensor:
    """[T, V] of a row: documents do not see each other, and positions begin anew in each."""
    places = torch.arange(len(tokens))
    starts = torch.searchsorted(documents, documents)  # of each token's document
    x = model.embedding(tokens) + sinusoids(len(tokens), model.shape.width)[places - starts].float()
    mask = (places[None] <= places[:, None]) & (documents[None] == documents[:, None])
    x = x[None]
    for block in model.layers:
        x = block(x, mask)
    return model.head(x, model.embedding.weight)[0]


def perplexity(model: DecoderLm, rows: Rows) -> float:
    loss, count = 0.0, 0
    with torch.no_grad():
        for row in range(len(rows)):
            tokens, targets, documents = rows[row]
            loss += float(row_loss(logits_of(model, tokens, documents), targets, 0.0))
            count += int((targets != IGNORED).sum())
    return math.exp(loss / count)


def load_weights(model: DecoderLm, checkpoint: Path) -> None:
    stored = load_file(checkpoint / "model.safetensors")
    own = model.state_dict()
    missing = own.keys() - stored.keys()
    if missing:
        raise SystemExit(f"{checkpoint} lacks {sorted(missing)}; it has {sorted(stored)}")
    model.load_state_dict({name: stored[name].float() for name in own})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("init", "train", "dev"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--row-tokens", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tied", action="store_true", help="the output's weight is the embedding's")
    arguments = parser.parse_args()

    shape = LmShape(
        features=0,
        vocabulary=arguments.vocabulary,
        layers=arguments.layers,
        width=arguments.width,
        heads=arguments.heads,
        hidden=4 * arguments.width,
        dropout=0.0,
        tied=arguments.tied,
    )
    model = DecoderLm(shape)
    load_weights(model, arguments.init)
    rows = Rows(arguments.train, arguments.row_tokens)
    optimizer = torch.optim.AdamW(
        parameter_groups(model, arguments.decay), lr=arguments.rate, betas=(0.9, 0.98), eps=1e-8
    )
    order: list[int] = []
    epoch = 0
    losses = []
    for step in range(1, arguments.steps + 1):
        if not order:
            key = Key(seed=arguments.seed, purpose="shuffle", step=epoch)
            order = Stream(key, Utterance()).permutation(len(rows))
            epoch += 1
        chosen, order = order[: arguments.batch], order[arguments.batch :]
        batch = [rows[row] for row in chosen]
        count = sum(int((targets != IGNORED).sum()) for _, targets, _ in batch)
        optimizer.zero_grad()
        total = 0.0
        for tokens, targets, documents in batch:
            loss = row_loss(logits_of(model, tokens, documents), targets, 0.0) / count
            loss.backward()
            total += float(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step, arguments.steps, arguments.rate, arguments.warmup)
        optimizer.step()
        losses.append(total)
        if step % 20 == 0:
            print(f"step {step}: loss {total:.4f}", flush=True)
    result = {"losses": losses, "perplexity": perplexity(model, Rows(arguments.dev, arguments.row_tokens))}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
