"""sotto trains speech transformers inside a memory budget.

>>> plan = sotto.plan(model="tiny", memory="300MiB", train="train.jsonl", effective_batch=4)
>>> run = sotto.train(plan, folder="planned", max_steps=2)
>>> run.wait().steps
2

Every run has a process of its own: the program `sotto` of this package. docs/python.md describes both.
"""

from . import datasets
from ._events import (
    Checkpoint,
    ErrorRate,
    Evaluation,
    Event,
    Failed,
    Finished,
    Planned,
    Recovery,
    Stage,
    Started,
    Step,
    Warned,
)
from ._hub import push_to_hub
from ._install import version as _version
from ._plan import Candidate, Outlook, Plan, Reason, plan
from ._profile import Gpu, Host, Machine, Model, profile
from ._recogniser import Recogniser, Scores, Sentence, Transcript, Word, evaluate
from ._run import Epoch, Memory, Page, Run, find_run, train
from .errors import ConfigError, DataError, Error, Infeasible, InternalError, OutOfMemory, ProcessKilled

__version__ = _version()

__all__ = [
    "Candidate",
    "Checkpoint",
    "ConfigError",
    "DataError",
    "Epoch",
    "Error",
    "ErrorRate",
    "Evaluation",
    "Event",
    "Failed",
    "Finished",
    "Gpu",
    "Host",
    "Infeasible",
    "InternalError",
    "Machine",
    "Memory",
    "Model",
    "OutOfMemory",
    "Outlook",
    "Page",
    "Plan",
    "Planned",
    "ProcessKilled",
    "Reason",
    "Recogniser",
    "Recovery",
    "Run",
    "Scores",
    "Sentence",
    "Stage",
    "Started",
    "Step",
    "Transcript",
    "Warned",
    "Word",
    "datasets",
    "evaluate",
    "find_run",
    "plan",
    "profile",
    "push_to_hub",
    "train",
]
