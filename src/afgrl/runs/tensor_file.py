"""Tensors in one file with a checksum: the format itself notices a file that was cut, but not a changed value."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from afgrl.runs.files import replace_file
from afgrl.runs.readers import check, reading

CHECKSUM = "checksum"
ALIGNMENT = 8  # bytes
TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and texts about them."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = _header(plain, {**(metadata or {}), CHECKSUM: _checksum(plain)})
    replace_file(file, lambda path: _save(path, header, plain))


def _save(path: Path, header: bytes, tensors: Mapping[str, Tensor]) -> None:
    with open(path, "wb") as file:
        file.write(header)
        for name in _in_order(tensors):
            file.write(_bytes(tensors[name]))


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """What precedes the values in the format of safetensors. The library would return all values as a second copy in
    memory, or create a file that only its owner may read."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    first = 0
    for name in _in_order(tensors):
        tensor = tensors[name]
        last = first + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [first, last]}
        first = last
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _in_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Wide types first, so that each value is aligned."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _bytes(tensor: Tensor) -> memoryview:
    flat = tensor.reshape(-1).as_strided((tensor.numel(),), (1,))  # one of NumPy without elements has stride 0
    return flat.view(torch.uint8).numpy().data


def read_tensors(file: Path, *, verified: bool = False) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors, which stay in the file until they are used, and the texts about them. Unless the file was
    ``verified`` before, its checksum is compared; a file of an earlier version has none."""
    with reading(file):
        if not file.is_file():
            raise FileNotFoundError
        with safe_open(file, "pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            metadata: dict[str, str] = stored.metadata() or {}
        same = verified or metadata.get(CHECKSUM) in (None, _checksum(tensors))
        check(same, "its values do not have the stored checksum")
        return tensors, metadata


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(_bytes(tensor), value)
    return f"{value:08x}"
