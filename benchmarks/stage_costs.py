"""Seconds, host memory and GPU memory of the stages of one process, by functions that are replaced while it runs."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

STATUS = Path("/proc/self/status")
INTERVAL = 0.01  # seconds between two samples of the host memory
OTHER = "other"  # what belongs to no stage: imports, settings


@dataclass
class Cost:
    """Without the stages that begin inside. Memory is that of the whole process while the stage runs."""

    seconds: float = 0.0
    calls: int = 0
    resident_bytes: int = 0  # the peak of anonymous memory and mapped files together
    anonymous_bytes: int = 0  # the peak of what the system cannot drop and read again
    cuda_bytes: int = 0  # the peak of what PyTorch allocated
    cuda_reserved_bytes: int = 0  # the peak of what PyTorch took from the GPU, which includes freed blocks


class StageCosts:
    """Attributes time and memory to the innermost stage that runs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.costs: dict[str, Cost] = {OTHER: Cost(calls=1)}
        self.running = [OTHER]
        self.since = time.perf_counter()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Sample the host memory in a thread."""
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(INTERVAL):
                resident, anonymous = host_memory()
                cost = self.costs[self.running[-1]]
                cost.resident_bytes = max(cost.resident_bytes, resident)
                cost.anonymous_bytes = max(cost.anonymous_bytes, anonymous)

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._add()
            ended.set()
            thread.join()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._add()
        self.costs.setdefault(name, Cost()).calls += 1
        self.running.append(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            self._add()
            self.running.pop()
            seconds = time.perf_counter() - began  # with the stages inside
            print(f"{name}: {seconds:.1f} s", file=sys.stderr, flush=True)

    def _add(self) -> None:
        """Add what happened since the last call to the stage that runs."""
        cost = self.costs[self.running[-1]]
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            cost.cuda_bytes = max(cost.cuda_bytes, torch.cuda.max_memory_allocated())
            cost.cuda_reserved_bytes = max(cost.cuda_reserved_bytes, torch.cuda.max_memory_reserved())
            torch.cuda.reset_peak_memory_stats()
        now = time.perf_counter()
        cost.seconds += now - self.since
        self.since = now

    @contextlib.contextmanager
    def around(self, *places: tuple[Any, str, str]) -> Iterator[None]:
        """Make a stage of each call of ``owner.name``; places are (owner, name, stage)."""
        with contextlib.ExitStack() as stack:
            for owner, name, stage in places:
                stack.enter_context(mock.patch.object(owner, name, self._staged(getattr(owner, name), stage)))
            yield

    def _staged(self, call: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def staged(*arguments: Any, **options: Any) -> Any:
            with self.stage(stage):
                return call(*arguments, **options)

        return staged

    def as_json(self) -> dict[str, dict[str, Any]]:
        return {name: asdict(cost) | {"seconds": round(cost.seconds, 3)} for name, cost in self.costs.items()}


def host_memory() -> tuple[int, int]:
    """Resident and anonymous memory of this process, in bytes."""
    sizes = dict(re.findall(r"(Vm\w+|Rss\w+):\s+(\d+) kB", STATUS.read_text()))
    return 1024 * int(sizes["VmRSS"]), 1024 * int(sizes["RssAnon"])
