"""How many threads the numerical libraries start, and how those threads wait. They read this once, when they load."""

from __future__ import annotations

import math
import os
from collections.abc import MutableMapping
from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")
# What sets the waiting of OpenMP threads: by the standard, of GNU's library, of LLVM's and Intel's.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def configure_threads(environment: MutableMapping[str, str] = os.environ, group: Path = CONTROL_GROUP) -> None:
    """Set what the user has not set. Call it before PyTorch, NumPy or scikit-learn is imported.

    A thread of OpenMP that has no work spins for a while before it sleeps. On a busy machine it spins on a core that
    the thread it waits for needs, and a command takes up to several times as long (docs/performance.md); passive
    threads sleep at once. A container may use fewer cores than it sees, which the libraries do not notice.

    The load does not change the number of threads: the last bits of a result depend on it, and a resumed run has to
    give the bits of an uninterrupted one.
    """
    if not any(name in environment for name in WAITING):
        environment["OMP_WAIT_POLICY"] = "passive"
    quota = _cores_of_container(group)
    if quota < _visible_cores():
        environment.setdefault("OMP_NUM_THREADS", str(max(1, math.floor(quota))))


def _visible_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cores_of_container(group: Path) -> float:
    """The processor time per second that a control group allows, of either version; infinite without a limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((group / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return math.inf
    try:
        allowed = float(quota) / float(period)  # the quota "max" is not a number, and -1 means no limit
    except (ValueError, ZeroDivisionError):
        return math.inf
    return allowed if allowed > 0 else math.inf
