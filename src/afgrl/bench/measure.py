"""Choosing the implementation, capturing a call in a CUDA graph, and measuring peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch


@contextlib.contextmanager
def implementation(choice: str) -> Iterator[None]:
    """Set AFGRL_OPS to ``auto`` or ``reference`` and restore it afterwards."""
    former = os.environ.get("AFGRL_OPS")
    os.environ["AFGRL_OPS"] = choice
    try:
        yield
    finally:
        os.environ.pop("AFGRL_OPS")
        if former is not None:
            os.environ["AFGRL_OPS"] = former


def captured(call: Callable[[], Any]) -> Callable[[], None]:
    """A function that replays the call as a CUDA graph, so that launching kernels takes no time."""
    for _ in range(3):
        call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        call()
    return graph.replay


@contextlib.contextmanager
def peak_memory(device: torch.device) -> Iterator[list[int | None]]:
    """Yields a list that will hold the peak memory in bytes, minus what was in use before."""
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
        ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory counts as in use
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current value
        before_cpu = _resident("VmRSS")
        yield peak
        peak[0] = _resident("VmHWM") - before_cpu
    else:
        yield peak


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0
