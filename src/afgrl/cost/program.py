"""Memory of the program itself: the interpreter, libraries and what is loaded already."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Measured with two threads on a graph of ten nodes: what training adds to a process that has read its graph.
OPTIMIZER_MODULES = 92 << 20  # modules of PyTorch that its optimizers import
NATIVE_LIBRARIES = 60 << 20  # code, buffers and thread pools of MKL, oneDNN and OpenMP on first use
# Where the system cannot be asked: the interpreter, NumPy, PyTorch, SciPy, scikit-learn and PyArrow.
UNKNOWN = 400 << 20


def program_memory() -> tuple[int, int]:
    """Resident bytes of this process now, and the most so far; both 400 MiB where the system cannot be asked."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        now, most = (int(re.findall(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[0]) for name in ("VmRSS", "VmHWM"))
        return now << 10, most << 10
    except (OSError, IndexError):  # not Linux
        return UNKNOWN, UNKNOWN


def loaded_later() -> int:
    """Bytes of the libraries that training loads beyond those that are loaded now."""
    return NATIVE_LIBRARIES + (0 if "torch._dynamo" in sys.modules else OPTIMIZER_MODULES)
