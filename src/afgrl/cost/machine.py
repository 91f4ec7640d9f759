"""What this machine offers: free memory, the rate of matrix products, and the clocks that measure them."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from afgrl.train.cuda_graph import matmul_precision

WARM_UP_CALLS = 8  # they compile kernels and capture steps
MAX_CALLS, MIN_CALLS = 200, 3
CONTROL_GROUP = Path("/sys/fs/cgroup")


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
    free = min(_of_machine("MemAvailable"), _free_of_container())
    return int(free) if math.isfinite(free) else sys.maxsize


def free_disk(folder: Path) -> int:
    """Free bytes on the disk of a folder that may not exist yet."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    return shutil.disk_usage(existing).free


def total_memory(kind: str) -> int:
    """Bytes that a process can have at most, used or free: RAM and swap, or the limit of a control group."""
    if kind == "cuda":
        return torch.cuda.mem_get_info()[1]
    most = min(_of_machine("MemTotal", "SwapTotal"), _limit_of_container())
    return int(most) if math.isfinite(most) else sys.maxsize


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


def _limit_of_container(group: Path = CONTROL_GROUP) -> float:
    try:
        limit = (group / "memory.max").read_text().strip()
        return math.inf if limit == "max" else int(limit)
    except (OSError, ValueError):
        return math.inf


def _free_of_container(group: Path = CONTROL_GROUP) -> float:
    """Free bytes below the limit of a control group, if there is one."""
    try:
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        return math.inf if limit == "max" else int(limit) - int(used) + _cached_files(group)
    except (OSError, ValueError):
        return math.inf


def _cached_files(group: Path) -> int:
    """Page cache: it counts as used but is released on demand."""
    try:
        lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int(lines["inactive_file"])
    except (OSError, KeyError, ValueError):
        return 0
