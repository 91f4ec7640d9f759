"""What this machine offers: free memory, the rate of matrix products, and the clocks that measure them."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from afgrl.ops.cgroups import PROCESS, control_groups
from afgrl.train.cuda_graph import matmul_precision

WARM_UP_CALLS = 8  # they compile kernels and capture steps
MAX_CALLS, MIN_CALLS = 200, 3
# Files of a control group, of both versions.
LIMIT, USED = ("memory.max", "memory.limit_in_bytes"), ("memory.current", "memory.usage_in_bytes")
CACHED = ("inactive_file", "total_inactive_file")  # with the groups below; version 2 always counts these


def matmul_rates(device: torch.device) -> dict[str, float]:
    """Operations per second of a large matrix product, in the precision of training and of neighbor search."""
    kinds = {"train": torch.float32, "search": torch.bfloat16 if device.type == "cuda" else torch.float32}
    size = 8192 if device.type == "cuda" else 2048
    rates = {}
    for kind, dtype in kinds.items():
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        with matmul_precision("tf32"):
            best = min(all_seconds(partial(torch.mm, a, b), device, 2.0))  # a limit is the best that was reached
        rates[kind] = 2 * size**3 / best
    return rates


def median_seconds(call: Callable[[], Any], device: torch.device, budget: float) -> float:
    return statistics.median(all_seconds(call, device, budget))


def all_seconds(call: Callable[[], Any], device: torch.device, budget: float) -> list[float]:
    """The duration of each call, for 3 to 200 calls within a budget of seconds, after a warm-up."""
    clock = _gpu_seconds if device.type == "cuda" else _cpu_seconds
    first = clock(call, 1)[0]
    for _ in range(WARM_UP_CALLS if first < budget / 100 else 1):
        first = clock(call, 1)[0]
    return clock(call, max(MIN_CALLS, min(MAX_CALLS, int(budget / max(first, 1e-6)))))


def _cpu_seconds(call: Callable[[], Any], times: int) -> list[float]:
    marks = [time.perf_counter()]
    for _ in range(times):
        call()
        marks.append(time.perf_counter())
    return [after - before for before, after in pairwise(marks)]


def _gpu_seconds(call: Callable[[], Any], times: int) -> list[float]:
    """By the clock of the GPU, without synchronizing between calls."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in pairwise(marks)]


def free_memory(kind: str) -> int:
    """Free bytes."""
    if kind == "cuda":
        return torch.cuda.mem_get_info()[0]
    return _smallest(_of_machine("MemAvailable"), free_of_groups(control_groups("memory")), free_addresses())


def free_disk(folder: Path) -> int:
    """Free bytes on the disk of a folder that may not exist yet."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    return shutil.disk_usage(existing).free


def total_memory(kind: str) -> int:
    """Bytes that this process can have at most besides those it has, if no other process had any: of RAM and swap, or
    of the smallest limit. On a GPU, all of its memory."""
    if kind == "cuda":
        return torch.cuda.mem_get_info()[1]
    most = min(_of_machine("MemTotal", "SwapTotal"), limit_of_groups(control_groups("memory")))
    return _smallest(most - anonymous_memory(), free_addresses())


def _smallest(*limits: float) -> int:
    least = max(min(limits), 0)
    return int(least) if math.isfinite(least) else sys.maxsize


def anonymous_memory(process: Path = PROCESS) -> int:
    """Bytes of this process that are in no file: the system cannot drop them. 0 where it cannot be asked."""
    try:
        lines = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return int(lines["RssAnon"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 0


def free_addresses(process: Path = PROCESS) -> float:
    """Bytes that this process can still map (`ulimit -v`); infinite without a limit."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return math.inf
        return most - int((process / "statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not Linux
        return math.inf


def _of_machine(*fields: str) -> float:
    """The sum of fields of /proc/meminfo, in bytes."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return sum(int(lines[field].split()[0]) for field in fields) * 1024
    except (OSError, KeyError, ValueError):  # not Linux
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return math.inf


def limit_of_groups(groups: Iterable[Path]) -> float:
    """The smallest limit of control groups, in bytes; infinite without one."""
    return min(map(_limit, groups), default=math.inf)


def free_of_groups(groups: Iterable[Path]) -> float:
    """Bytes that are free below the limit of each of these groups. Page cache counts as used there, but is released on
    demand."""
    return min((_limit(group) - _used(group) + _cached_files(group) for group in groups), default=math.inf)


def _limit(group: Path) -> float:
    return _number(group, LIMIT, math.inf)


def _used(group: Path) -> float:
    return _number(group, USED, 0.0)


def _number(group: Path, names: Iterable[str], otherwise: float) -> float:
    """The number in the one of these files that exists; ``max`` is none."""
    for name in names:
        with suppress(OSError, ValueError):
            return int((group / name).read_text())
    return otherwise


def _cached_files(group: Path) -> int:
    try:
        lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(next(lines[name] for name in reversed(CACHED) if name in lines))
    except (OSError, StopIteration, ValueError):
        return 0
