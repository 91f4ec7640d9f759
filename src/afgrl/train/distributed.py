"""The processes of a run: who this one is, and how all of them act at the same step.

One process that torchrun did not start is the trivial case, which needs no ``torch.distributed``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from afgrl.amounts import counted
from afgrl.errors import AfgrlError, UserError, disk_error
from afgrl.ops.collectives import Shards
from afgrl.train.loop import LOG_EVERY
from afgrl.train.rendezvous import join_start

LONGEST_READING = timedelta(days=1)
T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """One of the processes of a run."""

    rank: int
    size: int
    device: torch.device
    distributed: bool = True  # whether torchrun started it; even a single one then has only rows of the graph
    waiting: dist.ProcessGroup | None = None  # for what takes long in process 0; by default that of everything else
    agents: frozenset[str] = frozenset()  # in process 0: who started the processes; the same again after a restart

    @classmethod
    def of(cls, given: Processes | torch.device) -> Processes:
        """A device means one process on it, without torchrun."""
        return given if isinstance(given, Processes) else cls(0, 1, given, distributed=False)

    @property
    def writes(self) -> bool:
        """Whether this process writes the run folder and prints."""
        return self.rank == 0

    @property
    def share_memory(self) -> bool:
        """Whether all of them use the memory of one device, on which the whole graph is then."""
        one_machine = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
        return not self.distributed or (self.device.type == "cpu" and one_machine)

    def shards(self, n: int) -> Shards:
        """The rows of this process."""
        return Shards(n, self.rank, self.size, distributed=self.distributed)

    def from_first(self, call: Callable[[], T]) -> T:
        """The result of a call in process 0, in all processes; if it fails, they all fail with the same sentence."""
        if not self.distributed:
            return call()
        box: list[Any] = [_outcome(call) if self.writes else None]
        dist.broadcast_object_list(box, group=self.waiting, device=None if self.waiting else self.device)
        if isinstance(box[0], AfgrlError):
            raise box[0]
        result: T = box[0]
        return result

    def wait(self) -> None:
        """Until all processes are here."""
        if self.distributed:
            dist.barrier()

    def agree(self, step: int, stopping: bool, late: bool) -> tuple[bool, bool]:
        """Whether any process was asked to stop, or finds it time to save; several are asked every few steps only."""
        if not self.distributed:
            return stopping, late
        if step % LOG_EVERY:
            return False, False
        flags = torch.tensor([int(stopping), int(late)], device=self.device)
        any_stopping, any_late = (self.shards(0).sum(flags) > 0).tolist()
        return any_stopping, any_late


def _outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the sentence why there is none; any other error ends this process, and torchrun starts
    all of them again."""
    try:
        return call()
    except AfgrlError as error:
        return error
    except OSError as error:
        return disk_error(error)


@contextlib.contextmanager
def joined_processes(device: torch.device) -> Iterator[Processes]:
    """Connects the processes that torchrun started: by NCCL on GPUs, one process each, or by Gloo on CPUs."""
    local, on_machine = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if device.type == "cuda":
        if on_machine > torch.cuda.device_count():
            raise UserError(
                f"{counted(on_machine, 'process', 'processes')} need as many GPUs, but PyTorch finds "
                f"{torch.cuda.device_count()}; start fewer, or use --device cpu."
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    store, rank, size, agents = join_start()
    backend, own = ("nccl", device) if device.type == "cuda" else ("gloo", None)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, device_id=own)
    # By default a process waits ten minutes (NCCL) or thirty (Gloo) for the others, but process 0 may read for longer.
    waiting = dist.new_group(backend="gloo", timeout=LONGEST_READING)
    try:
        yield Processes(rank, size, device, waiting=waiting, agents=agents)
    finally:
        dist.destroy_process_group()
