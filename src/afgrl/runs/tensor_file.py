"""Tensors in one file with a checksum: the format itself notices a file that was cut, but not a changed value."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from afgrl.runs.files import replace_file
from afgrl.runs.readers import check, reading

CHECKSUM = "checksum"


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and texts about them."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(plain, metadata={**(metadata or {}), CHECKSUM: _checksum(plain)})
    # Written as bytes: the library would create a file that only its owner may read.
    replace_file(file, lambda path: path.write_bytes(content))


def read_tensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the texts about them; a file of an earlier version has no checksum."""
    with reading(file):
        if not file.is_file():
            raise FileNotFoundError
        with safe_open(file, "pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            metadata: dict[str, str] = stored.metadata() or {}
        check(metadata.get(CHECKSUM) in (None, _checksum(tensors)), "its values do not have the stored checksum")
        return tensors, metadata


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
