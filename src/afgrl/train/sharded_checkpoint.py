"""Checkpoints of several processes, by ``torch.distributed.checkpoint``: each process writes the rows it has, and any
number of processes can read them.

A checkpoint is a folder of tensors; numbers are tensors too, so that nothing has to be unpickled except PyTorch's own
table of contents, which is written last and read with an allow-list.
"""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

from afgrl.ops.collectives import Shards
from afgrl.train.state import TrainState

CONTENTS = ".metadata"  # a folder without it is not complete
ROWS = "rows."  # prefix of tensors [n, d] whose rows are spread over the processes
NUMBERS = {"step": torch.int64, "last": torch.int64, "seconds": torch.float64}
# What the table of contents consists of, by module.
ALLOWED = {
    "pathlib": {"PosixPath", "WindowsPath"},
    "torch": {"Size", "float32", "float64", "int64", "uint8"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
        "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
    },
}  # fmt: skip


def save_shards(folder: Path, state: TrainState, shards: Shards) -> None:
    """Called by all processes. ``folder`` must not exist."""
    dcp.save(_tensors(state, shards), checkpoint_id=folder)


def load_shards(folder: Path, device: torch.device, shards: Shards | None) -> dict[str, Any]:
    """A checkpoint for ``TrainState.restore``, in all processes with their rows, or in a single one without
    ``shards``."""
    distributed = shards is not None and shards.distributed
    reader = _Reader(folder)
    tensors: dict[str, Tensor] = {}
    for name, entry in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(entry, TensorStorageMetadata)
        if name.startswith(ROWS) and shards is not None and distributed:
            own = torch.empty(shards.n_own, entry.size[1], dtype=entry.properties.dtype)
            tensors[name] = _spread(own, shards)
        else:
            tensors[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as intended in a single process
        dcp.load(tensors, storage_reader=_Reader(folder), no_dist=not distributed)
    local = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in tensors.items()}
    return _checkpoint({name: value.to(device) for name, value in local.items()})


def _tensors(state: TrainState, shards: Shards) -> dict[str, Tensor]:
    """All of a checkpoint as tensors on the host, by one name each."""
    checkpoint = state.to_checkpoint()
    method = dict(checkpoint["method"])
    extra = {name: value for name, value in method.pop("_extra_state", {}).items() if value is not None}
    rows = {name: extra.pop(name) for name in state.method.row_state if name in extra}
    tensors = {name: torch.tensor(checkpoint[name], dtype=dtype) for name, dtype in NUMBERS.items()}
    tensors |= {name: checkpoint[name] for name in ("lowest", "waited", "rng")}
    tensors |= {f"method.{name}": value for name, value in method.items()}
    tensors |= {f"extra.{name}": torch.as_tensor(value) for name, value in extra.items()}
    for number, values in checkpoint["optimizer"]["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    tensors = {name: value.detach().cpu() for name, value in tensors.items()}
    return tensors | {f"{ROWS}{name}": _spread(value.cpu(), shards) for name, value in rows.items()}


def _checkpoint(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The opposite of ``_tensors``."""
    checkpoint: dict[str, Any] = {name: tensors[name].item() for name in NUMBERS}
    checkpoint |= {name: tensors[name] for name in ("lowest", "waited", "rng")}
    method: dict[str, Any] = _named("method.", tensors)
    if extra := _named("extra.", tensors) | _named(ROWS, tensors):
        method["_extra_state"] = extra
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in _named("optimizer.", tensors).items():
        number, moment = name.split(".")
        moments.setdefault(int(number), {})[moment] = value
    return checkpoint | {"method": method, "optimizer": {"state": moments}}


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _spread(own: Tensor, shards: Shards) -> Tensor:
    """The rows of this process as part of a table of all processes, which PyTorch can store and divide differently."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shape = torch.Size((shards.n, own.shape[1]))
    return DTensor.from_local(own, mesh, [Shard(0)], run_check=False, shape=shape, stride=(own.shape[1], 1))


class _Reader(dcp.FileSystemReader):
    """Reads the table of contents without executing anything else that a file may contain."""

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        with open(Path(os.fspath(self.path)) / CONTENTS, "rb") as file:
            metadata: Metadata = _Contents(file).load()
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Contents(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)
