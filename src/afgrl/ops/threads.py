"""How many threads the numerical libraries start, and how those threads wait. They read this once, when they load."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import MutableMapping
from pathlib import Path

from afgrl.ops.cgroups import PROCESS, control_groups

# What sets the waiting of OpenMP threads: by the standard, of GNU's library, of LLVM's and Intel's.
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
came_too_late = False  # PyTorch was there first, and its threads spin


def configure_threads(environment: MutableMapping[str, str] = os.environ, process: Path = PROCESS) -> bool:
    """Set what the user has not set. ``import afgrl`` calls this, and imports none of these libraries before. Returns
    whether PyTorch was imported already, so that its threads spin.

    A thread of OpenMP that has no work spins for a while before it sleeps. On a busy machine it spins on a core that
    the thread it waits for needs, and a command takes up to several times as long (docs/performance.md); passive
    threads sleep at once. A container may use fewer cores than it sees, which the libraries do not notice.

    The load does not change the number of threads: the last bits of a result depend on it, and a resumed run has to
    give the bits of an uninterrupted one.
    """
    decided = any(name in environment for name in WAITING)
    if not decided:
        environment["OMP_WAIT_POLICY"] = "passive"
    quota = min(map(_cores_of_group, control_groups("cpu", process)), default=math.inf)
    if quota < _visible_cores():
        environment.setdefault("OMP_NUM_THREADS", str(max(1, math.floor(quota))))
    return not decided and "torch" in sys.modules


def warn_if_slow() -> None:
    """Say once that threads spin, on a machine where that takes time."""
    global came_too_late
    if not came_too_late or not hasattr(os, "getloadavg") or os.getloadavg()[0] < _visible_cores() + 1:
        return
    came_too_late = False
    warnings.warn(
        "This machine is busy, and threads of PyTorch spin while they wait, which can take several times as long: "
        "import afgrl before torch, or set OMP_WAIT_POLICY=passive.",
        stacklevel=3,
    )


def _visible_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cores_of_group(group: Path) -> float:
    """The processor time per second that a control group allows, of either version; infinite without a limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return math.inf
    try:
        allowed = float(quota) / float(period)  # the quota "max" is not a number, and -1 means no limit
    except (ValueError, ZeroDivisionError):
        return math.inf
    return allowed if allowed > 0 else math.inf
