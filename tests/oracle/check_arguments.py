"""What `sotto plan --for transformers` wrote, taken by transformers' own TrainingArguments.

    .deps/oracle/bin/python tests/oracle/check_arguments.py FILE EFFECTIVE_BATCH

Exit status 1, with the reason, where a setting is unknown to it or does not come out as it went in.
"""

import json
import sys
from pathlib import Path

from transformers import TrainingArguments

# A machine without such a device refuses these; that each is a field is checked all the same.
OF_THE_DEVICE = ("bf16", "fp16", "tf32")


def check(path: Path, effective_batch: int) -> str | None:
    """What is wrong, if anything."""
    settings = json.loads(path.read_text())
    if unknown := settings.keys() - TrainingArguments.__dataclass_fields__.keys():
        return f"no arguments of transformers: {', '.join(sorted(unknown))}"
    taken = {name: value for name, value in settings.items() if name not in OF_THE_DEVICE}
    arguments = TrainingArguments(**taken, use_cpu=True)
    for name, value in taken.items():
        # Names of kinds come out as enums of strings.
        if getattr(arguments, name) != value:
            return f"{name}: {value!r} went in, {getattr(arguments, name)!r} came out"
    if arguments.train_batch_size * arguments.gradient_accumulation_steps != effective_batch:
        return (
            f"{arguments.train_batch_size} x {arguments.gradient_accumulation_steps} is not {effective_batch}"
        )
    if arguments.get_warmup_steps(1_000) < 0:
        return "a warmup of less than nothing"
    return None


if __name__ == "__main__":
    if wrong := check(Path(sys.argv[1]), int(sys.argv[2])):
        sys.exit(wrong)
