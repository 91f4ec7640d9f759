"""The processes that torchrun started: who this one is, and how all of them act at the same step."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from afgrl.errors import UserError
from afgrl.ops.collectives import Shards
from afgrl.train.loop import LOG_EVERY


@dataclass(frozen=True)
class Processes:
    """One of the processes of a run."""

    rank: int
    size: int
    device: torch.device

    @property
    def writes(self) -> bool:
        """Whether this process writes the run folder and prints."""
        return self.rank == 0

    def shards(self, n: int) -> Shards:
        return Shards(n, self.rank, self.size, distributed=True)

    def from_first(self, value: Any) -> Any:
        """The value of process 0, in all processes; exceptions are raised in all of them."""
        box = [value]
        dist.broadcast_object_list(box, device=self.device)
        if isinstance(box[0], BaseException):
            raise box[0]
        return box[0]

    def agree(self, step: int, stopping: bool, late: bool) -> tuple[bool, bool]:
        """Whether any process was asked to stop, or finds it time to save; asked every few steps only."""
        if step % LOG_EVERY:
            return False, False
        flags = self.shards(0).sum(torch.tensor([int(stopping), int(late)], device=self.device)).tolist()
        return flags[0] > 0, flags[1] > 0


@contextlib.contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Connects the processes that torchrun started: by NCCL on GPUs, one process each, or by Gloo on CPUs."""
    local, on_machine = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if device.type == "cuda":
        if on_machine > torch.cuda.device_count():
            raise UserError(
                f"{on_machine} processes need as many GPUs, but PyTorch finds {torch.cuda.device_count()}; "
                "start fewer, or use --device cpu."
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    # Restarted processes find the store of the first start, with the addresses of processes that are gone.
    store, rank, size = next(dist.rendezvous("env://"))
    store = dist.PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield Processes(rank, size, device)
    finally:
        dist.destroy_process_group()
