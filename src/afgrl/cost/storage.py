"""Whether the tables of training are in memory or in temporary files, which need disk space instead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from afgrl.cost.machine import free_disk
from afgrl.cost.memory import needed_memory, table_disk
from afgrl.cost.workload import Workload
from afgrl.data.benchmarks.cache import cache_folder
from afgrl.methods.afgrl import AFGRLSettings

MEMORY_SHARE = 0.8  # of the memory that tables in memory may need; judgment: files are slower, a full memory is fatal


@dataclass(frozen=True)
class StoragePlan:
    """Where tables are, and what training then needs."""

    memory_bytes: int  # in addition to what is in use
    disk_bytes: int = 0  # of temporary files
    folder: Path | None = None  # of these files; None: all tables are in memory


def storage_plan(settings: AFGRLSettings, load: Workload, memory: int) -> StoragePlan:
    """In memory if that takes at most 80 % of ``memory``; else in files, if there is space for them."""
    in_memory, in_files = StoragePlan(needed_memory(settings, load)), plan_with_files(settings, load)
    if in_files is None or in_memory.memory_bytes <= MEMORY_SHARE * memory:
        return in_memory
    has_space = in_files.folder is not None and in_files.disk_bytes <= free_disk(in_files.folder)
    return in_files if has_space and in_files.memory_bytes < in_memory.memory_bytes else in_memory


def plan_with_files(settings: AFGRLSettings, load: Workload) -> StoragePlan | None:
    """None if tables cannot be in files: in full batches, and on a GPU."""
    if load.device != "cpu" or not settings.in_batches:
        return None
    memory = needed_memory(settings, load, in_files=True)
    return StoragePlan(memory, table_disk(settings, load), cache_folder() / "spill")
