"""Clocks: seconds and bytes of a call, and what the device could do at best."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from afgrl.steps import matmul_precision

WARM_UP = 8  # calls: kernels are compiled, steps recorded
MOST, LEAST = 200, 3  # calls measured


def matmul_rates(device: torch.device) -> dict[str, float]:
    """Operations per second of a large product: to train, and to search."""
    kinds = {"train": torch.float32, "search": torch.bfloat16 if device.type == "cuda" else torch.float32}
    size = 8192 if device.type == "cuda" else 2048
    rates = {}
    for kind, dtype in kinds.items():
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        with matmul_precision("tf32"):
            best = min(all_seconds(partial(torch.mm, a, b), device, 2.0))  # of a limit, what it can be
        rates[kind] = 2 * size**3 / best
    return rates


@contextlib.contextmanager
def implementation(choice: str) -> Iterator[None]:
    """``auto`` or ``reference``, as AFGRL_OPS would have it."""
    former = os.environ.get("AFGRL_OPS")
    os.environ["AFGRL_OPS"] = choice
    try:
        yield
    finally:
        os.environ.pop("AFGRL_OPS")
        if former is not None:
            os.environ["AFGRL_OPS"] = former


def recorded(call: Callable[[], Any]) -> Callable[[], None]:
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        call()
    return graph.replay


def median_seconds(call: Callable[[], Any], device: torch.device, budget: float) -> float:
    return statistics.median(all_seconds(call, device, budget))


def all_seconds(call: Callable[[], Any], device: torch.device, budget: float) -> list[float]:
    """Of each call, of as many as fit into the budget of seconds, 3 to 200, after some that do not count."""
    clock = _gpu_seconds if device.type == "cuda" else _cpu_seconds
    first = clock(call, 1)[0]
    for _ in range(WARM_UP if first < budget / 100 else 1):
        first = clock(call, 1)[0]
    return clock(call, max(LEAST, min(MOST, int(budget / max(first, 1e-6)))))


def _cpu_seconds(call: Callable[[], Any], times: int) -> list[float]:
    marks = [time.perf_counter()]
    for _ in range(times):
        call()
        marks.append(time.perf_counter())
    return [after - before for before, after in pairwise(marks)]


def _gpu_seconds(call: Callable[[], Any], times: int) -> list[float]:
    """By the GPU's own clock: between two marks it is never idle but for the call's own sake."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in pairwise(marks)]


@contextlib.contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int | None]]:
    """Yields a list that holds, afterwards, the bytes that were in use at most beyond those before."""
    peak: list[int | None] = [None]
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield peak
        peak[0] = torch.cuda.max_memory_allocated() - before
    elif Path("/proc/self/clear_refs").exists():
        ctypes.CDLL(None).malloc_trim(0)  # what was freed shall not count as still there
        Path("/proc/self/clear_refs").write_text("5")  # the highest so far is now what it is now
        before_cpu = _resident("VmRSS")
        yield peak
        peak[0] = _resident("VmHWM") - before_cpu
    else:
        yield peak


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0
