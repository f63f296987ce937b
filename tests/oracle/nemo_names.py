"""Names of weights in `.nemo` archives, from those of transformers' Parakeet, and the parts of an archive."""

import gzip
import io
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

# Beginnings of names, then parts of them: (transformers, NeMo).
BEGINNINGS = {
    "encoder.subsampling.layers.": "encoder.pre_encode.conv.",
    "encoder.subsampling.linear.": "encoder.pre_encode.out.",
    "ctc_head.": "decoder.decoder_layers.0.",
    "decoder.embedding.": "decoder.prediction.embed.",
    "decoder.lstm.": "decoder.prediction.dec_rnn.lstm.",
    "encoder_projector.": "joint.enc.",
    "decoder.decoder_projector.": "joint.pred.",
    "joint.head.": "joint.joint_net.2.",
}
PARTS = {
    ".conv.norm.": ".conv.batch_norm.",
    ".q_proj.": ".linear_q.",
    ".k_proj.": ".linear_k.",
    ".v_proj.": ".linear_v.",
    ".o_proj.": ".linear_out.",
    ".relative_k_proj.": ".linear_pos.",
    ".bias_u": ".pos_bias_u",
    ".bias_v": ".pos_bias_v",
}


def nemo_name(name: str) -> str:
    for theirs, nemo in BEGINNINGS.items():
        if name.startswith(theirs):
            return nemo + name.removeprefix(theirs)
    for theirs, nemo in PARTS.items():
        if theirs in name:
            return name.replace(theirs, nemo)
    return name


class SettingsDumper(yaml.SafeDumper):
    """Repeats a list that settings have in two places, as NeMo does."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass
class Archive:
    """What a `.nemo` archive holds: settings, weights, and other files by their names in it."""

    config: dict[str, Any]
    weights: dict[str, Tensor]
    files: dict[str, bytes] = field(default_factory=dict)


def write_archive(path: Path, archive: Archive, *, packs: bool = False) -> None:
    """As NeMo packs a folder, but with the same bytes each time."""
    weights = io.BytesIO()
    torch.save(archive.weights, weights)
    text = yaml.dump(archive.config, Dumper=SettingsDumper, sort_keys=False, allow_unicode=True)
    files = archive.files | {"model_config.yaml": text.encode(), "model_weights.ckpt": weights.getvalue()}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        folder = tarfile.TarInfo(".")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    data = content.getvalue()
    path.write_bytes(gzip.compress(data, mtime=0) if packs else data)


def read_archive(path: Path) -> Archive:
    """With the tools that NeMo uses; the weights without running anything."""
    archive = Archive({}, {})
    with tarfile.open(path) as tar:
        for member in tar:
            if not member.isfile():
                continue
            name = member.name.removeprefix("./")
            data = tar.extractfile(member).read()
            if name == "model_config.yaml":
                archive.config = yaml.safe_load(data)
            elif name == "model_weights.ckpt":
                archive.weights = torch.load(io.BytesIO(data), weights_only=True)
            else:
                archive.files[name] = data
    return archive


def file_named_by(archive: Archive, key: str) -> bytes:
    """A file of the tokenizer, by the name that the settings give it."""
    return archive.files[re.sub("^nemo:", "", archive.config["tokenizer"][key])]
